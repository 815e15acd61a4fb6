// Waits with a deadline, of threads and of tasks: the time ends them, and loses nothing and nobody.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/asleep.hpp"
#include "comm/ranks.hpp"
#include "weft/base/clock.hpp"
#include "weft/task/scheduler.hpp"

namespace weft {
namespace {

using namespace std::chrono_literals;
using test::bytes_of;
using test::on_ranks;
using test::on_threads;
using test::writable;

class TimedWaits : public testing::TestWithParam<Progress> {
 protected:
  [[nodiscard]] RuntimeOptions options() const { return {.progress = GetParam()}; }
};

INSTANTIATE_TEST_SUITE_P(Modes, TimedWaits,
                         testing::Values(Progress::waiters, Progress::server, Progress::explicit_,
                                         Progress::workers),
                         [](const auto& mode) {
                           return std::string(mode.param == Progress::waiters     ? "waiters"
                                              : mode.param == Progress::server    ? "server"
                                              : mode.param == Progress::explicit_ ? "explicit"
                                                                                  : "workers");
                         });

/// Rank 1 waits in vain, then rank 0 sends, and it waits again for the same receive.
void wait_in_vain_and_well(Runtime& runtime, Endpoint& endpoint) {
  const uint32_t sent = 4711;
  if (runtime.rank() == Rank{0}) {
    runtime.barrier();
    EXPECT_EQ(endpoint.send_wait(Rank{1}, Tag{7}, bytes_of(sent)).error, Errc::ok);
    return;
  }
  uint32_t came = 0;
  Synchronizer arrived;
  ASSERT_EQ(endpoint.recv(Rank{0}, Tag{7}, writable(came), &arrived), Post::posted);
  EXPECT_FALSE(runtime.wait_until(arrived, 0)) << "one look";
  const uint64_t began = base::now_ns();
  EXPECT_FALSE(runtime.wait_for(arrived, 30ms));
  EXPECT_GE(base::now_ns() - began, 30'000'000U);
  runtime.barrier();
  EXPECT_TRUE(runtime.wait_for(arrived, 1h));
  EXPECT_EQ(arrived.event().error, Errc::ok);
  EXPECT_EQ(came, sent);
  EXPECT_TRUE(runtime.wait_until(arrived, 0)) << "it is ready, whatever the time";
}

TEST_P(TimedWaits, EndWithTheTimeAndMayBeginAgain) {
  on_ranks(
      2,
      [](Runtime& runtime) {
        Endpoint endpoint(runtime, {});
        wait_in_vain_and_well(runtime, endpoint);
      },
      options());
}

TEST_P(TimedWaits, OfATask) {
  on_ranks(
      2,
      [](Runtime& runtime) {
        Endpoint endpoint(runtime, {});
        task::Scheduler scheduler({.workers = 2});
        scheduler.run([&] { wait_in_vain_and_well(runtime, endpoint); });
      },
      options());
}

TEST_P(TimedWaits, WhoWaitsForLongSleeps) {
  if (GetParam() == Progress::explicit_) GTEST_SKIP() << "it looks again and again, and yields";
  std::atomic<pid_t> waiter = 0;
  on_ranks(
      2,
      [&](Runtime& runtime) {
        Endpoint endpoint(runtime, {});
        uint32_t value = runtime.rank() == Rank{0} ? 4711 : 0;
        if (runtime.rank() == Rank{0}) {
          test::wait_until_asleep(waiter);
          EXPECT_EQ(endpoint.send_wait(Rank{1}, Tag{7}, bytes_of(value)).error, Errc::ok);
        } else {
          waiter = test::this_thread_id();
          EXPECT_EQ(endpoint.recv_wait(Rank{0}, Tag{7}, writable(value)).error, Errc::ok);
        }
        EXPECT_EQ(value, 4711U);
      },
      options());
}

/// A receive that is taken back leaves its message to the next.
void receive_in_vain_and_well(Runtime& runtime, Endpoint& endpoint) {
  const uint32_t sent = 4711;
  if (runtime.rank() == Rank{0}) {
    runtime.barrier();
    EXPECT_EQ(endpoint.send_wait(Rank{1}, Tag{7}, bytes_of(sent)).error, Errc::ok);
    runtime.barrier();
    return;
  }
  uint32_t came = 0;
  EXPECT_FALSE(endpoint.recv_until(Rank{0}, Tag{7}, writable(came), 0)) << "one look";
  const uint64_t began = base::now_ns();
  EXPECT_FALSE(endpoint.recv_for(Rank{0}, Tag{7}, writable(came), 30ms));
  EXPECT_GE(base::now_ns() - began, 30'000'000U);
  EXPECT_EQ(came, 0U);
  runtime.barrier();
  const auto event = endpoint.recv_for(Rank{0}, Tag{7}, writable(came), 1h);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->error, Errc::ok);
  EXPECT_EQ(event->bytes, sizeof came);
  EXPECT_EQ(event->context, nullptr);
  EXPECT_EQ(came, sent);
  runtime.barrier();
}

TEST_P(TimedWaits, OfAReceive) {
  on_ranks(
      2,
      [](Runtime& runtime) {
        Endpoint endpoint(runtime, {});
        receive_in_vain_and_well(runtime, endpoint);
        task::Scheduler scheduler({.workers = 2});
        scheduler.run([&] { receive_in_vain_and_well(runtime, endpoint); });
      },
      options());
}

TEST_P(TimedWaits, OfAQueue) {
  on_ranks(
      2,
      [](Runtime& runtime) {
        Endpoint queue(runtime, {.arrival = Arrival::queue});
        const std::vector<std::byte> large(200'000, std::byte{9});
        if (runtime.rank() == Rank{0}) {
          runtime.barrier();
          EXPECT_EQ(queue.send_wait(Rank{1}, Tag{1}, {}).error, Errc::ok);
          EXPECT_EQ(queue.send_wait(Rank{1}, Tag{2}, large).error, Errc::ok);
          return;
        }
        Message message;
        EXPECT_FALSE(queue.dequeue_until(message, 0));
        const uint64_t began = base::now_ns();
        EXPECT_FALSE(queue.dequeue_for(message, 20ms));
        EXPECT_GE(base::now_ns() - began, 20'000'000U);
        runtime.barrier();
        ASSERT_TRUE(queue.dequeue_for(message, 1h));
        EXPECT_EQ(message.tag(), Tag{1});
        ASSERT_TRUE(queue.dequeue_for(message, 1h));
        EXPECT_EQ(message.tag(), Tag{2});
        EXPECT_TRUE(
            std::equal(large.begin(), large.end(), message.data().begin(), message.data().end()));
      },
      options());
}

/// Of many that wait at one queue some give up time after time, those who poll for all among them:
/// each message is taken, and nobody who waits without a deadline is forgotten.
TEST_P(TimedWaits, LoseNoMessageAndNoOtherWaiter) {
  constexpr int kThreads = 12;
  constexpr uint32_t kMessages = 400;
  std::atomic<uint32_t> in_vain{0};
  on_ranks(
      2,
      [&](Runtime& runtime) {
        Endpoint queue(runtime, {.arrival = Arrival::queue});
        if (runtime.rank() == Rank{0}) {
          while (in_vain == 0) std::this_thread::yield();
          for (uint32_t i = 0; i < kMessages; ++i) {
            EXPECT_EQ(queue.send_wait(Rank{1}, Tag{0}, bytes_of(i)).error, Errc::ok);
            if (i % 16 == 0) std::this_thread::sleep_for(2ms);
          }
          for (uint32_t i = 0; i < kThreads; ++i)
            EXPECT_EQ(queue.send_wait(Rank{1}, Tag{1}, bytes_of(i)).error, Errc::ok);
          return;
        }
        std::vector<std::atomic<uint32_t>> times(kMessages);
        on_threads(kThreads, [&](int thread) {
          const bool timed = thread % 3 != 0;
          for (uint32_t turn = 0;; ++turn) {
            Message message;
            if (!timed) {
              message = queue.dequeue_wait();
            } else if (!queue.dequeue_for(message, std::chrono::microseconds(turn % 7 * 100))) {
              ++in_vain;
              continue;
            }
            if (message.tag() == Tag{1}) return;
            uint32_t number = 0;
            ASSERT_EQ(message.data().size(), sizeof number);
            std::memcpy(&number, message.data().data(), sizeof number);
            ++times.at(number);
          }
        });
        for (uint32_t i = 0; i < kMessages; ++i) EXPECT_EQ(times[i].load(), 1U) << i;
      },
      options());
}

/// Requests and answers of several threads, each of which waits in slices of time.
TEST_P(TimedWaits, InSlices) {
  constexpr int kThreads = 6;
  constexpr uint32_t kRounds = 60;
  on_ranks(
      2,
      [](Runtime& runtime) {
        Endpoint endpoint(runtime, {});
        const bool first = runtime.rank() == Rank{0};
        const Rank peer{first ? 1 : 0};
        on_threads(kThreads, [&](int thread) {
          const Tag tag{static_cast<uint32_t>(thread)};
          for (uint32_t round = 0; round < kRounds; ++round) {
            if (first) {
              EXPECT_EQ(endpoint.send_wait(peer, tag, bytes_of(round)).error, Errc::ok);
            }
            uint32_t came = ~0U;
            Synchronizer arrived;
            if (endpoint.recv(peer, tag, writable(came), &arrived) == Post::done) arrived.arrive();
            while (!runtime.wait_for(arrived, std::chrono::microseconds(round % 5 * 50))) {
            }
            EXPECT_EQ(came, round);
            if (!first) {
              if (round % 8 == 0) std::this_thread::sleep_for(1ms);
              EXPECT_EQ(endpoint.send_wait(peer, tag, bytes_of(round)).error, Errc::ok);
            }
          }
        });
      },
      options());
}

}  // namespace
}  // namespace weft
