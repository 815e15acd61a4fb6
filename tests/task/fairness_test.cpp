// Nobody who can run is forgotten: programs that end only if somebody else gets a turn meanwhile.
#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "base/stress.hpp"
#include "task/scheduler_impl.hpp"
#include "task/worker_hot.hpp"
#include "weft/base/clock.hpp"
#include "weft/task/channel.hpp"
#include "weft/task/scheduler.hpp"

namespace weft::task {

namespace detail {
/// A theft by asking, step by step.
class WorkerTest {
 public:
  static void ask(Worker& victim, Worker& thief) {
    thief.gift_count_ = Worker::kNoAnswer;
    victim.asker_ = &thief;
    victim.guard_.ask();
  }
  static int given(const Worker& thief) { return thief.gift_count_; }
  /// The stolen task is runnable at home again.
  static void give_back(Worker& thief) {
    if (thief.gift_count_ != 1) return;
    thief.gift_[0]->status = Status::waiting;
    Worker::signal(*thief.gift_[0]);
  }
};
}  // namespace detail

namespace {

Options with_workers(int workers) {
  Options options;
  options.workers = workers;
  return options;
}

void wait_until_all_sleep(Scheduler& scheduler) {
  for (bool all = false; !all;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    all = true;
    for (const auto& worker : scheduler.impl().workers) {
      all = all && worker->mode() == detail::Mode::asleep;
    }
  }
}

// A task that enters its worker's guard all the time, but never waits: what would run next is kept
// from a thief once, then given.
TEST(FairnessTest, OneThatNeverWaitsDoesNotKeepTheOnlyOtherTask) {
  Scheduler scheduler(with_workers(1));
  Scheduler thieves(
      with_workers(1));  // it has nobody to steal from: its worker is the thief by hand
  detail::Worker& victim = *scheduler.impl().workers[0];
  detail::Worker& thief = *thieves.impl().workers[0];
  scheduler.run([&] {
    auto other = spawn([] { wait(); });
    yield();
    signal(other.ref());
    for (const int given : {0, 1}) {
      detail::WorkerTest::ask(victim, thief);
      signal(other.ref());
      EXPECT_EQ(detail::WorkerTest::given(thief), given);
    }
    detail::WorkerTest::give_back(thief);
    other.join();
  });
}

TEST(FairnessTest, TimersComeWhileTasksYield) {
  Scheduler scheduler(with_workers(1));
  scheduler.run([] {
    bool over = false;
    auto sleeper = spawn([&] {
      sleep_for(std::chrono::milliseconds(1));
      over = true;
    });
    auto one = spawn([&] {
      while (!over) yield();
    });
    auto two = spawn([&] {
      while (!over) yield();
    });
    one.join();
    two.join();
    sleeper.join();
  });
}

TEST(FairnessTest, WhoSpawnsAndJoinsAllTheTimeLeavesOthersATurn) {
  Scheduler scheduler(with_workers(1));
  scheduler.run([] {
    bool over = false;
    auto other = spawn([&] { over = true; });
    while (!over) spawn([] {}).join();
    other.join();
  });
}

// The same with children that take their time: counted in joins, whatever these take.
TEST(FairnessTest, WhoJoinsLongChildrenLeavesTurnsToOthersAndTimers) {
  static constexpr int kSoon = 1500;
  Scheduler scheduler(with_workers(1));
  scheduler.run([] {
    const auto joins_until = [](const bool& over) {
      int joins = 0;
      for (; !over && joins < 100'000; ++joins) {
        spawn([] {
          const uint64_t until = base::now_ns() + 50'000;
          while (base::now_ns() < until) {
          }
        }).join();
      }
      return joins;
    };
    bool older_ran = false;
    auto older = spawn([&] { older_ran = true; });
    EXPECT_LT(joins_until(older_ran), kSoon);
    older.join();
    bool awake = false;
    auto sleeper = spawn([&] {
      sleep_for(std::chrono::milliseconds(1));
      awake = true;
    });
    yield();  // it has begun
    EXPECT_LT(joins_until(awake), kSoon);
    sleeper.join();
    bool signalled = false;
    auto waiter = spawn([&] {
      wait();
      signalled = true;
    });
    yield();
    signal(waiter.ref());
    EXPECT_LT(joins_until(signalled), kSoon);
    waiter.join();
  });
}

uint64_t used_by_this_thread_ns() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(used.tv_nsec);
}

struct Recursion {
  uint64_t until_ns = 0;
  unsigned leaves = 0;
  bool over = false;

