#include "weft/task/future.hpp"

#include "weft/base/backoff.hpp"

namespace weft::task::detail {

bool FutureState::lock_unless_ready() noexcept {
  for (base::Backoff backoff;; backoff.pause()) {
    State state = State::pending;
    // acquire: pairs with unlock's release, and on failure with publish's.
    if (state_.compare_exchange_weak(state, State::locked, std::memory_order_acquire)) return true;
    if (state == State::ready) return false;
  }
}

void FutureState::publish() noexcept {
  (void)lock_unless_ready();  // nobody else makes it ready
  WaitEntry* const all = waiters_.take_all();
  // release: pairs with is_ready's acquire; the value is seen. This is the last touch.
  state_.store(State::ready, std::memory_order_release);
  WaitList::tell(all);
}

Attempt FutureState::attempt(WaitEntry* waiter) noexcept {
  if (is_ready()) {
    if (waiter != nullptr) leave(*waiter);
    return Attempt::done;
  }
  if (waiter == nullptr || waiter->waits()) return Attempt::not_now;
  if (!lock_unless_ready()) return Attempt::done;
  waiters_.add(*waiter);
  unlock();
  return Attempt::not_now;
}

void FutureState::leave(WaitEntry& waiter) noexcept {
  if (!waiter.is_enlisted()) return;
  if (lock_unless_ready()) {
    (void)waiters_.remove(waiter);  // it is there until it is ready
    unlock();
  } else {
    waiter.await_told();
  }
  waiter.forget();
}

}  // namespace weft::task::detail
