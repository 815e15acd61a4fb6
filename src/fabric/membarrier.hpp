// Memory barriers that one thread executes on behalf of others: what arming_barrier
// (transport.hpp) needs.
#pragma once

namespace weft::fabric {

/// Registers this process, once; false if the kernel has no MEMBARRIER_CMD_GLOBAL_EXPEDITED. Then
/// those who send from or to this process fence for themselves (SegmentHeader::has_membarrier).
bool register_membarrier() noexcept;

}  // namespace weft::fabric
