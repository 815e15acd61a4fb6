// What happens when tasks do what they should not, or the machine gives no more.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/captured_stderr.hpp"
#include "task/configured.hpp"
#include "task/stack.hpp"
#include "task/switch.hpp"
#include "task/workers.hpp"
#include "weft/base/topology.hpp"
#include "weft/task/barrier.hpp"
#include "weft/task/channel.hpp"
#include "weft/task/condition_variable.hpp"
#include "weft/task/group.hpp"
#include "weft/task/introspect.hpp"
#include "weft/task/latch.hpp"
#include "weft/task/mutex.hpp"
#include "weft/task/semaphore.hpp"

namespace weft::task {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = kThreadSanitized;
#endif

class Trouble : public test::WithWorkers {
 protected:
  // A child by fork alone would lack the threads of schedulers that other tests ended.
  Trouble() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void expect_overflow_by_fault(const char* guards) const;
};
WEFT_WITH_WORKERS(Trouble);

// ---- the program's mistakes --------------------------------------------------------------------

std::atomic<bool> has_end{false};
[[gnu::noinline]] int without_end(int depth) {
  volatile char frame[256];
  frame[0] = static_cast<char>(depth);
  return has_end ? 0 : without_end(depth + 1) + frame[0];
}

void Trouble::expect_overflow_by_fault(const char* guards) const {
  SCOPED_TRACE(guards);
  const auto overflow = [&] {
    const test::Configured by("task.guards", guards);
    Scheduler scheduler(options());
    scheduler.run([] { return without_end(0); }, {.name = "deep"});
  };
  EXPECT_DEATH(overflow(), "task 'deep' \\([0-9]+\\.[0-9]+\\) overflowed its stack of 64 KiB");
  const auto larger = [&] {
    const test::Configured by("task.guards", guards);
    Scheduler scheduler(options());
    scheduler.run(
        [] {
          // Not the first to run, and one that has waited.
          auto child = spawn(
              [] {
                yield();
                return without_end(0);
              },
              {.name = "wide", .stack_bytes = 1 << 20});
          yield();
          return child.join();
        },
        {.name = "parent"});
  };
  EXPECT_DEATH(larger(), "task 'wide' .* overflowed its stack of 1024 KiB");
}

/// A guard that faults, by name; false: this kernel has none of that name.
bool can_guard_by(const char* name) {
  const test::Configured guards("task.guards", name);
  try {
    return configured_guard() != Guard::canary;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Errc::bad_config);
    return false;
  }
}

// The sentence numbers it as dumps do, by its home, though another worker runs it.
TEST_P(Trouble, AStolenTaskThatOverflowsIsNamedByItsHome) {
  if (options().workers < 2) GTEST_SKIP() << "nobody steals";
  const auto overflow = [&] {
    Scheduler scheduler(options());
    scheduler.run([&] {
      std::atomic<bool> is_listed{false};
      const std::thread::id here = std::this_thread::get_id();
      auto stolen = spawn(
          [&] {
            while (!is_listed) std::this_thread::yield();
            if (std::this_thread::get_id() == here) std::_Exit(3);
            return without_end(0);
          },
          {.name = "deep"});
      std::fputs(scheduler.dump().c_str(), stderr);
      is_listed = true;
      for (;;) std::this_thread::yield();
    });
  };
  // Group 2, not 1: GoogleTest compiles it within parentheses of its own, too, and there must be
  // one before.
  EXPECT_DEATH(overflow(), "(task) ([0-9]+\\.[0-9]+) 'deep'.*task 'deep' \\(\\2\\) overflowed");
}

TEST_P(Trouble, AStackThatOverflowsEndsInASentence) {
  for (const char* name : {"automatic", "madvise", "mprotect"}) {
    if (can_guard_by(name)) expect_overflow_by_fault(name);
  }
}

/// Writes over the end of a stack of 64 KiB, but not over what lies beyond it.
[[gnu::noinline]] void use_all_of_stack() {
  // Between its ends there are 60 KiB, less a few lines.
  volatile char frame[(60 << 10) + 64];
  for (volatile char& each : frame) each = 1;
}

