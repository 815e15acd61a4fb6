// Where coroutine frames and room for blocks come from: small collectives make some each, and
// should not meet the heap, which may give the kernel back what the next one touches again.
#pragma once

#include <cstddef>

namespace weft::mpi {

/// Memory for a frame or for blocks, from this thread's free list if there is some. Throws
/// std::bad_alloc.
[[nodiscard]] void* allocate_frame(std::size_t bytes);
/// Gives it to this thread's free list, whoever allocated it. `bytes`: as allocated.
void release_frame(void* frame, std::size_t bytes) noexcept;

}  // namespace weft::mpi
