// MatchTable alone in one thread: what each operation answers, against a model.
#include "comm/match_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "comm/structures_testing.hpp"
#include "weft/base/error.hpp"

namespace weft::comm {
namespace {

using testing::Random;

TEST(MatchTable, ALookThatThrowsLeavesNoBucketLocked) {
  MatchTable table(16, 64);
  ASSERT_EQ(table.access(7, Side::arrival, 70), 0U);
  EXPECT_THROW(table.survey([](uint64_t, Side, uint64_t) { throw std::bad_alloc(); }),
               std::bad_alloc);
  EXPECT_EQ(table.take(7, Side::receive), 70U);
}

TEST(MatchTable, AnArrivalWaitsForItsReceive) {
  MatchTable table(16, 64);
  EXPECT_EQ(table.access(7, Side::arrival, 100), 0u);
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(table.access(8, Side::receive, 200), 0u) << "another key";
  EXPECT_EQ(table.access(7, Side::receive, 201), 100u);
  EXPECT_EQ(table.access(7, Side::receive, 202), 0u) << "it was taken out";
  EXPECT_EQ(table.access(8, Side::arrival, 101), 200u);
  EXPECT_EQ(table.access(7, Side::arrival, 102), 202u);
  EXPECT_EQ(table.size(), 0u);
}

TEST(MatchTable, EveryKeyAndValueIsAllowed) {
  MatchTable table(16, 64);
  const uint64_t largest = (uint64_t{1} << 62) - 1;
  for (const uint64_t key : {uint64_t{0}, ~uint64_t{0}, uint64_t{1} << 63}) {
    EXPECT_EQ(table.take(key, Side::receive), 0u) << "empty slots hold key 0 by accident";
    EXPECT_EQ(table.access(key, Side::arrival, largest), 0u);
    EXPECT_EQ(table.access(key, Side::receive, 1), largest);
  }
}

TEST(MatchTable, EqualKeysMatchOldestFirstFromBothSides) {
  for (const Side waiting : {Side::arrival, Side::receive}) {
    const Side coming = waiting == Side::arrival ? Side::receive : Side::arrival;
    for (uint64_t n = 1; n < 40; ++n) {
      MatchTable table(16, 64);
      for (uint64_t i = 1; i <= n; ++i) ASSERT_EQ(table.access(5, waiting, i), 0u);
      EXPECT_EQ(table.size(), n);
      for (uint64_t i = 1; i <= n; ++i) ASSERT_EQ(table.access(5, coming, 1000 + i), i);
      EXPECT_EQ(table.lines_in_use(), 0u);
      EXPECT_EQ(table.access(5, coming, 2000), 0u);
    }
  }
}

TEST(MatchTable, ManyUnexpectedMessagesOfOneKeyAreNotSearched) {
  // A search of half a million would take hours; the watchdog would end it.
  constexpr uint64_t kMany = 500'000;
  MatchTable table(16, kMany);
  for (uint64_t i = 1; i <= kMany; ++i) ASSERT_EQ(table.access(5, Side::arrival, i), 0u);
  EXPECT_LE(table.lines_in_use(), kMany / 6 + 1);
  for (uint64_t i = 1; i <= kMany; ++i) ASSERT_EQ(table.take(5, Side::receive), i);
  EXPECT_EQ(table.lines_in_use(), 0u);
}

TEST(MatchTable, TakeNeverWaits) {
  MatchTable table(16, 64);
  EXPECT_EQ(table.take(5, Side::receive), 0u);
  EXPECT_EQ(table.size(), 0u);
  ASSERT_EQ(table.access(5, Side::receive, 9), 0u);
  EXPECT_EQ(table.take(5, Side::receive), 0u) << "its own side";
  EXPECT_EQ(table.take(5, Side::arrival), 9u);
}

TEST(MatchTable, TakeRunTakesTheOldestInOrderAsFarAsThereAreAny) {
  for (const uint64_t others : {0, 7}) {  // keys that make chains of the few buckets
    for (uint64_t n = 0; n < 40; ++n) {
      for (const std::size_t most : {0, 1, 2, 5, 6, 7, 16}) {
        MatchTable table(2, 64);
        for (uint64_t key = 100; key < 100 + others; ++key)
          ASSERT_EQ(table.access(key, Side::arrival, key), 0u);
        const std::size_t lines = table.lines_in_use();
        for (uint64_t i = 1; i <= n; ++i) ASSERT_EQ(table.access(5, Side::receive, i), 0u);
        uint64_t run[16];
        EXPECT_EQ(table.take_run(5, Side::receive, {run, most}), 0u) << "its own side";
        EXPECT_EQ(table.take_run(6, Side::arrival, {run, most}), 0u) << "another key";
        uint64_t oldest = 1;
        for (;;) {
          const uint64_t left = n + 1 - oldest;
          const uint32_t taken = table.take_run(5, Side::arrival, {run, most});
          ASSERT_EQ(taken, std::min<uint64_t>(most, left));
          for (uint32_t i = 0; i < taken; ++i) ASSERT_EQ(run[i], oldest++);
          ASSERT_EQ(table.size(), others + left - taken);
          if (taken == 0) break;
          if (left == taken + 3) {  // it stays usable in between
            ASSERT_EQ(table.take(5, Side::arrival), oldest++);
            ASSERT_EQ(table.access(5, Side::receive, ++n), 0u);
          }
        }
        if (most != 0) {
          EXPECT_EQ(table.lines_in_use(), lines);
        }
      }
    }
  }
}

TEST(MatchTable, RemoveTakesOutThatEntryAlone) {
  MatchTable table(16, 64);
  for (uint64_t i = 1; i <= 20; ++i) ASSERT_EQ(table.access(5, Side::receive, i), 0u);
  EXPECT_FALSE(table.remove(5, Side::receive, 21));
  EXPECT_FALSE(table.remove(5, Side::arrival, 4));
  EXPECT_FALSE(table.remove(6, Side::receive, 4));
  for (const uint64_t gone : {1, 2, 3, 4, 5, 6, 10, 20, 19}) {
    EXPECT_TRUE(table.remove(5, Side::receive, gone));
    EXPECT_FALSE(table.remove(5, Side::receive, gone));
  }
  ASSERT_EQ(table.access(5, Side::receive, 30), 0u);
  for (const uint64_t left : {7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 30})
    EXPECT_EQ(table.access(5, Side::arrival, 99), left);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.lines_in_use(), 0u);
}

TEST(MatchTable, RemoveIfTakesOutTheOldestThatIsWanted) {
  MatchTable table(16, 64);
  const uint64_t at_least = 4;
  const auto wanted = [](uint64_t value, const void* least) {
    return value >= *static_cast<const uint64_t*>(least);
  };
  EXPECT_EQ(table.remove_if(5, Side::receive, wanted, &at_least), 0u);
  ASSERT_EQ(table.access(5, Side::receive, 3), 0u);
  EXPECT_EQ(table.remove_if(5, Side::receive, wanted, &at_least), 0u) << "one alone, not wanted";
  for (uint64_t i = 4; i <= 12; ++i) ASSERT_EQ(table.access(5, Side::receive, i), 0u);
  EXPECT_EQ(table.remove_if(5, Side::arrival, wanted, &at_least), 0u) << "the other side";
  for (uint64_t i = 4; i <= 12; ++i)
    EXPECT_EQ(table.remove_if(5, Side::receive, wanted, &at_least), i);
  EXPECT_EQ(table.remove_if(5, Side::receive, wanted, &at_least), 0u);
  EXPECT_EQ(table.access(5, Side::arrival, 9), 3u);
  EXPECT_EQ(table.lines_in_use(), 0u);
}

TEST(MatchTable, KeysWhereNamesTheKeysOfOneSideOnceForEachEntry) {
  MatchTable table(2, 4096);
  std::vector<uint64_t> expected;
  for (uint64_t key = 0; key < 300; ++key) {
    const Side side = key % 2 ? Side::receive : Side::arrival;
    for (uint64_t i = 0; i <= key % 3; ++i) {
      ASSERT_EQ(table.access(key, side, 1), 0u);
      if (side == Side::receive && key > 100) expected.push_back(key);
    }
  }
  auto keys = table.keys_where(Side::receive, [](uint64_t key) { return key > 100; });
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(keys, expected);
}

TEST(MatchTable, AFullTableSaysSoAndKeepsWhatItHas) {
  constexpr uint64_t kEntries = 512;
  MatchTable table(2, kEntries);
  uint64_t in = 0;
  while (table.access(in, Side::arrival, in + 1) == 0) ASSERT_LT(++in, 1'000'000u);
  EXPECT_GE(in, kEntries);
  EXPECT_EQ(table.access(in, Side::arrival, 1), MatchTable::kNoRoom);
  EXPECT_EQ(table.take(in, Side::receive), 0u) << "a refused entry is not there";
  EXPECT_EQ(table.size(), in);
  for (uint64_t key = 0; key < in; ++key) ASSERT_EQ(table.take(key, Side::receive), key + 1);
  EXPECT_EQ(table.lines_in_use(), 0u);
  EXPECT_EQ(table.access(in, Side::arrival, 1), 0u) << "there is room again";
}

TEST(MatchTable, AFullQueueSaysSoToo) {
  constexpr uint64_t kEntries = 512;
  MatchTable table(2, kEntries);
  uint64_t in = 0;
  while (table.access(5, Side::arrival, in + 1) == 0) ASSERT_LT(++in, 1'000'000u);
  EXPECT_GE(in, kEntries);
  for (uint64_t i = 1; i <= in; ++i) ASSERT_EQ(table.access(5, Side::receive, 1), i);
  EXPECT_EQ(table.access(5, Side::receive, 1), 0u);
}

TEST(MatchTable, AsManyAsPromisedFitWhateverTheirKeys) {
  constexpr uint64_t kEntries = 5000;
  const auto fits = [](auto key_of) {
    MatchTable table(2, kEntries);
    for (uint64_t i = 1; i <= kEntries; ++i)
      if (table.access(key_of(i), Side::arrival, i) != 0) return false;
    return table.size() == kEntries;
  };
  EXPECT_TRUE(fits([](uint64_t i) { return i; }));
  EXPECT_TRUE(fits([](uint64_t) { return uint64_t{1}; }));
  EXPECT_TRUE(fits([](uint64_t i) { return i / 2; })) << "two of each key: a queue line each";
  EXPECT_TRUE(fits([](uint64_t i) { return i << 48; }));
}

TEST(MatchTable, GrowsWithItsLoadAndNotBeyond) {
  MatchTable table(64, 1 << 17);
  for (uint64_t i = 1; i <= 1 << 16; ++i) ASSERT_EQ(table.access(i * 3, Side::arrival, i), 0u);
  const std::size_t grown = table.buckets();
  EXPECT_GE(grown, std::size_t{1} << 14);
  EXPECT_LE(table.lines_in_use(), grown / 4) << "chains stay the exception";
  // The same load coming and going grows it little further.
  Random random(1);
  for (int i = 0; i < 2'000'000; ++i) {
    const uint64_t n = 1 + random.below(1 << 16);
    ASSERT_EQ(table.take(n * 3, Side::receive), n);
    ASSERT_EQ(table.access(n * 3, Side::arrival, n), 0u);
  }
  EXPECT_LE(table.buckets(), grown + grown / 4);
  for (uint64_t i = 1; i <= 1 << 16; ++i) ASSERT_EQ(table.take(i * 3, Side::receive), i);
  EXPECT_EQ(table.lines_in_use(), 0u);
}

// Keys as the layers above make them: fields side by side, small numbers in each.
TEST(MatchTable, StructuredKeysSpread) {
  const auto chained = [](auto key_of) {
    constexpr uint64_t kCount = 1 << 14;
    MatchTable table(kCount, 1 << 12);  // cannot grow beyond its start
    for (uint64_t i = 0; i < kCount; ++i)
      if (table.access(key_of(i), Side::arrival, i + 1) == MatchTable::kNoRoom) return kCount;
    return uint64_t{table.lines_in_use()};
  };
  // One entry a bucket at random: 1.9 % of buckets have more than three.
  constexpr uint64_t kUsual = (1 << 14) * 25 / 1000;
  EXPECT_LE(chained([](uint64_t i) { return i; }), kUsual);
  EXPECT_LE(chained([](uint64_t i) { return i << 32; }), kUsual);
  EXPECT_LE(chained([](uint64_t i) { return i << 20; }), kUsual);
  EXPECT_LE(chained([](uint64_t i) { return i << 50; }), kUsual);
  EXPECT_LE(chained([](uint64_t i) { return (i & 127) << 32 | i >> 7; }), kUsual);
  EXPECT_LE(chained([](uint64_t i) { return (i & 3) << 56 | (i >> 2 & 63) << 32 | i >> 8; }),
            kUsual);
  EXPECT_LE(chained([](uint64_t i) { return i * 64; }), kUsual);
  EXPECT_LE(chained([](uint64_t i) { return i * 4096 + 17; }), kUsual);
}

TEST(MatchTable, DrainTellsEveryEntryInOrder) {
  MatchTable table(2, 4096);
  std::map<uint64_t, std::vector<uint64_t>> expected;
  Random random(3);
  for (uint64_t i = 1; i <= 3000; ++i) {
    const uint64_t key = random.below(200);
    ASSERT_EQ(table.access(key, key % 2 ? Side::arrival : Side::receive, i), 0u);
    expected[key].push_back(i);
  }
  std::map<uint64_t, std::vector<uint64_t>> told;
  table.drain([&](uint64_t key, Side side, uint64_t value) {
    EXPECT_EQ(side, key % 2 ? Side::arrival : Side::receive);
    told[key].push_back(value);
  });
  EXPECT_EQ(told, expected);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.lines_in_use(), 0u);
}