// The words at the low ends of stacks are looked at when a task leaves its stack.
TEST_P(Trouble, AStackWithoutAGuardEndsInTheSameSentence) {
  if (kSanitized) GTEST_SKIP() << "frames are larger, or elsewhere";
  const auto overflow = [this](const char* guards, const char* mprotect_guards, bool ends) {
    const test::Configured by("task.guards", guards);
    const test::Configured few("task.mprotect_guards", mprotect_guards);
    Scheduler scheduler(options());
    scheduler.run(
        [ends] {
          use_all_of_stack();
          if (ends) return;
          for (int i = 0; i < 1000; ++i) sleep_for(std::chrono::milliseconds(1));
          std::_Exit(3);  // without a word
        },
        {.name = "just too deep"});
  };
  const char* const sentence =
      "weft: task 'just too deep' \\([0-9]+\\.[0-9]+\\) overflowed its stack of 64 KiB";
  for (const bool ends : {true, false}) {
    EXPECT_DEATH(overflow("canary", "100", ends), sentence) << ends;
    EXPECT_DEATH(overflow("mprotect", "0", ends), sentence) << ends;
  }
}

TEST_P(Trouble, TasksRunWhateverGuardsTheirStacks) {
  for (const char* guards : {"automatic", "mprotect", "canary"}) {
    const test::Configured by("task.guards", guards);
    const test::Configured few("task.mprotect_guards", "20");  // the rest have canaries
    Scheduler scheduler(options());
    std::atomic<int> ended{0};
    scheduler.run([&] {
      Group group;
      for (int i = 0; i < 200; ++i) {
        group.spawn([&] {
          yield();
          sleep_for(std::chrono::microseconds(1));
          ++ended;
        });
      }
      group.wait();
    });
    EXPECT_EQ(ended, 200) << guards;
  }
}

TEST_P(Trouble, OtherFaultsTakeTheirCourse) {
  const auto fault = [this] {
    Scheduler scheduler(options());
    volatile uintptr_t nowhere = 16;
    scheduler.run([&] { *reinterpret_cast<volatile int*>(nowhere) = 1; });
  };
  if (kSanitized) {
    EXPECT_DEATH(fault(), "SEGV");
  } else {
    EXPECT_EXIT(fault(), testing::KilledBySignal(SIGSEGV), "^[^a-z]*$");
  }
}

