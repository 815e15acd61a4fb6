// Short-section locks: spin (try-lock on the message path), ticket, and MCS, which also sleeps.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "weft/base/cache_line.hpp"
#include "weft/base/turn.hpp"

namespace weft::base {

/// Test-and-test-and-set. For sections of a few dozen instructions; never held over user code or
/// a system call (but the rare heavy fence), nor by a task that suspends: who waits has its worker.
/// A waiter spins briefly and then yields its core, so that a holder that was preempted on the same
/// core can go on. Not fair. One byte.
class SpinLock {
 public:
  [[nodiscard]] bool try_lock() noexcept {
    return !held_.load(std::memory_order_relaxed) &&
           // acquire: pairs with unlock's release; what the last holder wrote is seen here.
           !held_.exchange(true, std::memory_order_acquire);
  }
  void lock() noexcept {
    if (!try_lock()) [[unlikely]]
      wait();
  }
  // release: pairs with try_lock's acquire.
  void unlock() noexcept { held_.store(false, std::memory_order_release); }
  [[nodiscard]] bool is_locked() const noexcept { return held_.load(std::memory_order_relaxed); }

 private:
  /// Looks away longer and longer, then gives the core away: who looks fetches the line that the
  /// holder works in, and who has just let go often comes again at once.
  [[gnu::noinline]] void wait() noexcept {
    uint32_t pauses = 1;
    do {
      if (pauses <= kMostPauses) {
        for (uint32_t i = 0; i < pauses; ++i) cpu_relax();
        pauses *= 2;
      } else {
        sched_yield();
        pauses = 1;
      }
      // relaxed: only decides when to try again; try_lock's acquire does the synchronizing.
    } while (held_.load(std::memory_order_relaxed) || !try_lock());
  }
  static constexpr uint32_t kMostPauses = 32;  ///< two microseconds where one takes 140 cycles

  std::atomic<bool> held_{false};
};
static_assert(sizeof(SpinLock) == 1);

/// First come, first served. Collapses when threads outnumber cores: who lets go does not know who
/// is next, so nobody can sleep and be woken; waiters yield as SpinLock's do, and each of them runs
/// in vain until it is the next one's turn (docs/design/locks.md). McsLock where that can be.
class TicketLock {
 public:
  [[nodiscard]] bool try_lock() noexcept;
  void lock() noexcept;
  void unlock() noexcept;

 private:
  std::atomic<uint32_t> next_{0};
  std::atomic<uint32_t> serving_{0};
};

/// Mellor-Crummey and Scott's queue lock: each waiter awaits a turn in a node of its own; it spins
/// briefly, then sleeps (a task is suspended). First come, first served. The caller keeps `Node`
/// alive from `lock` to `unlock`.
class McsLock {
 public:
  struct alignas(kCacheLine) Node {
    std::atomic<Node*> next{nullptr};
    Turn turn;
  };
  [[nodiscard]] bool try_lock(Node& mine) noexcept;
  void lock(Node& mine) noexcept;
  /// The same without sleep: spins, then yields the thread's core. For who must not suspend, as it
  /// may hold other locks, nor take a permit from its parker.
  void lock_awake(Node& mine) noexcept;
  void unlock(Node& mine) noexcept;

  /// Holds the lock for a scope, with a node on the stack.
  class Guard {
   public:
    explicit Guard(McsLock& lock) noexcept : lock_(lock) { lock_.lock(node_); }
    ~Guard() { lock_.unlock(node_); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    McsLock& lock_;
    Node node_;
  };

 private:
  /// Joins the queue. True: there was nobody, and the lock is ours.
  bool enter(Node& mine) noexcept;

  std::atomic<Node*> tail_{nullptr};
};

}  // namespace weft::base
