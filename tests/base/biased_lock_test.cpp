// The biased lock: mutual exclusion while the favour comes and goes.
#include "weft/base/biased_lock.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "stress.hpp"

namespace weft::base {
namespace {

TEST(BiasedLock, FavoursWhoKeepsTakingIt) {
  BiasedLock lock;
  const auto favoured = [&lock] {
    const BiasedLock::Flag flag = lock.enter_as_favoured();
    if (flag != nullptr) BiasedLock::leave_as_favoured(flag);
    return flag != nullptr;
  };
  EXPECT_FALSE(favoured());
  int grants = 0;
  for (int round = 0; round < 12; ++round) {
    for (int i = 0; i < 500'000 && !favoured(); ++i) const BiasedLock::Hold hold(lock);
    grants += favoured();
    std::thread([&] {
      EXPECT_FALSE(favoured());
      const BiasedLock::Hold hold(lock);  // takes the favour away
    }).join();
    EXPECT_FALSE(favoured());
  }
  EXPECT_EQ(grants, 8) << "it is won back a few times, then no more";
}

TEST(BiasedLock, AnotherWaitsForTheFavouredSection) {
  BiasedLock lock;
  for (int i = 0; i < 100; ++i) const BiasedLock::Hold hold(lock);
  const BiasedLock::Flag flag = lock.enter_as_favoured();
  ASSERT_NE(flag, nullptr);
  int seen = 0;
  int written = 0;
  std::thread other([&] {
    const BiasedLock::Hold hold(lock);
    seen = written;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  written = 7;
  BiasedLock::leave_as_favoured(flag);
  other.join();
  EXPECT_EQ(seen, 7);
}

TEST(BiasedLock, TryingNeverWaits) {
  BiasedLock lock;
  for (int i = 0; i < 100; ++i) const BiasedLock::Hold hold(lock);
  const BiasedLock::Flag flag = lock.enter_as_favoured();
  ASSERT_NE(flag, nullptr);
  BiasedLock::Flag other_flag = nullptr;
  std::thread([&] {
    EXPECT_FALSE(lock.try_enter(other_flag));  // takes the favour away, and finds us inside
    EXPECT_FALSE(lock.try_enter(other_flag));
  }).join();
  EXPECT_FALSE(lock.try_enter(other_flag)) << "we are inside ourselves";
  BiasedLock::leave_as_favoured(flag);
  std::thread([&] {
    ASSERT_TRUE(lock.try_enter(other_flag));
    lock.leave(other_flag);
  }).join();
  ASSERT_TRUE(lock.try_enter(other_flag));
  lock.leave(other_flag);
}

/// One thread takes the lock nearly always, others now and then, and threads end and begin.
TEST(BiasedLock, CountsAreExact) {
  const uint64_t seed = test::stress_seed();
  const test::StressClock clock(0.5);
  uint64_t total = 0;
  do {
    BiasedLock lock;
    uint64_t guarded = 0;  // plain: ThreadSanitizer and the sum tell
    uint64_t expected = 0;
    for (int generation = 0; generation < 4; ++generation) {  // the names of the ended are reused
      std::vector<std::thread> threads;
      for (unsigned t = 0; t < 3; ++t) {
        const uint64_t times = t == 0 ? 20000 : 2000;
        expected += times;
        threads.emplace_back([&, t, times] {
          std::minstd_rand random(static_cast<unsigned>(seed) + t);
          for (uint64_t i = 0; i < times; ++i) {
            {
              BiasedLock::Flag flag = nullptr;
              // Now and then by trying, as a device's progress does.
              if (i % 4 == 0) {
                while (!lock.try_enter(flag)) sched_yield();
              }
              const auto count = [&] {
                guarded = guarded + 1;
                BiasedLock::Flag again = nullptr;
                EXPECT_FALSE(lock.try_enter(again)) << "not even by who is inside";
              };
              if (i % 4 == 0) {
                count();
                lock.leave(flag);
              } else {
                const BiasedLock::Hold hold(lock);
                count();
              }
            }
            if (t != 0)
              for (auto n = random() % (random() % 64 == 0 ? 5000 : 30); n > 0; --n)
                asm volatile("");
          }
        });
      }
      for (auto& thread : threads) thread.join();
    }
    ASSERT_EQ(guarded, expected);
    total += guarded;
  } while (clock.running());
  std::printf("%llu sections\n", static_cast<unsigned long long>(total));
}

}  // namespace
}  // namespace weft::base