TEST(TroubleTest, AFaultThatIsSentEndsTheProgramToo) {
  if (kSanitized) GTEST_SKIP() << "the sanitizers have a handler of their own";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto raises = [](bool by_task) {
    Scheduler scheduler({.workers = 1});
    const auto raise_fault = [] { (void)::raise(SIGSEGV); };
    by_task ? scheduler.run(raise_fault) : raise_fault();
    std::_Exit(0);
  };
  EXPECT_EXIT(raises(false), testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(raises(true), testing::KilledBySignal(SIGSEGV), "");
}

TEST_P(Trouble, ArgumentsThatNothingCouldMakeRightEndTheProgram) {
  const auto make_barrier = [](std::ptrdiff_t expected) { const Barrier<> barrier(expected); };
  make_barrier(0);
  make_barrier(Barrier<>::max());
  EXPECT_DEATH(make_barrier(-1), "barrier expects");
  EXPECT_DEATH(make_barrier(Barrier<>::max() + 1), "barrier expects");
  EXPECT_DEATH(Latch(-1), "latch expects");
  EXPECT_DEATH(CountingSemaphore<3>(4), "semaphore has");
  EXPECT_DEATH(CountingSemaphore<3>(0).release(-1), "semaphore has");
  EXPECT_DEATH(CountingSemaphore<3>(0).release(4), "semaphore has");
  const auto arrive_at_two = [](std::ptrdiff_t arrivals) {
    Barrier<> barrier(2);
    (void)barrier.arrive(arrivals);
  };
  arrive_at_two(2);
  for (const std::ptrdiff_t arrivals : {-1, 0, 3})
    EXPECT_DEATH(arrive_at_two(arrivals), "arrive at a barrier than it expects");
  const auto arrive_at_none = [] {
    Barrier<> barrier(1);
    barrier.arrive_and_drop();
    (void)barrier.arrive();
  };
  EXPECT_DEATH(arrive_at_none(), "arrive at a barrier than it expects");
  EXPECT_DEATH(signal(TaskRef()), "signal goes to a task");
}

TEST_P(Trouble, AnExceptionThatLeavesADetachedTaskEndsTheProgram) {
  const auto lose = [this] {
    Scheduler scheduler(options());
    scheduler.spawn_detached([] { throw std::runtime_error("no luck"); }, {.name = "careless"});
  };
  EXPECT_DEATH(lose(), "detached task 'careless': no luck");
  const auto lose_later = [this] {
    Scheduler scheduler(options());
    scheduler
        .spawn(
            [] {
              yield();
              throw std::runtime_error("no luck");
            },
            {.name = "detached later"})
        .detach();
  };
  EXPECT_DEATH(lose_later(), "detached task 'detached later': no luck");
}

TEST_P(Trouble, ASignalToATaskThatHasEndedDoesNothing) {
  Scheduler scheduler(options());
  std::vector<TaskRef> ended;
  for (int i = 0; i < 20; ++i) {
    auto task = scheduler.spawn([] { yield(); });
    ended.push_back(task.ref());
    task.join();
  }
  test::CapturedStderr said;
  for (const TaskRef& task : ended) signal(task);
  scheduler.run([&] {
    for (const TaskRef& task : ended) signal(task);
  });
#ifdef NDEBUG
  EXPECT_EQ(said.text(), "");
#else
  EXPECT_EQ(said.count("a task was signalled that has ended"), 40);  // each time
#endif
  // The records serve again: nobody is woken for good, nobody is lost.
  EXPECT_EQ(scheduler.run([] { return spawn([] { return 5; }).join(); }), 5);
  const Stats stats = scheduler.stats();
  EXPECT_EQ(stats.spawned, stats.ended);
}

// What tasks wait for may outlive their scheduler, and be told.
TEST_P(Trouble, WhatAbandonedTasksWaitForMayBeTold) {
  const test::Configured impatient("task.patience", "50ms");
  testing::internal::CaptureStderr();
  Latch latch(1);
  CountingSemaphore<> permits(0);
  Mutex mutex;
  ConditionVariable condition;
  Channel<int> numbers(1);
  mutex.lock();
  {
    Scheduler scheduler(options());
    scheduler.spawn_detached([&] { latch.wait(); });
    scheduler.spawn_detached([&] { permits.acquire(); });
    scheduler.spawn_detached([&] { mutex.lock(); });
    scheduler.spawn_detached([&] {
      Mutex own;
      std::unique_lock lock(own);
      (void)condition.wait_until(lock, kNoDeadline);
    });
    scheduler.spawn_detached([&] { (void)numbers.receive(); });
    scheduler.run([] {});
  }
  latch.count_down();
  permits.release();
  mutex.unlock();
  condition.notify_all();
  numbers.close();
  EXPECT_NE(testing::internal::GetCapturedStderr().find("5 tasks"), std::string::npos);
}

// As a thread does: an error, not silence.
TEST_P(Trouble, WhoJoinsAnAbandonedTaskFromAnotherSchedulerIsTold) {
  const test::Configured impatient("task.patience", "50ms");
  testing::internal::CaptureStderr();
  Scheduler stays(options());
  auto goes = std::make_unique<Scheduler>(options());
  std::atomic<bool> begun{false};
  auto joins = stays.spawn([&] {
    EXPECT_THROW(goes->run([&] {
      begun = true;
      for (;;) wait();
    }),
                 Error);
  });
  while (!begun) std::this_thread::yield();
  goes.reset();
  joins.join();
  (void)testing::internal::GetCapturedStderr();
}

TEST_P(Trouble, ASchedulerThatEndsBeforeItsTasksSaysWhich) {
  const test::Configured impatient("task.patience", "50ms");
  testing::internal::CaptureStderr();
  {
    Scheduler scheduler(options());
    // They hold nothing from the heap: nobody will ever give it back.
    scheduler.spawn_detached(
        [] {
          for (;;) wait();
        },
        {.name = "forgotten"});
    scheduler.spawn_detached(
        [] {
          spawn(
              [] {
                for (;;) wait();
              },
              {.name = "lost child"})
              .join();
        },
        {.name = "lost parent"});
    scheduler.run([] {});
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("the scheduler ends, but tasks wait for what nobody does: 3 tasks"),
            std::string::npos)
      << said;
  for (const char* name : {"'forgotten': waits", "'lost child': waits", "'lost parent': waits"}) {
    EXPECT_NE(said.find(name), std::string::npos) << said;
  }
}

// ---- crowds ------------------------------------------------------------------------------------

TEST_P(Trouble, ForeignThreadsSpawnAllAtOnce) {
  Scheduler scheduler(options());
  constexpr int kThreads = 8;
  constexpr int kTasks = 300;
  std::atomic<int> ready{0};
  std::atomic<int> ended{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      ++ready;
      while (ready < kThreads) std::this_thread::yield();
      std::vector<Handle<int>> mine;
      for (int i = 0; i < kTasks; ++i) {
        if (i % 3 == 0) {
          scheduler.spawn_detached([&ended] { ++ended; });
        } else {
          mine.push_back(scheduler.spawn([&ended, i] {
            if (i % 5 == 0) yield();
            ++ended;
            return i;
          }));
        }
      }
      int sum = 0;
      for (auto& each : mine) sum += each.join();
      EXPECT_EQ(sum, 30000) << t;
    });
  }
  for (auto& thread : threads) thread.join();
  while (ended != kThreads * kTasks) std::this_thread::yield();
}

