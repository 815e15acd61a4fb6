// Tasks as their users see them, with 1 to 64 workers.
#include "weft/task/task.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "task/workers.hpp"
#include "weft/base/clock.hpp"
#include "weft/task/task_local.hpp"

namespace weft::task {
namespace {

class Tasks : public test::WithWorkers {};
WEFT_WITH_WORKERS(Tasks);

long fib(int n) {
  if (n < 2) return n;
  auto left = spawn([n] { return fib(n - 1); });
  const long right = fib(n - 2);
  return left.join() + right;
}

TEST_P(Tasks, SpawnAndJoinATree) {
  Scheduler scheduler(options());
  EXPECT_EQ(scheduler.run([] { return fib(18); }), 2584);
  const Stats stats = scheduler.stats();
  EXPECT_EQ(stats.spawned, stats.ended);
}

TEST_P(Tasks, ResultsOfAnyKindComeToJoin) {
  Scheduler scheduler(options());
  scheduler.run([] {
    EXPECT_EQ(spawn([] { return std::string(100, 'x'); }).join().size(), 100U);
    EXPECT_EQ(*spawn([] { return std::make_unique<int>(7); }).join(), 7);
    std::array<long, 64> large{};
    large[63] = 5;
    const auto back = spawn([large] { return large; }).join();  // larger than a record's storage
    EXPECT_EQ(back[63], 5);
  });
}

TEST_P(Tasks, ExceptionsComeToJoin) {
  Scheduler scheduler(options());
  auto fails = [] {
    auto child = spawn([]() -> int { throw std::runtime_error("no luck"); });
    yield();
    return child.join();
  };
  EXPECT_THROW((void)scheduler.run(fails), std::runtime_error);
  EXPECT_THROW(scheduler.run([] { throw 5; }), int);
}

// What is caught belongs to the task: it may wait in a handler, and go on in another thread.
TEST_P(Tasks, MayWaitWhileHandlingAnException) {
  Scheduler scheduler(options());
  scheduler.run([] {
    std::vector<Handle<void>> all;
    for (int i = 0; i < 50; ++i) {
      all.push_back(spawn([i] {
        try {
          throw i;
        } catch (int caught) {
          for (int turn = 0; turn < 5; ++turn) yield();
          EXPECT_EQ(caught, i);
          try {
            throw;
          } catch (int again) {
            EXPECT_EQ(again, i);
          }
        }
        EXPECT_EQ(std::uncaught_exceptions(), 0);
      }));
    }
    for (auto& each : all) each.join();
  });
}

// Nor does a child that is run where its parent joins it see what the parent has caught.
TEST_P(Tasks, AreJoinedWhileHandlingAnException) {
  Scheduler scheduler(options());
  scheduler.run([] {
    try {
      throw 7;
    } catch (int caught) {
      const bool has_one = spawn([] { return std::current_exception() != nullptr; }).join();
      EXPECT_FALSE(has_one);
      EXPECT_EQ(caught, 7);
    }
    struct JoinsAtTheEnd {
      ~JoinsAtTheEnd() {
        EXPECT_EQ(std::uncaught_exceptions(), 1);
        EXPECT_EQ(spawn([] { return std::uncaught_exceptions(); }).join(), 0);
      }
    };
    EXPECT_THROW(
        {
          const JoinsAtTheEnd joins;
          throw 8;
        },
        int);
  });
}

TEST_P(Tasks, EveryTaskThatYieldsGetsItsTurn) {
  Scheduler scheduler(options());
  scheduler.run([] {
    std::atomic<int> arrived{0};
    std::vector<Handle<void>> all;
    for (int i = 0; i < 100; ++i) {
      all.push_back(spawn([&] {
        ++arrived;
        while (arrived < 100) yield();
      }));
    }
    for (auto& each : all) each.join();
  });
}

TEST_P(Tasks, ASignalBeforeTheWaitIsKept) {
  Scheduler scheduler(options());
  scheduler.run([] {
    signal(this_task());
    signal(this_task());
    wait();
    EXPECT_FALSE(wait_until(base::now_ns() + 1000)) << "more than one was kept";
  });
}

// Each task waits once, and is signalled once: by its parent before it can have begun, by other
// workers' tasks and plain threads while it begins, on the way to a thief or not.
TEST_P(Tasks, ASignalBeforeTheTaskBeginsIsKept) {
  Scheduler scheduler(options());
  constexpr int kTasks = 2000;
  scheduler.run([] {
    for (const int worker : {0, GetParam() - 1}) {
      std::vector<Handle<void>> all;
      for (int i = 0; i < kTasks; ++i) {
        all.push_back(spawn([] { wait(); }, {.worker = worker}));
        signal(all.back().ref());
        if (i % 2 != 0) continue;
        all.back().join();
        all.pop_back();
      }
      for (auto& each : all) each.join();
    }
  });
  for (int i = 0; i < kTasks; ++i) {
    auto task = scheduler.spawn([] { wait(); });
    signal(task.ref());
    task.join();
  }
  std::atomic<bool> over{false};
  std::atomic<uint64_t> made{0}, signalled{0};
  std::array<std::atomic<const TaskRef*>, 64> mail{};
  std::thread signaller([&] {
    while (!over) {
      for (auto& each : mail) {
        if (const TaskRef* const task = each.exchange(nullptr)) {
          signal(*task);
          ++signalled;
        }
      }
      std::this_thread::yield();
    }
  });
  scheduler.run([&] {
    std::vector<Handle<void>> all;
    std::vector<TaskRef> refs(kTasks);
    for (int i = 0; i < kTasks; ++i) {
      all.push_back(spawn([] { wait(); }));
      refs[static_cast<std::size_t>(i)] = all.back().ref();
      auto& box = mail[static_cast<std::size_t>(i) % mail.size()];
      const TaskRef* empty = nullptr;
      while (!box.compare_exchange_weak(empty, &refs[static_cast<std::size_t>(i)])) {
        empty = nullptr;
        yield();
      }
      ++made;
      if (i % 3 == 0) yield();
    }
    for (auto& each : all) each.join();
  });
  over = true;
  signaller.join();
  EXPECT_EQ(signalled, made);
}

TEST_P(Tasks, SignalAndWaitBetweenTwo) {
  Scheduler scheduler(options());
  for (const int other : {0, GetParam() - 1}) {
    scheduler.run([other] {
      constexpr int kRounds = 2000;
      std::atomic<int> ball{0};
      const TaskRef me = this_task();
      auto player = spawn(
          [&] {
            for (int i = 0; i < kRounds; ++i) {
              while (ball != 1) wait();
              ball = 0;
              signal(me);
            }
          },
          {.name = "player", .worker = other});
      const TaskRef peer = player.ref();
      for (int i = 0; i < kRounds; ++i) {
        ball = 1;
        signal(peer);
        while (ball != 0) wait();
      }
      player.join();
    });
  }
}

TEST_P(Tasks, PlainThreadsSignalAndJoin) {
  Scheduler scheduler(options());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&scheduler] {
      for (int i = 0; i < 200; ++i) {
        std::atomic<bool> go{false};
        auto waits = scheduler.spawn([&] {
          while (!go) wait();
          return 3;
        });
        go = true;
        signal(waits.ref());
        EXPECT_EQ(waits.join(), 3);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_P(Tasks, AreAtHomeWhereTheyWereSpawned) {
  Scheduler scheduler(options());
  for (int worker = 0; worker < scheduler.workers(); ++worker) {
    EXPECT_EQ(scheduler.run([] { return 1; }, {.worker = worker}), 1);
  }
  EXPECT_THROW((void)scheduler.spawn([] {}, {.worker = scheduler.workers()}), Error);
  EXPECT_THROW((void)scheduler.spawn([] {}, {.worker = -2}), Error);
  EXPECT_THROW((void)spawn([] {}), Error);  // not from a plain thread
}

TEST_P(Tasks, DetachedOnesEndBeforeTheScheduler) {
  std::atomic<int> ended{0};
  {
    Scheduler scheduler(options());
    scheduler.spawn_detached([&] {
      for (int i = 0; i < 300; ++i) {
        spawn_detached([&] {
          yield();
          ++ended;
        });
      }
    });
    auto handle = scheduler.spawn([&] { ++ended; });
    handle.detach();
  }
  EXPECT_EQ(ended, 301);
}

// All tasks of some words are signalled while their home has no time to look, so that it takes each
// word whole; one of them computes. The others must not wait for it, wherever it stands in its
// word.
TEST_P(Tasks, AWholeWordIsNotHeldUpByOneThatComputes) {
  if (GetParam() == 1) GTEST_SKIP() << "needs a second worker";
  constexpr int kTasks = 256;  // three whole words at least, wherever they begin
  Scheduler scheduler(options());
  for (int computes = 96; computes < 160; computes += 9) {
    std::atomic<int> waiting{0};
    std::atomic<int> ended{0};
    scheduler.run(
        [&] {
          std::vector<Handle<void>> all;
          for (int i = 0; i < kTasks; ++i) {
            all.push_back(spawn(
                [&, i] {
                  ++waiting;
                  wait();
                  // Not a wait: whichever worker this is is taken until the others have finished.
                  while (i == computes && ended < kTasks - 1) base::cpu_relax();
                  ++ended;
                },
                {.worker = 0}));
          }
          while (waiting < kTasks) yield();
          for (auto& each : all) signal(each.ref());
          for (auto& each : all) each.join();
        },
        {.worker = 0});
    EXPECT_EQ(ended, kTasks);
  }
}

// 64 tasks that were just made; the one that made them computes. They must not wait for it.
TEST_P(Tasks, ChildrenAreNotHeldUpByAParentThatComputes) {
  if (GetParam() == 1) GTEST_SKIP() << "needs a second worker";
  Scheduler scheduler(options());
  std::atomic<int> ended{0};
  scheduler.run(
      [&] {
        std::vector<Handle<void>> all;
        for (int i = 0; i < 64; ++i) {
          all.push_back(spawn([&] {
            yield();  // suspended once, so that stacks are in play
            ++ended;
          }));
        }
        // Not a wait: this worker is taken until the others have finished elsewhere.
        while (ended < 64) base::cpu_relax();
        for (auto& each : all) each.join();
      },
      {.worker = 0});
}

TEST_P(Tasks, SleepAtLeastThatLong) {
  Scheduler scheduler(options());
  scheduler.run([] {
    std::vector<Handle<void>> all;
    for (int i = 0; i < 100; ++i) {
      all.push_back(spawn([i] {
        const uint64_t before = base::now_ns();
        sleep_for(std::chrono::microseconds(100 * (i % 10)));
        EXPECT_GE(base::now_ns() - before, 100'000U * static_cast<unsigned>(i % 10));
      }));
    }
    for (auto& each : all) each.join();
    EXPECT_FALSE(wait_until(base::now_ns() + 1000));
  });
}

struct Counted {
  static inline std::atomic<int> alive{0};
  int value = 0;
  Counted() { ++alive; }
  ~Counted() { --alive; }
};
TaskLocal<Counted> counted;
TaskLocal<std::string> text;

TEST_P(Tasks, HaveValuesOfTheirOwn) {
  {
    Scheduler scheduler(options());
    scheduler.run([] {
      std::vector<Handle<void>> all;
      for (int i = 0; i < 50; ++i) {
        all.push_back(spawn([i] {
          counted->value = i;
          for (int turn = 0; turn < 3; ++turn) yield();
          text->assign("kept");
          EXPECT_EQ(counted->value, i);
          EXPECT_EQ(*text, "kept");
        }));
      }
      for (auto& each : all) each.join();
      EXPECT_EQ(counted->value, 0);
    });
  }
  EXPECT_EQ(Counted::alive, 0);
  std::thread([] { counted->value = 1; }).join();
  EXPECT_EQ(Counted::alive, 0);
}

TEST_P(Tasks, GetTheStackTheyAskFor) {
  Scheduler scheduler(options());
  const auto use = [] {
    volatile char deep[900 << 10];
    deep[0] = 1;
    deep[sizeof deep - 1] = 2;
    return deep[0] + deep[sizeof deep - 1];
  };
  EXPECT_EQ(scheduler.run(use, {.stack_bytes = 1 << 20}), 3);
  EXPECT_EQ(scheduler.run([&] { return spawn(use, {.stack_bytes = 1 << 20}).join(); }), 3);
}

// Deeper than children in place have room for: then a join suspends.
int depth(int levels) {
  volatile char frame[1024];
  frame[0] = 1;
  return levels == 0 ? 0 : spawn([levels] { return depth(levels - 1); }).join() + frame[0];
}
TEST_P(Tasks, JoinsNestDeeperThanAStack) {
  Scheduler scheduler(options());
  EXPECT_EQ(scheduler.run([] { return depth(500); }), 500);
}

TEST_P(Tasks, ManyWaitAtOnce) {
  Scheduler scheduler(options());
  constexpr int kTasks = 3000;  // beyond one level; ThreadSanitizer allows some thousand fibers
  scheduler.run([] {
    std::atomic<bool> go{false};
    std::vector<Handle<void>> all;
    for (int i = 0; i < kTasks; ++i) {
      all.push_back(spawn([&] {
        while (!go) wait();
      }));
    }
    for (int turn = 0; turn < 3; ++turn) yield();
    go = true;
    for (auto& each : all) signal(each.ref());
    for (auto& each : all) each.join();
  });
}

TEST_P(Tasks, BreadthFirstDoesTheSame) {
  Options breadth = options();
  breadth.order = Order::breadth_first;
  Scheduler scheduler(breadth);
  EXPECT_EQ(scheduler.run([] { return fib(15); }), 610);
}

TEST_P(Tasks, TwoLevelsDoTheSame) {
  Options two = options();
  two.two_levels = true;
  Scheduler scheduler(two);
  EXPECT_EQ(scheduler.run([] { return fib(15); }), 610);
}

TEST(SchedulerTest, DepthFirstRunsTheNewestFirstAndBreadthFirstTheOldest) {
  for (const Order order : {Order::depth_first, Order::breadth_first}) {
    Options options;
    options.workers = 1;
    options.order = order;
    Scheduler scheduler(options);
    std::vector<int> ran;
    scheduler.run([&] {
      for (int i = 0; i < 5; ++i) spawn_detached([&ran, i] { ran.push_back(i); });
      while (ran.size() < 5) yield();
    });
    const std::vector<int> up{0, 1, 2, 3, 4};
    const std::vector<int> down{4, 3, 2, 1, 0};
    EXPECT_EQ(ran, order == Order::depth_first ? down : up);
  }
}

// A task that yields on a thief's thread is at home there, if that is asked for: its worker then is
// no longer in the way when it computes.
TEST(SchedulerTest, TasksMoveWhenTheyYieldIfAskedTo) {
  Options options;
  options.workers = 2;
  options.migrate = true;
  Scheduler scheduler(options);
  std::atomic<int> moved{0};
  scheduler.run([&] {
    const int here = this_worker();
    std::vector<Handle<void>> others;
    for (int i = 0; i < 10; ++i) {
      others.push_back(spawn([&] {
        while (this_worker() == here) yield();  // until it is stolen
        for (int turn = 0; turn < 5; ++turn) yield();
        EXPECT_NE(this_worker(), here);  // which has no time for it
        ++moved;
      }));
    }
    while (moved < 10) base::cpu_relax();  // never gives the worker away
    for (auto& other : others) other.join();
  });
}

TEST(SchedulerTest, SeveralSideBySide) {
  Options options;
  options.workers = 2;
  Scheduler one(options);
  Scheduler two(options);
  EXPECT_EQ(one.run([&] { return two.run([] { return fib(12); }); }), 144);
}

TEST(SchedulerTest, RefusesWhatCannotBe) {
  Options options;
  options.workers = 5000;
  EXPECT_THROW(Scheduler{options}, Error);
  options.workers = -1;
  EXPECT_THROW(Scheduler{options}, Error);
}

}  // namespace
}  // namespace weft::task
