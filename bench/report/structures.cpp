// weft-bench structures: pool, matching table and completion queue alone, against what a user would
// pick instead; the measuring itself stands in bench/structures.
#include <algorithm>
#include <map>

#include "comm/benches.hpp"
#include "harness/result.hpp"
#include "harness/state.hpp"
#include "structures.hpp"

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
  Result result = figure("structures", contest.structure + "_" + contest.mode, "ns", Better::lower);
  result.threads = contest.threads;
  result.state = state;
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
  for (const State state : {State::none, State::shared, State::unshared}) {
    if (by_state[state].size() < 3) continue;
    results.push_back(settle_structure(contest, by_state[state], state));
  }
  if (results.empty() && !contest.rounds.empty()) {
    std::vector<const StructureRound*> all;
    for (const auto& round : contest.rounds) all.push_back(&round);
    results.push_back(settle_structure(contest, all, State::unknown));
    results.back().verdict = "no verdict: the cache state changed inside the pairs";
  }
  return results;
}

// A thread's share of a core does more or fewer operations when there are more threads: the rate of
// all of them over that of one thread, from core time per operation on the cores that they use.
void add_scaling(std::vector<Result>& results) {
  const std::size_t measured = results.size();
  for (std::size_t i = 0; i < measured; ++i) {
    const Result many = results[i];
    if (many.mode.rfind("table_", 0) != 0 || many.threads == 1 || many.value.median <= 0) continue;
    const std::string alone_mode = many.mode == "table_shared" ? "table_insert" : many.mode;
    for (std::size_t j = 0; j < measured; ++j) {
      const Result& one = results[j];
      if (one.mode != alone_mode || one.threads != 1 || one.state != many.state) continue;
      Result scaling = many;
      scaling.mode += "_scaling";
      scaling.unit = "x";
      scaling.lower_is_better = false;
      const double cores = std::min(many.threads, 2U);
      const auto times = [&](double value) { return cores * one.value.median / value; };
      scaling.value = {times(many.value.median), times(many.value.high), times(many.value.low),
                       many.value.samples};
      scaling.limit_name = "one_thread";
      scaling.limit = Summary{1, 1, 1, one.value.samples};
      scaling.ratio = scaling.value;
      scaling.extra.clear();
      results.push_back(std::move(scaling));
    }
  }
}

}  // namespace

int run_structures(const Options& options) {
  std::vector<Result> results;
  for (const auto& contest : measure_structures(options.seconds, options.only)) {
    for (auto& result : settle_structure(contest)) results.push_back(std::move(result));
  }
  add_scaling(results);
  for (const Result& result : results) print(result, options.json);
  return 0;
}

}  // namespace weft::bench
