// Blocking ping-pong: how many messages blocked threads exchange.
//
// Measured: messages received per second on each core, T thread pairs at once, each blocking in
// recv_wait (or the mode's own blocking call) until its partner's answer comes; from the first
// thread's start to the last one's end; rank 0's round trips, one message received on each core
// per trip. Fairness: the least served pair's trips over the most served one's.
// Limit: a thread that blocks must be switched to, so 2 ÷ the futex wake-and-wait round trip of two
// threads on one core, measured in the same run by rank 0's core while rank 1 sleeps.
// It lies when the ranks are not bound to one core each.
#include <algorithm>

#include "comm/benches.hpp"
#include "comm/ping_pong.hpp"

namespace weft::bench {

int run_pingpong(const Options& options) {
  Pair pair;
  Runtime runtime(runtime_options(pair, options));
  const bool poll = options.waiting == Waiting::poll;
  auto ping_pong = make_ping_pong(options.mode, {pair, runtime, std::max(options.size, size_t{1}),
                                                 options.threads, poll, options.ordinary_memory});
  const double turn = std::max(0.05, turn_seconds(options.threads));
  Result form = figure("pingpong", name_of(options.mode), "/s", Better::higher);
  form.size_bytes = options.size;
  form.threads = options.threads;
  form.devices = runtime.device_count();
  form.extra["waiting"] = poll ? "poll" : "block";
  contest(pair, options, form,
          {{"pingpong",
            [&]() -> Reading {
              const RoundTrips trips = ping_pong->turn(turn);
              if (!pair.leads()) return {};
              return {trips.trips / trips.seconds, options.threads > 1 ? trips.fairness : -1};
            }},
           {"futex_switches_one_core", [&]() -> Reading {
              if (!pair.leads()) return {};
              return {2e9 / futex_round_trip_ns(-1, 0.02)};
            }}});
  return 0;
}

}  // namespace weft::bench
