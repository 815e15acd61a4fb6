// Mixing of 64-bit words: for checksums and for numbers that look random.
#pragma once

#include <cstdint>

namespace weft::graph {

/// A bijection in which every bit of the input moves about half of the output's bits.
constexpr uint64_t mix(uint64_t x) noexcept {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// One vertex's share of a checksum; the shares are added, so that order does not matter.
constexpr uint64_t checksum_share(uint32_t vertex, uint32_t value) noexcept {
  return mix(uint64_t{vertex} << 32 | value);
}

}  // namespace weft::graph
