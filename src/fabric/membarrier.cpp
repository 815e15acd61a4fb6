#include "fabric/membarrier.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace weft::fabric {

bool register_membarrier() noexcept {
  static const bool registered = [] {
    const long known = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    constexpr long kNeeded =
        MEMBARRIER_CMD_GLOBAL_EXPEDITED | MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
    return known >= 0 && (known & kNeeded) == kNeeded &&
           syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
  }();
  return registered;
}

void heavy_barrier() noexcept {
  // The caller's own half, and all there is where the kernel knows no membarrier.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (register_membarrier()) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

}  // namespace weft::fabric
