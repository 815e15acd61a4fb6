// The rare side of the asymmetric fence: membarrier(2).
//
// Invariants:
//  1. `has_heavy_fence` is set before main and never changes: both sides agree on who pays.
//  2. Whoever reads it before it is set pays for a full fence on either side, which is always
//  enough.
#include "weft/base/asymmetric_fence.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "weft/base/error.hpp"

namespace weft::base {
namespace {

bool registered() noexcept {
  return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

bool interrupt_cores() noexcept {
  return ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

}  // namespace

const bool detail::has_heavy_fence = registered();

void heavy_fence() noexcept {
  // seq_cst: pairs with light_fence where there is no membarrier, and keeps the compiler in order.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!detail::has_heavy_fence) return;
  // A process that lost its registration registers anew. One that may no longer do even that
  // cannot go on: the light sides would be without a fence, and wake-ups be lost in silence.
  if (!interrupt_cores()) {
    WEFT_CHECK(registered() && interrupt_cores(), "membarrier(2) was there and is refused now");
  }
}

}  // namespace weft::base
