// Where coroutine frames come from: small collectives make one each, and should not meet the heap.
#pragma once

#include <cstddef>

namespace weft::mpi {

/// Memory for a frame, from this thread's free list if there is some. Throws std::bad_alloc.
[[nodiscard]] void* allocate_frame(std::size_t bytes);
/// Gives it to this thread's free list, whoever allocated it. `bytes`: as allocated.
void release_frame(void* frame, std::size_t bytes) noexcept;

}  // namespace weft::mpi
