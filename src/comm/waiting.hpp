// Waiting: who polls, who parks, and how nobody is forgotten (selective reactivation, 000 §2.2).
//
// Purpose: of all threads that wait in this process, at most one per device polls (its *server*);
// the others yield their core for a while, then park and are unparked by their own completion. When
// nothing comes, one server in the process, the *sleeper*, sleeps on the doorbells of all devices,
// and every other server that has nothing to do parks as well.
//
// Who may call: any thread. Progress guarantee: blocking, except `wake_*`, which take a short lock
// only when somebody is there to be woken.
//
// Invariants
//  1. A WaitNode is linked in a WaitList only by its owner, under the list's lock; it is unlinked
//     by its owner or by the one who hands it the baton (sets `baton` under the lock).
//  2. `served` of a WaitList is true iff exactly one thread holds the server's role of that device
//     or has been handed it (baton), or it is promised to whoever is awake next (turns.hpp).
//  3. If any thread is parked in any WaitList, some thread is a server: a server that leaves hands
//     its role to a parked thread of its device, or else of any unserved device. Or, where threads
//     take turns, the watch has been told (turns.hpp).
//  4. A server steps down (parks without handing on) only if, after it was linked with served =
//     false, it saw the sleeper's role taken. The sleeper gives the role up before it looks for
//     parked threads in leave(); both use seq_cst, so one of the two sees the other. `orphans` is
//     false only while nobody has stepped down that is still parked, or whoever took it back has
//     yet to look through the lists.
//  5. A waiter looks at its condition after it enrolled and before it parks; a completer fulfils
//     the condition before it looks for the waiter. For a Synchronizer one atomic word is both
//     (completion.cpp); for a WaitSet the asymmetric fence orders the two.
//  6. Tasks that wait, and workers that parked because the sleeper's role was taken, rely on a
//     server or a sleeper. So whoever is one and leaves without a thread that follows (leave,
//     try_sleep) calls a worker that idles, if any may have been refused (Impl::refused). A worker
//     that was refused says so, shows that it idles, and looks at the role once more before it
//     parks; who leaves gives the role up, then looks for the refused: one of the two sees the
//     other. `refused` is false only while no worker was refused since the last call, or while a
//     worker is the sleeper, which sets it when it leaves.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "comm/users_code.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/idle_work.hpp"
#include "weft/base/locks.hpp"
#include "weft/base/parker.hpp"
#include "weft/comm/completion.hpp"

namespace weft::comm {

/// A waiting thread, on its own stack.
struct WaitNode {
  base::Parker* parker = nullptr;
  WaitNode* previous = nullptr;
  WaitNode* next = nullptr;
  bool linked = false;             ///< under the list's lock
  bool is_task = false;            ///< in a WaitSet
  std::atomic<bool> baton{false};  ///< release by the giver, acquire by the owner
};

/// A doubly linked queue of waiting threads; the caller holds `lock`.
struct WaitQueue {
  base::SpinLock lock;
  WaitNode* head = nullptr;
  WaitNode* tail = nullptr;
  void push(WaitNode& node) noexcept;
  void erase(WaitNode& node) noexcept;
  WaitNode* pop() noexcept;
  /// Whose parker it is that came first, and outlives his wait; nullptr: nobody is there. A hint,
  /// for who takes no lock.
  [[nodiscard]] base::Parker* first() const noexcept {
    return first_.load(std::memory_order_acquire);  // it is found made: pairs with note_first's
  }

