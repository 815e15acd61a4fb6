// What dumps tell: which tasks there are, and where they wait.
#include "weft/task/introspect.hpp"

#include <execinfo.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/asleep.hpp"
#include "base/captured_stderr.hpp"
#include "base/stress.hpp"
#include "task/configured.hpp"
#include "task/context.hpp"
#include "task/scheduler_impl.hpp"
#include "task/switch.hpp"
#include "task/worker.hpp"
#include "task/workers.hpp"
#include "weft/task/blocking.hpp"
#include "weft/task/group.hpp"

namespace weft::task {
namespace {

constexpr bool kFramesAreKnown = WEFT_OWN_SWITCH != 0;

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// A task waits here until it may go.
class Gate {
 public:
  [[gnu::noinline]] void wait_at_gate() {
    while (!open_) wait();
    asm volatile("");  // not the last call: the frame stays
  }
  void open(const TaskRef& task) {
    open_ = true;
    signal(task);
  }
  void close() { open_ = false; }

 private:
  std::atomic<bool> open_{false};
};

/// Dumps until it says that.
std::string dump_with(const Scheduler& scheduler, std::string_view part) {
  for (;;) {
    std::string text = scheduler.dump();
    if (has(text, part)) return text;
    std::this_thread::yield();
  }
}

class Dumps : public test::WithWorkers {};
WEFT_WITH_WORKERS(Dumps);

TEST_P(Dumps, SayWhereTasksWait) {
  Scheduler scheduler(options());
  Gate gate;
  auto task = scheduler.spawn([&] { gate.wait_at_gate(); }, {.name = "visitor"});
  const std::string text = dump_with(scheduler, "'visitor': waits");
  EXPECT_TRUE(has(text, "1 tasks: waits: 1")) << text;
  if (kFramesAreKnown) {
    EXPECT_TRUE(has(text, "wait_at_gate")) << text;
    EXPECT_FALSE(has(text, "run_boxed")) << text;
    EXPECT_FALSE(has(text, "Worker::")) << text;
  }
  gate.open(task.ref());
  task.join();
  EXPECT_EQ(scheduler.dump(), "0 tasks\n");
}

TEST_P(Dumps, SayWhoRunsAndWhoHasNotStarted) {
  Scheduler scheduler(options());
  scheduler.run(
      [&] {
        // Spawned here, and nobody but the caller may start it.
        Handle<void> later;
        std::string text;
        do {
          if (later.joinable()) later.join();
          later = spawn([] {}, {.name = "later"});
          text = scheduler.dump();
        } while (!has(text, "'later': not started"));
        EXPECT_TRUE(has(text, "'teller': runs")) << text;
      },
      {.name = "teller"});
}

TEST_P(Dumps, CutLongNames) {
  Scheduler scheduler(options());
  Gate gate;
  const std::string name(60, 'n');
  auto task = scheduler.spawn([&] { gate.wait_at_gate(); }, {.name = name.c_str()});
  EXPECT_TRUE(has(dump_with(scheduler, "': waits"), "'" + name.substr(0, 48) + "...'"));
  gate.open(task.ref());
  task.join();
}

// The child waits on the stack of who joins it.
TEST_P(Dumps, SayWhoWaitsBelowAChild) {
  Scheduler scheduler(options());
  Gate gate;
  std::atomic<bool> taken{false};
  TaskRef child_ref;
  auto parent = scheduler.spawn(
      [&] {
        auto child = spawn(
            [&] {
              child_ref = this_task();
              taken = true;
              gate.wait_at_gate();
            },
            {.name = "child"});
        child.join();
      },
      {.name = "parent"});
  dump_with(scheduler, "'child': waits");
  // Run in place, or stolen before that.
  for (std::string text; !has(text, "'parent': waits");) text = scheduler.dump();
  EXPECT_TRUE(taken);
  gate.open(child_ref);
  parent.join();
}

TEST_P(Dumps, CountWhatTheyDoNotList) {
  Scheduler scheduler(options());
  constexpr int kTasks = 1500;
  std::atomic<int> come{0};
  Gate gate;
  std::vector<Handle<void>> all;
  for (int i = 0; i < kTasks; ++i) {
    all.push_back(scheduler.spawn([&] {
      ++come;
      gate.wait_at_gate();
    }));
  }
  while (come != kTasks) std::this_thread::yield();
  const std::string text = dump_with(scheduler, "1500 tasks: waits: 1500\n");
  EXPECT_TRUE(has(text, "and 500 more")) << text;
  EXPECT_TRUE(has(text, "  1500 wait in ")) << text;
  for (auto& each : all) gate.open(each.ref());
  for (auto& each : all) each.join();
}

// Tasks that come, wait, move and end while they are looked at.
TEST_P(Dumps, MayBeTakenAtAnyTime) {
  Scheduler scheduler(options());
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) {
      scheduler.run(
          [] {
            Group group;
            for (int i = 0; i < 40; ++i) {
              group.spawn(
                  [i] {
                    for (int turn = 0; turn < i % 4; ++turn) yield();
                    if (i % 10 == 0) sleep_for(std::chrono::microseconds(50));
                    if (i % 8 == 0) spawn([] { yield(); }, {.name = "leaf"}).join();
                  },
                  {.name = "branch"});
            }
            group.wait();
          },
          {.name = "root"});
    }
  });
  const test::StressClock clock(0.1);
  for (uint64_t round = 0; clock.running(round); ++round) {
    EXPECT_TRUE(has(scheduler.dump(), " tasks"));
    EXPECT_TRUE(has(dump_all(), "scheduler 1 of 1"));
  }
  stop = true;
  busy.join();
}

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
struct Walk {
  std::vector<void*> frames;
  bool ended = false;
};

