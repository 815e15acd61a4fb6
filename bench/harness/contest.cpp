#include "harness/contest.hpp"

#include <fmt/format.h>

#include "harness/state.hpp"
#include "weft/base/clock.hpp"

namespace weft::bench {
namespace {

constexpr std::size_t kLeastRounds = 3;

State agree(State a, State b) { return a == b ? a : State::unknown; }

Result settle_state(const Result& form, const std::vector<Contestant>& contestants,
                    const std::vector<const Round*>& rounds) {
  Result result = form;
  std::vector<double> fairness;
  for (std::size_t who = 0; who < contestants.size(); ++who) {
    std::vector<double> values;
    std::vector<double> ratios;
    for (const Round* round : rounds) {
      const Reading& reading = round->readings[who];
      values.push_back(reading.value);
      if (reading.value > 0) ratios.push_back(round->readings[0].value / reading.value);
      if (who == 0 && reading.fairness >= 0) fairness.push_back(reading.fairness);
    }
    const Summary summary = summarize(values);
    if (who == 0) {
      result.value = summary;
    } else if (who == 1) {
      result.limit_name = contestants[who].name;
      result.limit = summary;
      result.ratio = summarize(ratios);
    } else {
      result.extra[contestants[who].name] = summary.median;
    }
  }
  if (!fairness.empty()) result.fairness = summarize(fairness).median;
  return result;
}

}  // namespace

std::vector<Round> run_contest(Pair& pair, const std::vector<Contestant>& contestants,
                               double seconds, unsigned least) {
  std::vector<Round> rounds;
  auto& go_on = pair.yard().memory().side[0].words[29];
  const uint64_t until = base::now_ns() + static_cast<uint64_t>(seconds * 1e9);
  for (unsigned turn = 0;; ++turn) {
    if (pair.leads()) go_on = turn <= least || base::now_ns() < until ? 1 : 0;
    pair.meet();
    if (go_on == 0) break;
    Round round{state_of(probe_one_way_ns(pair)), {}};
    for (const auto& contestant : contestants) {
      pair.meet();
      round.readings.push_back(contestant.turn());
      round.state = agree(round.state, state_of(probe_one_way_ns(pair)));
    }
    if (pair.leads() && turn > 0) rounds.push_back(std::move(round));
  }
  pair.meet();  // the other rank has read go_on before the next contest sets it
  return rounds;
}

std::vector<Result> settle(const Result& form, const std::vector<Contestant>& contestants,
                           const std::vector<Round>& rounds) {
  std::vector<Result> results;
  std::size_t changed = 0;
  for (const Round& round : rounds) changed += round.state == State::unknown ? 1 : 0;
  for (const State state : kKnownStates) {
    std::vector<const Round*> mine;
    for (const Round& round : rounds) {
      if (round.state == state) mine.push_back(&round);
    }
    if (mine.size() < kLeastRounds) continue;
    results.push_back(settle_state(form, contestants, mine));
    results.back().state = state;
    if (state == State::one_core) results.back().verdict = kNoVerdictOnOneCore;
    results.back().extra["state_changed"] = changed;
  }
  if (results.empty() && !rounds.empty()) {
    std::vector<const Round*> all;
    for (const Round& round : rounds) all.push_back(&round);
    results.push_back(settle_state(form, contestants, all));
    results.back().state = State::unknown;
    results.back().verdict = "no verdict: the cache state changed inside the pairs";
    results.back().extra["state_changed"] = changed;
  }
  return results;
}

void contest(Pair& pair, const Options& options, const Result& form,
             const std::vector<Contestant>& contestants) {
  const auto rounds = run_contest(pair, contestants, options.seconds);
  if (!pair.leads()) return;
  for (auto result : settle(form, contestants, rounds)) {
    if (!pair.bound_apart()) result.verdict = "no verdict: the ranks are not bound to cores";
    print(result, options.json);
  }
}

}  // namespace weft::bench
