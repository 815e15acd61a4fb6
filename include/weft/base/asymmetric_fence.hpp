// A pair of fences for Dekker's pattern when one side is hot: the hot side pays nothing.
#pragma once

#include <atomic>

namespace weft::base {

namespace detail {
/// False where the kernel has no private expedited membarrier: then light_fence is a full fence.
extern const bool has_heavy_fence;
}  // namespace detail

/// The hot side: between its store and its load. Orders them against `heavy_fence` of another
/// thread of this process: one of the two threads sees the other's store. A compiler barrier where
/// membarrier(2) exists.
inline void light_fence() noexcept {
  if (detail::has_heavy_fence) [[likely]] {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
}

/// The rare side: between its store and its load. About a microsecond: interrupts the cores on
/// which this process runs.
void heavy_fence() noexcept;

}  // namespace weft::base
