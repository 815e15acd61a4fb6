// The thread parker: permit semantics, deadlines, visibility, recycling, no needless system call.
#include "weft/base/parker.hpp"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "base/thread_parker.hpp"
#include "weft/base/clock.hpp"

namespace weft::base {
namespace {

constexpr uint64_t kMillisecond = 1'000'000;

TEST(Parker, APermitGivenBeforeIsTakenWithoutSleeping) {
  ThreadParker parker;
  parker.unpark();
  parker.park();
  EXPECT_FALSE(parker.try_take_permit());
}

TEST(Parker, ManyUnparksLeaveOnePermit) {
  ThreadParker parker;
  for (int i = 0; i < 5; ++i) parker.unpark();
  EXPECT_TRUE(parker.park_until(now_ns() + kMillisecond));
  EXPECT_FALSE(parker.park_until(now_ns() + kMillisecond));
}

TEST(Parker, APassedDeadlineAnswersFalseAndNotBeforeIt) {
  ThreadParker parker;
  EXPECT_FALSE(parker.park_until(0));
  const uint64_t deadline = now_ns() + 5 * kMillisecond;
  EXPECT_FALSE(parker.park_until(deadline));
  EXPECT_GE(now_ns(), deadline);
}

TEST(Parker, APermitBeatsADeadlineThatHasPassed) {
  ThreadParker parker;
  parker.unpark();
  EXPECT_TRUE(parker.park_until(0));
}

TEST(Parker, ATimedOutParkerWorksAgain) {
  ThreadParker parker;
  EXPECT_FALSE(parker.park_until(now_ns() + kMillisecond));
  std::thread other([&] { parker.unpark(); });
  parker.park();
  other.join();
  EXPECT_FALSE(parker.try_take_permit());
}

TEST(Parker, WhatWasWrittenBeforeUnparkIsSeenAfterPark) {
  ThreadParker parker;
  for (int round = 1; round <= 100; ++round) {
    int value = 0;  // plain: ThreadSanitizer sees whether the permit orders it
    std::thread other([&] {
      value = round;
      parker.unpark();
    });
    parker.park();
    EXPECT_EQ(value, round);
    other.join();
  }
}

TEST(Parker, OnePermitCarriesTheWritesOfAllWhoGaveIt) {
  // The second unpark finds a permit already; the park that takes it must see both writes. Relaxed
  // flags fix who comes when and order nothing themselves.
  ThreadParker parker;
  int first_value = 0;
  int second_value = 0;
  std::atomic<bool> first_done{false};
  std::atomic<bool> second_done{false};
  std::thread first([&] {
    first_value = 1;
    parker.unpark();
    first_done.store(true, std::memory_order_relaxed);
  });
  std::thread second([&] {
    while (!first_done.load(std::memory_order_relaxed)) sched_yield();
    second_value = 2;
    parker.unpark();
    second_done.store(true, std::memory_order_relaxed);
  });
  while (!second_done.load(std::memory_order_relaxed)) sched_yield();
  parker.park();
  EXPECT_EQ(first_value, 1);
  EXPECT_EQ(second_value, 2);
  first.join();
  second.join();
}

TEST(Parker, ASignalDoesNotEndTheSleep) {
  struct sigaction handler {};
  struct sigaction before {};
  handler.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &handler, &before), 0);
  std::atomic<bool> may_leave{false};
  ThreadParker parker;
  std::thread sleeper([&] {
    parker.park();
    EXPECT_TRUE(may_leave.load(std::memory_order_relaxed));
  });
  for (int i = 0; i < 20; ++i) {
    pthread_kill(sleeper.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  may_leave.store(true, std::memory_order_relaxed);
  parker.unpark();
  sleeper.join();
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(ThisParker, IsTheThreadsOwnAndStaysTheSame) {
  Parker& mine = this_parker();
  EXPECT_EQ(&mine, &this_parker());
  std::thread([&] { EXPECT_NE(&mine, &this_parker()); }).join();
}

TEST(ThisParker, IsRecycledSoThatShortLivedThreadsCostNothing) {
  std::thread([] { this_parker(); }).join();
  const unsigned made = ParkerPool::made();
  for (int i = 0; i < 500; ++i) std::thread([] { this_parker(); }).join();
  EXPECT_EQ(ParkerPool::made(), made);
}

TEST(ThisParker, ALateUnparkOfAnEndedThreadIsHarmless) {
  Parker* ended = nullptr;
  std::thread([&] { ended = &this_parker(); }).join();
  ended->unpark();  // nobody owns it now
  std::thread([&] {
    EXPECT_EQ(ended, &this_parker());  // its memory lives on in the next thread's
    ended->unpark();                   // from the past: an early return, which callers expect
    this_parker().park();
    EXPECT_FALSE(this_parker().park_until(now_ns() + kMillisecond));
  }).join();
  ended->unpark();
}

TEST(ThisParker, WorksInDestructorsOfThreadLocals) {
  static std::atomic<int> parked{0};
  struct Late {
    ~Late() {
      this_parker().unpark();
      this_parker().park();
      parked.fetch_add(1, std::memory_order_relaxed);
    }
  };
  const unsigned made = ParkerPool::made();
  for (int i = 0; i < 20; ++i) {
    std::thread([] {
      thread_local Late late;
      (void)late;
      this_parker();
    }).join();
  }
  EXPECT_EQ(parked.load(std::memory_order_relaxed), 20);
  EXPECT_LE(ParkerPool::made(), made + 1);
}

/// Stands for a task's parker, which the task layer will provide.
class CountingParker final : public Parker {
 public:
  void park() noexcept override { ++parks; }
  bool park_until(uint64_t) noexcept override { return ++parks > 0; }
  void unpark() noexcept override {}
  int parks = 0;
};
thread_local CountingParker* task_parker = nullptr;

TEST(ThisParker, AProviderDecidesAndMayDecline) {
  Parker& thread_own = this_parker();
  CountingParker task;
  set_parker_provider([]() noexcept -> Parker* { return task_parker; });
  EXPECT_EQ(&this_parker(), &thread_own);
  task_parker = &task;
  EXPECT_EQ(&this_parker(), &task);
  this_parker().park();
  EXPECT_EQ(task.parks, 1);
  task_parker = nullptr;
  set_parker_provider(nullptr);
  EXPECT_EQ(&this_parker(), &thread_own);
}

/// Kills the process at its next futex call.
bool forbid_futex() {
  const auto code = [](int c) { return static_cast<unsigned short>(c); };
  std::array<sock_filter, 4> rules{{
      {code(BPF_LD | BPF_W | BPF_ABS), 0, 0, offsetof(seccomp_data, nr)},
      {code(BPF_JMP | BPF_JEQ | BPF_K), 0, 1, SYS_futex},
      {code(BPF_RET | BPF_K), 0, 0, SECCOMP_RET_KILL_PROCESS},
      {code(BPF_RET | BPF_K), 0, 0, SECCOMP_RET_ALLOW},
  }};
  sock_fprog program{static_cast<unsigned short>(rules.size()), rules.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Runs `body` in a child that dies at a futex call; its wait status, or -1 if the system cannot.
template <class Body>
int status_without_futex(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    if (!forbid_futex()) _exit(99);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 99 ? -1 : status;
}

TEST(Parker, NoSystemCallWhileNobodySleeps) {
  static ThreadParker parker;
  const int quiet = status_without_futex([] {
    for (int i = 0; i < 1000; ++i) {
      parker.unpark();
      parker.unpark();
      parker.park();
    }
  });
  if (quiet == -1) GTEST_SKIP() << "the system allows no seccomp filter";
  EXPECT_EQ(quiet, 0);
  // That the filter bites at all: a park without a permit does call.
  const int sleeping = status_without_futex([] { parker.park_until(1); });
  EXPECT_TRUE(WIFSIGNALED(sleeping)) << sleeping;
}

}  // namespace
}  // namespace weft::base
