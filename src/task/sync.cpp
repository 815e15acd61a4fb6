// Waiting for a grant, and the slow paths of what tasks and threads wait for.
#include <mutex>

#include "weft/base/turn.hpp"
#include "weft/task/condition_variable.hpp"
#include "weft/task/latch.hpp"
#include "weft/task/once.hpp"
#include "weft/task/semaphore.hpp"
#include "weft/task/task.hpp"
#include "weft/task/waiter.hpp"

namespace weft::task {

using detail::Grant;
using detail::Waiter;

// ---- waiters -----------------------------------------------------------------------------------

namespace detail {

Waiter::Waiter() noexcept : is_task_(this_task().valid()), parker_(base::this_parker()) {}

bool Waiter::wait_until(uint64_t deadline_ns) noexcept {
  if (!is_task_) {
    for (base::BriefSpin spin; granted() == Grant::none && spin.again();) {
      if (deadline_ns != kNoDeadline && base::now_ns() >= deadline_ns) return false;
    }
  }
  while (granted() == Grant::none) {
    if (deadline_ns == kNoDeadline) {
      parker_.park();
    } else if (!parker_.park_until(deadline_ns)) {
      return granted() != Grant::none;
    }
  }
  return true;
}

}  // namespace detail

// ---- ConditionVariable -------------------------------------------------------------------------

void ConditionVariable::notify_one_slowly() noexcept {
  Waiter* first = nullptr;
  {
    const std::lock_guard hold(guard_);
    first = waiters_.pop_front();
  }
  if (first != nullptr) first->grant(Grant::given);
}

void ConditionVariable::notify_all_slowly() noexcept {
  Waiter* all = nullptr;
  {
    const std::lock_guard hold(guard_);
    all = waiters_.pop_all();
  }
  grant_all(all, Grant::given);
}

void ConditionVariable::await_timed() noexcept {
  // acquire: pairs with the last access of whoever had a deadline.
  while (timed_.load(std::memory_order_acquire) != 0) base::this_parker().yield();
}

void ConditionVariable::wait_slowly(Mutex& mutex) noexcept {
  Waiter self;
  {
    const std::lock_guard hold(guard_);
    waiters_.push_back(self);
  }
  mutex.unlock();
  self.wait();
  // Notified, it touches the object no more.
  mutex.lock();
}

bool ConditionVariable::wait_slowly_until(Mutex& mutex, uint64_t deadline_ns) noexcept {
  if (deadline_ns == kNoDeadline) return wait_slowly(mutex), true;
  Waiter self;
  {
    const std::lock_guard hold(guard_);
    waiters_.push_back(self);
    timed_.fetch_add(1, std::memory_order_relaxed);  // before anybody can notify it
  }
  mutex.unlock();
  bool notified = self.wait_until(deadline_ns);
  if (!notified) {
    const std::lock_guard hold(guard_);
    notified = !self.linked;
    if (!notified) waiters_.remove(self);
  }
  // release: pairs with await_timed. The last access, also of who was notified after its deadline.
  timed_.fetch_sub(1, std::memory_order_release);
  if (notified) self.wait();
  mutex.lock();
  return notified;
}

// ---- Latch -------------------------------------------------------------------------------------

void Latch::open() noexcept {
  // acq_rel: release what the last acquired of all, to is_open; acquire who waits.
  Waiter* const all = waiters_.exchange(opened(), std::memory_order_acq_rel);
  detail::grant_all(all, Grant::given);
}

void Latch::wait_slowly() noexcept {
  Waiter self;
  Waiter* top = waiters_.load(std::memory_order_acquire);  // as is_open
  do {
    if (top == opened()) return;
    self.next = top;
    // release: pairs with open's acquire; acquire: as is_open.
  } while (!waiters_.compare_exchange_weak(top, &self, std::memory_order_release,
                                           std::memory_order_acquire));
  self.wait();
}

// ---- CountingSemaphore -------------------------------------------------------------------------

namespace detail {

bool Semaphore::acquire_slowly(uint64_t deadline_ns) noexcept {
  Waiter self;
  uint64_t state = enter_queue(state_, kQueue) | kQueue;
  while (state >= kOne) {
    // acq_rel: acquire as try_acquire; release the links, to enter_queue.
    if (state_.compare_exchange_weak(state, (state - kOne) & ~kQueue, std::memory_order_acq_rel,
                                     std::memory_order_relaxed)) {
      return true;
    }
  }
  if (deadline_ns != kNoDeadline && base::now_ns() >= deadline_ns) {
    state_.fetch_and(~kQueue, std::memory_order_release);
    return false;
  }
  waiters_.push_back(self);
  // A store: invariant 2. release: the links, to enter_queue.
  state_.store(kWaiters, std::memory_order_release);
  return self.wait_until(deadline_ns) || !unlink(self);
}

/// After its deadline. False: it was given one just before.
bool Semaphore::unlink(Waiter& self) noexcept {
  enter_queue(state_, kQueue);
  const bool was_linked = self.linked;
  if (was_linked) {
    waiters_.remove(self);
    // As in acquire_slowly: while anybody is linked there is none to give.
    state_.store(waiters_.looks_empty() ? 0 : kWaiters, std::memory_order_release);
    return true;
  }
  state_.fetch_and(~kQueue, std::memory_order_release);
  self.wait();  // whoever unlinked it is about to grant it
  return false;
}

void Semaphore::release_slowly(uint64_t count) noexcept {
  uint64_t state = enter_queue(state_, kQueue) | kQueue;
  Waiter* given = nullptr;
  Waiter** last = &given;
  for (; count > 0; --count) {
    Waiter* const first = waiters_.pop_front();
    if (first == nullptr) break;
    first->next = nullptr;
    *last = first;
    last = &first->next;
  }
  const uint64_t rest = waiters_.looks_empty() ? 0 : kWaiters;
  // release: what the caller wrote, to who acquires; and the links. The last access.
  while (!state_.compare_exchange_weak(state, (state & ~(kQueue | kWaiters)) + count * kOne + rest,
                                       std::memory_order_release, std::memory_order_relaxed)) {
  }
  grant_all(given, Grant::given);
}

}  // namespace detail

// ---- OnceFlag ----------------------------------------------------------------------------------

bool OnceFlag::begin() noexcept {
  uintptr_t state = state_.load(std::memory_order_acquire);  // as is_done
  while (state != kDone) {
    if (state == kNever) {
      // acquire: pairs with end's release, of one that threw; or as is_done.
      if (state_.compare_exchange_weak(state, kRunning, std::memory_order_acquire)) return true;
      continue;
    }
    Waiter self;
    self.next = reinterpret_cast<Waiter*>(state & ~kRunning);
    // release: pairs with end's acquire; acquire: as is_done.
    if (!state_.compare_exchange_weak(state, reinterpret_cast<uintptr_t>(&self) | kRunning,
                                      std::memory_order_release, std::memory_order_acquire)) {
      continue;
    }
    self.wait();
    if (self.granted() == Grant::given) return false;
    state = state_.load(std::memory_order_acquire);  // as is_done
  }
  return false;
}

void OnceFlag::end(bool done) noexcept {
  // acq_rel: release what was done, to is_done and begin; acquire who waits. The last access.
  const uintptr_t state = state_.exchange(done ? kDone : kNever, std::memory_order_acq_rel);
  detail::grant_all(reinterpret_cast<Waiter*>(state & ~kRunning),
                    done ? Grant::given : Grant::chance);
}

}  // namespace weft::task
