// Messages left in queues for threads that sleep: when the watch wakes whom, and whole runs in
// which those who take messages come back soon, late, or not at all.
#include "comm/left_queues.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "base/config_override.hpp"
#include "base/stress.hpp"
#include "comm/bounded_queue.hpp"
#include "comm/endpoint_impl.hpp"
#include "comm/ranks.hpp"
#include "comm/waiting.hpp"
#include "weft/base/clock.hpp"
#include "weft/comm/config.hpp"

namespace weft {
namespace {

using comm::LeftQueues;
using comm::QueueEntry;
using comm::WaitNode;
using comm::WaitSet;
using test::on_ranks;
using test::on_threads;

// --- Whom the watch wakes ------------------------------------------------------------------------

/// Counts its wakes.
class CountingParker final : public base::Parker {
 public:
  explicit CountingParker(bool is_task = false) : is_task_(is_task) {}
  void park() noexcept override {}
  bool park_until(uint64_t /*deadline_ns*/) noexcept override { return true; }
  void yield() noexcept override {}
  void unpark() noexcept override { ++wakes; }
  [[nodiscard]] bool may_poll() const noexcept override { return !is_task_; }
  int wakes = 0;

 private:
  const bool is_task_;
};

/// A queue and `kWaiters` that sleep for its messages.
class LeftQueue : public testing::Test {
 protected:
  static constexpr std::size_t kWaiters = 8;
  using Queue = comm::BoundedQueue<QueueEntry>;

  LeftQueue() {
    for (std::size_t i = 0; i < kWaiters; ++i) waiters.enroll(nodes[i], parkers[i]);
  }
  ~LeftQueue() override {
    left.forget(entry);
    for (WaitNode& node : nodes) waiters.withdraw(node);
  }
  void push(int messages) const {
    for (int i = 0; i < messages; ++i)
      ASSERT_TRUE(queue->try_push_with([](QueueEntry& message) { message.tag = Tag{1}; }));
  }
  void take(int messages) const {
    for (int i = 0; i < messages; ++i) ASSERT_TRUE(queue->try_pop_with([](const QueueEntry&) {}));
  }
  [[nodiscard]] int wakes() const {
    int all = 0;
    for (const CountingParker& each : parkers) all += each.wakes;
    return all;
  }