 private:
  void note_first() noexcept {
    first_.store(head != nullptr ? head->parker : nullptr, std::memory_order_release);
  }
  std::atomic<base::Parker*> first_{nullptr};
};

/// The threads that wait on one device.
struct alignas(base::kCacheLine) WaitList : WaitQueue {
  bool promised = false;  ///< under the lock: the role is for who is awake next
  // Apart: those that look at these all the time slow nobody who takes the lock.
  alignas(base::kCacheLine) std::atomic<bool> served{false};  ///< under the lock; a hint without it
  std::atomic<uint32_t> parked{0};  ///< length, for a look without the lock
};

/// Threads that wait for a condition which no completion tells: a message in a queue, a predicate.
class WaitSet {
 public:
  /// Enrols `node` of `parker`; the caller then looks at its condition once more before it parks.
  void enroll(WaitNode& node, base::Parker& parker) noexcept;
  /// Takes `node` out, if no wake has done so.
  void withdraw(WaitNode& node) noexcept;
  /// Takes out who came first: whom to unpark. nullptr: nobody is there.
  [[nodiscard]] base::Parker* pop() noexcept;
  /// After the condition changed: unparks up to `n` waiters. One relaxed load if there are none.
  void wake(uint32_t n) noexcept;
  /// Unparks all who are enrolled now.
  void wake_all() noexcept { wake(count_.load(std::memory_order_relaxed)); }
  [[nodiscard]] bool empty() const noexcept { return count_.load(std::memory_order_relaxed) == 0; }
  /// Some are here, and all of them are threads. A hint.
  [[nodiscard]] bool has_threads_only() const noexcept {
    return !empty() && tasks_.load(std::memory_order_relaxed) == 0;
  }

  /// While it lives, the calling thread takes itself what its progress brings for those who wait in
  /// `set`, and wakes none of them for it; nullptr: as before it.
  class Taker {
   public:
    enum class Before : bool { as_it_is, wakes };
    /// `wakes`: for whichever set it was until now, somebody is woken first.
    explicit Taker(WaitSet* set, Before before = Before::as_it_is) noexcept
        : before_(std::exchange(mine, set)) {
      if (before == Before::wakes && before_ != nullptr) before_->wake(1);
    }
    ~Taker() { mine = before_; }
    Taker(const Taker&) = delete;
    Taker& operator=(const Taker&) = delete;

   private:
    WaitSet* const before_;
  };
  [[nodiscard]] bool is_taken_here() const noexcept { return mine == this; }

 private:
  static constinit inline thread_local WaitSet* mine = nullptr;
  void take_out(WaitNode& node) noexcept;

  alignas(base::kCacheLine) std::atomic<uint32_t> count_{0};
  std::atomic<uint32_t> tasks_{0};  ///< of these
  WaitQueue queue_;
};

/// What a thread or task waits for.
using base::Awaited;

/// The end of the one operation for which a task blocks. Who waits is known before the operation is
/// posted and never changes, so that, unlike a Synchronizer, it takes no read-modify-write. One
/// cache line: of the task's stack whoever completes it touches that and the buffer.
class alignas(base::kCacheLine) BlockedTask final : public Completion {
 public:
  explicit BlockedTask(base::Parker& task) noexcept : Completion(true), task_(task) {}
  [[nodiscard]] bool try_complete(const Event& event) noexcept override {
    complete_many(event, 1);
    return true;
  }
  void complete_many(const Event& event, uint32_t /*one*/) noexcept override {
    base::Parker& task = task_;
    assign(event_, event);
    // release: pairs with wait's acquire. The last access: the task may go on at once.
    ready_.store(true, std::memory_order_release);
    task.unpark();
  }
  [[nodiscard]] bool is_awaited() const noexcept override { return true; }
  /// By the task. Others progress meanwhile.
  const Event& wait() noexcept {
    while (!ready_.load(std::memory_order_acquire)) {
      UsersCode::check_may_wait();
      task_.park();
    }
    return event_;
  }
  /// Before it is posted, or where it will not complete: for who posts.
  [[nodiscard]] Event& event() noexcept { return event_; }

 private:
  std::atomic<bool> ready_{false};
  base::Parker& task_;
  Event event_;
};
static_assert(sizeof(BlockedTask) == base::kCacheLine);

}  // namespace weft::comm
