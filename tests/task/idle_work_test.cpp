// Where idle workers sleep: of those that are refused because somebody sleeps on the idle work, one
// comes when that one leaves, whoever it was.
#include "weft/base/idle_work.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <thread>
#include <utility>

#include "base/stress.hpp"
#include "task/scheduler_impl.hpp"
#include "task/worker.hpp"
#include "task/workers.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/locks.hpp"

namespace weft::task {
namespace {

using std::chrono::milliseconds;

/// Idle work of which there is nothing to do but to sleep on it.
class Bed final : public base::IdleWork {
 public:
  Bed() { EXPECT_TRUE(base::add_idle_work(*this)); }
  ~Bed() { base::remove_idle_work(*this); }
  Bed(const Bed&) = delete;
  Bed& operator=(const Bed&) = delete;

  uint32_t poll(Poller /*poller*/) noexcept override { return 0; }
  bool try_sleep(base::Awaited& awaited, uint64_t deadline_ns) noexcept override {
    if (is_wanted_ || taken_.exchange(true)) {
      if (leaves_at_refusal_.exchange(false)) leave();
      return false;
    }
    base::Parker& own = base::this_parker();
    set_sleeper(&own);
    if (awaited.enroll(own)) {
      slept_.fetch_add(1);
      own.park_until(deadline_ns);
    }
    awaited.withdraw();
    set_sleeper(nullptr);
    leave();
    return true;
  }
  bool wants_sleeper() noexcept override { return !is_wanted_ && !taken_; }
  void interrupt() noexcept override {
    const std::lock_guard hold(lock_);
    if (sleeper_ != nullptr) sleeper_->unpark();
  }

  /// A thread's, which does not idle. No worker comes back before it, as on one core it might.
  void take() {
    is_wanted_ = true;
    while (taken_.exchange(true)) {
      interrupt();
      std::this_thread::yield();
    }
    is_wanted_ = false;
  }
  void leave() noexcept {
    taken_.store(false);
    base::call_idlers();
  }
  /// Whoever took it leaves at the next refusal, before that is known to who is refused.
  void leave_at_refusal() noexcept { leaves_at_refusal_.store(true); }
  /// How often a worker did.
  [[nodiscard]] uint64_t slept() const { return slept_.load(); }

 private:
  void set_sleeper(base::Parker* sleeper) noexcept {
    const std::lock_guard hold(lock_);
    sleeper_ = sleeper;
  }
  std::atomic<bool> taken_{false};
  std::atomic<bool> is_wanted_{false};  ///< by a thread that waits for it
  std::atomic<bool> leaves_at_refusal_{false};
  std::atomic<uint64_t> slept_{0};
  base::SpinLock lock_;
  base::Parker* sleeper_ = nullptr;
};

/// Where one worker sleeps, after something else has happened on its way there.
class LongWayToBed final : public base::IdleWork {
 public:
  explicit LongWayToBed(std::function<void()> on_the_way) : on_the_way_(std::move(on_the_way)) {
    EXPECT_TRUE(base::add_idle_work(*this));
  }
  ~LongWayToBed() { base::remove_idle_work(*this); }
  LongWayToBed(const LongWayToBed&) = delete;
  LongWayToBed& operator=(const LongWayToBed&) = delete;

  void expect(const detail::Worker& worker) { expected_.store(&worker); }
  uint32_t poll(Poller /*poller*/) noexcept override { return 0; }
  bool try_sleep(base::Awaited& awaited, uint64_t deadline_ns) noexcept override {
    const detail::Worker* here = detail::Worker::current();
    if (!expected_.compare_exchange_strong(here, nullptr)) return false;
    on_the_way_();
    base::Parker& own = base::this_parker();
    if (awaited.enroll(own)) own.park_until(deadline_ns);
    awaited.withdraw();
    return true;
  }
  bool wants_sleeper() noexcept override { return false; }
  void interrupt() noexcept override {}

