// Copies of message bytes: every byte, and none beside them, wherever they lie.
#include "weft/base/copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace weft::base {
namespace {

constexpr std::size_t kGuard = 192;
constexpr std::byte kUntouched{0xa5};

std::vector<std::byte> random_bytes(std::size_t n) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(n);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// Copies `n` bytes between these places of a cache line; tells whether they came, and only they.
bool copied(const std::vector<std::byte>& source, std::vector<std::byte>& room, std::size_t from,
            std::size_t to, std::size_t n) {
  const auto at = [](const std::vector<std::byte>& bytes, std::size_t place) {
    const std::size_t odd = reinterpret_cast<uintptr_t>(bytes.data()) % 64;
    return kGuard - odd + place;
  };
  const std::size_t begin = at(room, to);
  std::fill_n(room.begin(), begin + n + kGuard, kUntouched);
  const std::byte* const bytes = source.data() + at(source, from);
  copy_bytes(room.data() + begin, bytes, n);
  for (std::size_t i = 0; i < begin + n + kGuard; ++i) {
    const bool inside = i >= begin && i < begin + n;
    if (room[i] != (inside ? bytes[i - begin] : kUntouched)) return false;
  }
  return true;
}

TEST(CopyBytes, CopiesAllAndNoMoreWhereverTheyLie) {
  constexpr std::size_t kMost = 70'000;
  const std::vector<std::byte> source = random_bytes(kMost + 2 * kGuard);
  std::vector<std::byte> room(kMost + 3 * kGuard);
  for (const std::size_t n :
       {std::size_t{0}, std::size_t{1}, std::size_t{47}, kLongCopyBytes - 1, kLongCopyBytes,
        kLongCopyBytes + 1, std::size_t{2112}, std::size_t{4095}, std::size_t{65536}}) {
    for (std::size_t from = 0; from<64; from += n> 4096 ? 21 : 1) {
      for (std::size_t to = 0; to<64; to += n> 4096 ? 5 : 3) {
        ASSERT_TRUE(copied(source, room, from, to, n)) << n << " from " << from << " to " << to;
      }
    }
  }
  // Every length of a turn of the loop and more.
  for (std::size_t n = kLongCopyBytes; n < kLongCopyBytes + 300; ++n) {
    for (const std::size_t to : {0, 1, 16, 31, 33, 63}) {
      ASSERT_TRUE(copied(source, room, 16, to, n)) << n << " to " << to;
    }
  }
}

TEST(CopyBytes, TakesNullForNoBytesAndAPlaceForItself) {
  copy_bytes(nullptr, nullptr, 0);
  std::vector<std::byte> bytes = random_bytes(5000);
  const std::vector<std::byte> before = bytes;
  copy_bytes(bytes.data(), bytes.data(), bytes.size());
  EXPECT_EQ(bytes, before);
}

}  // namespace
}  // namespace weft::base
