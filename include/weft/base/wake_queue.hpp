// Wakes that are put off: threads that were unparked, and sleep on until somebody gives them a
// core.
#pragma once

#include <atomic>
#include <cstdint>

#include "weft/base/cache_line.hpp"
#include "weft/base/locks.hpp"

namespace weft::base {

class Parker;
class ThreadParker;

/// Threads that have their permit and are still to be woken (docs/design/turns.md).
///
/// Where threads outnumber cores, to wake one at once only has it stand in line for a core behind
/// whoever woke it. While a thread is in a `Scope`, what it unparks of those that sleep in
/// `Parker::park_patiently` comes here instead, and whoever next gives its core away chooses one.
///
/// Owner and lifetime: outlives every Scope.
/// Who may call: any thread. Progress: a short lock; the wakes a system call after it.
/// Duty: who put a thread in sees to it that somebody takes it out. The queue wakes nobody itself.
class WakeQueue {
 public:
  /// While it lives, the calling thread's wakes of patient sleepers go to `queue`; nullptr: as
  /// before it.
  class Scope {
   public:
    explicit Scope(WakeQueue* queue) noexcept : queue_(queue) {
      if (queue != nullptr) queue->enter(before_);
    }
    ~Scope() {
      if (queue_ != nullptr) leave(before_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    WakeQueue* const queue_;
    WakeQueue* before_ = nullptr;
  };

  WakeQueue() = default;
  /// Wakes who is left.
  ~WakeQueue();
  WakeQueue(const WakeQueue&) = delete;
  WakeQueue& operator=(const WakeQueue&) = delete;

  /// A hint where others put in and take out.
  [[nodiscard]] bool empty() const noexcept { return size_.load(std::memory_order_relaxed) == 0; }
  [[nodiscard]] uint32_t size() const noexcept { return size_.load(std::memory_order_relaxed); }
  /// Somebody came in since the last was taken out. A hint.
  [[nodiscard]] bool grew() const noexcept { return grew_.load(std::memory_order_relaxed); }

  /// Takes out who came first, or last, and wakes him; false: nobody was there.
  bool wake_oldest() noexcept { return wake(End::oldest); }
  bool wake_newest() noexcept { return wake(End::newest); }
  /// Who came first, to be nudged: he takes himself out, and until then others find him here.
  /// nullptr: nobody is there, or the first is awake. Takes no lock: a hint.
  [[nodiscard]] Parker* oldest() const noexcept;
  /// The calling thread has left its patient sleep, by a nudge or a signal perhaps: it is not in
  /// any more.
  void take_me_out() noexcept;
  /// Wakes who came first, if he was the first at the last call as well.
  void wake_stale() noexcept;

  /// The calling thread comes in behind all others, wakes the first, and sleeps until it is woken.
  void wait_in_turn() noexcept;

 private:
  friend class ThreadParker;
  enum class End : bool { oldest, newest };

  void enter(WakeQueue*& before) noexcept;
  static void leave(WakeQueue* before) noexcept;
  /// The calling thread is in a scope, whose queue has taken `parker`.
  static bool puts_off(ThreadParker& parker) noexcept;
  /// False: it is in another queue.
  bool push(ThreadParker& parker, bool in_turn) noexcept;
  void erase(ThreadParker& parker) noexcept;
  bool wake(End end) noexcept;

  alignas(kCacheLine) SpinLock lock_;
  std::atomic<ThreadParker*> oldest_{nullptr};  ///< read without the lock too
  ThreadParker* newest_ = nullptr;
  uint64_t taken_ = 0;         ///< so many were taken out from the old end
  uint64_t taken_before_ = 0;  ///< the same at the last wake_stale
  bool was_empty_ = true;      ///< the same
  std::atomic<uint32_t> size_{0};
  std::atomic<bool> grew_{false};
};

}  // namespace weft::base
