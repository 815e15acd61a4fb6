// Waits for one of several completions, and for a queue's next event: of threads and of tasks, in
// every mode of progress, with and without a deadline.
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "comm/ranks.hpp"
#include "weft/base/clock.hpp"
#include "weft/task/scheduler.hpp"
#include "weft/task/task.hpp"

namespace weft {
namespace {

using namespace std::chrono_literals;
using test::bytes_of;
using test::on_ranks;
using test::on_threads;
using test::writable;

struct Mode {
  Progress progress;
  bool tasks;
};

class WaitAny : public testing::TestWithParam<Mode> {
 protected:
  [[nodiscard]] RuntimeOptions options() const {
    return {.devices = 1, .progress = GetParam().progress};
  }
  /// `body(i)` for each i below `count`, at the same time, by threads or by tasks.
  static void on_many(int count, const std::function<void(int)>& body) {
    if (!GetParam().tasks) return on_threads(count, body);
    task::Scheduler scheduler({.workers = 2});
    scheduler.run([&] {
      std::vector<task::Handle<void>> all;
      for (int i = 0; i < count; ++i) all.push_back(task::spawn([&body, i] { body(i); }));
      for (auto& each : all) each.join();
    });
  }
};

INSTANTIATE_TEST_SUITE_P(
    Modes, WaitAny,
    testing::Values(Mode{Progress::waiters, false}, Mode{Progress::server, false},
                    Mode{Progress::explicit_, false}, Mode{Progress::workers, false},
                    Mode{Progress::waiters, true}, Mode{Progress::server, true},
                    Mode{Progress::workers, true}),
    [](const auto& mode) {
      const std::string name = mode.param.progress == Progress::waiters     ? "waiters"
                               : mode.param.progress == Progress::server    ? "server"
                               : mode.param.progress == Progress::explicit_ ? "explicit"
                                                                            : "workers";
      return name + (mode.param.tasks ? "_tasks" : "_threads");
    });

/// Receives of several tags, all of which wait.
template <std::size_t kCount>
struct Receives {
  Receives(Endpoint& endpoint, Rank from, uint32_t first_tag) {
    for (std::size_t i = 0; i < kCount; ++i) {
      const Tag tag{first_tag + static_cast<uint32_t>(i)};
      if (endpoint.recv(from, tag, writable(came[i]), &done[i]) == Post::done) done[i].arrive();
      all[i] = &done[i];
    }
  }
  std::array<uint32_t, kCount> came{};
  std::array<Synchronizer, kCount> done;
  std::array<Synchronizer*, kCount> all{};
};

TEST_P(WaitAny, EndsWithTheFirstAndLeavesTheOthers) {
  on_ranks(
      2,
      [](Runtime& rt) {
        Endpoint letters(rt, {});
        constexpr std::array<uint32_t, 3> kOrder{2, 0, 1};
        on_many(1, [&](int) {
          if (rt.rank() == Rank{0}) {
            for (const uint32_t tag : kOrder) {
              EXPECT_EQ(letters.recv_wait(Rank{1}, Tag{9}, {}).error, Errc::ok);
              EXPECT_EQ(letters.send_wait(Rank{1}, Tag{tag}, bytes_of(tag)).error, Errc::ok);
            }
            return;
          }
          Receives<3> receives(letters, Rank{0}, 0);
          std::vector<Synchronizer*> left(receives.all.begin(), receives.all.end());
          EXPECT_FALSE(rt.wait_any_until(left, 0)) << "one look";
          const uint64_t began = base::now_ns();
          EXPECT_FALSE(rt.wait_any_for(left, 20ms));
          EXPECT_GE(base::now_ns() - began, 20'000'000U);
          for (const uint32_t tag : kOrder) {
            EXPECT_EQ(letters.send_wait(Rank{0}, Tag{9}, {}).error, Errc::ok);
            const std::size_t first =
                tag == 0 ? rt.wait_any_for(left, 1h).value() : rt.wait_any(left);
            EXPECT_EQ(left.at(first), &receives.done.at(tag));
            EXPECT_EQ(receives.came.at(tag), tag);
            EXPECT_EQ(rt.wait_any(left), first) << "it stays ready";
            left.erase(left.begin() + static_cast<std::ptrdiff_t>(first));
          }
          EXPECT_THROW((void)rt.wait_any(left), Error) << "none are left";
        });
      },
      options());
}

/// Many wait at once, each for what comes in any order; the others' ends come while they wait
/// again, or have gone.
TEST_P(WaitAny, OfManyNobodyIsForgotten) {
  constexpr int kMany = 8;
  constexpr uint32_t kRounds = 60;
  constexpr std::size_t kCount = 4;
  on_ranks(
      2,
      [](Runtime& rt) {
        Endpoint letters(rt, {});
        on_many(kMany, [&](int who) {
          const uint32_t base = static_cast<uint32_t>(who) * 100;
          for (uint32_t round = 0; round < kRounds; ++round) {
            if (rt.rank() == Rank{0}) {
              for (uint32_t i = 0; i < kCount; ++i) {
                const uint32_t at = (i * 3 + round) % kCount;
                const uint32_t value = round * 10 + at;
                EXPECT_EQ(letters.send_wait(Rank{1}, Tag{base + at}, bytes_of(value)).error,
                          Errc::ok);
              }
              EXPECT_EQ(letters.recv_wait(Rank{1}, Tag{base + 99}, {}).error, Errc::ok);
              continue;
            }
            Receives<kCount> receives(letters, Rank{0}, base);
            std::vector<Synchronizer*> left(receives.all.begin(), receives.all.end());
            while (!left.empty()) {
              const auto first = round % 2 == 0 ? rt.wait_any(left) : rt.wait_any_for(left, 50us);
              if (!first) continue;
              EXPECT_TRUE(left.at(*first)->ready());
              left.erase(left.begin() + static_cast<std::ptrdiff_t>(*first));
            }
            for (uint32_t at = 0; at < kCount; ++at)
              EXPECT_EQ(receives.came.at(at), round * 10 + at);
            EXPECT_EQ(letters.send_wait(Rank{0}, Tag{base + 99}, {}).error, Errc::ok);
          }
        });
      },
      options());
}

/// Many take from one queue; some give up time after time.
TEST_P(WaitAny, EachEventOfAQueueIsPoppedOnce) {
  constexpr int kMany = 8;
  constexpr uint32_t kSignals = 400;
  on_ranks(
      2,
      [](Runtime& rt) {
        CompletionQueue signals;
        Endpoint letters(rt, {});
        Endpoint memory(rt, {.arrival = Arrival::memory, .at_target = &signals});
        std::vector<std::byte> room(8);
        const Region region(rt, room);
        if (rt.rank() == Rank{0}) {
          fabric::MemoryKey key;
          letters.recv_wait(Rank{1}, Tag{0}, writable(key));
          CompletionQueue sent;
          for (uint32_t i = 0; i < kSignals + kMany; ++i) {
            const Tag signal{i < kSignals ? i : kSignals};
            const auto put = [&] { return memory.put_signal(key, 0, room, signal, &sent); };
            ASSERT_EQ(until_posted(rt, put), Post::posted);
            EXPECT_EQ(rt.pop_wait(sent).error, Errc::ok);
            if (i % 64 == 0) std::this_thread::sleep_for(2ms);
          }
          rt.barrier();
          return;
        }
        Event none;
        EXPECT_FALSE(rt.pop_until(signals, none, 0));
        const uint64_t began = base::now_ns();
        EXPECT_FALSE(rt.pop_for(signals, none, 20ms));
        EXPECT_GE(base::now_ns() - began, 20'000'000U);
        letters.send_wait(Rank{0}, Tag{0}, bytes_of(region.key()));
        std::vector<std::atomic<uint32_t>> times(kSignals);
        on_many(kMany, [&](int who) {
          for (uint32_t turn = 0;; ++turn) {
            Event event;
            if (who % 3 == 0) {
              event = rt.pop_wait(signals);
            } else if (!rt.pop_for(signals, event, std::chrono::microseconds(turn % 7 * 100))) {
              continue;
            }
            EXPECT_EQ(event.peer, Rank{0});
            if (event.tag == Tag{kSignals}) return;
            ++times.at(event.tag.value);
          }
        });
        for (uint32_t i = 0; i < kSignals; ++i) EXPECT_EQ(times[i].load(), 1U) << i;
        rt.barrier();
      },
      options());
}

/// Who waits so sleeps or parks: what it waits for comes only once it does.
TEST_P(WaitAny, ParksWhileNothingComes) {
  if (GetParam().progress == Progress::explicit_ || GetParam().tasks)
    GTEST_SKIP() << "there it polls, or its worker sleeps";
  std::atomic<Runtime*> receiver{nullptr};
  std::array<std::atomic<uint64_t>, 2> rested{};  // before each wait, and one more
  const auto rests = [](const Runtime& rt) {
    const DeviceCounts counts = rt.device_counts(0);
    return GetParam().progress == Progress::server ? counts.parks : counts.sleeps;
  };
  on_ranks(
      2,
      [&](Runtime& rt) {
        CompletionQueue arrived;
        Endpoint letters(rt, {});
        if (rt.rank() == Rank{0}) {
          for (uint32_t i = 0; i < 2; ++i) {
            while (rested[i] == 0 || rests(*receiver) < rested[i]) std::this_thread::yield();
            letters.send_wait(Rank{1}, Tag{i}, {});
          }
          return;
        }
        receiver = &rt;
        ASSERT_EQ(letters.recv(Rank{0}, Tag{0}, {}, &arrived), Post::posted);
        rested[0] = rests(rt) + 1;
        EXPECT_EQ(rt.pop_wait(arrived).tag, Tag{0});
        Receives<1> other(letters, Rank{0}, 50);
        Synchronizer done;
        ASSERT_EQ(letters.recv(Rank{0}, Tag{1}, {}, &done), Post::posted);
        rested[1] = rests(rt) + 1;
        const std::array<Synchronizer*, 2> both{other.all[0], &done};
        EXPECT_EQ(rt.wait_any(both), 1U);
        EXPECT_TRUE(letters.cancel(Rank{0}, Tag{50}, nullptr));
        rt.wait(other.done[0]);
      },
      options());
}

}  // namespace
}  // namespace weft
