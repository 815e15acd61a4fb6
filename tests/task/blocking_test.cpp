// Blocking calls hold up no worker.
#include "weft/task/blocking.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "task/blocking_pool.hpp"
#include "task/configured.hpp"
#include "task/scheduler_impl.hpp"
#include "task/workers.hpp"
#include "weft/task/group.hpp"

namespace weft::task {
namespace {

class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  ~Pipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  [[nodiscard]] char read() const {
    char byte = 0;
    EXPECT_EQ(::read(ends_[0], &byte, 1), 1);
    return byte;
  }
  void write(char byte) const { EXPECT_EQ(::write(ends_[1], &byte, 1), 1); }

 private:
  std::array<int, 2> ends_{};
};

class Blocking : public test::WithWorkers {};
WEFT_WITH_WORKERS(Blocking);

// More readers than workers or helpers; what they read is written by tasks of the same workers.
TEST_P(Blocking, ReadersDoNotStallWriters) {
  const test::Configured few("task.blocking_threads", "3");
  Scheduler scheduler(options());
  scheduler.run([] {
    constexpr std::size_t kPipes = 12;
    std::vector<Pipe> pipes(kPipes);
    std::atomic<int> got{0};
    Group group;
    for (std::size_t i = 0; i < kPipes; ++i) {
      group.spawn([&, i] {
        const char byte = blocking([&] { return pipes[i].read(); });
        EXPECT_EQ(byte, static_cast<char>('a' + i));
        ++got;
      });
    }
    yield();
    for (std::size_t i = 0; i < kPipes; ++i) {
      group.spawn([&, i] { pipes[i].write(static_cast<char>('a' + i)); });
    }
    group.wait();
    EXPECT_EQ(got, static_cast<int>(kPipes));
  });
  EXPECT_LE(scheduler.impl().blocking.threads(), 3U);
  EXPECT_FALSE(scheduler.impl().blocking.is_used());
}

TEST_P(Blocking, BringsResultsAndExceptions) {
  Scheduler scheduler(options());
  scheduler.run([] {
    EXPECT_EQ(*blocking([] { return std::make_unique<int>(7); }), 7);
    int touched = 0;
    blocking([&] { touched = 1; });
    EXPECT_EQ(touched, 1);
    EXPECT_THROW(blocking([] { throw std::runtime_error("no luck"); }), std::runtime_error);
    EXPECT_THROW((void)blocking([]() -> int { throw 5; }), int);
    const auto worker = std::this_thread::get_id();
    EXPECT_NE(blocking([] { return std::this_thread::get_id(); }), worker);
    EXPECT_FALSE(blocking([] { return this_task().valid(); }));
  });
}

TEST_P(Blocking, ManyShortCalls) {
  Scheduler scheduler(options());
  std::atomic<int> done{0};
  scheduler.run([&] {
    Group group;
    for (int task = 0; task < 50; ++task) {
      group.spawn([&] {
        for (int i = 0; i < 20; ++i) blocking([&] { ++done; });
      });
    }
    group.wait();
  });
  EXPECT_EQ(done, 1000);
}

TEST_P(Blocking, TheSchedulersEndWaitsForThem) {
  const test::Configured impatient("task.patience", "1ms");
  const Pipe pipe;
  std::atomic<bool> called{false};
  std::atomic<bool> ended{false};
  std::thread late;
  {
    Scheduler scheduler(options());
    scheduler.spawn_detached([&] {
      blocking([&] {
        called = true;
        (void)pipe.read();
      });
      ended = true;
    });
    while (!called) std::this_thread::yield();
    // Longer than the patience: it must not be taken for a task that waits in vain.
    late = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      pipe.write('x');
    });
  }
  EXPECT_TRUE(ended);
  late.join();
}

TEST(BlockingTest, PlainThreadsJustCall) {
  const auto here = std::this_thread::get_id();
  EXPECT_EQ(blocking([] { return std::this_thread::get_id(); }), here);
}

TEST(BlockingTest, HelpersEndWhenIdleAndComeAgain) {
  const test::Configured soon("task.blocking_idle", "1ms");
  Scheduler scheduler({.workers = 2});
  for (int round = 0; round < 5; ++round) {
    scheduler.run([] { blocking([] {}); });
    while (scheduler.impl().blocking.threads() != 0) std::this_thread::yield();
  }
}

TEST(BlockingTest, HelpersLeaveSignalsToOthers) {
  Scheduler scheduler({.workers = 1});
  scheduler.run([] {
    blocking([] {
      sigset_t blocked;
      ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
      EXPECT_TRUE(::sigismember(&blocked, SIGUSR1));
      EXPECT_TRUE(::sigismember(&blocked, SIGINT));
      EXPECT_FALSE(::sigismember(&blocked, SIGSEGV));
    });
  });
}

// A helper is made by a worker, which is bound to a core; the helper is not.
TEST(BlockingTest, HelpersRunOnAnyCore) {
  const auto cores = [] {
    cpu_set_t set;
    EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
    return CPU_COUNT(&set);
  };
  const int all = cores();
  Scheduler scheduler({.workers = 1});
  scheduler.run([&] { EXPECT_EQ(blocking(cores), all); });
}

}  // namespace
}  // namespace weft::task
