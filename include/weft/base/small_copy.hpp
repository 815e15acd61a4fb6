// Copying a few dozen bytes without calling into the C library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "weft/base/copy.hpp"

namespace weft::base {

/// Two moves of `Word` that overlap: all of n bytes, sizeof(Word) ≤ n ≤ 2 sizeof(Word).
template <class Word>
inline void copy_ends(std::byte* to, const std::byte* from, std::size_t n) noexcept {
  Word first, last;
  std::memcpy(&first, from, sizeof(Word));
  std::memcpy(&last, from + n - sizeof(Word), sizeof(Word));
  std::memcpy(to, &first, sizeof(Word));
  std::memcpy(to + n - sizeof(Word), &last, sizeof(Word));
}
struct TwoWords {
  uint64_t a, b;
};

/// Copies what a ring's cell holds, n ≤ 48, without a call: for functions that make none.
inline void copy_in_line(std::byte* to, const std::byte* from, std::size_t n) noexcept {
  if (n == 8) [[likely]] {
    std::memcpy(to, from, 8);
  } else if (n > 16) {
    if (n > 32) std::memcpy(to + 16, from + 16, 16);
    copy_ends<TwoWords>(to, from, n);
  } else if (n > 8) {
    copy_ends<uint64_t>(to, from, n);
  } else if (n >= 4) {
    copy_ends<uint32_t>(to, from, n);
  } else if (n >= 2) {
    copy_ends<uint16_t>(to, from, n);
  } else if (n == 1) {
    *to = *from;
  }
}

/// What small_copy does for n > 16; out of line, to keep its callers in registers.
[[gnu::noinline]] inline void copy_more(std::byte* to, const std::byte* from,
                                        std::size_t n) noexcept {
  if (n > 2 * sizeof(TwoWords)) {
    copy_bytes(to, from, n);
  } else {
    copy_ends<TwoWords>(to, from, n);
  }
}

/// Copies `n` bytes; made for n ≤ 16, correct for any. Two overlapping fixed-size moves cover each
/// power-of-two range, so that a few bytes cost two moves and no call.
inline void small_copy(std::byte* to, const std::byte* from, std::size_t n) noexcept {
  if (n >= 8) return n <= 16 ? copy_ends<uint64_t>(to, from, n) : copy_more(to, from, n);
  if (n >= 4) return copy_ends<uint32_t>(to, from, n);
  if (n >= 2) return copy_ends<uint16_t>(to, from, n);
  if (n == 1) *to = *from;
}

}  // namespace weft::base
