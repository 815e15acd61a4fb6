// Copying a few dozen bytes without calling into the C library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace weft::fabric {

/// memcpy for which no bytes from nowhere are fine as well.
inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t n) noexcept {
  if (n != 0) std::memcpy(to, from, n);
}

/// What small_copy does for n > 16; out of line, to keep its callers in registers.
[[gnu::noinline]] inline void copy_more(std::byte* to, const std::byte* from,
                                        std::size_t n) noexcept {
  struct Wide {
    uint64_t a, b;
  };
  if (n > 2 * sizeof(Wide)) {
    std::memcpy(to, from, n);
    return;
  }
  Wide first, last;
  std::memcpy(&first, from, sizeof first);
  std::memcpy(&last, from + n - sizeof last, sizeof last);
  std::memcpy(to, &first, sizeof first);
  std::memcpy(to + n - sizeof last, &last, sizeof last);
}

/// Copies `n` bytes; made for n ≤ 16, correct for any. Two overlapping fixed-size moves cover each
/// power-of-two range, so that a few bytes cost two moves and no call.
inline void small_copy(std::byte* to, const std::byte* from, std::size_t n) noexcept {
  const auto both_ends = [&]<class Word>(Word) {
    Word first, last;
    std::memcpy(&first, from, sizeof(Word));
    std::memcpy(&last, from + n - sizeof(Word), sizeof(Word));
    std::memcpy(to, &first, sizeof(Word));
    std::memcpy(to + n - sizeof(Word), &last, sizeof(Word));
  };
  if (n >= 8) return n <= 16 ? both_ends(uint64_t{}) : copy_more(to, from, n);
  if (n >= 4) return both_ends(uint32_t{});
  if (n >= 2) return both_ends(uint16_t{});
  if (n == 1) *to = *from;
}

}  // namespace weft::fabric