TEST(MatchTable, AnswersAsTheModelDoes) {
  struct Waiting {
    Side side;
    std::deque<uint64_t> values;
  };
  const uint64_t seed = testing::told_seed();
  for (uint64_t round = 0; round < 40; ++round) {
    Random random(seed + round);
    // From one hot key to thousands: queues, chains, growth, and all at once.
    const uint64_t keys = uint64_t{1} << random.below(14);
    MatchTable table(std::size_t{1} << (1 + random.below(4)), 1 << 15);
    std::map<uint64_t, Waiting> model;
    std::size_t size = 0;
    for (uint64_t i = 1; i <= 20'000; ++i) {
      const uint64_t key = random.below(keys);
      const Side side = random.below(2) ? Side::arrival : Side::receive;
      auto& waiting = model[key];
      const bool meets = !waiting.values.empty() && waiting.side != side;
      const uint64_t what = random.below(16);
      if (what == 0 && !waiting.values.empty()) {
        const std::size_t at = random.below(waiting.values.size());
        ASSERT_TRUE(table.remove(key, waiting.side, waiting.values[at]));
        waiting.values.erase(waiting.values.begin() + static_cast<long>(at));
        --size;
      } else if (what < 4 || size > 30'000) {
        ASSERT_EQ(table.take(key, side), meets ? waiting.values.front() : 0);
        if (meets) waiting.values.pop_front(), --size;
      } else {
        ASSERT_EQ(table.access(key, side, i), meets ? waiting.values.front() : 0);
        if (meets) {
          waiting.values.pop_front();
          --size;
        } else {
          waiting.side = side;
          waiting.values.push_back(i);
          ++size;
        }
      }
    }
    ASSERT_EQ(table.size(), size);
    for (auto& [key, waiting] : model)
      for (const uint64_t value : waiting.values)
        ASSERT_EQ(table.take(key, waiting.side == Side::arrival ? Side::receive : Side::arrival),
                  value);
    ASSERT_EQ(table.lines_in_use(), 0u);
  }
}

TEST(MatchTable, RefusesSizesItCannotHave) {
  EXPECT_THROW(MatchTable(16, std::size_t{1} << 40), Error);
  EXPECT_THROW(MatchTable(std::size_t{1} << 40, 16), Error);
}

}  // namespace
}  // namespace weft::comm
