// Arbitrated locks: one at a time, who comes next, and many threads on few cores.
#include "weft/base/arbitrated_locks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "base/asleep.hpp"
#include "base/stress.hpp"
#include "weft/base/sync_counter.hpp"

namespace weft::base {
namespace {

template <class L>
class Arbitrated : public testing::Test {};
using ArbitratedLocks =
    testing::Types<WithoutPriority<SpinLock>, WithoutPriority<TicketLock>,
                   WithoutPriority<std::mutex>, WithoutPriorityMcs, ClhLock, PriorityClhLock,
                   CohortLock, ClhubLock, HierarchicalClhubLock>;
TYPED_TEST_SUITE(Arbitrated, ArbitratedLocks);

TYPED_TEST(Arbitrated, TryAcquireFailsWhileHeldAndNeverWaits) {
  TypeParam lock;
  for (int round = 0; round < 3; ++round) {
    const auto expect_held = [&] {
      std::thread([&] {
        typename TypeParam::Place place;
        EXPECT_FALSE(lock.try_acquire(place));
      }).join();
    };
    typename TypeParam::Place place;
    ASSERT_TRUE(lock.try_acquire(place));
    expect_held();
    lock.release(place);
    lock.acquire(place);
    expect_held();
    lock.release(place);
    lock.acquire_low(place);
    expect_held();
    lock.release(place);
  }
}

TYPED_TEST(Arbitrated, AWaiterThatSleepsGetsTheLock) {
  for (const bool low : {false, true}) {
    TypeParam lock;
    int value = 0;  // plain: the lock is what orders it
    typename TypeParam::Place place;
    lock.acquire(place);
    std::thread waiter([&] {
      typename TypeParam::Place mine;
      low ? lock.acquire_low(mine) : lock.acquire(mine);
      EXPECT_EQ(value, 1);
      value = 2;
      lock.release(mine);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // longer than it spins
    value = 1;
    lock.release(place);
    waiter.join();
    const Acquired hold(lock);
    EXPECT_EQ(value, 2);
  }
}

TYPED_TEST(Arbitrated, StressOneAtATimeOnFewCores) {
  const uint64_t seed = test::stress_seed();
  for (const int threads_count : {2, 16, 64}) {
    TypeParam lock;
    uint64_t entered = 0;  // plain: lost if two are inside
    int inside = 0;
    const test::StressClock clock(0.2);
    std::vector<uint64_t> entries(static_cast<std::size_t>(threads_count));
    std::vector<std::thread> threads;
    for (int t = 0; t < threads_count; ++t) {
      threads.emplace_back([&, t] {
        uint64_t mine = 0;
        std::minstd_rand draw(static_cast<uint32_t>(seed) + static_cast<uint32_t>(t));
        for (uint64_t turn = 0; clock.running(turn); ++turn) {
          typename TypeParam::Place place;
          switch (draw() % 4) {
            case 0:
              if (!lock.try_acquire(place)) continue;
              break;
            case 1:
              lock.acquire_low(place);
              break;
            default:
              lock.acquire(place);
          }
          EXPECT_EQ(inside++, 0);
          ++entered;
          ++mine;
          EXPECT_EQ(--inside, 0);
          lock.release(place);
        }
        entries[static_cast<std::size_t>(t)] = mine;
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(std::accumulate(entries.begin(), entries.end(), uint64_t{0}), entered);
    EXPECT_GT(entered, 0U);
  }
}

/// Threads that come to a held lock one after the other, and the order in which they get it.
template <class L>
class Line {
 public:
  explicit Line(L& lock) : lock_(lock) { lock_.acquire(first_); }
  /// Comes now; is queued, and asleep, when this returns.
  void comes(int name, bool low) {
    std::atomic<pid_t> thread{0};
    threads_.emplace_back([this, name, low, &thread] {
      typename L::Place place;
      thread = test::this_thread_id();
      low ? lock_.acquire_low(place) : lock_.acquire(place);
      order_.push_back(name);
      lock_.release(place);
    });
    test::wait_until_asleep(thread);
  }
  /// Lets go of the lock; the names in the order of their turns.
  std::vector<int> order() {
    lock_.release(first_);
    for (auto& thread : threads_) thread.join();
    return order_;
  }

 private:
  L& lock_;
  typename L::Place first_;
  std::vector<std::thread> threads_;
  std::vector<int> order_;  // under the lock
};

TEST(ClhLockTest, FirstComeFirstServed) {
  ClhLock lock;
  Line line(lock);
  for (int name = 0; name < 6; ++name) line.comes(name, name % 2 == 0);
  EXPECT_EQ(line.order(), (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

// They sleep: `comes` waits for that.
TEST(McsLockOrder, FirstComeFirstServedThoughAsleep) {
  WithoutPriorityMcs lock;
  Line line(lock);
  for (int name = 0; name < 6; ++name) line.comes(name, name % 2 == 0);
  EXPECT_EQ(line.order(), (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST(PriorityClhLockTest, TheMainPathPassesBeforeThoseWhoWait) {
  PriorityClhLock lock;
  Line line(lock);
  for (int name = 0; name < 6; ++name) line.comes(name, name < 3);
  EXPECT_EQ(line.order(), (std::vector<int>{3, 4, 5, 0, 1, 2}));
}

template <class L>
class Clhub : public testing::Test {};
using BothClhubs = testing::Types<ClhubLock, HierarchicalClhubLock>;
TYPED_TEST_SUITE(Clhub, BothClhubs);

TYPED_TEST(Clhub, CandidatesComeInOrderAndBeforeThoseWhoWait) {
  TypeParam lock;
  Line line(lock);
  line.comes(3, false);  // the candidate
  line.comes(4, false);
  line.comes(0, true);  // held back by the filter
  line.comes(1, true);
  line.comes(5, false);
  const std::vector<int> order = line.order();
  ASSERT_EQ(order.size(), 5U);
  EXPECT_EQ(order[0], 3);
  // Between two candidates the filter is down for an instant: one who waits may slip in.
  const auto place_of = [&](int name) {
    return std::find(order.begin(), order.end(), name) - order.begin();
  };
  EXPECT_LT(place_of(4), place_of(5));
  EXPECT_LT(place_of(0), place_of(1));
}

TYPED_TEST(Clhub, WhoRunsMayTakeItAgainThoughOthersQueue) {
  // The sleeper needs a switch to come; we are there already. Not always: its wake may preempt us.
  bool again = false;
  for (int trial = 0; trial < 200 && !again; ++trial) {
    TypeParam lock;
    typename TypeParam::Place place;
    lock.acquire(place);
    std::atomic<pid_t> thread{0};
    std::atomic<bool> got{false};
    std::thread queued([&] {
      thread = test::this_thread_id();
      const Acquired hold(lock);
      got = true;
    });
    test::wait_until_asleep(thread);
    lock.release(place);
    lock.acquire(place);
    again = !got;
    lock.release(place);
    queued.join();
    EXPECT_TRUE(got);
  }
  EXPECT_TRUE(again);
}

TYPED_TEST(Clhub, WhoWaitsComesWhenNobodyElseDoes) {
  TypeParam lock;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> low_turns{0};
  std::thread low([&] {
    while (!stop) {
      typename TypeParam::Place place;
      lock.acquire_low(place);
      ++low_turns;
      lock.release(place);
    }
  });
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 1000; ++i) const Acquired hold(lock);
    const uint64_t before = low_turns;
    while (low_turns < before + 10) sched_yield();  // the main path is elsewhere
  }
  stop = true;
  low.join();
}

// Two locks, one tried by who has the other: it is never waited for, or the two threads would wait
// for each other. The lone user of a queue lock alternates between two nodes, so that a tail seen
// twice may be another one.
TYPED_TEST(Arbitrated, TryingWithAnotherLockHeldDoesNotDeadlock) {
  TypeParam held;
  TypeParam tried;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> turns{0};
  int inside = 0;  // `tried`
  std::thread tries([&] {
    while (!stop) {
      typename TypeParam::Place mine;
      held.acquire(mine);
      for (int i = 0; i < 20; ++i) {
        typename TypeParam::Place other;
        if (!tried.try_acquire(other)) continue;
        EXPECT_EQ(inside++, 0);
        EXPECT_EQ(--inside, 0);
        tried.release(other);
      }
      held.release(mine);
      ++turns;
    }
  });
  const test::StressClock clock(0.5);
  for (uint64_t i = 0; clock.running(i); ++i) {
    typename TypeParam::Place mine;
    tried.acquire(mine);
    EXPECT_EQ(inside++, 0);
    if (i % 64 == 0) const Acquired both(held, typename Acquired<TypeParam>::Low{});
    EXPECT_EQ(--inside, 0);
    tried.release(mine);
  }
  stop = true;
  tries.join();
  EXPECT_GT(turns, 0U);
}

// Whoever had a lock's node may end at once; what a thread cached is others' after it.
TEST(ClhLockTest, ShortLivedThreadsAndLocks) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 300; ++i) {
        ClhLock lock;
        uint64_t sum = 0;
        std::thread other([&] {
          for (int k = 0; k < 20; ++k) {
            const Acquired hold(lock);
            ++sum;
          }
        });
        for (int k = 0; k < 20; ++k) {
          const Acquired hold(lock);
          ++sum;
        }
        other.join();
        EXPECT_EQ(sum, 40U);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

// ---- Turn and SyncCounter ----

TEST(TurnTest, IsGivenOnceAndMayEndWithItsWaiter) {
  for (int round = 0; round < 20000; ++round) {
    auto turn = std::make_unique<Turn>(false);
    EXPECT_FALSE(turn->is_given());
    int value = 0;
    std::thread giver;
    if (round % 100 == 0) {
      giver = std::thread([&, raw = turn.get()] {
        if (round % 200 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        value = 1;
        raw->give();
      });
      turn->wait();
      EXPECT_EQ(value, 1);
    } else {
      turn->give();
      turn->wait();
    }
    EXPECT_TRUE(turn->is_given());
    turn.reset();
    if (giver.joinable()) giver.join();
  }
}

TEST(SyncCounterTest, WakesWithTheLastOfManyEvents) {
  SyncCounter none(0);
  EXPECT_TRUE(none.ready());
  none.wait();
  SyncCounter counter(7);
  std::vector<int> written(4);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        written[t] = round;
        counter.signal(t == 3 ? 4 : 1);
      });
    }
    counter.wait();
    EXPECT_TRUE(counter.ready());
    for (const int value : written) EXPECT_EQ(value, round);
    for (auto& thread : threads) thread.join();
    counter.reset(7);
    EXPECT_FALSE(counter.ready());
  }
}

TEST(SyncCounterDeathTest, OneEventTooManyIsMet) {
  const auto signalled = [](std::initializer_list<uint32_t> events) {
    SyncCounter counter(2);
    for (const uint32_t n : events) counter.signal(n);
  };
  signalled({1, 1});
  EXPECT_DEATH(signalled({2, 2}), "more events");
  EXPECT_DEATH(signalled({1, 1, 1}), "more events");
  EXPECT_DEATH(signalled({3}), "more events");
}

TEST(SyncCounterTest, MayEndAsSoonAsItIsReady) {
  std::atomic<SyncCounter*> shared{nullptr};
  std::atomic<bool> over{false};
  std::thread signaller([&] {
    while (!over) {
      if (SyncCounter* const counter = shared.exchange(nullptr)) counter->signal();
    }
  });
  const test::StressClock clock(0.2);
  for (uint64_t round = 0; clock.running(round); ++round) {
    auto counter = std::make_unique<SyncCounter>(1);
    shared = counter.get();
    counter->wait();
  }
  over = true;
  signaller.join();
}

}  // namespace
}  // namespace weft::base
