// The two bit-vectors against plain sets.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <new>
#include <random>
#include <set>

#include "base/stress.hpp"
#include "task/ready_bits.hpp"
#include "task/signals.hpp"

namespace weft::task {
namespace {

class ReadyBitsOf : public testing::TestWithParam<std::size_t> {};

TEST_P(ReadyBitsOf, AgreesWithASet) {
  const std::size_t size = GetParam();
  std::mt19937_64 random(test::stress_seed());
  ReadyBits bits;
  std::set<uint32_t> model;
  std::size_t room = 512;
  bits.grow(room);
  for (int step = 0; step < 20000; ++step) {
    if (step % 1000 == 999 && room < size) bits.grow(room = std::min(size, room * 4));
    const auto index = static_cast<uint32_t>(random() % room);
    switch (random() % 4) {
      case 0:
      case 1:
        bits.set(index);
        model.insert(index);
        break;
      case 2:
        bits.clear(index);
        model.erase(index);
        break;
      case 3:
        while (model.size() > 4) {
          bits.clear(*model.begin());
          model.erase(model.begin());
        }
        break;
    }
    ASSERT_EQ(bits.empty(), model.empty());
    ASSERT_EQ(bits.highest(), model.empty() ? -1 : static_cast<int>(*model.rbegin()));
    const auto from = static_cast<uint32_t>(random() % room);
    const auto next = model.lower_bound(from);
    ASSERT_EQ(bits.next_from(from), next == model.end() ? -1 : static_cast<int>(*next)) << from;
    ASSERT_EQ(bits.test(index), model.count(index) != 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ReadyBitsOf,
                         testing::Values(512, 4096, 4608, 262144, 262656, 1 << 20));

void limit_memory_to(rlim_t bytes) {
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = bytes;
  ::setrlimit(RLIMIT_AS, &limit);
}

/// In a process of its own, with ever more memory until there is enough: wherever it runs out, the
/// bits serve on, and grow when they can.
[[noreturn]] void grow_with_little_memory() {
  constexpr uint32_t kFew = 512;
  constexpr uint32_t kMany = 1 << 27;  // the words take 16 MiB, the first summary 256 KiB
  constexpr rlim_t kStep = 64 << 10;
  ::mallopt(M_MMAP_THRESHOLD, 128 << 10);  // and keeps nothing of either for reuse
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlim_t most = pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) + kMany / 8 - 2 * kStep;
  for (int refused = 0;; most += kStep) {
    ReadyBits bits;
    bits.grow(kFew);
    bits.set(kFew - 1);
    bool grown = true;
    limit_memory_to(most);
    try {
      bits.grow(kMany);
    } catch (const std::bad_alloc&) {
      grown = false;
      ++refused;
    }
    limit_memory_to(RLIM_INFINITY);
    if (bits.highest() != kFew - 1) std::_Exit(1);
    bits.grow(kMany);
    bits.set(kMany - 1);
    if (bits.highest() != kMany - 1) std::_Exit(2);
    bits.clear(kMany - 1);
    if (bits.highest() != kFew - 1) std::_Exit(3);
    if (grown) std::_Exit(refused > 0 ? 0 : 4);
  }
}

TEST(ReadyBitsTest, GrowWhollyOrNotAtAll) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers' own memory leaves no room for a limit";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(grow_with_little_memory(), testing::ExitedWithCode(0), "");
}

TEST(SignalsTest, WhatIsSetIsTakenOnceAtItsIndex) {
  Signals signals;
  constexpr std::size_t kRoom = Signals::kOneLevel + 2 * std::size_t{Signals::kPerBlock};
  signals.grow(kRoom);
  std::mt19937_64 random(test::stress_seed());
  for (int round = 0; round < 200; ++round) {
    std::set<uint32_t> set;
    for (int i = 0; i < 100; ++i) {
      set.insert(static_cast<uint32_t>(random() % (round % 2 == 0 ? kRoom : 600)));
    }
    for (const uint32_t index : set) signals.address(index).set();
    EXPECT_FALSE(signals.looks_empty());
    std::set<uint32_t> taken;
    signals.take([&](std::size_t word, uint64_t bits) {
      for (; bits != 0; bits &= bits - 1) {
        const auto bit = static_cast<uint32_t>(std::countr_zero(bits));
        EXPECT_TRUE(taken.insert(static_cast<uint32_t>(word) * 64 + bit).second);
      }
    });
    EXPECT_EQ(taken, set);
    EXPECT_TRUE(signals.looks_empty());
  }
}

TEST(SignalsTest, OneLevelNeedsNoHint) {
  Signals signals;
  signals.grow(1024);
  EXPECT_EQ(signals.address(511).hint, nullptr);
  EXPECT_NE(signals.address(512).hint, nullptr);
}

}  // namespace
}  // namespace weft::task
