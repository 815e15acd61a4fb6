// Sleeping and waking in comm: threads that wait for a message never sleep over it.
//
// With comm.spin = 0 whoever waits in vain sleeps at once. The sending rank stays awake: it is told
// when a wait begins and sends after a random while, so that arrival moves across looking,
// enrolling, arming and falling asleep. A missed wake runs into the watchdog; but for one that a
// sleeper's second look finds (fabric::kSecondLookNs): those are counted, and must be as few as the
// kernel's membarrier passes by (as in conformance_doorbell_test), or none where senders fence. Not
// counted are those whose sender was held up: the look came before its ring was due.
// Counted is what really went to sleep on a doorbell (Device::sleeps).
#include <algorithm>
#include <atomic>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/config_override.hpp"
#include "base/stress.hpp"
#include "comm/device.hpp"
#include "comm/ranks.hpp"
#include "weft/base/clock.hpp"
#include "weft/comm/config.hpp"
#include "weft/fabric/config.hpp"
#include "weft/fabric/transport.hpp"

namespace weft {
namespace {

using test::bytes_of;
using test::on_ranks;
using test::writable;

/// What the setting asks for, and no spinning, for as long as it lives.
test::ConfigOverride configured(bool fenced) {
  register_comm_config();
  fabric::register_fabric_config();
  return test::ConfigOverride({{"comm.spin", "0"}, {"fabric.membarrier", fenced ? "off" : "auto"}});
}

uint64_t sleeps(Runtime& rt) {
  uint64_t sum = 0;
  for (uint32_t d = 0; d < rt.device_count(); ++d) sum += rt.device(d).sleeps();
  return sum;
}

uint64_t unrung(Runtime& rt) {
  uint64_t sum = 0;
  for (uint32_t d = 0; d < rt.device_count(); ++d) sum += rt.device(d).unrung();
  return sum;
}

/// What the waiting rank and the sending rank tell each other: they are threads of one process.
struct Game {
  alignas(64) std::atomic<uint64_t> begun{0};    ///< waits that have begun; kOver: no more
  alignas(64) std::atomic<uint32_t> lately{64};  ///< turns of an empty loop until one sleeps
  static constexpr uint64_t kOver = ~uint64_t{0};

  /// A wait has ended, asleep or not. As often asleep as not: the moment of falling asleep is
  /// the middle of what is drawn.
  void ended(bool asleep) noexcept {
    const uint32_t now = lately.load(std::memory_order_relaxed);
    const uint32_t step = now / 64 + 1;
    lately.store(asleep ? std::max(now, step + 1) - step : std::min(now + step, 1U << 20),
                 std::memory_order_relaxed);
  }

  // Each is its rank's alone until both have ended.
  uint64_t slept = 0;            ///< of the waiting rank
  std::vector<uint64_t> unrung;  ///< waits in which a second look found something
  std::set<uint64_t> late;       ///< sends that ended when such a look may have been over

