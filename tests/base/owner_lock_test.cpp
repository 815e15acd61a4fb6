// The owner's lock: who may come in when, what is asked of the owner, and mutual exclusion.
#include "weft/base/owner_lock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "base/stress.hpp"

namespace weft::base {
namespace {

using namespace std::chrono_literals;

TEST(OwnerLockTest, TheOwnerComesInAgainAndAgain) {
  OwnerLock lock;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(lock.try_enter_as_owner());
    lock.leave_as_owner();
  }
}

TEST(OwnerLockTest, TheOwnerIsRefusedWhileAnotherIsInside) {
  OwnerLock lock;
  lock.enter();
  EXPECT_FALSE(lock.try_enter_as_owner());
  EXPECT_FALSE(lock.try_enter_though_asked());
  EXPECT_FALSE(lock.try_enter()) << "one of the others at a time";
  lock.leave();
  ASSERT_TRUE(lock.try_enter_as_owner());
  lock.leave_as_owner();
}

TEST(OwnerLockTest, AnotherWaitsForTheOwner) {
  OwnerLock lock;
  int written = 0;
  ASSERT_TRUE(lock.try_enter_as_owner());
  std::thread other([&] {
    lock.enter();
    EXPECT_EQ(written, 7) << "the owner was inside";
    lock.leave();
  });
  std::this_thread::sleep_for(20ms);
  written = 7;
  lock.leave_as_owner();
  other.join();
  ASSERT_TRUE(lock.try_enter_as_owner());
  lock.leave_as_owner();
}

TEST(OwnerLockTest, WhoTriesGivesUpAndLeavesNothingBehind) {
  OwnerLock lock;
  ASSERT_TRUE(lock.try_enter_as_owner());
  std::thread([&] { EXPECT_FALSE(lock.try_enter()); }).join();
  lock.leave_as_owner();
  ASSERT_TRUE(lock.try_enter_as_owner()) << "who gave up still keeps the owner out";
  lock.leave_as_owner();
  ASSERT_TRUE(lock.try_enter());
  lock.leave();
}

TEST(OwnerLockTest, WhatIsAskedIsSeenOnce) {
  OwnerLock lock;
  EXPECT_FALSE(lock.take_asked());
  lock.ask();
  lock.ask();
  EXPECT_FALSE(lock.try_enter_as_owner()) << "the owner is to look first";
  ASSERT_TRUE(lock.try_enter_though_asked());
  lock.leave_as_owner();
  EXPECT_FALSE(lock.try_enter_as_owner()) << "nobody has looked yet";
  EXPECT_TRUE(lock.take_asked());
  EXPECT_FALSE(lock.take_asked());
  ASSERT_TRUE(lock.try_enter_as_owner());
  lock.leave_as_owner();
}

TEST(OwnerLockTest, AskingOutlastsWhoIsInside) {
  OwnerLock lock;
  lock.enter();
  lock.ask();
  lock.leave();
  EXPECT_FALSE(lock.try_enter_as_owner());
  EXPECT_TRUE(lock.take_asked());
  ASSERT_TRUE(lock.try_enter_as_owner());
  lock.leave_as_owner();
}

// Who asks waits for the answer: one that was lost would hang.
TEST(OwnerLockTest, StressOneAtATimeAndNothingAskedIsLost) {
  const uint64_t seed = test::stress_seed();
  constexpr uint64_t kOthers = 3;
  OwnerLock lock;
  uint64_t entered = 0;  // plain: lost if two are inside
  int inside = 0;
  std::atomic<uint64_t> wanted{0};  // so many wait for an answer
  const test::StressClock clock(0.5);
  std::atomic<uint64_t> running{kOthers};
  std::vector<uint64_t> entries(kOthers + 1);
  const auto visit = [&](uint64_t& mine) {
    EXPECT_EQ(inside++, 0);
    ++entered;
    ++mine;
    EXPECT_EQ(--inside, 0);
  };
  std::vector<std::thread> others;
  for (uint64_t t = 0; t < kOthers; ++t) {
    others.emplace_back([&, t] {
      std::minstd_rand draw(static_cast<uint32_t>(seed + t));
      for (uint64_t turn = 0; clock.running(turn); ++turn) {
        switch (draw() % 3) {
          case 0:
            lock.enter();
            break;
          case 1:
            if (lock.try_enter()) break;
            continue;
          default:
            // relaxed: ask's release passes it on.
            wanted.fetch_add(1, std::memory_order_relaxed);
            lock.ask();
            // relaxed: only that it was answered.
            while (wanted.load(std::memory_order_relaxed) != 0) std::this_thread::yield();
            continue;
        }
        visit(entries[t]);
        lock.leave();
      }
      --running;
    });
  }
  // The owner, until all others are done: what they ask is answered.
  uint64_t answers = 0;
  for (uint64_t turn = 0; running != 0; ++turn) {
    if (lock.take_asked()) {
      wanted.store(0, std::memory_order_relaxed);  // of one who is about to ask, too
      ++answers;
    }
    if (turn % 4 == 0 ? lock.try_enter_though_asked() : lock.try_enter_as_owner()) {
      visit(entries[kOthers]);
      lock.leave_as_owner();
    } else {
      std::this_thread::yield();
    }
  }
  for (auto& other : others) other.join();
  uint64_t all = 0;
  for (const uint64_t each : entries) all += each;
  EXPECT_EQ(all, entered);
  EXPECT_GT(entries[kOthers], 0U);
  EXPECT_GT(answers, 0U);
}

}  // namespace
}  // namespace weft::base
