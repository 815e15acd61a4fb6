// The round-trip loop under `latency` and `pingpong`, once for all modes.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "comm/token.hpp"
#include "harness/contest.hpp"
#include "weft/base/clock.hpp"

namespace weft::bench {

/// What a turn of round trips gave, on rank 0.
struct RoundTrips {
  double trips = 0;    ///< of all pairs
  double seconds = 0;  ///< from the first thread's start to the last one's end
  double trip_ns = 0;  ///< of one round trip as its thread sees it: median of its laps
                       ///< if it is alone, else the mean, and the mean over threads; of
                       ///< messages for anyone the mean of all
  double fairness = 1;
};

/// A rank's side of `threads` ping-pongs. Made, and called, by both ranks together.
class PingPong {
 public:
  virtual ~PingPong() = default;
  virtual RoundTrips turn(double seconds) = 0;
};

std::unique_ptr<PingPong> make_ping_pong(Mode mode, const TokenSetup& setup);

/// A turn about as short as a limit's, so that what disturbs the machine hits both alike, and long
/// enough that each of many threads on few cores runs several times.
inline double turn_seconds(unsigned threads) noexcept {
  return std::min(0.5, 0.004 + 0.008 * (threads - 1));
}

}  // namespace weft::bench
