// SlotPool: every number is in one place, exhaustion is found out, threads come and go.
#include "weft/base/slot_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "comm/structures_testing.hpp"
#include "weft/base/error.hpp"

namespace weft::comm {
namespace {

using base::SlotPool;
using testing::Deadline;
using testing::Random;

#ifdef __SANITIZE_THREAD__
constexpr int kThreadWaves = 100;  // threads are dear there
#else
constexpr int kThreadWaves = 1250;
#endif

std::vector<uint32_t> take_all(SlotPool& pool) {
  std::vector<uint32_t> all;
  for (uint32_t index; (index = pool.alloc()) != SlotPool::kNone;) all.push_back(index);
  return all;
}

void expect_every_number(std::vector<uint32_t> all, uint32_t n) {
  std::vector<uint32_t> expected(n);
  std::iota(expected.begin(), expected.end(), 0u);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, expected);
}

TEST(SlotPool, GivesEachNumberOnceThenNone) {
  for (const uint32_t n : {0u, 1u, 2u, 63u, 64u, 65u, 127u, 128u, 1000u, 65536u}) {
    SlotPool pool(n);
    EXPECT_EQ(pool.available(), n);
    auto all = take_all(pool);
    expect_every_number(all, n);
    EXPECT_EQ(pool.available(), 0u);
    EXPECT_EQ(pool.alloc(), SlotPool::kNone);
    for (const uint32_t index : all) pool.free(index);
    EXPECT_EQ(pool.available(), n);
    all = take_all(pool);
    expect_every_number(all, n);
    pool.free(std::span<const uint32_t>(all));
    EXPECT_EQ(pool.available(), n);
    expect_every_number(take_all(pool), n);
  }
}

TEST(SlotPool, KnowsWhatWasNeverGiven) {
  SlotPool pool(1000);
  EXPECT_EQ(pool.never_given(), 0u);
  const uint32_t number = pool.alloc();
  const uint32_t first = pool.never_given();
  EXPECT_LT(number, first);
  EXPECT_LT(first, 1000u);
  pool.free(number);
  EXPECT_EQ(pool.never_given(), first);
  (void)take_all(pool);
  EXPECT_EQ(pool.never_given(), 1000u);
}

TEST(SlotPool, GivesTheWarmestFirst) {
  SlotPool pool(1000);
  const uint32_t a = pool.alloc();
  const uint32_t b = pool.alloc();
  pool.free(a);
  pool.free(b);
  EXPECT_EQ(pool.alloc(), b);
  EXPECT_EQ(pool.alloc(), a);
}

TEST(SlotPool, WhatIsToRestGoesAround) {
  SlotPool pool(1000);
  std::vector<uint32_t> numbers(8);
  for (auto& number : numbers) number = pool.alloc();
  pool.free(numbers);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 5; ++i) {  // the last five
      const uint32_t number = pool.alloc_rested(5);
      EXPECT_EQ(number, numbers[3 + i]);
      pool.free(number);
    }
  }
  EXPECT_EQ(pool.alloc(), numbers[7]) << "the warmest is the one given back last";
  EXPECT_EQ(pool.alloc_rested(1), numbers[6]);
  EXPECT_EQ(pool.alloc_rested(0), numbers[5]);
}

TEST(SlotPool, WhatIsToRestIsGivenAllTheSame) {
  SlotPool pool(100, SlotPool::Checks::on);
  std::vector<uint32_t> all;
  for (uint32_t number = 0; (number = pool.alloc_rested(1'000'000)) != SlotPool::kNone;)
    all.push_back(number);
  expect_every_number(all, 100);
  pool.free(all);
  EXPECT_EQ(pool.available(), 100u);
}

TEST(SlotPool, TouchesLowNumbersFirst) {
  // What is never used at one time is never given: memory behind it stays untouched.
  SlotPool pool(65536);
  for (int round = 0; round < 1000; ++round) {
    uint32_t some[50];
    for (auto& index : some) {
      index = pool.alloc();
      ASSERT_LT(index, 128u);
    }
    pool.free(some);
  }
}

