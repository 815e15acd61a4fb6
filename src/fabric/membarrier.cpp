#include "fabric/membarrier.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "weft/fabric/transport.hpp"

namespace weft::fabric {

namespace {

std::atomic<bool> registered{false};

bool try_register(long command, long registration) noexcept {
  const long known = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  const long needed = command | registration;
  return known >= 0 && (known & needed) == needed &&
         syscall(SYS_membarrier, registration, 0, 0) == 0;
}

}  // namespace

bool register_membarrier() noexcept {
  static const bool worked =
      try_register(MEMBARRIER_CMD_GLOBAL_EXPEDITED, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
  // relaxed: who arms has made a port, after this.
  registered.store(worked, std::memory_order_relaxed);
  return worked;
}

void arming_barrier() noexcept {
  // seq_cst: the caller's own half; and pairs with sleeper_of's, where senders fence.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (registered.load(std::memory_order_relaxed))
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

}  // namespace weft::fabric