TEST(TroubleTest, WorkersMayOutnumberCores) {
  const auto cores = static_cast<int>(base::Topology::machine().cores().size());
  Scheduler scheduler({.workers = 3 * cores + 1});
  EXPECT_EQ(scheduler.workers(), 3 * cores + 1);
  std::atomic<int> ended{0};
  scheduler.run([&] {
    Group group;
    for (int i = 0; i < 500; ++i) {
      group.spawn([&] {
        yield();
        ++ended;
      });
    }
    group.wait();
  });
  EXPECT_EQ(ended, 500);
}

// Somebody must look at the clock, too.
TEST_P(Trouble, SleepersWakeWhileAllWorkersAreBusy) {
  Scheduler scheduler(options());
  scheduler.run([&] {
    std::atomic<bool> woken{false};
    Group group;
    group.spawn([&] {
      sleep_for(std::chrono::milliseconds(1));
      woken = true;
    });
    for (int i = 0; i < 2 * scheduler.workers(); ++i) {
      group.spawn([&] {
        while (!woken) yield();
      });
    }
    group.wait();
  });
}

// ---- fork --------------------------------------------------------------------------------------

/// Its exit status.
int wait_for_child(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

TEST_P(Trouble, AChildProcessOfATaskMayExit) {
  Scheduler scheduler(options());
  auto neighbour = scheduler.spawn([] { sleep_for(std::chrono::milliseconds(1)); });
  EXPECT_EQ(scheduler.run([] {
    yield();
    const pid_t child = ::fork();
    if (child == 0) std::_Exit(7);
    return wait_for_child(child);
  }),
            7);
  neighbour.join();
}

// The workers are not in the child: the end of its scheduler must not wait for them.
TEST_P(Trouble, AChildProcessMayEndItsCopyOfAScheduler) {
  auto scheduler = std::make_unique<Scheduler>(options());
  scheduler->run([] {});
  const pid_t child = ::fork();
  if (child == 0) {
    scheduler.reset();
    std::_Exit(7);
  }
  EXPECT_EQ(wait_for_child(child), 7);
  scheduler->run([] {});
}

TEST_P(Trouble, AChildProcessMakesASchedulerOfItsOwn) {
  if (kThreadSanitized) GTEST_SKIP() << "it starts no thread after a fork";
  Scheduler scheduler(options());
  scheduler.run([] { spawn([] { yield(); }).join(); });
  const pid_t child = ::fork();
  if (child == 0) {
    // Refused, not waited for without end.
    for (const bool waits : {false, true}) {
      try {
        waits ? scheduler.run([] {}) : scheduler.spawn_detached([] {});
        std::_Exit(1);
      } catch (const Error& e) {
        if (e.code() != Errc::not_initialized) std::_Exit(2);
      }
    }
    Scheduler own(options());
    int woken = 0;
    own.run([&] {
      auto sleeper = spawn([&] {
        wait();
        ++woken;
      });
      yield();
      signal(sleeper.ref());
      sleeper.join();
    });
    std::_Exit(woken == 1 ? 7 : 3);
  }
  EXPECT_EQ(wait_for_child(child), 7);
  EXPECT_EQ(scheduler.run([] { return spawn([] { return 4; }).join(); }), 4);
}

// Another thread may be anywhere in a dump, or in the start or end of a scheduler.
TEST(TroubleTest, AChildMakesASchedulerWhateverItsParentDid) {
  if (kSanitized) GTEST_SKIP() << "its own locks may be held at a fork";
  const Scheduler scheduler({.workers = 1});
  std::atomic<bool> enough{false};
  std::thread busy([&] {
    while (!enough) (void)dump_all();
  });
  for (int round = 0; round < 30 && !testing::Test::HasFailure(); ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);  // ends what hangs
      {
        Scheduler own({.workers = 1});
        own.run([] { spawn([] {}).join(); });
      }
      std::_Exit(7);
    }
    EXPECT_EQ(wait_for_child(child), 7);
  }
  enough = true;
  busy.join();
}