TEST(SlotPool, WhatOneThreadFreesAnotherFinds) {
  constexpr uint32_t kCount = 1024;
  SlotPool pool(kCount);
  // All are in deques of threads that live on, and of threads that ended.
  std::atomic<int> done{0};
  std::atomic<bool> leave{false};
  std::vector<std::thread> holders;
  auto all = take_all(pool);
  for (unsigned t = 0; t < 8; ++t) {
    holders.emplace_back([&, t] {
      for (uint32_t i = t; i < kCount; i += 8) pool.free(all[i]);
      ++done;
      while (t < 4 && !leave) std::this_thread::yield();
    });
  }
  while (done != 8) std::this_thread::yield();
  EXPECT_EQ(pool.available(), kCount);
  all = take_all(pool);
  expect_every_number(all, kCount);
  leave = true;
  for (auto& holder : holders) holder.join();
}

TEST(SlotPool, TenThousandShortLivedThreadsLoseNothing) {
  constexpr uint32_t kCount = 256;
  SlotPool pool(kCount);
  uint32_t passed_on = pool.alloc();
  for (int round = 0; round < kThreadWaves; ++round) {
    testing::on_threads(8, [&](unsigned me) {
      const uint32_t mine = pool.alloc();
      ASSERT_NE(mine, SlotPool::kNone);
      if (me == 0) {
        pool.free(passed_on);  // another thread's, now ended
        passed_on = mine;
      } else {
        pool.free(mine);
      }
    });
  }
  pool.free(passed_on);
  EXPECT_EQ(pool.available(), kCount);
  expect_every_number(take_all(pool), kCount);
}

TEST(SlotPool, MoreThreadsThanSlotsShareThem) {
  constexpr uint32_t kCount = 4096;
  constexpr unsigned kThreads = base::kThreadSlots + 76;
  SlotPool pool(kCount);
  const auto owner = std::make_unique<std::atomic<uint8_t>[]>(kCount);
  std::atomic<unsigned> arrived{0};
  testing::on_threads(kThreads, [&](unsigned) {
    (void)base::this_thread_slot();
    ++arrived;
    while (arrived != kThreads) sched_yield();
    for (int round = 0; round < 20; ++round) {
      uint32_t some[3];
      for (auto& index : some) {
        index = pool.alloc();
        ASSERT_NE(index, SlotPool::kNone);
        ASSERT_EQ(owner[index].exchange(1), 0);
      }
      for (const uint32_t index : some) {
        owner[index] = 0;
        pool.free(index);
      }
    }
  });
  EXPECT_EQ(pool.available(), kCount);
  expect_every_number(take_all(pool), kCount);
}