/// As perf does: by frame pointers.
[[gnu::noinline]] Walk by_pointers() {
  Walk walk;
  for (auto** frame = static_cast<void**>(__builtin_frame_address(0)); walk.frames.size() < 100;) {
    if (frame == nullptr) {
      walk.ended = true;
      break;
    }
    auto** const next = static_cast<void**>(frame[0]);
    if (frame[1] != nullptr) walk.frames.push_back(frame[1]);
    if (next != nullptr && next <= frame) break;  // no stack grows that way
    frame = next;
  }
  return walk;
}

/// As debuggers do: by what compilers tell of each function.
[[gnu::noinline]] Walk by_tables() {
  Walk walk;
  walk.frames.resize(100);
  walk.frames.resize(static_cast<std::size_t>(::backtrace(walk.frames.data(), 100)));
  walk.ended = walk.frames.size() < 100;
  return walk;
}

TEST_P(Dumps, FramesOfATaskEndWhereItsStackBegins) {
  Scheduler scheduler(options());
  scheduler.run([] {
    // Here, and on a stack that was left and taken up again.
    for (int time = 0; time < 2; ++time) {
      const Walk pointers = by_pointers();
      const Walk tables = by_tables();
      EXPECT_TRUE(pointers.ended);
      EXPECT_TRUE(tables.ended);
      EXPECT_GE(pointers.frames.size(), 2U);
      // The last is in the worker's loop, whichever way: what is behind it was called by nobody.
      EXPECT_EQ(pointers.frames.back(), tables.frames.back());
      yield();
    }
  });
}
#endif

TEST(IntrospectTest, AllSchedulersAreFound) {
  EXPECT_EQ(dump_all(), "weft: no scheduler\n");
  const Scheduler one({.workers = 1});
  {
    const Scheduler two({.workers = 2});
    const std::string text = dump_all();
    EXPECT_TRUE(has(text, "scheduler 1 of 2, 1 workers")) << text;
    EXPECT_TRUE(has(text, "scheduler 2 of 2, 2 workers")) << text;
  }
  EXPECT_TRUE(has(dump_all(), "scheduler 1 of 1, 1 workers"));
}

// While somebody is in the second worker's guard, a dump has seen the first one's tasks and can go
// no further. By the time it is written they have ended.
TEST(IntrospectTest, NamesAreCopiedWhileTheirTasksAreThere) {
  Scheduler scheduler({.workers = 2});
  scheduler.spawn([] {}, {.worker = 1}).join();  // it has records
  char name[] = "still there";
  Gate gate;
  auto task = scheduler.spawn([&] { gate.wait_at_gate(); }, {.name = name, .worker = 0});
  dump_with(scheduler, "'still there': waits");
  std::atomic<bool> is_inside{false};
  std::atomic<bool> leaves{false};
  std::thread holds([&] {
    scheduler.impl().workers[1]->for_each_record([&](const detail::Record& /*record*/) {
      is_inside = true;
      while (!leaves) std::this_thread::yield();
    });
  });
  while (!is_inside) std::this_thread::yield();
  std::string text;
  std::thread dumps([&] { text = scheduler.dump(); });
  // Long enough to come there: without it the test is weaker, not wrong.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  gate.open(task.ref());
  task.join();
  std::ranges::copy("long ended", name);
  leaves = true;
  holds.join();
  dumps.join();
  EXPECT_FALSE(has(text, "long ended")) << text;
}

