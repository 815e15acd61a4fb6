// Groups: several children, one wait.
#include "weft/task/group.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>

#include "base/stress.hpp"
#include "task/workers.hpp"
#include "weft/task/task_local.hpp"

namespace weft::task {
namespace {

class Groups : public test::WithWorkers {};
WEFT_WITH_WORKERS(Groups);

TEST_P(Groups, WaitForAllChildren) {
  Scheduler scheduler(options());
  scheduler.run([] {
    std::atomic<int> ended{0};
    Group group;
    group.wait();  // of none
    for (int round = 1; round <= 3; ++round) {
      for (int i = 0; i < 200; ++i) {
        group.spawn([&ended, i] {
          if (i % 3 == 0) yield();
          ++ended;
        });
      }
      group.wait();
      EXPECT_EQ(ended, 200 * round);
    }
  });
}

TEST_P(Groups, ChildrenMayBeAnywhere) {
  Scheduler scheduler(options());
  scheduler.run([&] {
    std::atomic<int> sum{0};
    Group group;
    for (int worker = 0; worker < scheduler.workers(); ++worker) {
      group.spawn([&sum, worker] { sum += worker; }, {.name = "child", .worker = worker});
    }
    group.wait();
    EXPECT_EQ(sum, scheduler.workers() * (scheduler.workers() - 1) / 2);
    EXPECT_THROW(group.spawn([] {}, {.worker = scheduler.workers()}), Error);
    group.wait();  // that child never was
  });
}

TEST_P(Groups, ChildrenSpawnChildren) {
  Scheduler scheduler(options());
  scheduler.run([] {
    std::atomic<int> leaves{0};
    Group group;
    auto split = [&](auto& self, int depth) -> void {
      if (depth == 0) {
        ++leaves;
        return;
      }
      for (int i = 0; i < 2; ++i) group.spawn([&self, depth] { self(self, depth - 1); });
    };
    split(split, 8);
    group.wait();
    EXPECT_EQ(leaves, 256);
  });
}

TEST_P(Groups, TheFirstExceptionComesToWait) {
  Scheduler scheduler(options());
  scheduler.run([] {
    std::atomic<int> ended{0};
    Group group;
    for (int i = 0; i < 50; ++i) {
      group.spawn([&ended, i] {
        ++ended;
        if (i % 10 == 9) throw std::runtime_error("no luck");
      });
    }
    EXPECT_THROW(group.wait(), std::runtime_error);
    EXPECT_EQ(ended, 50);  // all the same
    group.spawn([&ended] { ++ended; });
    group.wait();  // it was told
    EXPECT_EQ(ended, 51);
  });
}

TEST_P(Groups, TheirEndWaitsAndReportsWhatNobodyHeard) {
  Scheduler scheduler(options());
  std::atomic<bool> ended{false};
  testing::internal::CaptureStderr();
  scheduler.run([&] {
    Group group;
    group.spawn([&] {
      yield();
      ended = true;
      throw std::runtime_error("unheard");
    });
  });
  EXPECT_TRUE(ended);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("unheard"), std::string::npos);
}

// What a child holds is gone when the wait is over.
TEST_P(Groups, FunctionsAreDestroyedBeforeTheWaitEnds) {
  Scheduler scheduler(options());
  scheduler.run([] {
    const auto shared = std::make_shared<int>(5);
    std::array<char, 200> large{};
    for (int round = 0; round < 50; ++round) {
      Group group;
      for (int i = 0; i < 8; ++i) {
        group.spawn([shared] { yield(); });
        group.spawn([shared, large] { return *shared + large[0]; });
      }
      group.wait();
      EXPECT_EQ(shared.use_count(), 1);
    }
  });
}

std::atomic<int> values_ended{0};
struct EndsSlowly {
  ~EndsSlowly() {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ++values_ended;
  }
};
TaskLocal<EndsSlowly> ends_slowly;

TEST_P(Groups, LocalValuesAreDestroyedBeforeTheWaitEnds) {
  constexpr int kChildren = 8;
  values_ended = 0;
  Scheduler scheduler(options());
  Group group(scheduler);
  for (int i = 0; i < kChildren; ++i) group.spawn([] { (void)ends_slowly.get(); });
  group.wait();
  EXPECT_EQ(values_ended, kChildren);
}

TEST_P(Groups, OfPlainThreads) {
  Scheduler scheduler(options());
  std::atomic<int> ended{0};
  Group group(scheduler);
  for (int i = 0; i < 100; ++i) group.spawn([&ended] { ++ended; });
  group.wait();
  EXPECT_EQ(ended, 100);
  EXPECT_THROW(Group().spawn([] {}), Error);  // of which scheduler?
}

// The last child and the waiter's end race for the group itself.
TEST_P(Groups, MayBeGoneAsSoonAsTheWaitIsOver) {
  const uint64_t seed = test::stress_seed();
  Scheduler scheduler(options());
  const test::StressClock clock(0.1);
  std::mt19937_64 random(seed);
  for (uint64_t round = 0; clock.running(round); ++round) {
    const auto children = random() % 4;
    const auto once = [children] {
      std::atomic<uint64_t> ended{0};
      auto group = std::make_unique<Group>();
      for (uint64_t i = 0; i < children; ++i) {
        group->spawn([&ended] { ended.fetch_add(1, std::memory_order_relaxed); });
      }
      group->wait();
      group.reset();
      return ended.load(std::memory_order_relaxed);
    };
    EXPECT_EQ(scheduler.run(once), children);
    std::atomic<uint64_t> ended{0};
    {
      Group of_thread(scheduler);
      for (uint64_t i = 0; i < children; ++i) of_thread.spawn([&ended] { ++ended; });
      of_thread.wait();
    }
    EXPECT_EQ(ended, children);
  }
}

}  // namespace
}  // namespace weft::task
