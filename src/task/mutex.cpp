// The mutex where somebody waits for it: linking, waking, competing, giving up.
#include "weft/task/mutex.hpp"

#include <sched.h>

#include <algorithm>

#include "weft/base/clock.hpp"
#include "weft/task/task.hpp"

namespace weft::task {

using detail::enter_queue;
using detail::Grant;
using detail::Waiter;

namespace {

/// How a successor passes the time between two looks at a mutex that others take before it. Each
/// look takes the line from the holder, so they grow rare; never does it look later than after
/// twice the time that was needed. It lets the other tasks of its worker run, one of which may be
/// the holder, and other threads.
class Patience {
 public:
  explicit Patience(bool is_task) noexcept : is_task_(is_task) {}
  /// False: that was long enough.
  [[nodiscard]] bool again() noexcept {
    const uint64_t now = base::ticks();
    if (now - start_ > limits().all) return false;
    const uint64_t until = now + pause_;
    if (now - start_ < limits().alone) {
      do base::cpu_relax();
      while (base::ticks() < until);
    } else {
      do {
        if (is_task_) yield();
        sched_yield();
      } while (base::ticks() < until);
    }
    pause_ = std::min(pause_ * 2, limits().longest);
    return true;
  }

 private:
  struct Limits {
    uint64_t first = base::to_ticks(250);
    uint64_t alone = base::to_ticks(1500);
    uint64_t longest = base::to_ticks(2000);
    uint64_t all = base::to_ticks(50'000);
  };
  static const Limits& limits() noexcept {
    static const Limits the_limits;
    return the_limits;
  }
  const bool is_task_;
  uint64_t start_ = base::ticks();
  uint64_t pause_ = limits().first;
};

}  // namespace

bool Mutex::lock_slowly(uint64_t deadline_ns) noexcept {
  if (look_briefly()) return true;
  if (deadline_ns != kNoDeadline && base::now_ns() >= deadline_ns) return false;
  Waiter self;
  for (;;) {
    if (link(self)) return true;
    if (!self.wait_until(deadline_ns)) {
      if (unlink(self)) return false;
      self.wait();  // somebody unlinked it just before: what it is given, it must take
    }
    if (self.granted() == Grant::given) return true;
    if (compete(self.is_task())) return true;
    if (deadline_ns != kNoDeadline && base::now_ns() >= deadline_ns) return give_up();
    self.reset();
    self.insists = true;
  }
}

/// The holder's section may be short. Where others wait already, they come first.
bool Mutex::look_briefly() noexcept {
  constexpr int kLooks = 8;
  for (int look = 0; look < kLooks; ++look) {
    const uint32_t state = state_.load(std::memory_order_relaxed);
    if ((state & (kWaiters | kWoken)) != 0) return false;
    if ((state & kLocked) == 0 && take()) return true;
    base::cpu_relax();
  }
  return false;
}

/// Links a waiter, or takes the mutex (true) if it is free. The successor ceases to be it.
bool Mutex::link(Waiter& self) noexcept {
  enter_queue(state_, kQueue);
  const uint32_t role = self.insists ? kWoken : 0;
  if (self.insists) {
    waiters_.push_front(self);
  } else {
    waiters_.push_back(self);
  }
  for (;;) {
    uint32_t state = state_.load(std::memory_order_relaxed);
    if ((state & kLocked) == 0) {
      if (!take()) continue;
      waiters_.remove(self);
      // release: pairs with enter_queue's acquire; the links.
      state_.fetch_and(~(kQueue | role), std::memory_order_release);
      return true;
    }
    // release: as above. From here on others may unlink it. Only if still locked: invariant 3.
    if (state_.compare_exchange_weak(state, (state & ~(kQueue | role)) | kWaiters,
                                     std::memory_order_release, std::memory_order_relaxed)) {
      return false;
    }
  }
}

/// After its deadline. False: somebody unlinked it before, and grants it something.
bool Mutex::unlink(Waiter& self) noexcept {
  enter_queue(state_, kQueue);
  const bool was_linked = self.linked;
  uint32_t left = kQueue;
  if (was_linked) {
    waiters_.remove(self);
    if (waiters_.looks_empty()) left |= kWaiters;
  }
  // release: pairs with enter_queue's acquire; the links.
  state_.fetch_and(~left, std::memory_order_release);
  return was_linked;
}

bool Mutex::take_as_successor(uint32_t& state) noexcept {
  while ((state & kLocked) == 0) {
    // acquire: as take.
    if (state_.compare_exchange_weak(state, (state | kLocked) & ~kWoken, std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

/// The successor tries. While it does, nobody else is woken.
bool Mutex::compete(bool is_task) noexcept {
  uint32_t state = state_.load(std::memory_order_relaxed);
  if (take_as_successor(state)) return true;
  for (Patience patience(is_task); patience.again();) {
    state = state_.load(std::memory_order_relaxed);
    if (take_as_successor(state)) return true;
  }
  return false;
}

/// A successor whose time is over: it leaves the role, or takes the mutex (true) if nobody else is
/// there to whom it could leave that.
bool Mutex::give_up() noexcept {
  uint32_t state = state_.load(std::memory_order_relaxed);
  for (;;) {
    if (take_as_successor(state)) return true;
    // relaxed: the holder, when it unlocks, looks at the word anew.
    if (state_.compare_exchange_weak(state, state & ~kWoken, std::memory_order_relaxed)) {
      return false;
    }
  }
}

/// Wakes the first, or leaves the mutex to it if it insists.
void Mutex::unlock_slowly() noexcept {
  const uint32_t state = enter_queue(state_, kQueue);
  if (!is_to_wake(state)) {
    // It timed out meanwhile. release: as unlock, and the links. The last access.
    state_.fetch_and(~(kQueue | kLocked), std::memory_order_release);
    return;
  }
  Waiter& next = *waiters_.pop_front();
  const bool hand_over = next.insists;
  const uint32_t rest = waiters_.looks_empty() ? 0 : kWaiters;
  // A store: invariant 4. release: as unlock, and the links. The last access.
  state_.store(rest | (hand_over ? kLocked : kWoken), std::memory_order_release);
  next.grant(hand_over ? Grant::given : Grant::chance);
}

}  // namespace weft::task
