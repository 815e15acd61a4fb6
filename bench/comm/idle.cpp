// What a waiting rank costs, and how fast it wakes.
//
// Measured: rank 1 waits in recv_wait far longer than it spins. `cpu_share`: processor time of its
// whole process, all threads of all libraries, between the call and its return, over the wall time
// between them, in percent of one core. `wake`: from rank 0's clock read just before it sends 8
// bytes to rank 1's clock read just after recv_wait returned (one clock for both), in ns.
// The share is of waits of 0.2 s, the wake-up of waits of 5 ms, a hundred times the spin time; the
// wake-up after 0.2 s stands beside it (`after_200_ms`): by then a virtual machine's host has often
// given the core to somebody else.
// Limits: 1 percent; and for the wake-up the futex wake-and-wait round trip between the two cores.
// It lies when rank 0 sends before rank 1 has gone to sleep.
#include <ctime>

#include "comm/benches.hpp"
#include "comm/session.hpp"
#include "harness/contest.hpp"
#include "weft/base/clock.hpp"

namespace weft::bench {
namespace {

uint64_t process_cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

class Sleeper {
 public:
  Sleeper(Pair& pair, Runtime& runtime) : pair_(pair), endpoint_(runtime, {}) {}

  /// One wait; the answers are the same on both ranks.
  struct Wait {
    double wake_ns = 0;
    double cpu_share = 0;  // in percent
  };
  Wait turn(double seconds) {
    uint64_t sent = 0;
    uint64_t wake = 0;
    uint64_t share = 0;
    pair_.meet();
    if (pair_.leads()) {
      sleep_for_seconds(seconds);
      sent = base::now_ns();
      expect_ok(endpoint_.send_wait(pair_.peer(), Tag{1}, bytes_of(sent)).error, "send");
    } else {
      const uint64_t start = base::now_ns();
      const uint64_t cpu = process_cpu_ns();
      const Event event =
          endpoint_.recv_wait(pair_.peer(), Tag{1}, std::as_writable_bytes(std::span(&sent, 1)));
      const uint64_t woken = base::now_ns();
      expect_ok(event.error, "receive");
      wake = woken - sent;
      // In millionths of a percent, to travel as a whole number.
      share = (process_cpu_ns() - cpu) * 100'000'000 / (woken - start);
    }
    const uint64_t known_wake = pair_.yard().trade(wake);
    const uint64_t known_share = pair_.yard().trade(share);
    return {static_cast<double>(known_wake), static_cast<double>(known_share) / 1e6};
  }

 private:
  static std::span<const std::byte> bytes_of(const uint64_t& word) {
    return std::as_bytes(std::span(&word, 1));
  }
  Pair& pair_;
  Endpoint endpoint_;
};

}  // namespace

int run_idle(const Options& options) {
  Pair pair;
  Runtime runtime(runtime_options(pair, options));
  Sleeper sleeper(pair, runtime);
  std::vector<double> shares;
  Result form = figure("idle", "wake", "ns", Better::lower);
  form.size_bytes = 8;
  form.devices = runtime.device_count();
  contest(pair, options, form,
          {{"wake", [&] { return Reading{sleeper.turn(0.005).wake_ns}; }},
           {"futex_round_trip_two_cores",
            [&]() -> Reading {
              return {pair.leads() ? futex_round_trip_ns(pair.peer_core(), 0.05) : 0.0};
            }},
           {"after_200_ms", [&] {
              const auto wait = sleeper.turn(0.2);
              shares.push_back(wait.cpu_share);
              return Reading{wait.wake_ns};
            }}});
  if (!pair.leads()) return 0;
  Result share = figure("idle", "cpu_share", "%", Better::lower);
  share.size_bytes = form.size_bytes;
  share.devices = form.devices;
  share.value = summarize(shares);
  share.limit_name = "one_percent";
  share.limit = Summary{1, 1, 1, shares.size()};
  share.ratio = share.value;
  print(share, options.json);
  return 0;
}

}  // namespace weft::bench
