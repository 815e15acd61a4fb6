// What a rank says that waits in vain for long (comm.report_quiet).
#include <atomic>
#include <chrono>
#include <thread>

#include "base/captured_stderr.hpp"
#include "base/config_override.hpp"
#include "comm/ranks.hpp"
#include "weft/base/clock.hpp"
#include "weft/comm/config.hpp"

namespace weft {
namespace {

using test::bytes_of;
using test::CapturedStderr;
using test::ConfigOverride;
using test::on_ranks;
using test::writable;

class Quiet : public testing::TestWithParam<Progress> {
 protected:
  Quiet() { register_comm_config(); }
  RuntimeOptions options_{.devices = 1, .progress = GetParam()};
};

TEST_P(Quiet, ASenderToAFullQueueSaysSoAndGoesOn) {
  const ConfigOverride soon(ConfigOverride::List{{"comm.report_quiet", "50ms"}});
  CapturedStderr told;
  constexpr int kMessages = 20'000;
  on_ranks(
      2,
      [&](Runtime& rt) {
        Endpoint queue(rt, {.arrival = Arrival::queue, .queue_capacity = 4});
        if (rt.rank() == Rank{0}) {
          for (int i = 0; i < kMessages; ++i) {
            EXPECT_EQ(queue.send_wait(Rank{1}, Tag{1}, bytes_of(i)).error, Errc::ok);
          }
          return;
        }
        told.wait_for("a send to rank 1 through endpoint " + std::to_string(queue.number()) +
                      " finds no room");
        for (int i = 0; i < kMessages; ++i) (void)queue.dequeue_wait();
      },
      options_);
}

// Many threads stand still for one reason: one of them tells, and no other so soon after it.
TEST_P(Quiet, OneOfManyTells) {
  const ConfigOverride soon(ConfigOverride::List{{"comm.report_quiet", "300ms"}});
  CapturedStderr told;
  constexpr int kThreads = 16;
  const uint64_t began = base::now_ns();
  on_ranks(
      2,
      [&](Runtime& rt) {
        Endpoint queue(rt, {.arrival = Arrival::queue, .queue_capacity = 4});
        if (rt.rank() == Rank{0}) {
          test::on_threads(kThreads, [&](int) {
            for (int i = 0; i < 2000; ++i) queue.send_wait(Rank{1}, Tag{1}, bytes_of(i));
          });
          return;
        }
        told.wait_for("finds no room");
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        const int told_now = told.count("finds no room");
        EXPECT_LE(static_cast<uint64_t>(told_now - 1), (base::now_ns() - began) / 300'000'000);
        for (int i = 0; i < kThreads * 2000; ++i) (void)queue.dequeue_wait();
      },
      options_);
}

TEST_P(Quiet, SoDoesWhoPostsAgainAndAgain) {
  const ConfigOverride soon(ConfigOverride::List{{"comm.report_quiet", "50ms"}});
  CapturedStderr told;
  constexpr int kMessages = 20'000;
  on_ranks(
      2,
      [&](Runtime& rt) {
        Endpoint queue(rt, {.arrival = Arrival::queue, .queue_capacity = 4});
        if (rt.rank() == Rank{0}) {
          for (int i = 0; i < kMessages; ++i) {
            (void)until_posted(rt, [&] { return queue.send(Rank{1}, Tag{1}, bytes_of(i)); });
          }
          return;
        }
        told.wait_for("a posting call finds no room");
        for (int i = 0; i < kMessages; ++i) (void)queue.dequeue_wait();
      },
      options_);
}

TEST_P(Quiet, AReceiverSaysWhatItLeavesInTheLane) {
  const ConfigOverride soon(ConfigOverride::List{{"comm.report_quiet", "50ms"}});
  CapturedStderr told;
  std::atomic<bool> enough{false};
  on_ranks(
      2,
      [&](Runtime& rt) {
        Endpoint queue(rt, {.arrival = Arrival::queue, .queue_capacity = 4});
        if (rt.rank() == Rank{0}) {
          for (int i = 0; i < 10; ++i) queue.send_wait(Rank{1}, Tag{1}, bytes_of(i));
          told.wait_for("messages of rank 0 are left in its lane, the first for endpoint " +
                        std::to_string(queue.number()) + ", whose queue is full");
          enough = true;
          return;
        }
        if (GetParam() == Progress::server) {
          while (!enough) std::this_thread::yield();  // another polls
        } else {
          rt.wait_until([&] { return enough.load(); });  // it polls, for there is work
        }
        EXPECT_GE(told.count("holds 4 of at most 4 messages"), 1);
        for (int i = 0; i < 10; ++i) (void)queue.dequeue_wait();
      },
      options_);
}

TEST_P(Quiet, AReceiverSaysWhatItKeepsAndWhatItWaitsFor) {
  const ConfigOverride soon(ConfigOverride::List{{"comm.report_quiet", "50ms"}});
  CapturedStderr told;
  on_ranks(
      2,
      [&](Runtime& rt) {
        Endpoint ep(rt, {});
        int value = 7;
        if (rt.rank() == Rank{0}) {
          ep.send_wait(Rank{1}, Tag{9}, bytes_of(value));
          told.wait_for(
              "keeps messages that no receive asks for, of rank 0 tag 9 (1), and receives "
              "wait there for rank 0 tag 8");
          ep.send_wait(Rank{1}, Tag{8}, bytes_of(value));
          return;
        }
        EXPECT_EQ(ep.recv_wait(Rank{0}, Tag{8}, writable(value)).error, Errc::ok);
        EXPECT_EQ(ep.recv_wait(Rank{0}, Tag{9}, writable(value)).error, Errc::ok);
      },
      options_);
}

TEST_P(Quiet, ASenderOfALargeMessageSaysThatNobodyTakesIt) {
  const ConfigOverride soon(ConfigOverride::List{{"comm.report_quiet", "50ms"}});
  CapturedStderr told;
  on_ranks(
      2,
      [&](Runtime& rt) {
        Endpoint ep(rt, {});
        auto data = test::pattern(4 << 20, 1);
        if (rt.rank() == Rank{0}) {
          EXPECT_EQ(ep.send_wait(Rank{1}, Tag{1}, data).error, Errc::ok);
          return;
        }
        told.wait_for("sends, puts and gets that wait for rank 1: 1");
        EXPECT_EQ(ep.recv_wait(Rank{0}, Tag{1}, data).error, Errc::ok);
      },
      options_);
}

// Others may compute for as long as they like.
TEST_P(Quiet, WhoOnlyWaitsSaysNothing) {
  const ConfigOverride soon(ConfigOverride::List{{"comm.report_quiet", "1ms"}});
  CapturedStderr told;
  on_ranks(
      2,
      [&](Runtime& rt) {
        Endpoint ep(rt, {});
        int value = 7;
        if (rt.rank() == Rank{0}) {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          ep.send_wait(Rank{1}, Tag{1}, bytes_of(value));
        } else {
          EXPECT_EQ(ep.recv_wait(Rank{0}, Tag{1}, writable(value)).error, Errc::ok);
        }
      },
      options_);
  EXPECT_EQ(told.text(), "");
}

INSTANTIATE_TEST_SUITE_P(Modes, Quiet,
                         testing::Values(Progress::workers, Progress::waiters, Progress::server),
                         [](const auto& mode) {
                           return mode.param == Progress::workers   ? "workers"
                                  : mode.param == Progress::waiters ? "waiters"
                                                                    : "server";
                         });

}  // namespace
}  // namespace weft
