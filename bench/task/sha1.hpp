// SHA-1 (FIPS 180-4) of a few whole words: what a tree search draws its numbers from.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>

namespace weft::bench::tasks {

/// The digest's 160 bits, as big-endian words are read.
using Sha1 = std::array<uint32_t, 5>;

/// Of a message of up to 13 words, each of four bytes, the most significant first: of one block.
inline Sha1 sha1_of(std::span<const uint32_t> message) {
  // A block of the message, a one bit, zeros, and the length in bits; each later word of the
  // schedule depends on the last sixteen alone, and takes the place of the oldest.
  std::array<uint32_t, 16> words{};
  std::copy(message.begin(), message.end(), words.begin());
  words[message.size()] = 0x80000000;
  words[15] = static_cast<uint32_t>(message.size() * 32);

  constexpr Sha1 kStart{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  uint32_t a = kStart[0], b = kStart[1], c = kStart[2], d = kStart[3], e = kStart[4];
  const auto twenty = [&](unsigned first, uint32_t constant, auto mix) {
    for (unsigned t = first; t < first + 20; ++t) {
      uint32_t& word = words[t % 16];
      if (t >= 16) {
        word =
            std::rotl(word ^ words[(t + 2) % 16] ^ words[(t + 8) % 16] ^ words[(t + 13) % 16], 1);
      }
      const uint32_t sum = std::rotl(a, 5) + mix(b, c, d) + e + constant + word;
      e = d;
      d = c;
      c = std::rotl(b, 30);
      b = a;
      a = sum;
    }
  };
  const auto choose = [](uint32_t x, uint32_t y, uint32_t z) { return (x & y) | (~x & z); };
  const auto parity = [](uint32_t x, uint32_t y, uint32_t z) { return x ^ y ^ z; };
  const auto majority = [](uint32_t x, uint32_t y, uint32_t z) {
    return (x & y) | (x & z) | (y & z);
  };
  twenty(0, 0x5a827999, choose);
  twenty(20, 0x6ed9eba1, parity);
  twenty(40, 0x8f1bbcdc, majority);
  twenty(60, 0xca62c1d6, parity);
  return {kStart[0] + a, kStart[1] + b, kStart[2] + c, kStart[3] + d, kStart[4] + e};
}

}  // namespace weft::bench::tasks