  /// The second looks that found what should have rung by then. A look is later than the wait's
  /// begin by kSecondLookNs at least; who found something may note it some waits later.
  [[nodiscard]] uint64_t missed() const {
    constexpr uint64_t kNotedLater = 3;
    return static_cast<uint64_t>(std::ranges::count_if(unrung, [&](uint64_t wait) {
      const auto late_one = late.lower_bound(wait - std::min(wait, kNotedLater));
      return late_one == late.end() || *late_one > wait;
    }));
  }
};

/// Calls `send(number)` for each wait that begins, after a random while.
void send_to_sleepers(Game& game, uint64_t seed, const std::function<void(uint64_t)>& send) {
  std::minstd_rand random(static_cast<unsigned>(seed));
  uint64_t not_yet = base::now_ns();  // then, the next wait had not begun
  for (uint64_t sent = 0;;) {
    uint64_t begun = 0;
    for (unsigned look = 1;; ++look) {
      const uint64_t before = base::now_ns();
      if ((begun = game.begun.load(std::memory_order_acquire)) != sent) break;
      not_yet = before;
      if (look % 4096 == 0) std::this_thread::yield();  // to a sleeper that needs this core
    }
    if (begun == Game::kOver) return;
    const uint64_t turns = random() % (2ULL * game.lately.load(std::memory_order_relaxed));
    for (uint64_t i = 0; i < turns; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
    const uint64_t before_send = base::now_ns();
    send(sent);
    if (base::now_ns() - not_yet >= fabric::kSecondLookNs) game.late.insert(sent);
    not_yet = before_send;
    ++sent;
  }
}

struct Setting {
  Progress progress;
  uint32_t devices;
  bool fenced;  ///< senders fence: no membarrier
  int others;   ///< threads that wait for something else all the while, parked behind the sleeper
};

class Sleepers : public testing::TestWithParam<Setting> {
 protected:
  [[nodiscard]] RuntimeOptions options() const {
    return {.devices = GetParam().devices, .progress = GetParam().progress};
  }
  /// All tests together have as many sleeps and as much time as a stress test has.
  static constexpr double kShare = 1.0 / 10;
  static uint64_t least() { return std::max<uint64_t>(test::least_sleeps() / 10, 10); }
};

/// Rank 0 waits by `wait(number)`, rank 1 sends by `send(number)`.
void play(Runtime& rt, Game& game, uint64_t seed, uint64_t least, double share,
          const std::function<void(uint64_t)>& wait, const std::function<void(uint64_t)>& send) {
  const test::OnCore core(rt.rank().value);
  if (rt.rank() == Rank{1}) return send_to_sleepers(game, seed, send);
  const test::StressClock clock(share);
  const uint64_t first = sleeps(rt);
  uint64_t waits = 0;
  uint64_t noted = unrung(rt);
  for (uint64_t slept = first; slept - first < least || clock.running();) {
    wait(waits);
    for (const uint64_t now = unrung(rt); noted != now; ++noted) game.unrung.push_back(waits);
    ++waits;
    const uint64_t now = sleeps(rt);
    game.ended(now != slept);
    slept = now;
  }
  game.begun.store(Game::kOver, std::memory_order_release);
  game.slept = sleeps(rt) - first;
  std::printf("%llu waits, %llu of them slept, ", static_cast<unsigned long long>(waits),
              static_cast<unsigned long long>(game.slept));
}

/// When both ranks have ended.
void judge(const Game& game, bool fenced) {
  std::printf("%zu of those unrung; %zu sends were late\n", game.unrung.size(), game.late.size());
  EXPECT_LE(game.missed(), fenced ? 0 : 2 + game.slept / 20'000);
}

TEST_P(Sleepers, AWaitForAReceiveIsAlwaysWoken) {
  const auto config = configured(GetParam().fenced);
  Game game;
  const uint64_t seed = test::stress_seed();
  on_ranks(
      2,
      [&](Runtime& rt) {
        Endpoint ep(rt, {});
        const Rank other{1 - rt.rank().value};
        // Others wait for what comes last; one of them may be the sleeper for all.
        std::vector<std::jthread> others;
        for (int t = 0; rt.rank() == Rank{0} && t < GetParam().others; ++t) {
          others.emplace_back([&ep, t] {
            uint64_t value = 0;
            EXPECT_EQ(
                ep.recv_wait(Rank{1}, Tag{100U + static_cast<uint32_t>(t)}, writable(value)).error,
                Errc::ok);
          });
        }
        play(
            rt, game, seed, least(), kShare,
            [&](uint64_t number) {
              uint64_t value = ~number;
              Synchronizer done;
              ASSERT_EQ(
                  until_posted(rt, [&] { return ep.recv(other, Tag{1}, writable(value), &done); }),
                  Post::posted);
              game.begun.store(number + 1, std::memory_order_release);
              rt.wait(done);
              ASSERT_EQ(value, number);
            },
            [&](uint64_t number) { ep.send_wait(other, Tag{1}, bytes_of(number)); });
        if (rt.rank() == Rank{1}) {
          for (int t = 0; t < GetParam().others; ++t)
            ep.send_wait(other, Tag{100U + static_cast<uint32_t>(t)}, bytes_of(seed));
        }
      },
      options());
  judge(game, GetParam().fenced);
}

TEST_P(Sleepers, AWaitForAQueuedMessageIsAlwaysWoken) {
  const auto config = configured(GetParam().fenced);
  Game game;
  const uint64_t seed = test::stress_seed();
  on_ranks(
      2,
      [&](Runtime& rt) {
        Endpoint ep(rt, {.arrival = Arrival::queue});
        const Rank other{1 - rt.rank().value};
        constexpr Tag kOver{1};
        // Every message is taken by whoever wakes; who takes it tells the first thread, which
        // begins the next wait. All wait for the same queue: a wake that goes to nobody is a hang.
        std::atomic<uint64_t> taken{0};
        std::vector<std::jthread> others;
        for (int t = 0; rt.rank() == Rank{0} && t < GetParam().others; ++t) {
          others.emplace_back([&] {
            while (ep.dequeue_wait().tag() != kOver) {
              taken.fetch_add(1);
              taken.notify_one();
            }
          });
        }
        play(
            rt, game, seed, least(), kShare,
            [&](uint64_t number) {
              game.begun.store(number + 1, std::memory_order_release);
              if (others.empty()) {
                const Message message = ep.dequeue_wait();
                ASSERT_EQ(message.bytes(), sizeof number);
                return;
              }
              for (uint64_t now = taken.load(); now != number + 1; now = taken.load())
                taken.wait(now);
            },
            [&](uint64_t number) { ep.send_wait(other, Tag{0}, bytes_of(number)); });
        if (rt.rank() == Rank{1}) {
          for (int t = 0; t < GetParam().others; ++t) ep.send_wait(other, kOver, {});
        }
      },
      options());
  judge(game, GetParam().fenced);
}

INSTANTIATE_TEST_SUITE_P(Settings, Sleepers,
                         testing::Values(Setting{Progress::waiters, 1, false, 0},
                                         Setting{Progress::waiters, 1, false, 2},
                                         Setting{Progress::waiters, 3, false, 2},
                                         Setting{Progress::waiters, 3, true, 2},
                                         Setting{Progress::server, 1, false, 1}),
                         [](const auto& setting) {
                           const Setting& s = setting.param;
                           return std::string(s.progress == Progress::server ? "server"
                                                                             : "waiters") +
                                  "_" + std::to_string(s.devices) + "_devices_" +
                                  std::to_string(s.others) + "_others" +
                                  (s.fenced ? "_fenced" : "");
                         });

}  // namespace
}  // namespace weft
