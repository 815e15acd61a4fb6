// The contest: a figure and its limits, measured turn by turn (A B A B) with a state probe between
// every two turns, so that what the host does to the machine meanwhile hits all alike.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/pair.hpp"
#include "harness/result.hpp"

namespace weft::bench {

/// What one turn of one contestant gave.
struct Reading {
  double value = 0;
  double fairness = -1;  ///< negative: does not apply
};

/// `turn` is called by both ranks at the same time, after a meeting; rank 0's answer counts. A
/// turn should take a few milliseconds, and end on both ranks before it returns.
struct Contestant {
  std::string name;
  std::function<Reading()> turn;
};

/// All contestants once, with what the probes around their turns said.
struct Round {
  State state = State::unknown;  ///< unknown: it changed inside the round
  std::vector<Reading> readings;
};

/// Rounds until `seconds` are over, at least `least`; a first one warms up and is thrown away.
/// Called by both ranks; rank 1 gets nothing back.
std::vector<Round> run_contest(Pair& pair, const std::vector<Contestant>& contestants,
                               double seconds, unsigned least = 5);

/// One result per state that was met: the first contestant is the figure, the second (if any) its
/// limit, further ones go to `extra` by name. Rounds in which the state changed are only counted;
/// if no state has three rounds, all of them make one result of state unknown without a verdict.
std::vector<Result> settle(const Result& form, const std::vector<Contestant>& contestants,
                           const std::vector<Round>& rounds);

/// run_contest, settle, print. For the usual benchmark.
void contest(Pair& pair, const Options& options, const Result& form,
             const std::vector<Contestant>& contestants);

}  // namespace weft::bench
