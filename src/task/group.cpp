// The seldom parts of a group: waiting, waking, and what was thrown.
#include "weft/task/group.hpp"

#include <fmt/format.h>

#include "base/what_of.hpp"
#include "weft/base/log.hpp"

namespace weft::task {

void Group::keep_error() noexcept {
  // relaxed: it is the end of this child that publishes the error.
  if ((state_.fetch_or(kFailed, std::memory_order_relaxed) & kFailed) == 0) {
    error_ = std::current_exception();
  }
}

void Group::wake() noexcept {
  base::Parker& waiter = *waiter_;
  // release: pairs with suspend's acquire. The group may be gone after this; a parker outlives its
  // context.
  state_.fetch_and(~kWaiting, std::memory_order_release);
  waiter.unpark();
}

void Group::suspend() noexcept {
  base::Parker& self = base::this_parker();
  waiter_ = &self;
  // acquire: as wait_for_all.
  uint64_t state = state_.load(std::memory_order_acquire);
  do {
    if (state < kChild) return;
    // release: pairs with end_child's acquire; waiter_ is seen. acquire, on failure: as above.
  } while (!state_.compare_exchange_weak(state, state | kWaiting, std::memory_order_release,
                                         std::memory_order_acquire));
  // acquire: pairs with wake's release.
  while ((state_.load(std::memory_order_acquire) & kWaiting) != 0) self.park();
}

void Group::throw_error() {
  state_.store(0, std::memory_order_relaxed);  // nobody else is in the group
  std::rethrow_exception(std::exchange(error_, nullptr));
}

void Group::report_lost() noexcept {
  base::log(base::LogLevel::warn,
            fmt::format("a task of a group threw, and nobody waited for the group: {}",
                        base::what_of(error_)));
}

}  // namespace weft::task
