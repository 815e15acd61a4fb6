// Channels as their users see them: both kinds, between tasks, threads, and one and the other.
#include "weft/task/channel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "task/workers.hpp"

namespace weft::task {
namespace {

using namespace std::chrono_literals;

static_assert(sizeof(SpscChannel<int>) == 5 * base::kCacheLine);

class Channels : public test::WithWorkers {};
WEFT_WITH_WORKERS(Channels);

/// Calls `test` with a null pointer to either kind of channel of T.
template <class T, class F>
void with_both(F&& test) {
  test(static_cast<SpscChannel<T>*>(nullptr));
  test(static_cast<Channel<T>*>(nullptr));
}
template <class P>
using ChannelOf = std::remove_pointer_t<P>;

/// Runs `first` and `second` beside each other, in every pairing of tasks and threads.
template <class F>
void in_all_pairings(Scheduler& scheduler, F&& both) {
  for (int kinds = 0; kinds < 4; ++kinds) {
    both([&](int which, std::function<void()> function) -> std::function<void()> {
      if ((kinds >> which & 1) != 0) {
        auto thread = std::make_shared<std::thread>(std::move(function));
        return [thread] { thread->join(); };
      }
      auto task = std::make_shared<Handle<void>>(scheduler.spawn(std::move(function)));
      return [task] { task->join(); };
    });
  }
}

TEST_P(Channels, HaveRoomForSomethingButNotForEverything) {
  with_both<int>([](auto kind) {
    using Ints = ChannelOf<decltype(kind)>;
    EXPECT_THROW(Ints(0), Error);
    EXPECT_THROW(Ints(~std::size_t{0}), Error);
    EXPECT_EQ(Ints(3).capacity(), 3U);
  });
}

TEST_P(Channels, AreFirstInFirstOutAndBounded) {
  with_both<int>([](auto kind) {
    ChannelOf<decltype(kind)> channel(3);
    EXPECT_FALSE(channel.try_receive());
    for (int lap = 0; lap < 5; ++lap) {
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(channel.try_send(lap + i));
      EXPECT_FALSE(channel.try_send(99));
      for (int i = 0; i < 3; ++i) EXPECT_EQ(channel.try_receive(), lap + i);
      EXPECT_FALSE(channel.try_receive());
    }
  });
}

TEST_P(Channels, MoveOnlyWhatTheySend) {
  with_both<std::unique_ptr<int>>([](auto kind) {
    ChannelOf<decltype(kind)> channel(1);
    auto first = std::make_unique<int>(1);
    auto second = std::make_unique<int>(2);
    const auto try_to_send = [&] { return channel.try_send(std::move(second)); };
    const auto send_soon = [&] { return channel.send_for(std::move(second), 10us); };
    const auto send = [&] { return channel.send(std::move(second)); };
    EXPECT_TRUE(channel.try_send(std::move(first)));
    EXPECT_FALSE(try_to_send());
    EXPECT_FALSE(send_soon());
    ASSERT_TRUE(second);
    EXPECT_EQ(**channel.receive(), 1);
    channel.close();
    EXPECT_FALSE(send());
    EXPECT_EQ(*second, 2);
  });
  with_both<std::string>([](auto kind) {
    ChannelOf<decltype(kind)> channel(3);
    const std::string kept(50, 'x');
    EXPECT_TRUE(channel.send(kept));
    EXPECT_TRUE(channel.send("literal"));
    EXPECT_EQ(channel.receive(), kept);
    EXPECT_EQ(channel.receive(), "literal");
  });
}

TEST_P(Channels, EndWithWhatWasNotReceived) {
  with_both<std::shared_ptr<int>>([](auto kind) {
    const auto value = std::make_shared<int>(0);
    {
      ChannelOf<decltype(kind)> channel(4);
      for (int i = 0; i < 4; ++i) EXPECT_TRUE(channel.try_send(value));
      EXPECT_TRUE(channel.try_receive());
      EXPECT_TRUE(channel.try_send(value));
      EXPECT_EQ(value.use_count(), 5);
    }
    EXPECT_EQ(value.use_count(), 1);
  });
}

TEST_P(Channels, CloseOnceOrTwice) {
  with_both<int>([](auto kind) {
    ChannelOf<decltype(kind)> channel(2);
    EXPECT_TRUE(channel.send(1));
    EXPECT_FALSE(channel.is_closed());
    channel.close();
    channel.close();
    EXPECT_TRUE(channel.is_closed());
    EXPECT_FALSE(channel.send(2));
    EXPECT_FALSE(channel.try_send(2));
    EXPECT_EQ(channel.receive(), 1);
    EXPECT_EQ(channel.receive(), std::nullopt);
    EXPECT_EQ(channel.receive_for(1h), std::nullopt);
  });
}

TEST_P(Channels, WaitWhileFullAndWhileEmpty) {
  Scheduler scheduler(options());
  with_both<int>([&](auto kind) {
    for (const std::size_t capacity : {1U, 2U, 7U}) {
      in_all_pairings(scheduler, [&](auto start) {
        constexpr int kValues = 300;
        ChannelOf<decltype(kind)> channel(capacity);
        auto sender = start(0, [&] {
          for (int i = 0; i < kValues; ++i) EXPECT_TRUE(channel.send(i));
          channel.close();
        });
        auto receiver = start(1, [&] {
          int next = 0;
          while (const auto value = channel.receive()) EXPECT_EQ(*value, next++);
          EXPECT_EQ(next, kValues);
        });
        sender();
        receiver();
      });
    }
  });
}

TEST_P(Channels, CloseWakesWhoWaits) {
  Scheduler scheduler(options());
  with_both<int>([&](auto kind) {
    in_all_pairings(scheduler, [&](auto start) {
      ChannelOf<decltype(kind)> empty(1);
      ChannelOf<decltype(kind)> full(1);
      EXPECT_TRUE(full.try_send(1));
      auto receiver = start(0, [&] { EXPECT_FALSE(empty.receive()); });
      auto sender = start(1, [&] { EXPECT_FALSE(full.send(2)); });
      empty.close();
      full.close();
      receiver();
      sender();
      EXPECT_EQ(full.try_receive(), 1);
      EXPECT_FALSE(full.try_receive());
    });
  });
}

TEST_P(Channels, HaveDeadlines) {
  Scheduler scheduler(options());
  with_both<int>([&](auto kind) {
    const auto times_out = [&] {
      ChannelOf<decltype(kind)> channel(1);
      const uint64_t start = base::now_ns();
      EXPECT_FALSE(channel.receive_for(1ms));
      EXPECT_GE(base::now_ns() - start, 1'000'000U);
      EXPECT_TRUE(channel.send_for(1, 1h));
      EXPECT_FALSE(channel.send_until(2, base::now_ns() + 1'000'000));
      EXPECT_GE(base::now_ns() - start, 2'000'000U);
      EXPECT_EQ(channel.receive_until(kNoDeadline), 1);
      EXPECT_FALSE(channel.receive_until(0));
    };
    times_out();
    scheduler.run(times_out);
  });
}

// Whoever has received the last value may end the channel, though send has not returned; so may a
// sender who has found room, and whoever was told of the close.
TEST_P(Channels, MayEndAsSoonAsTheLastCallReturned) {
  Scheduler scheduler(options());
  with_both<int>([&](auto kind) {
    using Ints = ChannelOf<decltype(kind)>;
    for (int round = 0; round < 20; ++round) {
      in_all_pairings(scheduler, [&](auto start) {
        auto channel = std::make_unique<Ints>(1);
        auto other = start(0, [c = channel.get(), round] {
          if (round % 2 == 0) {
            EXPECT_TRUE(c->send(1));
          } else {
            c->close();
          }
        });
        auto owner = start(1, [&] {
          EXPECT_EQ(channel->receive().has_value(), round % 2 == 0);
          channel.reset();
        });
        owner();
        other();
      });
      in_all_pairings(scheduler, [&](auto start) {
        auto channel = std::make_unique<Ints>(1);
        EXPECT_TRUE(channel->send(1));
        auto other = start(0, [c = channel.get()] { EXPECT_EQ(c->receive(), 1); });
        auto owner = start(1, [&] {
          EXPECT_TRUE(channel->send(2));
          channel.reset();
        });
        owner();
        other();
      });
    }
  });
}

TEST_P(Channels, EachValueGoesToOneOfMany) {
  Scheduler scheduler(options());
  Channel<int> channel(4);
  constexpr int kSenders = 5;
  constexpr int kReceivers = 4;
  constexpr int kEach = 200;
  std::vector<std::atomic<int>> seen(kSenders * kEach);
  std::vector<Handle<void>> senders;
  std::vector<Handle<void>> receivers;
  for (int s = 0; s < kSenders; ++s) {
    senders.push_back(scheduler.spawn([&, s] {
      for (int i = 0; i < kEach; ++i) EXPECT_TRUE(channel.send(s * kEach + i));
    }));
  }
  const auto receive = [&] {
    std::vector<int> last(kSenders, -1);
    while (const auto value = channel.receive()) {
      ++seen[static_cast<std::size_t>(*value)];
      int& before = last[static_cast<std::size_t>(*value / kEach)];
      EXPECT_LT(before, *value);  // a sender's values come in order
      before = *value;
    }
  };
  for (int r = 0; r < kReceivers; ++r) receivers.push_back(scheduler.spawn(receive));
  std::thread thread(receive);
  for (auto& sender : senders) sender.join();
  channel.close();
  for (auto& receiver : receivers) receiver.join();
  thread.join();
  for (const auto& count : seen) EXPECT_EQ(count, 1);
}

// Two wait, one leaves at its deadline just when it is told: the other must have the value.
TEST_P(Channels, WhatALateReceiverWasToldAnotherGets) {
  Scheduler scheduler(options());
  for (int round = 0; round < 50; ++round) {
    Channel<int> channel(1);
    std::atomic<int> received{0};
    const uint64_t deadline = base::now_ns() + 50'000;
    auto late = scheduler.spawn([&] {
      if (channel.receive_until(deadline)) ++received;
    });
    auto patient = scheduler.spawn([&] {
      while (channel.receive()) ++received;
    });
    while (base::now_ns() + 2000 < deadline) base::cpu_relax();
    EXPECT_TRUE(channel.send(1));
    while (received == 0) std::this_thread::yield();
    channel.close();
    late.join();
    patient.join();
    EXPECT_EQ(received, 1);
  }
}

}  // namespace
}  // namespace weft::task