  std::array<CountingParker, kWaiters> parkers;
  std::array<WaitNode, kWaiters> nodes;
  WaitSet waiters;
  std::unique_ptr<Queue> queue = std::make_unique<Queue>(64);
  LeftQueues left;
  LeftQueues::Entry entry{queue, waiters};
};

TEST_F(LeftQueue, IsListedOnce) {
  push(1);
  EXPECT_TRUE(left.empty());
  EXPECT_TRUE(left.leave(entry));
  EXPECT_FALSE(left.empty());
  EXPECT_FALSE(left.leave(entry));
  left.forget(entry);
  EXPECT_TRUE(left.empty());
  EXPECT_TRUE(left.leave(entry));
}

TEST_F(LeftQueue, WhatLiesThereFromLookToLookWakesMoreAndMore) {
  push(20);
  EXPECT_TRUE(left.leave(entry));
  EXPECT_TRUE(left.look());
  EXPECT_EQ(wakes(), 0);  // it may have been left a moment ago
  EXPECT_TRUE(left.look());
  EXPECT_EQ(wakes(), 1);
  EXPECT_EQ(parkers[0].wakes, 1);  // who came first
  EXPECT_TRUE(left.look());
  EXPECT_EQ(wakes(), 3);
  EXPECT_TRUE(left.look());
  EXPECT_EQ(wakes(), 7);
  EXPECT_TRUE(left.look());
  EXPECT_EQ(wakes(), 8);
  EXPECT_FALSE(left.look());  // nobody sleeps any more
  EXPECT_TRUE(left.empty());
}

TEST_F(LeftQueue, WhatIsTakenBetweenLooksWakesNobody) {
  push(10);
  EXPECT_TRUE(left.leave(entry));
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(left.look());
    take(10);
    push(10);
  }
  EXPECT_EQ(wakes(), 0);
  EXPECT_TRUE(left.look());
  take(9);  // and one of them was not
  EXPECT_TRUE(left.look());
  EXPECT_EQ(wakes(), 1);
  take(1);
  push(5);
  EXPECT_TRUE(left.look());
  EXPECT_TRUE(left.look());
  EXPECT_EQ(wakes(), 2);  // it begins with one again
}

TEST_F(LeftQueue, IsForgottenOnceItIsEmpty) {
  push(1);
  EXPECT_TRUE(left.leave(entry));
  take(1);
  EXPECT_FALSE(left.look());
  EXPECT_TRUE(left.empty());
  EXPECT_EQ(wakes(), 0);
  push(1);
  EXPECT_TRUE(left.leave(entry));
}

TEST_F(LeftQueue, WhoGoesWakesOneForEach) {
  WaitSet other_waiters;
  WaitNode node;
  CountingParker parker;
  other_waiters.enroll(node, parker);
  const auto other_queue = std::make_unique<Queue>(64);
  LeftQueues::Entry other(other_queue, other_waiters);
  push(2);
  EXPECT_TRUE(left.leave(entry));
  EXPECT_TRUE(left.leave(other));
  left.wake();
  EXPECT_EQ(wakes(), 1);
  EXPECT_EQ(parker.wakes, 0);  // there is no message
  (void)other_queue->try_push_with([](QueueEntry& message) { message.tag = Tag{1}; });
  left.wake();
  EXPECT_EQ(wakes(), 2);
  EXPECT_EQ(parker.wakes, 1);
  left.forget(entry);  // not the first
  EXPECT_FALSE(left.empty());
  left.forget(other);
  EXPECT_TRUE(left.empty());
}

TEST(WaitSet, TellsTasksFromThreads) {
  WaitSet set;
  EXPECT_FALSE(set.has_threads_only());
  WaitNode thread;
  CountingParker threads;
  set.enroll(thread, threads);
  EXPECT_TRUE(set.has_threads_only());
  WaitNode task;
  CountingParker tasks(true);
  set.enroll(task, tasks);
  EXPECT_FALSE(set.has_threads_only());
  set.withdraw(task);
  EXPECT_TRUE(set.has_threads_only());
  set.enroll(task, tasks);
  EXPECT_EQ(set.pop(), &threads);
  EXPECT_FALSE(set.has_threads_only());
  EXPECT_EQ(set.pop(), &tasks);
  EXPECT_EQ(set.pop(), nullptr);
  EXPECT_FALSE(set.has_threads_only());
  EXPECT_TRUE(set.empty());
}

// --- Threads of two ranks ------------------------------------------------------------------------

/// A process with one core, whatever the machine.
class OneCore {
  const bool registered_ = (register_comm_config(), true);
  const test::ConfigOverride one_{test::ConfigOverride::List{{"comm.cores", "1"}}};
};

class LeftMessages : public testing::TestWithParam<bool> {};

// Each takes a message and does not come back: those who slept are woken all the same, whether
// another thread progresses meanwhile or none does.
TEST_P(LeftMessages, WhoTakesOneAndGoesHoldsNobodyUp) {
  const bool another_serves = GetParam();
  const OneCore one_core;
  on_ranks(2, [another_serves](Runtime& rt) {
    Endpoint ep(rt, {.arrival = Arrival::queue});
    Endpoint notes(rt, {});
    constexpr int kThreads = 8;
    constexpr int kRounds = 100;
    constexpr Tag kAll{0};
    constexpr Tag kEnd{1};
    const Rank other{1 - rt.rank().value};
    for (int round = 0; round < kRounds; ++round) {
      if (rt.rank() == Rank{1}) {
        rt.barrier();
        for (uint32_t t = 0; t < kThreads; ++t) ep.send_wait(other, Tag{t}, {});
        (void)notes.recv_wait(other, kAll, {});
        notes.send_wait(other, kEnd, {});
        continue;
      }
      std::optional<std::jthread> server;
      if (another_serves) server.emplace([&] { (void)notes.recv_wait(other, kEnd, {}); });
      std::latch all(kThreads);
      std::vector<std::jthread> threads;
      for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&] {
          EXPECT_EQ(ep.dequeue_wait().error(), Errc::ok);
          all.arrive_and_wait();  // not in weft
        });
      }
      rt.barrier();
      threads.clear();
      notes.send_wait(other, kAll, {});
      if (!another_serves) (void)notes.recv_wait(other, kEnd, {});
    }
  });
}

