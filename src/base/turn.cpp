#include "weft/base/turn.hpp"

namespace weft::base {

bool Turn::set_waiter(Parker& parker) noexcept {
  Parker* nobody = nullptr;
  // release: our parker is seen by give's exchange. acquire, on failure: it was given meanwhile.
  return state_.compare_exchange_strong(nobody, &parker, std::memory_order_release,
                                        std::memory_order_acquire) ||
         nobody == &parker;
}

void Turn::withdraw_waiter() noexcept {
  Parker* mine = state_.load(std::memory_order_relaxed);
  // relaxed: taking a name back publishes nothing.
  while (mine != given() && mine != nullptr &&
         !state_.compare_exchange_weak(mine, nullptr, std::memory_order_relaxed)) {
  }
}

void Turn::wait_parked() noexcept {
  Parker& parker = this_parker();
  if (!set_waiter(parker)) return;
  while (!is_given()) parker.park();
}

}  // namespace weft::base
