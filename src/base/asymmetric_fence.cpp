#include "weft/base/asymmetric_fence.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace weft::base {

bool detail::heavy_fence_available() noexcept {
  return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

const bool detail::kHeavyFence = detail::heavy_fence_available();

void heavy_fence() noexcept {
  // After a fork the registration is gone; a child that waits needs it again.
  while (detail::kHeavyFence &&
         ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0) {
    if (!detail::heavy_fence_available()) break;
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace weft::base
