// BoundedQueue: order, bounds, and threads that stop half-way.
#include "comm/bounded_queue.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "comm/structures_testing.hpp"

namespace weft::comm {
namespace {

using testing::Deadline;

struct Largest {
  uint64_t words[7];
};
static_assert(sizeof(Largest) == 56);

TEST(BoundedQueue, FirstInFirstOutWithinItsCapacity) {
  for (const std::size_t asked : {1u, 2u, 3u, 8u, 100u}) {
    BoundedQueue<uint64_t> queue(asked);
    const std::size_t capacity = queue.capacity();
    EXPECT_GE(capacity, asked);
    EXPECT_EQ(capacity & (capacity - 1), 0u);
    uint64_t in = 0, out = 0, value = 0;
    for (int round = 0; round < 10; ++round) {
      EXPECT_FALSE(queue.try_pop(value));
      for (std::size_t i = 0; i < capacity; ++i) ASSERT_TRUE(queue.try_push(in++));
      EXPECT_FALSE(queue.try_push(in)) << "full";
      EXPECT_EQ(queue.size_hint(), capacity);
      // Once round with one free cell:
      for (std::size_t i = 0; i < capacity + 3; ++i) {
        ASSERT_TRUE(queue.try_pop(value));
        ASSERT_EQ(value, out++);
        ASSERT_TRUE(queue.try_push(in++));
      }
      for (std::size_t i = 0; i < capacity; ++i) {
        ASSERT_TRUE(queue.try_pop(value));
        ASSERT_EQ(value, out++);
      }
      EXPECT_EQ(queue.size_hint(), 0u);
    }
  }
}

TEST(BoundedQueue, ItemsAreFilledAndReadWhereTheyLie) {
  BoundedQueue<Largest> queue(4);
  ASSERT_TRUE(queue.try_push_with([](Largest& cell) {
    for (uint64_t i = 0; i < 7; ++i) cell.words[i] = i * i;
  }));
  uint64_t sum = 0;
  ASSERT_TRUE(queue.try_pop_with([&](const Largest& cell) {
    for (const uint64_t word : cell.words) sum += word;
  }));
  EXPECT_EQ(sum, 0u + 1 + 4 + 9 + 16 + 25 + 36);
  EXPECT_FALSE(queue.try_pop_with([](const Largest&) { FAIL(); }));
}

TEST(BoundedQueue, AProducerStoppedHalfWayStopsNobody) {
  BoundedQueue<uint64_t> queue(4);
  ASSERT_TRUE(queue.try_push(1));
  std::atomic<int> stage{0};
  std::thread stopped([&] {
    EXPECT_TRUE(queue.try_push_with([&](uint64_t& cell) {
      stage = 1;
      while (stage != 2) sched_yield();
      cell = 2;
    }));
  });
  while (stage != 1) sched_yield();
  EXPECT_TRUE(queue.try_push(3));
  EXPECT_TRUE(queue.try_push(4));
  EXPECT_FALSE(queue.try_push(5));
  uint64_t value = 0;
  EXPECT_TRUE(queue.try_pop(value));
  EXPECT_EQ(value, 1u);
  EXPECT_FALSE(queue.try_pop(value)) << "what is behind the claim waits; nobody spins";
  EXPECT_TRUE(queue.try_push(5));
  EXPECT_FALSE(queue.try_push(6)) << "the claimed cell counts";
  stage = 2;
  stopped.join();
  for (uint64_t expected = 2; expected <= 5; ++expected) {
    ASSERT_TRUE(queue.try_pop(value));
    EXPECT_EQ(value, expected);
  }
}

TEST(BoundedQueue, AConsumerStoppedHalfWayStopsNobody) {
  BoundedQueue<uint64_t> queue(4);
  for (uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(queue.try_push(i));
  std::atomic<int> stage{0};
  std::thread stopped([&] {
    EXPECT_TRUE(queue.try_pop_with([&](const uint64_t& cell) {
      stage = 1;
      while (stage != 2) sched_yield();
      EXPECT_EQ(cell, 1u) << "nobody wrote over it";
    }));
  });
  while (stage != 1) sched_yield();
  uint64_t value = 0;
  EXPECT_TRUE(queue.try_pop(value));
  EXPECT_EQ(value, 2u);
  EXPECT_FALSE(queue.try_push(5)) << "its turn is the cell that is being read";
  EXPECT_TRUE(queue.try_pop(value));
  EXPECT_TRUE(queue.try_pop(value));
  EXPECT_EQ(value, 4u);
  EXPECT_FALSE(queue.try_pop(value));
  stage = 2;
  stopped.join();
  EXPECT_TRUE(queue.try_push(5));
  EXPECT_TRUE(queue.try_pop(value));
  EXPECT_EQ(value, 5u);
}

// Every item arrives once, whole, and each consumer sees each producer's items in order.
void through(unsigned producers, unsigned consumers, std::size_t capacity, double seconds) {
  BoundedQueue<Largest> queue(capacity);
  const Deadline deadline(seconds);
  std::atomic<unsigned> producing{producers};
  std::atomic<uint64_t> pushed{0}, popped{0}, pushed_sum{0}, popped_sum{0};
  testing::on_threads(producers + consumers, [&](unsigned me) {
    if (me < producers) {
      uint64_t n = 0, sum = 0;
      while ((n & 127) != 0 || !deadline.passed()) {
        ++n;
        sum += n;
        const auto fill = [&](Largest& cell) {
          for (uint64_t i = 0; i < 6; ++i) cell.words[i] = n * (i + 1);
          cell.words[6] = me;
        };
        while (!queue.try_push_with(fill)) sched_yield();
      }
      pushed += n;
      pushed_sum += sum;
      --producing;
      return;
    }
    std::vector<uint64_t> last(producers, 0);
    uint64_t n = 0, sum = 0;
    bool last_look = false;
    for (;;) {
      Largest item;
      if (queue.try_pop(item)) {
        for (uint64_t i = 0; i < 6; ++i) ASSERT_EQ(item.words[i], item.words[0] * (i + 1));
        ASSERT_GT(item.words[0], last[item.words[6]]);
        last[item.words[6]] = item.words[0];
        ++n;
        sum += item.words[0];
      } else {
        if (last_look) break;
        last_look = producing == 0;
        sched_yield();
      }
    }
    popped += n;
    popped_sum += sum;
  });
  EXPECT_EQ(pushed, popped);
  EXPECT_EQ(pushed_sum, popped_sum);
}

TEST(BoundedQueueStress, EveryItemArrivesOnceAndInOrder) {
  testing::told_seed();
  const double each = testing::stress_seconds() / 6;
  for (const std::size_t capacity : {2u, 64u}) {
    through(1, 1, capacity, each);
    through(8, 1, capacity, each);
    through(4, 4, capacity, each);
  }
}

}  // namespace
}  // namespace weft::comm
