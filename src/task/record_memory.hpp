// Where a worker's records lie.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>

#include "weft/base/cache_line.hpp"

namespace weft::task::detail {

/// Purpose: memory in chunks, never given back: signals may come late (see Crew). Small ones at
/// first; from the second megabyte on out of pieces that the kernel may back by one large page, or
/// a million records would be fifty thousand page faults. Owner: a worker, which alone calls.
class RecordMemory {
 public:
  /// Aligned to lines. Throws std::bad_alloc.
  void* take(std::size_t bytes) {
    if (bytes > left_) {
      const std::size_t piece = taken_ < kSmall ? bytes : kLarge;
      void* memory = std::aligned_alloc(piece == kLarge ? kLarge : base::kCacheLine, piece);
      if (memory == nullptr) throw std::bad_alloc();
      if (piece == kLarge) ::madvise(memory, piece, MADV_HUGEPAGE);
      next_ = static_cast<std::byte*>(memory);
      left_ = piece;
      taken_ += piece;
    }
    left_ -= bytes;
    void* const chunk = next_;
    next_ += bytes;
    return chunk;
  }

 private:
  static constexpr std::size_t kSmall = std::size_t{1} << 20;
  static constexpr std::size_t kLarge = std::size_t{2} << 20;
  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
  std::size_t taken_ = 0;
};

}  // namespace weft::task::detail
