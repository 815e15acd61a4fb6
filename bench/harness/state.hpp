// The state probe: do the two cores share a cache right now?
//
// Measured: the time of one hand-over of a cache line between the two ranks' leaders, from a
// store on one side to the load that sees it on the other, half a round trip, in ns: the
// median of 20 laps of 100 round trips, a millisecond or less.
// It lies when the ranks are not bound to cores of their own, or when something else runs on them.
#pragma once

#include "harness/pair.hpp"
#include "harness/result.hpp"

namespace weft::bench {

/// A hand-over faster than this counts as a shared cache. Between the two states that two virtual
/// cores of one host were found in (about 50 and about 205 ns), on the geometric mean.
inline constexpr double kSharedBelowNs = 100;
/// Faster than this only two hardware threads of one core are (about 20 ns): then what each of the
/// two ranks computes takes up to twice as long, and no target was made for that.
inline constexpr double kOneCoreBelowNs = 35;

/// Called by both ranks together; rank 0's answer is the measured one.
double probe_one_way_ns(Pair& pair, unsigned round_trips = 2000);

inline State state_of(double one_way_ns) noexcept {
  if (one_way_ns < kOneCoreBelowNs) return State::one_core;
  return one_way_ns < kSharedBelowNs ? State::shared : State::unshared;
}

}  // namespace weft::bench