// Threads take and free by turns, in crowds and alone, their own and others' numbers; nothing is
// given twice, and at the end all is there.
void turmoil(unsigned threads, uint32_t n, double seconds, uint64_t seed) {
  SlotPool pool(n, SlotPool::Checks::on);
  const auto owner = std::make_unique<std::atomic<uint8_t>[]>(n);
  const auto letterbox = std::make_unique<std::atomic<uint32_t>[]>(threads);  // index + 1
  const Deadline deadline(seconds);
  std::atomic<uint64_t> nones{0};
  testing::on_threads(threads, [&](unsigned me) {
    Random random(seed * 257 + me);
    std::vector<uint32_t> mine;
    const auto give = [&](uint32_t index) {
      owner[index].store(0, std::memory_order_relaxed);
      pool.free(index);
    };
    for (uint64_t i = 0; (i & 63) != 0 || !deadline.passed(); ++i) {
      const auto count = static_cast<std::size_t>(random.below(random.below(4) ? 8 : 200));
      while (mine.size() < count) {
        const auto depth = static_cast<uint32_t>(random.below(64));
        const uint32_t index = depth < 32 ? pool.alloc() : pool.alloc_rested(depth);
        if (index == SlotPool::kNone) {
          ++nones;
          break;
        }
        ASSERT_LT(index, n);
        ASSERT_EQ(owner[index].exchange(1, std::memory_order_relaxed), 0);
        mine.push_back(index);
      }
      if (!mine.empty() && random.below(2)) {  // to another thread, which frees it
        const uint32_t before =
            letterbox[random.below(threads)].exchange(mine.back() + 1, std::memory_order_acq_rel);
        mine.pop_back();
        if (before != 0) give(before - 1);
      }
      const uint32_t letter = letterbox[me].exchange(0, std::memory_order_acq_rel);
      if (letter != 0) give(letter - 1);
      if (random.below(3) == 0) {
        for (const uint32_t index : mine) owner[index].store(0, std::memory_order_relaxed);
        pool.free(std::span<const uint32_t>(mine));
        mine.clear();
      }
      while (mine.size() > 4) {
        give(mine.back());
        mine.pop_back();
      }
    }
    for (const uint32_t index : mine) give(index);
  });
  for (unsigned t = 0; t < threads; ++t) {
    const uint32_t letter = letterbox[t].load();
    if (letter != 0) pool.free(letter - 1);
  }
  EXPECT_EQ(pool.available(), n);
  expect_every_number(take_all(pool), n);
}

TEST(SlotPoolStress, NothingIsGivenTwiceOrLost) {
  const uint64_t seed = testing::told_seed();
  const double each = testing::stress_seconds() / 6;
  for (const unsigned threads : {2u, 3u, 16u})
    for (const uint32_t n : {100u, 3000u}) turmoil(threads, n, each, seed);
}

// One thread allocates, the other frees: numbers flow in blocks, and never run dry for long.
TEST(SlotPoolStress, OneWayTraffic) {
  constexpr uint32_t kCount = 1024;
  SlotPool pool(kCount);
  std::atomic<uint32_t> ring[256];
  for (auto& cell : ring) cell = SlotPool::kNone;
  const Deadline deadline(testing::stress_seconds() / 2);
  std::atomic<bool> sending{true};
  testing::on_threads(2, [&](unsigned me) {
    uint64_t at = 0;
    if (me == 0) {
      for (; (at & 255) != 0 || !deadline.passed(); ++at) {
        uint32_t index;
        while ((index = pool.alloc()) == SlotPool::kNone) sched_yield();
        auto& cell = ring[at % 256];
        while (cell.load(std::memory_order_acquire) != SlotPool::kNone) sched_yield();
        cell.store(index, std::memory_order_release);
      }
      sending = false;
      return;
    }
    for (;;) {
      auto& cell = ring[at % 256];
      const uint32_t index = cell.exchange(SlotPool::kNone, std::memory_order_acq_rel);
      if (index != SlotPool::kNone) {
        ++at;
        pool.free(index);
      } else if (!sending) {
        // acquire by the load of sending: what was sent last is in the ring now.
        if (cell.load(std::memory_order_acquire) == SlotPool::kNone) return;
      } else {
        sched_yield();
      }
    }
  });
  EXPECT_EQ(pool.available(), kCount);
}

TEST(SlotPoolDeathTest, FreeingTwiceEndsTheJobWhereChecked) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        SlotPool pool(10, SlotPool::Checks::on);
        const uint32_t index = pool.alloc();
        pool.free(index);
        pool.free(index);
      },
      "freed twice");
  EXPECT_DEATH(
      {
        SlotPool pool(10, SlotPool::Checks::on);
        pool.free(10);
      },
      "does not have");
}

TEST(SlotPool, RefusesMoreThanItCanNumber) { EXPECT_THROW(SlotPool(uint32_t{1} << 31), Error); }

}  // namespace
}  // namespace weft::comm