TEST(IntrospectTest, ASignalBringsTheDump) {
  Scheduler scheduler({.workers = 2});
  Gate gate;
  auto task = scheduler.spawn([&] { gate.wait_at_gate(); }, {.name = "visitor"});
  dump_with(scheduler, "'visitor': waits");
  test::CapturedStderr err;
  dump_on_signal();
  dump_on_signal(SIGUSR1);
  ASSERT_EQ(::kill(::getpid(), SIGUSR2), 0);
  err.wait_for("'visitor': waits", 1);
  ASSERT_EQ(::kill(::getpid(), SIGUSR1), 0);
  err.wait_for("'visitor': waits", 2);
  EXPECT_TRUE(has(err.text(), "weft: scheduler 1 of 1, 2 workers: 1 tasks")) << err.text();
  EXPECT_THROW(dump_on_signal(SIGKILL), Error);
  EXPECT_THROW(dump_on_signal(-3), Error);
  gate.open(task.ref());
  task.join();
  ::signal(SIGUSR1, SIG_DFL);
  ::signal(SIGUSR2, SIG_DFL);
}

TEST(IntrospectTest, TheConfigurationMayNameTheSignal) {
  // In a process whose first scheduler is this one.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto ask = [] {
    const test::Configured by("task.dump_signal", "USR1");
    Scheduler scheduler({.workers = 1});
    auto task = scheduler.spawn([] { wait(); }, {.name = "visitor"});
    dump_with(scheduler, "'visitor': waits");
    {
      test::CapturedStderr err;
      ::kill(::getpid(), SIGUSR1);
      err.wait_for("'visitor': waits");
    }
    signal(task.ref());  // all goes on
    task.join();
    std::_Exit(7);
  };
  EXPECT_EXIT(ask(), testing::ExitedWithCode(7), "");
}

/// The one beside the caller.
pid_t other_thread() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    const auto id = static_cast<pid_t>(std::stoi(entry.path().filename()));
    if (id != test::this_thread_id()) return id;
  }
  return 0;
}

// A child has no thread for it until it asks itself.
TEST(DumpsAfterFork, AChildAsksForItself) {
  if (kThreadSanitized) GTEST_SKIP() << "it starts no thread after a fork";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto ask = [](bool child_asks) {
    dump_on_signal(SIGUSR2);
    // AddressSanitizer's allocator does not outlive a fork while another thread allocates.
    const std::atomic<pid_t> writer = other_thread();
    test::wait_until_asleep(writer);
    const pid_t child = ::fork();
    if (child == 0) {
      int written[2];
      if (::pipe(written) != 0) std::_Exit(1);
      const int out = ::dup(STDERR_FILENO);
      ::dup2(written[1], STDERR_FILENO);
      if (child_asks) dump_on_signal(SIGUSR2);
      ::raise(SIGUSR2);
      pollfd there{written[0], POLLIN, 0};
      if (::poll(&there, 1, 60'000) != 1) std::_Exit(2);
      char text[256];
      const ssize_t bytes = ::read(written[0], text, sizeof text);
      std::_Exit(bytes > 0 && ::write(out, text, static_cast<std::size_t>(bytes)) == bytes ? 5 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    std::_Exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR2 ? 6 : WEXITSTATUS(status));
  };
  EXPECT_EXIT(ask(true), testing::ExitedWithCode(5), "weft: no scheduler");
  EXPECT_EXIT(ask(false), testing::ExitedWithCode(6), "") << "what the signal did before";
}

class Standstill : public test::WithWorkers {};
WEFT_WITH_WORKERS(Standstill);

TEST_P(Standstill, IsReportedOnceAndAgainAfterAMove) {
  const test::Configured soon("task.report_quiet", "20ms");
  test::CapturedStderr err;
  Scheduler scheduler(options());
  Gate gate;
  TaskRef stuck;
  auto task = scheduler.spawn(
      [&] {
        stuck = this_task();
        gate.wait_at_gate();
        gate.close();
        gate.wait_at_gate();
      },
      {.name = "stuck"});
  err.wait_for("nothing can run");
  EXPECT_TRUE(has(err.text(), "'stuck': waits")) << err.text();
  // Longer than what would bring the next, if there were one.
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_EQ(err.count("nothing can run"), 1) << err.text();
  gate.open(stuck);
  err.wait_for("nothing can run", 2);
  gate.open(stuck);
  task.join();
}

TEST_P(Standstill, IsNotWhatWillGoOnByItself) {
  const test::Configured soon("task.report_quiet", "5ms");
  test::CapturedStderr err;
  {
    Scheduler scheduler(options());
    scheduler.run([] {
      sleep_for(std::chrono::milliseconds(30));
      blocking([] { std::this_thread::sleep_for(std::chrono::milliseconds(30)); });
    });
    // No task is alive.
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  EXPECT_EQ(err.text(), "");
}

}  // namespace
}  // namespace weft::task