 private:
  const std::function<void()> on_the_way_;
  std::atomic<const detail::Worker*> expected_{nullptr};
};

/// Returns when one of them does, or never.
void await_worker(const Bed& bed, uint64_t more_than) {
  while (bed.slept() <= more_than) std::this_thread::yield();
}

class IdleWorkers : public test::WithWorkers {};
WEFT_WITH_WORKERS(IdleWorkers);

TEST_P(IdleWorkers, ComeToWhatIsAddedWhileTheySleep) {
  Scheduler scheduler(options());
  std::this_thread::sleep_for(milliseconds(50));
  const Bed bed;
  await_worker(bed, 0);
}

TEST_P(IdleWorkers, FollowAThreadThatLeaves) {
  Bed bed;
  bed.take();
  Scheduler scheduler(options());
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(bed.slept(), 0U);
  bed.leave();
  await_worker(bed, 0);
}

// Who is just refused cannot be called yet.
TEST_P(IdleWorkers, FollowAThreadThatLeavesAsTheyAreRefused) {
  Bed bed;
  bed.take();
  bed.leave_at_refusal();
  Scheduler scheduler(options());
  await_worker(bed, 0);
}

// The only worker that came to sleep there has a task that does not end; the other scheduler's
// sleep.
TEST_P(IdleWorkers, FollowAWorkerOfAnotherScheduler) {
  Scheduler first({.workers = 1});
  Bed bed;
  await_worker(bed, 0);
  Scheduler second(options());
  std::this_thread::sleep_for(milliseconds(50));
  const uint64_t before = bed.slept();
  std::atomic<bool> enough{false};
  auto computes = first.spawn([&] {
    while (!enough.load(std::memory_order_relaxed)) base::cpu_relax();
  });
  await_worker(bed, before);
  enough = true;
  computes.join();
}

// A thread leaves while workers are refused, show that they sleep, and fall asleep.
TEST_P(IdleWorkers, FollowWheneverSomebodyLeaves) {
  std::minstd_rand random(static_cast<unsigned>(test::stress_seed()));
  Bed bed;
  Scheduler scheduler(options());
  const test::StressClock clock(0.1);
  for (uint64_t round = 0; clock.running(round); ++round) {
    bed.take();
    const uint64_t before = bed.slept();
    // What runs here goes to sleep about when the thread leaves.
    if (random() % 2 == 0) scheduler.spawn([] {}).detach();
    for (uint64_t turns = random() % 200'000; turns != 0; --turns) base::cpu_relax();
    bed.leave();
    await_worker(bed, before);
  }
}

// All others sleep when a worker decides where to; until it does, one of them wakes and has work.
TEST(IdleWorkTest, WhatIsOfferedToAWorkerOnItsWayToSleepIsNotLost) {
  std::atomic<bool> go{false};
  std::atomic<bool> has_offered{false};
  std::atomic<bool> taken{false};
  TaskRef works_here;
  std::atomic<bool> waits_here{false};
  LongWayToBed bed([&] {
    go = true;
    signal(works_here);
    while (!has_offered) std::this_thread::yield();
  });
  Scheduler scheduler({.workers = 2});
  const auto& workers = scheduler.impl().workers;
  const auto all_sleep = [&] {
    return std::ranges::all_of(
        workers, [](const auto& each) { return each->mode() == detail::Mode::asleep; });
  };
  auto works = scheduler.spawn(
      [&] {
        works_here = this_task();
        waits_here = true;
        while (!go) wait();
        auto child = spawn([&] { taken = true; });
        has_offered = true;
        const uint64_t long_after = base::now_ns() + 20'000'000'000;
        while (!taken && base::now_ns() < long_after) base::cpu_relax();
        EXPECT_TRUE(taken);
        child.join();
      },
      {.worker = 0});
  while (!waits_here || !all_sleep()) std::this_thread::sleep_for(milliseconds(1));
  bed.expect(*workers[1]);
  scheduler.spawn_detached([] {}, {.worker = 1});
  works.join();
}

}  // namespace
}  // namespace weft::task
