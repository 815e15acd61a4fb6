// Copies of message bytes: every byte, and none beside them, wherever they lie.
#include "weft/base/copy.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "weft/base/small_copy.hpp"

namespace weft::base {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kMost = 20 * kPage;
constexpr std::byte kUntouched{0xa5};

using Copy = void (*)(std::byte* to, const std::byte* from, std::size_t n);

void plainly(std::byte* to, const std::byte* from, std::size_t n) { copy_bytes(to, from, n); }
void past(std::byte* to, const std::byte* from, std::size_t n) {
  copy_bytes_nontemporal(to, from, n);
}

/// Pages with none before or behind them: who reads or writes there dies of it.
struct Pages {
  Pages()
      : all(static_cast<std::byte*>(
            mmap(nullptr, kMost + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    EXPECT_EQ(mprotect(begin(), kMost, PROT_READ | PROT_WRITE), 0);
  }
  ~Pages() { munmap(all, kMost + 2 * kPage); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  [[nodiscard]] std::byte* begin() const { return all + kPage; }
  [[nodiscard]] std::byte* end() const { return begin() + kMost; }
  std::byte* all;
};

struct CopyBytes : testing::Test {
  CopyBytes() {
    std::mt19937 random(1);
    for (std::byte* at = source.begin(); at != source.end(); ++at) {
      *at = static_cast<std::byte>(random());
    }
    std::memset(untouched.begin(), std::to_integer<int>(kUntouched), kMost);
  }
  /// Whether all came, and nothing near it was touched.
  void expect_copied(Copy copy, std::byte* to, const std::byte* from, std::size_t n) const {
    std::memset(target.begin(), std::to_integer<int>(kUntouched), kMost);
    copy(to, from, n);
    const std::size_t before = static_cast<std::size_t>(to - target.begin());
    const bool right = std::memcmp(target.begin(), untouched.begin(), before) == 0 &&
                       std::memcmp(to, from, n) == 0 &&
                       std::memcmp(to + n, untouched.begin(), kMost - before - n) == 0;
    ASSERT_TRUE(right) << n << " from " << from - source.begin() << " to " << to - target.begin();
  }
  /// At the begin and at the end of the pages, at unlike places of a cache line.
  void expect_copied_everywhere(Copy copy, std::size_t n) const {
    for (std::size_t skew = 0; skew < 64; skew += 7) {
      expect_copied(copy, target.begin(), source.end() - n - skew, n);
      expect_copied(copy, target.begin() + skew, source.end() - n, n);
      expect_copied(copy, target.end() - n - skew, source.begin(), n);
      expect_copied(copy, target.end() - n, source.begin() + skew, n);
    }
  }

  Pages source, target, untouched;
};

TEST_F(CopyBytes, CopiesAllAndNoMoreWhereverTheyLie) {
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{47}, kLongCopyBytes - 1,
                              kLongCopyBytes, std::size_t{2113}, std::size_t{65536}}) {
    expect_copied_everywhere(plainly, n);
  }
}

TEST_F(CopyBytes, OfAFewCopiesEveryLength) {
  for (std::size_t n = 0; n <= 48; ++n) {
    expect_copied_everywhere(small_copy, n);
    expect_copied_everywhere(copy_in_line, n);
  }
  expect_copied_everywhere(small_copy, 200);
  expect_copied_everywhere(small_copy, kLongCopyBytes);
}

#if defined(__x86_64__)
TEST_F(CopyBytes, ByVectorsCopiesEveryLength) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "a processor without AVX2";
  // Every length of a turn of its loop, and more.
  for (std::size_t n = kLongCopyBytes; n < kLongCopyBytes + 140; ++n) {
    expect_copied_everywhere(detail::copy_by_vectors, n);
  }
  expect_copied_everywhere(detail::copy_by_vectors, 65'537);
}

TEST_F(CopyBytes, PastTheCachesCopiesEveryLength) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "a processor without AVX2";
  for (std::size_t n = kLongCopyBytes; n < kLongCopyBytes + 140; ++n) {
    expect_copied_everywhere(detail::copy_nontemporal, n);
  }
  expect_copied_everywhere(detail::copy_nontemporal, 65'537);
}
#endif

TEST_F(CopyBytes, PastTheCachesOfAnyLength) {
  for (const std::size_t n :
       {std::size_t{0}, std::size_t{1}, kLongCopyBytes - 1, kLongCopyBytes, std::size_t{65536}}) {
    expect_copied_everywhere(past, n);
  }
  copy_bytes_nontemporal(nullptr, nullptr, 0);
}

TEST_F(CopyBytes, TakesNullForNoBytesAndAPlaceForItself) {
  copy_bytes(nullptr, nullptr, 0);
  const std::vector<std::byte> before(source.begin(), source.begin() + 5000);
  copy_bytes(source.begin(), source.begin(), before.size());
  EXPECT_TRUE(std::equal(before.begin(), before.end(), source.begin()));
}

}  // namespace
}  // namespace weft::base
