#include "fabric/membarrier.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace weft::fabric {

namespace {

bool try_register(long command, long registration) noexcept {
  const long known = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  const long needed = command | registration;
  return known >= 0 && (known & needed) == needed &&
         syscall(SYS_membarrier, registration, 0, 0) == 0;
}

}  // namespace

bool register_membarrier() noexcept {
  static const bool registered =
      try_register(MEMBARRIER_CMD_GLOBAL_EXPEDITED, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
  return registered;
}

void heavy_barrier() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // the caller's own half
  syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

}  // namespace weft::fabric
