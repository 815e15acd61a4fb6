// Copying a few dozen bytes without calling into the C library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace weft::fabric {

/// Copies `n` bytes; made for n ≤ 64, correct for any. Two overlapping fixed-size moves cover each
/// power-of-two range, so that a header of unknown length costs two or four moves and no call.
inline void small_copy(std::byte* to, const std::byte* from, std::size_t n) noexcept {
  const auto both_ends = [&]<class Word>(Word) {
    Word first, last;
    std::memcpy(&first, from, sizeof(Word));
    std::memcpy(&last, from + n - sizeof(Word), sizeof(Word));
    std::memcpy(to, &first, sizeof(Word));
    std::memcpy(to + n - sizeof(Word), &last, sizeof(Word));
  };
  struct Wide {
    uint64_t a, b;
  };
  struct Wider {
    Wide a, b;
  };
  if (n >= 8) {
    if (n <= 16) return both_ends(uint64_t{});
    if (n <= 32) return both_ends(Wide{});
    if (n <= 64) return both_ends(Wider{});
    std::memcpy(to, from, n);
    return;
  }
  if (n >= 4) return both_ends(uint32_t{});
  if (n >= 2) return both_ends(uint16_t{});
  if (n == 1) *to = *from;
}

}  // namespace weft::fabric
