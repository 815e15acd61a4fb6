// Context ids: what is reserved, in use and free; several processes agreeing, played in one.
#include "mpi/comms/context_ids.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <thread>
#include <vector>

#include "mpi/comms/agreement.hpp"

namespace weft::mpi {
namespace {

TEST(ContextIds, FixedOnesAreTaken) {
  ContextIds ids;
  EXPECT_EQ(ids.in_use(), ContextIds::kFirstFree);
  const uint64_t got = ids.reserve(0, 0);
  EXPECT_EQ(got, uint64_t{0xff} << ContextIds::kFirstFree);
  ids.settle(0, got, uint64_t{1} << 5);
  EXPECT_EQ(ids.in_use(), ContextIds::kFirstFree + 1);
  ids.give_back(5);
  EXPECT_EQ(ids.in_use(), ContextIds::kFirstFree);
}

TEST(ContextIds, NoIdIsReservedTwice) {
  ContextIds ids;
  uint64_t seen = 0;
  for (int i = 0; i < 8; ++i) {
    const uint64_t got = ids.reserve(7, 60);
    EXPECT_EQ(std::popcount(got), 8);
    EXPECT_EQ(seen & got, 0U);
    seen |= got;
  }
  EXPECT_EQ(ids.reserve(7, 0), 0U);
  std::array<uint64_t, ContextIds::kWindows> free;
  ids.not_in_use(free);
  EXPECT_EQ(free[7], ~uint64_t{0}) << "what is only reserved may become free";
  ids.settle(7, seen, 0);
  EXPECT_EQ(std::popcount(ids.reserve(7, 0)), 8);
}

TEST(ContextIds, FirstBitWrapsAround) {
  EXPECT_EQ(first_bit(uint64_t{1} << 3, 3), 3);
  EXPECT_EQ(first_bit(uint64_t{1} << 3, 4), 3);
  EXPECT_EQ(first_bit(0x8000000000000001U, 1), 63);
}

TEST(ContextIds, OneThatNobodyTakesGoesBack) {
  const int before = context_ids().in_use();
  const uint64_t got = context_ids().reserve(9, 0);
  context_ids().settle(9, got, 1);
  {
    const Context unused(9 * ContextIds::kWindow);
    EXPECT_EQ(context_ids().in_use(), before + 1);
  }
  EXPECT_EQ(context_ids().in_use(), before);
}

TEST(ContextIds, ThreadsShareThem) {
  ContextIds ids;
  constexpr int kThreads = 8;
  std::array<std::vector<int>, kThreads> kept;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (uint64_t i = 0; i < 500; ++i) {
          const auto window = static_cast<int>(mix(static_cast<uint64_t>(t), i) % 80);
          const uint64_t got = ids.reserve(window, 0);
          if (got == 0) continue;
          const int bit = first_bit(got, 0);
          ids.settle(window, got, uint64_t{1} << bit);
          kept[static_cast<std::size_t>(t)].push_back(window * ContextIds::kWindow + bit);
        }
      });
    }
  }
  std::set<int> all;
  std::size_t count = 0;
  for (const auto& mine : kept) {
    all.insert(mine.begin(), mine.end());
    count += mine.size();
  }
  EXPECT_EQ(all.size(), count);
  EXPECT_EQ(ids.in_use(), static_cast<int>(count) + ContextIds::kFirstFree);
}

TEST(ContextTags, KeepApartFromCollectives) {
  EXPECT_LT(members_tag(0), 0);
  EXPECT_LT(leaders_tag(0x7fffffff), 0);
  EXPECT_NE(members_tag(5), leaders_tag(5));
  EXPECT_NE(members_tag(5), members_tag(6));
}

}  // namespace
}  // namespace weft::mpi
