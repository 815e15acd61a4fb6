// Promises and futures between tasks and threads.
#include "weft/task/future.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "task/workers.hpp"

namespace weft::task {
namespace {

using namespace std::chrono_literals;

class Futures : public test::WithWorkers {};
WEFT_WITH_WORKERS(Futures);

TEST_P(Futures, AValueComesFromATaskToAThreadAndBack) {
  Scheduler scheduler(options());
  for (int i = 0; i < 200; ++i) {
    Promise<int> there;
    Promise<std::string> back;
    auto sent = there.get_future();
    auto answer = back.get_future();
    auto task = scheduler.spawn([&] { back.set_value(std::to_string(sent.get())); });
    there.set_value(i);
    EXPECT_EQ(answer.get(), std::to_string(i));
    task.join();
  }
}

TEST_P(Futures, AValueComesFromTaskToTask) {
  Scheduler scheduler(options());
  for (const int other : {0, GetParam() - 1}) {
    scheduler.run([other] {
      for (int i = 0; i < 200; ++i) {
        Promise<std::unique_ptr<int>> promise;
        auto future = promise.get_future();
        auto sets = spawn([&] { promise.set_value(std::make_unique<int>(i)); }, {.worker = other});
        EXPECT_EQ(*future.get(), i);
        EXPECT_FALSE(future.valid());
        sets.join();
      }
    });
  }
}

TEST_P(Futures, NothingCanBePromisedToo) {
  Scheduler scheduler(options());
  scheduler.run([] {
    Promise<void> promise;
    auto future = promise.get_future();
    EXPECT_FALSE(future.ready());
    auto waits = spawn([&] { future.get(); });
    promise.set_value();
    waits.join();
  });
}

TEST_P(Futures, WhoSetsMayComeFirst) {
  Promise<int> promise;
  promise.set_value(5);
  auto future = promise.get_future();
  EXPECT_TRUE(future.ready());
  EXPECT_EQ(future.wait_for(0s), std::future_status::ready);
  EXPECT_EQ(future.get(), 5);
}

TEST_P(Futures, ExceptionsComeToGet) {
  Scheduler scheduler(options());
  Promise<int> promise;
  auto future = promise.get_future();
  auto task = scheduler.spawn([promise = std::move(promise)]() mutable {
    promise.set_exception(std::make_exception_ptr(std::runtime_error("no luck")));
  });
  EXPECT_THROW((void)future.get(), std::runtime_error);
  task.join();
}

TEST_P(Futures, APromiseThatEndsIsBroken) {
  Scheduler scheduler(options());
  Promise<int> promise;
  auto future = promise.get_future();
  scheduler.spawn_detached([promise = std::move(promise)] { yield(); });
  EXPECT_THROW((void)future.get(), BrokenPromise);

  Promise<void> other;
  auto early = other.get_future();
  other = Promise<void>();
  EXPECT_THROW(early.get(), BrokenPromise);
}

TEST_P(Futures, AFutureNeedNotBeTaken) {
  { const Promise<int> unused; }
  Promise<int> promise;
  (void)promise.get_future();
  promise.set_value(1);
}

TEST_P(Futures, WaitingHasDeadlines) {
  Scheduler scheduler(options());
  Promise<int> promise;
  auto future = promise.get_future();
  const auto times_out = [&] {
    const uint64_t start = base::now_ns();
    EXPECT_EQ(future.wait_for(1ms), std::future_status::timeout);
    EXPECT_GE(base::now_ns() - start, 1'000'000U);
    EXPECT_EQ(future.wait_for(-1s), std::future_status::timeout);
    EXPECT_EQ(future.wait_until(std::chrono::steady_clock::now() + 1ms),
              std::future_status::timeout);
    EXPECT_EQ(future.wait_until(0), std::future_status::timeout);
  };
  times_out();
  scheduler.run(times_out);
  auto task = scheduler.spawn(
      [&] { EXPECT_EQ(future.wait_for(std::chrono::hours::max()), std::future_status::ready); });
  promise.set_value(2);
  task.join();
  EXPECT_EQ(future.get(), 2);
}

TEST_P(Futures, ManyMayWaitForOne) {
  Scheduler scheduler(options());
  for (int round = 0; round < 20; ++round) {
    Promise<int> promise;
    const auto future = promise.get_future();
    std::atomic<int> seen{0};
    std::vector<Handle<void>> tasks;
    for (int i = 0; i < 30; ++i) {
      tasks.push_back(scheduler.spawn([&, i] {
        while (i % 3 == 0 &&
               future.wait_for(std::chrono::microseconds(i)) != std::future_status::ready) {
        }
        future.wait();
        ++seen;
      }));
    }
    std::thread thread([&] {
      future.wait();
      ++seen;
    });
    promise.set_value(1);
    for (auto& task : tasks) task.join();
    thread.join();
    EXPECT_EQ(seen, 31);
  }
}

// Whoever has the value may end the promise, though set_value has not returned.
TEST_P(Futures, AllMayEndAsSoonAsTheValueIsThere) {
  Scheduler scheduler(options());
  for (int i = 0; i < 300; ++i) {
    auto promise = std::make_unique<Promise<std::vector<int>>>();
    auto sets = scheduler.spawn([p = promise.get()] { p->set_value(3, 7); });
    {
      auto future = promise->get_future();
      EXPECT_EQ(future.get(), std::vector<int>(3, 7));
    }
    promise.reset();
    sets.join();
  }
}

TEST_P(Futures, AValueThatCannotBeMadeIsNotSet) {
  struct Throws {
    explicit Throws(bool now) {
      if (now) throw 5;
    }
  };
  Promise<Throws> promise;
  auto future = promise.get_future();
  EXPECT_THROW(promise.set_value(true), int);
  EXPECT_FALSE(future.ready());
  promise.set_value(false);
  (void)future.get();
}

TEST(FutureContracts, AreChecked) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Promise<int> promise;
        promise.set_value(1);
        promise.set_value(2);
      },
      "kept once");
  EXPECT_DEATH((void)Future<int>().get(), "has a promise");
}

}  // namespace
}  // namespace weft::task
