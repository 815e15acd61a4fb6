// The biased lock: mutual exclusion while the favour comes and goes.
#include "weft/base/biased_lock.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "stress.hpp"
#include "weft/base/asymmetric_fence.hpp"

namespace weft::base {
namespace {

TEST(BiasedLock, FavoursWhoKeepsTakingIt) {
  BiasedLock lock;
  const auto favoured = [&lock] {
    const BiasedLock::Mark mark = lock.enter_as_favoured();
    if (mark != nullptr) BiasedLock::leave_as_favoured(mark);
    return mark != nullptr;
  };
  EXPECT_FALSE(favoured());
  int first = 0;
  int last = 0;
  for (int round = 0; round < 20; ++round) {
    for (last = 0; !favoured(); ++last) {
      ASSERT_LT(last, 100'000);
      const BiasedLock::Hold hold(lock);
    }
    if (round == 0) first = last;
    std::thread([&] {
      EXPECT_FALSE(favoured());
      const BiasedLock::Hold hold(lock);  // takes the favour away
    }).join();
    EXPECT_FALSE(favoured());
  }
  EXPECT_GT(last, 100 * first) << "it is always won back, but ever later";
}

TEST(BiasedLock, AnotherWaitsForTheFavouredSection) {
  BiasedLock lock;
  for (int i = 0; i < 100; ++i) const BiasedLock::Hold hold(lock);
  const BiasedLock::Mark mark = lock.enter_as_favoured();
  ASSERT_NE(mark, nullptr);
  int seen = 0;
  int written = 0;
  std::thread other([&] {
    const BiasedLock::Hold hold(lock);
    seen = written;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  written = 7;
  BiasedLock::leave_as_favoured(mark);
  other.join();
  EXPECT_EQ(seen, 7);
}

TEST(BiasedLock, TryingNeverWaits) {
  BiasedLock lock;
  for (int i = 0; i < 100; ++i) const BiasedLock::Hold hold(lock);
  const BiasedLock::Mark mark = lock.enter_as_favoured();
  ASSERT_NE(mark, nullptr);
  BiasedLock::Mark other_mark = nullptr;
  std::thread([&] {
    EXPECT_FALSE(lock.try_enter(other_mark));  // takes the favour away, and finds us inside
    EXPECT_FALSE(lock.try_enter(other_mark));
  }).join();
  EXPECT_FALSE(lock.try_enter(other_mark)) << "we are inside ourselves";
  BiasedLock::leave_as_favoured(mark);
  std::thread([&] {
    ASSERT_TRUE(lock.try_enter(other_mark));
    lock.leave(other_mark);
  }).join();
  ASSERT_TRUE(lock.try_enter(other_mark));
  lock.leave(other_mark);
}

/// Many at once, one fence for all: who is inside by favour is waited for, and nobody comes in.
TEST(BiasedLock, ManyAreClosedAtOnce) {
  constexpr int kMany = 40;
  std::array<BiasedLock, kMany> locks;
  for (BiasedLock& lock : locks) {
    for (int i = 0; i < 100; ++i) const BiasedLock::Hold hold(lock);
  }
  std::array<int, 2> guarded{};  // plain
  const BiasedLock::Mark mark = locks[7].enter_as_favoured();
  if (Favour::may_be_callers()) {
    ASSERT_NE(mark, nullptr);
  }
  std::atomic<bool> closing{false};
  std::atomic<bool> closed{false};
  std::atomic<bool> tried{false};
  std::thread other([&] {
    closing = true;
    bool any_favoured = false;
    for (BiasedLock& lock : locks) any_favoured |= lock.begin_closing();
    EXPECT_EQ(any_favoured, Favour::may_be_callers());
    if (any_favoured) heavy_fence();
    for (BiasedLock& lock : locks) lock.finish_closing();
    if (mark != nullptr) {
      EXPECT_EQ(guarded[0], 1) << "the favoured section was not over";
    }
    closed = true;
    while (!tried) std::this_thread::yield();
    guarded[1] = 1;
    for (BiasedLock& lock : locks) lock.reopen();
  });
  while (!closing) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  guarded[0] = 1;
  if (mark != nullptr) BiasedLock::leave_as_favoured(mark);
  while (!closed) std::this_thread::yield();
  for (BiasedLock& lock : locks) {
    BiasedLock::Mark own = nullptr;
    EXPECT_FALSE(lock.try_enter(own)) << "it is closed to who had the favour, too";
  }
  tried = true;
  {
    const BiasedLock::Hold hold(locks[kMany - 1]);
    EXPECT_EQ(guarded[1], 1) << "it was not reopened yet";
  }
  other.join();
  for (BiasedLock& lock : locks) {
    EXPECT_EQ(lock.enter_as_favoured(), nullptr);
    const BiasedLock::Hold hold(lock);
  }
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
              BiasedLock::Mark mark = nullptr;
              // Now and then by trying, as a device's progress does.
              if (i % 4 == 0) {
                while (!lock.try_enter(mark)) sched_yield();
              }
              const auto count = [&] {
                guarded = guarded + 1;
                BiasedLock::Mark again = nullptr;
                EXPECT_FALSE(lock.try_enter(again)) << "not even by who is inside";
              };
              if (i % 4 == 0) {
                count();
                lock.leave(mark);
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