INSTANTIATE_TEST_SUITE_P(AnotherServes, LeftMessages, testing::Bool());

// Each takes a message, and waits in weft for what is sent only once all are taken. It wakes
// another before that; if it did not, the watch would a little later.
TEST(LeftMessagesOf, WhoTakesOneAndWaitsForMoreHoldsNobodyUp) {
  const OneCore one_core;
  on_ranks(2, [](Runtime& rt) {
    Endpoint ep(rt, {.arrival = Arrival::queue});
    Endpoint answers(rt, {});
    constexpr int kThreads = 8;
    constexpr int kRounds = 20;
    const Rank other{1 - rt.rank().value};
    if (rt.rank() == Rank{1}) {
      // Of other tags each round: what one thread is to have no faster one gets, and so goes on to
      // take two in the next.
      for (uint32_t first = 0; first < kThreads * kRounds; first += kThreads) {
        for (uint32_t t = 0; t < kThreads; ++t) ep.send_wait(other, Tag{first + t}, {});
        for (uint32_t t = 0; t < kThreads; ++t) (void)answers.recv_wait(other, Tag{first + t}, {});
        for (uint32_t t = 0; t < kThreads; ++t) answers.send_wait(other, Tag{first + t}, {});
      }
      return;
    }
    on_threads(kThreads, [&](int) {
      for (int round = 0; round < kRounds; ++round) {
        const Message message = ep.dequeue_wait();
        answers.send_wait(other, message.tag(), {});
        EXPECT_EQ(answers.recv_wait(other, message.tag(), {}).error, Errc::ok);
      }
    });
  });
}

constexpr Tag kHoldsUp{0}, kDefers{1};

/// Work that needs what a message brings which came with it; each time another.
struct NeedsTheMessage final : Deferred {
  std::atomic<int> taken{0};
  std::atomic<bool> in_vain{false};
  void run() noexcept override {
    const int needed = ++needed_;
    const uint64_t late = base::now_ns() + 20'000'000'000;
    while (taken < needed && base::now_ns() < late) std::this_thread::yield();
    in_vain = in_vain || taken < needed;
  }

 private:
  std::atomic<int> needed_{0};
};

