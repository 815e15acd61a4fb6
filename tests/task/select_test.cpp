// select: the first of several, once, and nothing lost.
#include "weft/task/select.hpp"

#include <gtest/gtest.h>
#include <time.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "task/workers.hpp"

namespace weft::task {
namespace {

using namespace std::chrono_literals;

class Selects : public test::WithWorkers {};
WEFT_WITH_WORKERS(Selects);

TEST_P(Selects, TheFirstInOrderOfThoseThatCan) {
  Channel<int> a(1);
  SpscChannel<int> b(1);
  Promise<void> promise;
  const auto future = promise.get_future();
  int got = 0;
  const auto once = [&] {
    return select(0, on_receive(a, [&](int value) { got = value; }),
                  on_receive(b, [&](int value) { got = value; }),
                  on_ready(future, [&] { got = -3; }));
  };
  EXPECT_EQ(once(), kTimedOut);
  EXPECT_EQ(got, 0);
  EXPECT_TRUE(b.send(2));
  EXPECT_TRUE(a.send(1));
  promise.set_value();
  EXPECT_EQ(once(), 0);
  EXPECT_EQ(got, 1);
  EXPECT_EQ(once(), 1);
  EXPECT_EQ(got, 2);
  EXPECT_EQ(once(), 2);
  EXPECT_EQ(got, -3);
}

TEST_P(Selects, WaitsForWhatComes) {
  Scheduler scheduler(options());
  const auto waits = [&] {
    Channel<int> numbers(1);
    SpscChannel<std::unique_ptr<int>> pointers(1);
    Channel<int> full(1);
    EXPECT_TRUE(full.send(0));
    for (int round = 0; round < 100; ++round) {
      Promise<int> promise;
      auto future = promise.get_future();
      auto other = scheduler.spawn([&] {
        switch (round % 4) {
          case 0:
            EXPECT_TRUE(numbers.send(round));
            break;
          case 1:
            EXPECT_TRUE(pointers.send(std::make_unique<int>(round)));
            break;
          case 2:
            EXPECT_TRUE(full.receive());
            break;
          default:
            promise.set_value(round);
        }
      });
      int got = -1;
      const int which = select(on_receive(numbers, [&](int value) { got = value; }),
                               on_receive(pointers, [&](std::unique_ptr<int> p) { got = *p; }),
                               on_send(full, round, [&] { got = round; }),
                               on_ready(future, [&] { got = future.get(); }));
      EXPECT_EQ(which, round % 4);
      EXPECT_EQ(got, round);
      other.join();
    }
  };
  waits();
  scheduler.run(waits);
}

TEST_P(Selects, WaitsForTheEndOfATask) {
  Scheduler scheduler(options());
  const auto waits = [&] {
    for (int round = 0; round < 50; ++round) {
      Channel<int> go(1);
      auto task = scheduler.spawn([&] { return go.receive().value(); });
      EXPECT_EQ(select(base::now_ns() + 20'000, on_ended(task, [] { FAIL(); })), kTimedOut);
      EXPECT_TRUE(go.send(round));
      int result = -1;
      EXPECT_EQ(select(on_ended(task, [&] { result = task.join(); })), 0);
      EXPECT_EQ(result, round);
      EXPECT_FALSE(task.joinable());
    }
  };
  waits();
  scheduler.run(waits);
}

TEST_P(Selects, HasADeadline) {
  Scheduler scheduler(options());
  const auto times_out = [] {
    Channel<int> empty(1);
    SpscChannel<int> full(1);
    EXPECT_TRUE(full.send(1));
    Promise<void> promise;
    const auto future = promise.get_future();
    const uint64_t start = base::now_ns();
    EXPECT_EQ(select(deadline_after(1ms), on_receive(empty, [](int) { FAIL(); }),
                     on_send(full, 2, [] { FAIL(); }), on_ready(future, [] { FAIL(); })),
              kTimedOut);
    EXPECT_GE(base::now_ns() - start, 1'000'000U);
    const auto fails = [](int) { FAIL(); };
    EXPECT_EQ(select(1ms, on_receive(empty, fails)), kTimedOut);
    EXPECT_EQ(select(std::chrono::system_clock::now() + 1ms, on_receive(empty, fails)), kTimedOut);
    EXPECT_EQ(select(-1ms, on_receive(empty, fails)), kTimedOut);
    EXPECT_GE(base::now_ns() - start, 3'000'000U);
    sleep_until(std::chrono::steady_clock::now() + 1ms);
    sleep_until(std::chrono::steady_clock::now() - 1h);
    EXPECT_GE(base::now_ns() - start, 4'000'000U);
    EXPECT_EQ(full.receive(), 1);
    EXPECT_FALSE(full.try_receive());
  };
  times_out();
  scheduler.run(times_out);
}

TEST_P(Selects, AClosedChannelIsLeftOutOrTold) {
  Channel<int> closed(1);
  SpscChannel<int> other(1);
  closed.close();
  EXPECT_TRUE(other.send(5));
  const auto fails = [](int) { FAIL(); };
  // Left out.
  EXPECT_EQ(select(on_receive(closed, fails), on_send(closed, 1, [] { FAIL(); }),
                   on_receive(other, [](int value) { EXPECT_EQ(value, 5); })),
            2);
  EXPECT_EQ(select(0, on_receive(closed, fails), on_receive(other, fails)), kTimedOut);
  EXPECT_EQ(select(base::now_ns() + 1000, on_receive(closed, fails), on_receive(other, fails)),
            kTimedOut);
  other.close();
  EXPECT_EQ(select(on_receive(closed, fails), on_receive(other, fails)), kAllClosed);
  // Told.
  EXPECT_EQ(select(on_receive(closed, fails),
                   on_receive(other, [](std::optional<int> value) { EXPECT_FALSE(value); })),
            1);
  EXPECT_EQ(select(on_send(closed, 1, [](bool sent) { EXPECT_FALSE(sent); })), 0);
}

TEST_P(Selects, AChannelThatClosesMeanwhileIsTold) {
  Scheduler scheduler(options());
  for (int round = 0; round < 100; ++round) {
    Channel<int> a(1);
    SpscChannel<int> b(1);
    auto waits = scheduler.spawn([&] {
      return select(on_receive(a, [](int) { FAIL(); }), on_receive(b, [](int) { FAIL(); }));
    });
    auto told = scheduler.spawn([&] {
      return select(on_receive(a, [](std::optional<int> value) { EXPECT_FALSE(value); }));
    });
    a.close();
    b.close();
    EXPECT_EQ(waits.join(), kAllClosed);
    EXPECT_EQ(told.join(), 0);
  }
}

uint64_t processor_ns_of_this_thread() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(used.tv_nsec);
}

// A thread that has nothing to wait for but the other channel, for most of a while, sleeps.
TEST(SelectTest, AThreadSleepsThoughOneChannelHasClosed) {
  const auto waits_beside = [](auto& closes, const auto& case_of) {
    Channel<int> last(1);
    std::thread other([&] {
      std::this_thread::sleep_for(5ms);
      closes.close();
      std::this_thread::sleep_for(150ms);
      EXPECT_TRUE(last.send(7));
    });
    const uint64_t start = base::now_ns();
    const uint64_t used_before = processor_ns_of_this_thread();
    EXPECT_EQ(select(case_of(closes), on_receive(last, [](int value) { EXPECT_EQ(value, 7); })), 1);
    const uint64_t used = processor_ns_of_this_thread() - used_before;
    EXPECT_LT(used, (base::now_ns() - start) / 40);
    other.join();
  };
  const auto receives = [](auto& channel) { return on_receive(channel, [](int) { FAIL(); }); };
  const auto sends = [](auto& channel) { return on_send(channel, 1, [] { FAIL(); }); };
  Channel<int> empty(1);
  waits_beside(empty, receives);
  SpscChannel<int> empty_too(1);
  waits_beside(empty_too, receives);
  Channel<int> full(1);
  EXPECT_TRUE(full.send(0));
  waits_beside(full, sends);
}

TEST_P(Selects, AValueStaysTheCallersUntilItIsSent) {
  Channel<std::unique_ptr<int>> full(1);
  SpscChannel<std::unique_ptr<int>> room(1);
  EXPECT_TRUE(full.send(std::make_unique<int>(0)));
  auto value = std::make_unique<int>(1);
  EXPECT_EQ(select(base::now_ns() + 1000, on_send(full, std::move(value), [] { FAIL(); })),
            kTimedOut);
  ASSERT_TRUE(value);
  // One value, two channels: it goes where there is room.
  EXPECT_EQ(select(on_send(full, std::move(value), [] { FAIL(); }),
                   on_send(room, std::move(value), [] {})),
            1);
  EXPECT_FALSE(value);
  EXPECT_EQ(**room.receive(), 1);
}

TEST_P(Selects, WhatAFunctionThrowsIsThrown) {
  Channel<int> channel(1);
  EXPECT_TRUE(channel.send(1));
  EXPECT_THROW(select(on_receive(channel, [](int) { throw std::runtime_error("no luck"); })),
               std::runtime_error);
  EXPECT_FALSE(channel.try_receive());
}

TEST_P(Selects, MayNameAChannelTwice) {
  Scheduler scheduler(options());
  Channel<int> channel(1);
  auto one = scheduler.spawn([&] {
    int got = 0;
    for (int i = 0; i < 100; ++i) {
      select(on_receive(channel, [&](int) { ++got; }), on_receive(channel, [&](int) { ++got; }));
    }
    return got;
  });
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(channel.send(i));
  EXPECT_EQ(one.join(), 100);
}

TEST_P(Selects, MayNameAChannelOfTwoEndsTwice) {
  Scheduler scheduler(options());
  SpscChannel<int> numbers(1);
  SpscChannel<int> stop(1);
  auto receives = scheduler.spawn([&] {
    int got = 0;
    const auto count = [&](int) { ++got; };
    while (select(on_receive(numbers, count), on_receive(stop, [](int) { FAIL(); }),
                  on_receive(numbers, count)) >= 0) {
    }
    return got;
  });
  auto sends = scheduler.spawn([&] {
    for (int i = 0; i < 100; ++i) {
      select(on_send(numbers, i, [] {}), on_send(numbers, -i, [] {}));
      if (i % 10 == 0) sleep_for(10us);
    }
  });
  sends.join();
  numbers.close();
  stop.close();
  EXPECT_EQ(receives.join(), 100);
}

// Each of those who select was told of some channel and takes from another: whatever it was told
// of, the next gets. A wake-up that is lost is a hang.
TEST_P(Selects, WhatOneWasToldOfAndDidNotTakeAnotherGets) {
  Scheduler scheduler(options());
  constexpr int kTasks = 6;
  constexpr int kValues = 600;
  std::array<Channel<int>, 3> channels{Channel<int>(1), Channel<int>(1), Channel<int>(1)};
  std::atomic<int> received{0};
  std::atomic<long> sum{0};
  std::vector<Handle<void>> tasks;
  for (std::size_t t = 0; t < kTasks; ++t) {
    tasks.push_back(scheduler.spawn([&, t] {
      const auto take = [&](int value) {
        sum += value;
        ++received;
      };
      while (select(on_receive(channels[t % 3], take), on_receive(channels[(t + 1) % 3], take)) >=
             0) {
      }
    }));
  }
  for (int i = 1; i <= kValues; ++i) EXPECT_TRUE(channels[static_cast<std::size_t>(i) % 3].send(i));
  for (auto& channel : channels) channel.close();
  for (auto& task : tasks) task.join();
  EXPECT_EQ(received, kValues);
  EXPECT_EQ(sum, long{kValues} * (kValues + 1) / 2);
}

/// What another room would tell of, for who asks and leaves.
class NeverReady final : public base::Awaited {
 public:
  bool ready() noexcept override { return false; }
  bool enroll(base::Parker& parker) noexcept override {
    waits_ = &parker;
    return true;
  }
  void withdraw() noexcept override { waits_ = nullptr; }
  [[nodiscard]] bool is_awaited() const { return waits_ != nullptr; }

 private:
  base::Parker* waits_ = nullptr;
};

TEST(SelectTest, WhoOnlyLooksLeavesWhoeverWaitsElsewhere) {
  NeverReady never;
  EXPECT_TRUE(never.enroll(base::this_parker()));
  EXPECT_EQ(select(0, on_ready(never, [] { FAIL(); })), kTimedOut);
  EXPECT_TRUE(never.is_awaited());
  auto again = on_ready(never, [] { FAIL(); });
  EXPECT_EQ(select(1ms, again), kTimedOut);
  EXPECT_FALSE(never.is_awaited());
  EXPECT_TRUE(never.enroll(base::this_parker()));
  EXPECT_EQ(select(0, again), kTimedOut);
  EXPECT_TRUE(never.is_awaited());
}

TEST_P(Selects, ACaseMayBeUsedAgain) {
  Channel<int> numbers(1);
  std::vector<std::optional<int>> got;
  auto next = on_receive(numbers, [&](std::optional<int> number) { got.push_back(number); });
  EXPECT_TRUE(numbers.send(5));
  EXPECT_EQ(select(next), 0);
  numbers.close();
  EXPECT_EQ(select(next), 0);
  EXPECT_EQ(select(next), 0);
  EXPECT_EQ(got, (std::vector<std::optional<int>>{5, std::nullopt, std::nullopt}));
}

}  // namespace
}  // namespace weft::task
