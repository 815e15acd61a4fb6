// The lock of a lane: mutual exclusion while the favour comes and goes.
#include "fabric/biased_lock.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "fabric/conformance_ranks.hpp"

namespace weft::fabric {
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

/// One thread takes the lock nearly always, others now and then, and threads end and begin.
TEST(BiasedLock, CountsAreExact) {
  const uint64_t seed = test::stress_seed("CountsAreExact");
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(test::stress_seconds() / 2);
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
              const BiasedLock::Hold hold(lock);
              guarded = guarded + 1;
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
  } while (std::chrono::steady_clock::now() < end);
  std::printf("%llu sections\n", static_cast<unsigned long long>(total));
}

}  // namespace
}  // namespace weft::fabric