// The thread that progresses finds a message, and before it can take it work to do: another has it.
TEST(LeftMessagesOf, WhatProgressDefersNeedNotWaitForWhoDoesIt) {
  const OneCore one_core;
  on_ranks(2, [](Runtime& rt) {
    struct Here {
      Runtime& runtime;
      NeedsTheMessage work;
    } here{rt, {}};
    Endpoint ep(rt, {.arrival = Arrival::queue});
    Endpoint calls(rt, {.arrival = Arrival::handler,
                        .handler =
                            [](void* argument, const Incoming& call) {
                              auto& mine = *static_cast<Here*>(argument);
                              if (call.tag == kDefers) return mine.runtime.defer(mine.work);
                              // Until what follows is there, too: one look finds it all.
                              std::this_thread::sleep_for(std::chrono::milliseconds(2));
                            },
                        .handler_argument = &here});
    Endpoint notes(rt, {});
    const Rank other{1 - rt.rank().value};
    constexpr Tag kFirst{0}, kWanted{1}, kOver{2};
    constexpr int kThreads = 2;
    if (rt.rank() == Rank{1}) {
      for (int round = 0; round < 30; ++round) {
        ep.send_wait(other, kFirst, {});  // who takes it comes to wait behind the other
        (void)notes.recv_wait(other, kFirst, {});
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // until they sleep, mostly
        calls.send_wait(other, kHoldsUp, {});
        ep.send_wait(other, kWanted, {});
        calls.send_wait(other, kDefers, {});
        (void)notes.recv_wait(other, kWanted, {});
      }
      for (int t = 0; t < kThreads; ++t) ep.send_wait(other, kOver, {});
    } else {
      on_threads(kThreads, [&](int) {
        for (;;) {
          const Message message = ep.dequeue_wait();
          if (message.tag() == kOver) return;
          if (message.tag() == kWanted) ++here.work.taken;
          notes.send_wait(other, message.tag(), {});
        }
      });
    }
    rt.barrier();
    EXPECT_FALSE(here.work.in_vain);
  });
}

// Threads take from two queues, and come back soon, late, or with a deadline. Senders go on only
// once all is taken, so that the threads sleep between.
TEST(LeftMessagesStress, NoneIsForgotten) {
  const OneCore one_core;
  const uint64_t seed = test::stress_seed();
  const test::StressClock clock(0.5, 3);
  for (uint64_t round = 0; clock.running(round); ++round) {
    on_ranks(2, [&](Runtime& rt) {
      constexpr uint32_t kQueues = 2;
      constexpr uint32_t kThreads = 6;  // a queue
      constexpr uint32_t kOver = 1;
      constexpr Tag kEnd{kQueues};
      const Rank other{1 - rt.rank().value};
      std::vector<std::unique_ptr<Endpoint>> queues;
      for (uint32_t q = 0; q < kQueues; ++q)
        queues.push_back(std::make_unique<Endpoint>(rt, EndpointSpec{.arrival = Arrival::queue}));
      Endpoint counts(rt, {});
      if (rt.rank() == Rank{0}) {
        on_threads(kQueues, [&](int q) {
          const auto number = static_cast<uint32_t>(q);
          std::minstd_rand random(static_cast<unsigned>(seed + round) + number);
          for (int burst = 0; burst < 200; ++burst) {
            const uint32_t messages = 1 + static_cast<uint32_t>(random()) % 30;
            for (uint32_t i = 0; i < messages; ++i) queues[number]->send_wait(other, Tag{0}, {});
            for (uint32_t i = 0; i < messages; ++i) (void)counts.recv_wait(other, Tag{number}, {});
            if (random() % 8 == 0)
              std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
          }
          for (uint32_t t = 0; t < kThreads; ++t) queues[number]->send_wait(other, Tag{kOver}, {});
        });
        counts.send_wait(other, kEnd, {});
        return;
      }
      std::optional<std::jthread> server;
      if (round % 2 == 0) server.emplace([&] { (void)counts.recv_wait(other, kEnd, {}); });
      on_threads(kQueues * kThreads, [&](int t) {
        const auto number = static_cast<uint32_t>(t) % kQueues;
        std::minstd_rand random(static_cast<unsigned>(seed + round) + 100 + t);
        for (;;) {
          Message message;
          if (random() % 4 == 0) {
            const uint64_t soon = base::now_ns() + random() % 2'000'000;
            if (!queues[number]->dequeue_until(message, soon)) continue;
          } else {
            message = queues[number]->dequeue_wait();
          }
          if (message.tag() == Tag{kOver}) return;
          counts.send_wait(other, Tag{number}, {});
          if (random() % 16 == 0)
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
        }
      });
      if (round % 2 != 0) (void)counts.recv_wait(other, kEnd, {});
    });
  }
}

}  // namespace
}  // namespace weft
