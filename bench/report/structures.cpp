// weft-bench structures: pool, matching table, rings and completion queue alone, against what a
// user would pick instead; the measuring itself stands in bench/structures.
#include "structures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "comm/benches.hpp"
#include "harness/result.hpp"
#include "harness/state.hpp"
#include "turns.hpp"

namespace weft::bench {
namespace {

State state_of_round(const StructureRound& round) {
  if (round.one_way_before_ns <= 0 || round.one_way_after_ns <= 0) return State::none;
  const State before = state_of(round.one_way_before_ns);
  return before == state_of(round.one_way_after_ns) ? before : State::unknown;
}

Summary column(const std::vector<const StructureRound*>& rounds, std::size_t who) {
  std::vector<double> values;
  for (const auto* round : rounds) values.push_back(round->values[who]);
  return summarize(values);
}

Result settle_structure(const StructureContest& contest,
                        const std::vector<const StructureRound*>& rounds, State state) {
  Result result =
      figure("structures", contest.structure + "_" + contest.mode, contest.is_scaling ? "x" : "ns",
             contest.is_scaling ? Better::higher : Better::lower);
  result.threads = contest.threads;
  result.state = state;
  if (contest.is_scaling) {
    std::vector<double> times;
    for (const auto* round : rounds) times.push_back(round->values[1] / round->values[0]);
    result.value = summarize(times);
    result.ratio = result.value;
    result.limit_name = "fewer_threads";
    result.limit = Summary{1, 1, 1, times.size()};
    return result;
  }
  result.value = column(rounds, 0);
  if (contest.contestants.size() > 1) {
    result.limit_name = contest.contestants[1];
    result.limit = column(rounds, 1);
    std::vector<double> ratios;
    for (const auto* round : rounds) ratios.push_back(round->values[0] / round->values[1]);
    result.ratio = summarize(ratios);
  }
  for (std::size_t who = 2; who < contest.contestants.size(); ++who) {
    result.extra[contest.contestants[who]] = column(rounds, who).median;
  }
  return result;
}

std::vector<Result> settle_structure(const StructureContest& contest) {
  std::map<State, std::vector<const StructureRound*>> by_state;
  for (const auto& round : contest.rounds) by_state[state_of_round(round)].push_back(&round);
  std::vector<Result> results;
  for (const State state : {State::none, State::shared, State::unshared, State::one_core}) {
    if (by_state[state].size() < 3) continue;
    results.push_back(settle_structure(contest, by_state[state], state));
    if (state == State::one_core) results.back().verdict = kNoVerdictOnOneCore;
  }
  if (results.empty() && !contest.rounds.empty()) {
    std::vector<const StructureRound*> all;
    for (const auto& round : contest.rounds) all.push_back(&round);
    results.push_back(settle_structure(contest, all, State::unknown));
    results.back().verdict = "no verdict: the cache state changed inside the pairs";
  }
  return results;
}

}  // namespace

int run_structures(const Options& options) {
  std::vector<Result> results;
  for (const auto& contest : measure_structures(options.seconds, options.only)) {
    for (auto& result : settle_structure(contest)) results.push_back(std::move(result));
  }
  for (const Result& result : results) print(result, options.json);
  return 0;
}

}  // namespace weft::bench
