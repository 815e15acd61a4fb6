#include "weft/base/turn.hpp"

namespace weft::base {

void Turn::wait_parked() noexcept {
  Parker& parker = this_parker();
  Parker* nobody = nullptr;
  // release: our parker is seen by give's exchange. acquire, on failure: it was given meanwhile.
  if (!state_.compare_exchange_strong(nobody, &parker, std::memory_order_release,
                                      std::memory_order_acquire))
    return;
  while (!is_given()) parker.park();
}

}  // namespace weft::base
