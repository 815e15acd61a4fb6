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

// More threads against fewer: the rate of all of them over the rate of the fewer, from the core
// time of an operation and the cores that each number of threads can use.
struct Scaling {
  const char* mode;
  unsigned many, few;
};
constexpr Scaling kScalings[] = {
    {"table_own", 2, 1},    {"table_shared", 2, 1},         {"table_own", 8, 2},
    {"table_shared", 8, 2}, {"table_own_with_locks", 2, 1}, {"table_shared_with_locks", 2, 1},
};

void add_scalings(std::vector<Result>& results) {
  const std::size_t measured = results.size();
  const auto cores_of = [](unsigned threads) {
    return static_cast<double>(std::min<std::size_t>(threads, turns::cores().size()));
  };
  for (const Scaling& wanted : kScalings) {
    for (std::size_t i = 0; i < measured; ++i) {
      for (std::size_t j = 0; j < measured; ++j) {
        const Result many = results[i];
        const Result few = results[j];
        if (many.mode != wanted.mode || few.mode != wanted.mode || many.state != few.state ||
            many.threads != wanted.many || few.threads != wanted.few) {
          continue;
        }
        Result scaling =
            figure("structures", fmt::format("{}_{}_over_{}", wanted.mode, wanted.many, wanted.few),
                   "x", Better::higher);
        scaling.threads = many.threads;
        scaling.state = many.state;
        const double cores = cores_of(wanted.many) / cores_of(wanted.few);
        const auto times = [&](double value) { return cores * few.value.median / value; };
        scaling.value = {times(many.value.median), times(many.value.high), times(many.value.low),
                         many.value.samples};
        scaling.limit_name = "fewer_threads";
        scaling.limit = Summary{1, 1, 1, few.value.samples};
        scaling.ratio = scaling.value;
        results.push_back(std::move(scaling));
      }
    }
  }
}

}  // namespace

int run_structures(const Options& options) {
  std::vector<Result> results;
  for (const auto& contest : measure_structures(options.seconds, options.only)) {
    for (auto& result : settle_structure(contest)) results.push_back(std::move(result));
  }
  add_scalings(results);
  for (const Result& result : results) print(result, options.json);
  return 0;
}

}  // namespace weft::bench
