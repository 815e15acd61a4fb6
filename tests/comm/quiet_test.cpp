// What a rank says that waits in vain for long (comm.report_quiet).
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "base/captured_stderr.hpp"
#include "base/config_override.hpp"
#include "comm/ranks.hpp"
#include "weft/base/clock.hpp"
#include "weft/comm/config.hpp"
#include "weft/fabric/job.hpp"
#include "weft/task/scheduler.hpp"

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

TEST_P(Quiet, SignalsThatWaitForRoomAreToldOf) {
  const ConfigOverride soon(ConfigOverride::List{{"comm.report_quiet", "50ms"}});
  CapturedStderr told;
  std::atomic<bool> enough{false};
  on_ranks(
      2,
      [&](Runtime& rt) {
        std::array<std::byte, 8> memory{};
        const Region region(rt, memory);
        const auto keys = test::keys_of_all(rt, region);
        CompletionQueue signals(2);
        Endpoint remote(rt, {.arrival = Arrival::memory, .at_target = &signals});
        rt.barrier();
        if (rt.rank() == Rank{0}) {
          Synchronizer done(3);
          for (int i = 0; i < 3; ++i) {
            (void)until_posted(
                rt, [&] { return remote.put_signal(keys[1], 0, bytes_of(i), Tag{1}, &done); });
          }
          rt.wait(done);
          told.wait_for("signals of puts wait until what endpoint " +
                        std::to_string(remote.number()) + " tells them has room (at_target): 1");
          enough = true;
          return;
        }
        if (GetParam() == Progress::server) {
          while (!enough) std::this_thread::yield();
        } else {
          rt.wait_until([&] { return enough.load(); });
        }
        for (int i = 0; i < 3; ++i) {
          Event event;
          rt.wait_until([&] { return signals.pop(event); });
        }
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

// --- Ranks that wait for each other
// ----------------------------------------------------------------

ConfigOverride report_rings() {
  return ConfigOverride(
      ConfigOverride::List{{"comm.report_quiet", "50ms"}, {"comm.report_rings", "on"}});
}

/// Runs `body` on the ranks while `until` is called by another thread, which is to set it free.
void on_ranks_until(int ranks, const RuntimeOptions& options,
                    const std::function<void(Runtime&)>& body, const std::function<void()>& until) {
  std::jthread watcher(until);
  on_ranks(ranks, body, options);
}

/// `rt`'s blocked receives of `endpoint` from `from` end once `free` is set.
std::jthread cancel_once(const std::atomic<bool>& free, Endpoint& endpoint, Rank from, Tag tag) {
  return std::jthread([&free, &endpoint, from, tag] {
    while (!free) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(endpoint.cancel(from, tag, nullptr));
  });
}

/// Each rank blocks for a message of the next, of threads or of tasks, and says so.
void wait_in_a_ring(int ranks, const RuntimeOptions& options, bool tasks) {
  const ConfigOverride soon = report_rings();
  CapturedStderr told;
  std::atomic<bool> free{false};
  on_ranks_until(
      ranks, options,
      [&](Runtime& rt) {
        Endpoint ep(rt, {});
        const Rank next{(rt.rank().value + 1) % ranks};
        const Tag tag{static_cast<uint32_t>(rt.rank().value)};
        const auto canceller = cancel_once(free, ep, next, tag);
        const auto receive = [&] {
          int value = 0;
          EXPECT_EQ(ep.recv_wait(next, tag, writable(value)).error, Errc::cancelled);
        };
        if (tasks) {
          task::Scheduler scheduler({.workers = 1});
          scheduler.run(receive);
        } else {
          receive();
        }
      },
      [&] {
        for (int rank = 0; rank < ranks; ++rank) {
          std::string ring;
          for (int i = 0; i < ranks; ++i) {
            ring += (i == 0 ? "" : ", ") + std::to_string((rank + i) % ranks) + " from " +
                    std::to_string((rank + i + 1) % ranks);
          }
          told.wait_for("ranks wait to receive from each other in a ring: " + ring +
                        "; at endpoint 1 receives wait for rank " +
                        std::to_string((rank + 1) % ranks) + " tag " + std::to_string(rank));
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        EXPECT_EQ(told.count("in a ring"), ranks) << "each says it once: " << told.text();
        free = true;
      });
}

TEST_P(Quiet, TwoThatReceiveFromEachOtherSaySo) { wait_in_a_ring(2, options_, false); }
TEST_P(Quiet, SoDoFourInARing) { wait_in_a_ring(4, options_, false); }
TEST_P(Quiet, SoDoTheirTasks) {
  // Where workers sleep they do so for one runtime of the process after the other, and are quiet
  // for none (a rank has but one); in mode waiters a task polls.
  if (GetParam() != Progress::server) GTEST_SKIP();
  wait_in_a_ring(2, options_, true);
}
TEST_P(Quiet, SoDoTwoWithSeveralDevices) {
  wait_in_a_ring(2, {.devices = 3, .progress = GetParam()}, false);
}

/// Rank 1 is done, and its Runtime waits for the others; rank 0 waits for a message of it.
TEST_P(Quiet, WhoWaitsForARankThatEndsIsToldSo) {
  const ConfigOverride soon = report_rings();
  CapturedStderr told;
  auto jobs = fabric::make_local_job(2);
  std::atomic<bool> free{false};
  test::on_threads(3, [&](int who) {
    if (who == 2) {
      told.wait_for(
          "rank 1 is ending its runtime; at endpoint 1 receives wait for rank 1 tag 3 (1)");
      told.wait_for("in a ring: 1 from 0, 0 from 1; this one is ending its runtime");
      told.wait_for("at the end of its runtime (MPI_Finalize), waits for this one: rank 1");
      free = true;
      return;
    }
    RuntimeOptions mine = options_;
    mine.job = jobs[static_cast<std::size_t>(who)].get();
    Runtime rt(mine);
    Endpoint ep(rt, {});
    if (who == 1) return;
    const auto canceller = cancel_once(free, ep, Rank{1}, Tag{3});
    EXPECT_EQ(ep.recv_wait(Rank{1}, Tag{3}, {}).error, Errc::cancelled);
  });
}

/// Rank 2 waits for 1, which waits for 0, which has a receive of each but blocks for none: it
/// computes.
TEST_P(Quiet, WhoWaitsForOneThatComputesSaysNothing) {
  const ConfigOverride soon = report_rings();
  CapturedStderr told;
  on_ranks(
      3,
      [&](Runtime& rt) {
        Endpoint ep(rt, {});
        int value = 7;
        if (rt.rank() != Rank{0}) {
          const Rank before{rt.rank().value - 1};
          EXPECT_EQ(ep.recv_wait(before, Tag{1}, writable(value)).error, Errc::ok);
          if (rt.rank() == Rank{1}) ep.send_wait(Rank{2}, Tag{1}, bytes_of(value));
          ep.send_wait(Rank{0}, Tag{2}, bytes_of(value));
          return;
        }
        Synchronizer came(2);
        std::array<int, 2> values{};
        for (int i = 0; i < 2; ++i) {
          ASSERT_EQ(
              ep.recv(Rank{1 + i}, Tag{2}, writable(values[static_cast<std::size_t>(i)]), &came),
              Post::posted);
        }
        for (int i = 0; i < 60; ++i) {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          rt.progress();  // it answers what it is asked
        }
        ep.send_wait(Rank{1}, Tag{1}, bytes_of(value));
        rt.wait(came);
      },
      options_);
  // Of what one of them keeps for a moment another may tell, on a busy machine.
  EXPECT_EQ(told.count("in a ring") + told.count("is ending"), 0) << told.text();
}

/// Each of two waits for the other, and for something else that comes: no ring.
TEST_P(Quiet, WhoWaitsForSomethingElseAsWellIsInNoRing) {
  const ConfigOverride soon = report_rings();
  for (const bool by_time : {false, true}) {
    CapturedStderr told;
    on_ranks(
        2,
        [&](Runtime& rt) {
          Endpoint ep(rt, {});
          const Rank other{1 - rt.rank().value};
          int one = 0;
          int another = 0;
          const int sent = 7;
          Synchronizer came;
          Synchronizer never;
          Synchronizer* const any[] = {&came, &never};
          ASSERT_EQ(ep.recv(other, Tag{1}, writable(one), &came), Post::posted);
          ASSERT_EQ(ep.recv(other, Tag{2}, writable(another), &never), Post::posted);
          std::jthread sends([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            ep.send_wait(other, Tag{1}, bytes_of(sent));
          });
          if (by_time) {
            while (!rt.wait_for(came, std::chrono::seconds(1))) {
            }
          } else {
            EXPECT_EQ(rt.wait_any(any), 0U);
          }
          EXPECT_TRUE(ep.cancel(other, Tag{2}, nullptr));
          rt.wait(never);
        },
        options_);
    EXPECT_EQ(told.count("in a ring"), 0) << told.text();
  }
}

/// Rank 0 waits in its destructor for rank 1, which computes, and 2 in its own for 0.
TEST_P(Quiet, WhoEndsLaterThanOthersIsNotTheirTrouble) {
  const ConfigOverride soon = report_rings();
  CapturedStderr told;
  auto jobs = fabric::make_local_job(3);
  test::on_threads(3, [&](int who) {
    RuntimeOptions mine = options_;
    mine.job = jobs[static_cast<std::size_t>(who)].get();
    const Runtime rt(mine);
    if (who == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  EXPECT_EQ(told.count("is ending") + told.count("in a ring"), 0) << told.text();
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