  void halve(int depth) {
    if (over) return;
    if (depth == 0) {
      for (int i = 0; i < 100; ++i) base::cpu_relax();
      over = ++leaves % 64 == 0 && used_by_this_thread_ns() > until_ns;
      return;
    }
    auto other = spawn([this, depth] { halve(depth - 1); });
    halve(depth - 1);
    other.join();
  }
};

// Each turn that is left in the middle of a recursion costs a stack until it goes on there.
TEST(FairnessTest, TurnsThatARecursionLeavesTakeFewStacks) {
  Scheduler scheduler(with_workers(1));
  const uint64_t start = base::now_ns();
  scheduler.run([] {
    Recursion recursion;
    recursion.until_ns = used_by_this_thread_ns() + 300'000'000;
    recursion.halve(40);
  });
  // Pauses are of the clock's time: the n-th of n milliseconds.
  const double ms = static_cast<double>(base::now_ns() - start) / 1e6;
  EXPECT_LT(static_cast<double>(scheduler.stats().stacks), 24 + 2 * std::sqrt(2 * ms));
}

// Two tasks signal each other and wait, each time the newest that can run: those who can run since
// before them are not left for later than a few dozens of their turns.
TEST(FairnessTest, TwoWhoConverseLeaveTheOlderTheirTurns) {
  static constexpr int kOlder = 100;
  static constexpr int kRounds = 1000;
  Scheduler scheduler(with_workers(1));
  scheduler.run([] {
    int went_on = 0;
    std::vector<Handle<void>> older;
    for (int i = 0; i < kOlder; ++i) {
      older.push_back(spawn([&] {
        wait();
        ++went_on;
      }));
    }
    yield();
    for (auto& each : older) signal(each.ref());
    TaskRef asks;
    int asked = 0;
    int answered = 0;
    auto answers = spawn([&] {
      while (answered < kRounds) {
        while (asked == answered) wait();
        ++answered;
        signal(asks);
      }
    });
    auto asker = spawn([&] {
      asks = this_task();
      while (asked < kRounds) {
        ++asked;
        signal(answers.ref());
        while (answered < asked) wait();
      }
      EXPECT_EQ(went_on, kOlder);
    });
    asker.join();
    answers.join();
    for (auto& each : older) each.join();
  });
}

// Two tasks at one home that sleeps: each computes until the other runs.
TEST(FairnessTest, WhatASleepingHomeGetsIsForOthersToo) {
  for (int round = 0; round < 10; ++round) {
    Scheduler scheduler(with_workers(2));
    wait_until_all_sleep(scheduler);
    std::atomic<int> running{0};
    const auto meet = [&] {
      ++running;
      while (running < 2) base::cpu_relax();
    };
    auto one = scheduler.spawn(meet, {.worker = 0});
    auto two = scheduler.spawn(meet, {.worker = 0});
    one.join();
    two.join();
  }
}

TEST(FairnessTest, WhoSignalsAndComputesDoesNotKeepTheOther) {
  Scheduler scheduler(with_workers(2));
  std::atomic<bool> go{false};
  std::atomic<bool> ran{false};
  auto other = scheduler.spawn(
      [&] {
        wait();
        ran = true;
      },
      {.worker = 0});
  const TaskRef ref = other.ref();
  auto computes = scheduler.spawn(
      [&] {
        while (!go) wait();
        signal(ref);
        while (!ran) base::cpu_relax();
      },
      {.worker = 0});
  wait_until_all_sleep(scheduler);
  go = true;
  signal(computes.ref());
  computes.join();
  other.join();
}

// A thief cannot take a task that runs, though it was signalled; what is behind it, it can.
TEST(FairnessTest, ASignalledTaskThatRunsHidesNothing) {
  Scheduler scheduler(with_workers(2));
  std::atomic<bool> started{false};
  std::atomic<bool> go{false};
  std::atomic<bool> ran{false};
  auto waits = scheduler.spawn(
      [&] {
        while (!go) wait();
        ran = true;
      },
      {.worker = 0});
  wait_until_all_sleep(scheduler);
  auto computes = scheduler.spawn(
      [&] {
        started = true;
        while (!ran) base::cpu_relax();
      },
      {.worker = 0});
  while (!started) std::this_thread::yield();
  signal(computes.ref());
  // Long enough for the idle worker to have visited: without it the test is weaker, not wrong.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  go = true;
  signal(waits.ref());
  computes.join();
  waits.join();
}

// A signal to a stolen task for which one is kept already: what was written before it must be seen
// after the wait that consumes the kept one.
TEST(FairnessTest, ASecondSignalToAStolenTaskCounts) {
  const test::StressClock clock(0.5);
  Scheduler scheduler(with_workers(2));
  for (uint64_t round = 0; clock.running(round); ++round) {
    constexpr long kValues = 20'000;
    SpscChannel<long> channel(16);
    auto sends = scheduler.spawn(
        [&] {
          for (long i = 0; i < kValues; ++i) channel.send(i);
        },
        {.worker = 0});
    auto receives = scheduler.spawn(
        [&] {
          for (long i = 0; i < kValues; ++i) EXPECT_EQ(channel.receive(), i);
        },
        {.worker = 1});
    sends.join();
    receives.join();
  }
}

}  // namespace
}  // namespace weft::task