// ---- memory ------------------------------------------------------------------------------------

uint64_t address_space_in_use() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

void limit_memory(uint64_t more_bytes) {
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = address_space_in_use() + more_bytes;
  ::setrlimit(RLIMIT_AS, &limit);
}

/// By a task: spawns tasks that wait until there is no memory for more, lets them go on and spawn
/// one each, and sees all of them end. False: nothing was refused, or not as it should be.
bool use_all_memory(std::size_t stack_bytes) {
  constexpr std::size_t kMost = 50'000;  // more than the limit has stacks for
  std::atomic<bool> go{false};
  std::atomic<int> grandchildren{0};
  std::vector<Handle<bool>> all;
  all.reserve(kMost);
  int refused = 0;
  while (all.size() < kMost && refused < 3) {
    try {
      all.push_back(spawn(
          [&] {
            while (!go) wait();
            try {
              spawn_detached([&grandchildren] { ++grandchildren; });
              return true;
            } catch (const Error&) {
              return false;
            }
          },
          {.stack_bytes = stack_bytes}));
    } catch (const Error& e) {
      if (e.code() != Errc::no_memory) return false;
      ++refused;
    }
    if (all.size() % 50 == 0) yield();  // that they start, and keep a stack
  }
  go = true;
  int spawned = 0;
  for (auto& each : all) signal(each.ref());
  for (auto& each : all) spawned += each.join() ? 1 : 0;
  while (grandchildren != spawned) yield();
  return refused == 3 && all.size() > 50;
}

/// In a process of its own. Exits with 0 if all went well.
[[noreturn]] void run_out_of_memory(const Options& options, std::size_t stack_bytes) {
  Scheduler scheduler(options);
  scheduler.run([] { spawn([] { yield(); }).join(); });
  limit_memory(160 << 20);
  const bool good = scheduler.run([&] {
    // The second time with what the first has given back.
    bool both = use_all_memory(stack_bytes);
    spawn([] {}).join();  // that there was none is over
    both &= use_all_memory(stack_bytes);
    return both;
  });
  std::_Exit(good ? 0 : 1);
}

TEST_P(Trouble, SchedulersUseWhatTheLastOneLeft) {
  if (kSanitized) GTEST_SKIP() << "the sanitizers' own memory grows";
  const auto make = [this](int times) {
    for (int i = 0; i < times; ++i) {
      Scheduler scheduler(options());
      scheduler.run([] { spawn([] {}).join(); });
    }
    return address_space_in_use();
  };
  const uint64_t before = make(5);
  EXPECT_LE(make(100), before + (4U << 20));  // 100 chunks of records would be ten megabytes
}

TEST_P(Trouble, ASchedulerWithoutMemoryIsRefused) {
  if (kSanitized) GTEST_SKIP() << "the sanitizers' own memory leaves no room for a limit";
  const auto make = [this] {
    limit_memory(20 << 20);  // room for two threads, none for a map of stacks
    try {
      const Scheduler scheduler(options());
    } catch (const Error& e) {
      std::_Exit(e.code() == Errc::no_memory ? 0 : 1);
    }
    std::_Exit(2);
  };
  EXPECT_EXIT(make(), testing::ExitedWithCode(0), "");
}

// What its workers keep from scheduler to scheduler is there for the next.
TEST(TroubleTest, SchedulersThatAreRefusedEarlyTakeNoMemory) {
  if (kSanitized) GTEST_SKIP() << "the sanitizers' own memory leaves no room for a limit";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto make = [] {
    const test::Configured by("task.dump_signal", "USR2");  // wants a thread, before all workers
    (void)base::Topology::machine();
    limit_memory(1 << 20);
    for (int i = 0; i < 100; ++i) {
      try {
        const Scheduler scheduler({.workers = 1, .two_levels = true});
        std::_Exit(1);
      } catch (const Error& e) {
        if (e.code() != Errc::no_memory) std::_Exit(2);
      } catch (const std::bad_alloc&) {
        std::_Exit(3);  // not even for another one's records
      }
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(make(), testing::ExitedWithCode(0), "");
}

TEST_P(Trouble, MoreTasksThanMemoryAreRefused) {
  if (kSanitized) GTEST_SKIP() << "the sanitizers' own memory leaves no room for a limit";
  EXPECT_EXIT(run_out_of_memory(options(), 0), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(run_out_of_memory(options(), 1 << 20), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace weft::task
