// Spin, ticket and MCS locks: one at a time, try_lock, many threads on few cores.
#include "weft/base/locks.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <ctime>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "base/stress.hpp"

namespace weft::base {
namespace {

/// MCS with the interface of the others: a node per thread.
class McsWithNodes {
 public:
  bool try_lock() noexcept { return lock_.try_lock(node()); }
  void lock() noexcept { lock_.lock(node()); }
  void unlock() noexcept { lock_.unlock(node()); }

 protected:
  static McsLock::Node& node() {
    thread_local McsLock::Node mine;
    return mine;
  }
  McsLock lock_;
};
/// The same by who must not sleep.
class McsAwake : public McsWithNodes {
 public:
  void lock() noexcept { lock_.lock_awake(node()); }
};

template <class L>
class Locks : public testing::Test {};
using AllLocks = testing::Types<SpinLock, TicketLock, McsWithNodes, McsAwake>;
TYPED_TEST_SUITE(Locks, AllLocks);

TYPED_TEST(Locks, TryLockFailsWhileHeldAndNeverWaits) {
  TypeParam lock;
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(lock.try_lock());
    std::thread([&] { EXPECT_FALSE(lock.try_lock()); }).join();
    lock.unlock();
    lock.lock();
    std::thread([&] { EXPECT_FALSE(lock.try_lock()); }).join();
    lock.unlock();
  }
}

TYPED_TEST(Locks, AWaiterGetsTheLockWhenItsHolderLetsGo) {
  TypeParam lock;
  int value = 0;  // plain: the lock is what orders it
  lock.lock();
  std::thread waiter([&] {
    lock.lock();
    EXPECT_EQ(value, 1);
    value = 2;
    lock.unlock();
  });
  sched_yield();
  value = 1;
  lock.unlock();
  waiter.join();
  lock.lock();
  EXPECT_EQ(value, 2);
  lock.unlock();
}

TYPED_TEST(Locks, StressOneAtATimeOnFewCores) {
  const uint64_t seed = test::stress_seed();
  constexpr int kThreads = 16;
  TypeParam lock;
  uint64_t entered = 0;  // plain: lost if two are inside
  int inside = 0;
  const test::StressClock clock(0.5);
  std::vector<uint64_t> entries(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      uint64_t mine = 0;
      std::minstd_rand draw(static_cast<uint32_t>(seed) + static_cast<uint32_t>(t));
      for (uint64_t turn = 0; clock.running(turn); ++turn) {
        // A third of the turns try only; their failures do not count.
        if (draw() % 3 == 0) {
          if (!lock.try_lock()) continue;
        } else {
          lock.lock();
        }
        EXPECT_EQ(inside++, 0);
        ++entered;
        ++mine;
        EXPECT_EQ(--inside, 0);
        lock.unlock();
      }
      entries[static_cast<std::size_t>(t)] = mine;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(std::accumulate(entries.begin(), entries.end(), uint64_t{0}), entered);
  EXPECT_GT(entered, 0U);
}

TEST(SpinLockTest, SaysWhetherItIsHeld) {
  SpinLock lock;
  EXPECT_FALSE(lock.is_locked());
  {
    const std::lock_guard guard(lock);
    EXPECT_TRUE(lock.is_locked());
  }
  EXPECT_FALSE(lock.is_locked());
}

TEST(McsLockTest, GuardHoldsForItsScope) {
  McsLock lock;
  McsLock::Node node;
  {
    const McsLock::Guard guard(lock);
    EXPECT_FALSE(lock.try_lock(node));
  }
  EXPECT_TRUE(lock.try_lock(node));
  lock.unlock(node);
}

TEST(TicketLockTest, FirstComeFirstServed) {
  TicketLock lock;
  lock.lock();
  std::vector<int> order;  // under the lock
  std::vector<std::thread> threads;
  for (int name = 0; name < 6; ++name) {
    threads.emplace_back([&, name] {
      lock.lock();
      order.push_back(name);
      lock.unlock();
    });
    // Who waits runs, and yields: after so much of its own time it has drawn its ticket.
    clockid_t clock;
    ASSERT_EQ(pthread_getcpuclockid(threads.back().native_handle(), &clock), 0);
    for (timespec ran{}; ran.tv_sec == 0 && ran.tv_nsec < 5'000'000;) {
      std::this_thread::yield();
      clock_gettime(clock, &ran);
    }
  }
  EXPECT_TRUE(order.empty());
  lock.unlock();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST(TicketLockTest, TryLockAndLockDrawFromOneRowOfTickets) {
  TicketLock lock;
  for (int i = 0; i < 1 << 16; ++i) {
    if (i % 2 == 0) {
      ASSERT_TRUE(lock.try_lock());
    } else {
      lock.lock();
    }
    lock.unlock();
  }
}

}  // namespace
}  // namespace weft::base
