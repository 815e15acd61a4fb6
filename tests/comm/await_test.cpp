// Completions of messages that a coroutine awaits, or a task as one of several things.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "comm/ranks.hpp"
#include "weft/task/channel.hpp"
#include "weft/task/coroutine.hpp"
#include "weft/task/select.hpp"

namespace weft {
namespace {

using std::chrono::milliseconds;
using test::bytes_of;
using test::on_ranks;
using test::writable;

struct AwaitSetting {
  Progress progress;
  int workers;
};

class AwaitedMessages : public testing::TestWithParam<AwaitSetting> {
 protected:
  [[nodiscard]] RuntimeOptions runtime_options() const { return {.progress = GetParam().progress}; }
  [[nodiscard]] task::Options task_options() const { return {.workers = GetParam().workers}; }
};

INSTANTIATE_TEST_SUITE_P(Settings, AwaitedMessages,
                         testing::Values(AwaitSetting{Progress::workers, 1},
                                         AwaitSetting{Progress::workers, 2},
                                         AwaitSetting{Progress::workers, 8},
                                         AwaitSetting{Progress::workers, 64},
                                         AwaitSetting{Progress::server, 2}));

/// Sends and receives once: what `peer` sent under `tag`.
task::Coroutine<uint32_t> exchange(Endpoint& endpoint, Rank peer, uint32_t tag, uint32_t value) {
  Synchronizer arrived;
  uint32_t came = 0;
  const bool is_there = endpoint.recv(peer, Tag{tag}, writable(came), &arrived) == Post::done;
  endpoint.send_wait(peer, Tag{tag}, bytes_of(value));
  if (!is_there) {
    co_await WhenComplete(arrived);
    EXPECT_TRUE(arrived.ready());
    EXPECT_EQ(arrived.event().error, Errc::ok);
  }
  co_return came;
}

task::Coroutine<void> converse(Endpoint& endpoint, Rank peer, uint32_t tag, uint32_t rounds) {
  for (uint32_t round = 0; round < rounds; ++round) {
    const uint32_t came = co_await exchange(endpoint, peer, tag, tag * 1000 + round);
    EXPECT_EQ(came, tag * 1000 + round);
  }
}

TEST_P(AwaitedMessages, CoroutinesConverse) {
  on_ranks(
      2,
      [&](Runtime& runtime) {
        Endpoint endpoint(runtime, {});
        task::Scheduler scheduler(task_options());
        const Rank peer{1 - runtime.rank().value};
        std::vector<task::Future<void>> all;
        for (uint32_t tag = 0; tag < 60; ++tag) {
          all.push_back(converse(endpoint, peer, tag, 30).start(scheduler));
        }
        for (auto& each : all) each.get();
      },
      runtime_options());
}

// Nobody else is awake when it comes.
TEST_P(AwaitedMessages, AMessageResumesACoroutineOfSleepers) {
  on_ranks(
      2,
      [&](Runtime& runtime) {
        Endpoint endpoint(runtime, {});
        if (runtime.rank().value == 1) {
          std::this_thread::sleep_for(milliseconds(30));
          endpoint.send_wait(Rank{0}, Tag{1}, bytes_of(5));
          return;
        }
        task::Scheduler scheduler(task_options());
        const auto receive = [](Endpoint& from) -> task::Coroutine<int> {
          Synchronizer arrived;
          int came = 0;
          if (from.recv(Rank{1}, Tag{1}, writable(came), &arrived) == Post::posted) {
            co_await WhenComplete(arrived);
          }
          co_return came;
        };
        EXPECT_EQ(receive(endpoint).start(scheduler).get(), 5);
      },
      runtime_options());
}

// A message, a channel and a deadline: each of them comes first once, and the message is not lost
// by that.
TEST_P(AwaitedMessages, AMessageIsOneOfSeveralThings) {
  on_ranks(
      2,
      [&](Runtime& runtime) {
        Endpoint endpoint(runtime, {});
        Endpoint go(runtime, {});
        const Rank peer{1 - runtime.rank().value};
        int sign = 0;
        if (runtime.rank().value == 1) {
          go.recv_wait(peer, Tag{0}, writable(sign));
          endpoint.send_wait(peer, Tag{1}, bytes_of(7));
          return;
        }
        task::Scheduler scheduler(task_options());
        scheduler.run([&] {
          Synchronizer arrived;
          int came = 0;
          ASSERT_EQ(endpoint.recv(peer, Tag{1}, writable(came), &arrived), Post::posted);
          WhenComplete when(arrived);
          task::Channel<int> channel(4);
          int from_channel = 0;
          const auto wait = [&](uint64_t deadline_ns) {
            return task::select(
                deadline_ns, task::on_ready(when, [] {}),
                task::on_receive(channel, [&](int value) { from_channel = value; }));
          };
          EXPECT_EQ(wait(task::deadline_after(milliseconds(5))), task::kTimedOut);
          EXPECT_FALSE(arrived.ready());
          auto sends = task::spawn([&] { channel.send(3); });
          EXPECT_EQ(wait(task::kNoDeadline), 1);
          EXPECT_EQ(from_channel, 3);
          sends.join();
          go.send_wait(peer, Tag{0}, bytes_of(sign));
          EXPECT_EQ(wait(task::kNoDeadline), 0);
          EXPECT_EQ(came, 7);
          EXPECT_EQ(wait(0), 0);  // still so
        });
      },
      runtime_options());
}

// One who waits in a select and one who completes at that moment.
TEST_P(AwaitedMessages, CompletionsRaceWithDeadlines) {
  task::Scheduler scheduler(task_options());
  for (int i = 0; i < 300; ++i) {
    auto arrived = std::make_unique<Synchronizer>(1);
    auto completes = scheduler.spawn([&arrived = *arrived, i] {
      for (int turn = 0; turn < i % 7; ++turn) task::yield();
      EXPECT_TRUE(arrived.try_complete(Event{.bytes = 9}));
    });
    scheduler.run([&] {
      WhenComplete when(*arrived);
      int which = task::kTimedOut;
      for (uint64_t wait_ns = 1; which == task::kTimedOut; wait_ns *= 2) {
        which = task::select(task::deadline_after(std::chrono::nanoseconds(wait_ns)),
                             task::on_ready(when, [] {}));
      }
      EXPECT_EQ(arrived->event().bytes, 9U);
      arrived.reset();  // it may end as soon as it is ready
    });
    completes.join();
  }
}

}  // namespace
}  // namespace weft
