// Thread slots, counters and clocks.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/stress.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/counters.hpp"
#include "weft/base/parker.hpp"
#include "weft/base/thread_counters.hpp"
#include "weft/base/thread_slot.hpp"

namespace weft::base {
namespace {

/// Threads with small stacks that all live at once, each running `body`, until all have run it.
template <class Body>
void at_once(unsigned count, Body body) {
  struct Shared {
    Body body;
    std::latch ran;
  } shared{body, std::latch(count)};
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 256 << 10);
  std::vector<pthread_t> threads(count);
  for (pthread_t& thread : threads) {
    const int answer = pthread_create(
        &thread, &small,
        [](void* argument) -> void* {
          auto& all = *static_cast<Shared*>(argument);
          all.body();
          all.ran.arrive_and_wait();
          return nullptr;
        },
        &shared);
    ASSERT_EQ(answer, 0);
  }
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  pthread_attr_destroy(&small);
}

TEST(ThreadSlot, IsDenseDistinctAndReused) {
  const unsigned mine = this_thread_slot();
  EXPECT_EQ(mine, this_thread_slot());
  constexpr unsigned kThreads = 40;
  for (int round = 0; round < 3; ++round) {
    std::mutex mutex;
    std::set<unsigned> slots{mine};
    at_once(kThreads, [&] {
      const unsigned slot = this_thread_slot();
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(slots.insert(slot).second);
    });
    EXPECT_EQ(slots.size(), kThreads + 1);
    EXPECT_LE(*slots.rbegin(), kThreads);
    EXPECT_GE(thread_slots_used(), kThreads + 1);
  }
}

TEST(ThreadSlot, TenThousandShortLivedThreadsUseAHandful) {
  const unsigned used = thread_slots_used();
  for (int i = 0; i < 10'000; ++i) std::thread([] { this_thread_slot(); }).join();
  EXPECT_LE(thread_slots_used(), used + 1);
}

TEST(ThreadSlot, WorksInDestructorsOfThreadLocals) {
  struct Late {
    ~Late() { EXPECT_LT(this_thread_slot(), kThreadSlots); }
  };
  const unsigned used = thread_slots_used();
  for (int i = 0; i < 50; ++i) {
    std::thread([] {
      thread_local Late late;
      (void)late;
      this_thread_slot();
    }).join();
  }
  EXPECT_LE(thread_slots_used(), used + 1);
}

// ThreadSanitizer does not follow a fork of a process with threads, and AddressSanitizer may leave
// the child a lock of its own that one of the other threads held.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST(ThreadSlot, AForkWhileThreadsComeAndGoLeavesNothingLocked) {
  std::atomic<bool> over{false};
  std::vector<std::thread> busy;
  for (int t = 0; t < 4; ++t) {
    busy.emplace_back([&] {
      while (!over.load(std::memory_order_relaxed)) {
        std::thread([] {
          this_thread_slot();
          this_parker();
        }).join();
      }
    });
  }
  const auto fork_once = [] {
    // A thread that has neither slot nor parker yet: its child takes both for the first time.
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);  // a hang ends as a signal
      this_parker().unpark();
      this_parker().park();
      _exit(this_thread_slot() < kThreadSlots ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  };
  for (int i = 0; i < 50; ++i) std::thread(fork_once).join();
  over.store(true, std::memory_order_relaxed);
  for (auto& thread : busy) thread.join();
}
#endif

TEST(ThreadCounters, ThreadsThatEndedStayCounted) {
  auto counters = std::make_unique<ThreadCounters<3>>();
  for (int i = 0; i < 10; ++i) {
    std::thread([&] {
      counters->add(0);
      counters->add(2, 5);
    }).join();
  }
  EXPECT_EQ(counters->read(0), 10U);
  EXPECT_EQ(counters->read(1), 0U);
  EXPECT_EQ(counters->read(2), 50U);
}

TEST(ThreadCounters, CountRightWhenThreadsOutnumberSlots) {
  static ThreadCounters<1> counters;
  constexpr unsigned kThreads = kThreadSlots + 100;
  at_once(kThreads, [] {
    for (int i = 0; i < 100; ++i) counters.add(0);
  });
  EXPECT_EQ(counters.read(0), uint64_t{kThreads} * 100);
  EXPECT_EQ(thread_slots_used(), kThreadSlots);
  // Who shared a number gave none back; who owned one did.
  const unsigned first = this_thread_slot();
  std::thread([&] { EXPECT_LT(this_thread_slot(), first + 2); }).join();
}

TEST(ThreadCounters, ReadersNeverSeeACountFall) {
  const test::StressClock clock(0.5);
  auto counters = std::make_unique<ThreadCounters<1>>();
  CounterCells<1> cells;
  std::atomic<bool> over{false};
  std::vector<std::thread> adders;
  std::atomic<uint64_t> added{0};
  for (int t = 0; t < 4; ++t) {
    adders.emplace_back([&] {
      uint64_t mine = 0;
      for (; !over.load(std::memory_order_relaxed); ++mine) counters->add(0);
      added.fetch_add(mine, std::memory_order_relaxed);
    });
  }
  std::thread owner([&] {
    while (!over.load(std::memory_order_relaxed)) cells.add(0);
  });
  uint64_t last = 0;
  uint64_t last_cell = 0;
  while (clock.running()) {
    const uint64_t now = counters->read(0);
    const uint64_t now_cell = cells.read(0);
    EXPECT_GE(now, last);
    EXPECT_GE(now_cell, last_cell);
    if (testing::Test::HasFailure()) break;
    last = now;
    last_cell = now_cell;
  }
  over.store(true, std::memory_order_relaxed);
  for (auto& adder : adders) adder.join();
  owner.join();
  EXPECT_EQ(counters->read(0), added.load());
}

TEST(Clock, RunsForwardAndTicksAgreeWithIt) {
  const double rate = ticks_per_ns();
  EXPECT_GT(rate, 0.0);
  const uint64_t tick_start = ticks();
  const uint64_t start = now_ns();
  uint64_t last = start;
  while (last - start < 50'000'000) {
    const uint64_t now = now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
  const double by_ticks = static_cast<double>(ticks() - tick_start) / rate;
  // At least what the clock saw, less 1 % for the calibration; more if preempted in between.
  EXPECT_GE(by_ticks, 0.99 * static_cast<double>(last - start));
}

}  // namespace
}  // namespace weft::base
