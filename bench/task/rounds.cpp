#include "rounds.hpp"

#include <utility>

#include "harness/state.hpp"
#include "weft/base/clock.hpp"

namespace weft::bench::tasks {
namespace {

// `none`: there are no two cores.
State probe() {
  const double one_way = turns::one_way_ns();
  return one_way > 0 ? state_of(one_way) : State::none;
}

State agree(State a, State b) { return a == b ? a : State::unknown; }

}  // namespace

std::size_t Contest::enter(std::string name, std::function<double()> turn) {
  return enter_all({std::move(name)}, [turn = std::move(turn)] { return std::vector{turn()}; });
}

std::size_t Contest::enter_all(std::vector<std::string> names,
                               std::function<std::vector<double>()> turn) {
  const std::size_t first = names_.size();
  for (auto& name : names) names_.push_back(std::move(name));
  entries_.push_back({std::move(turn), first});
  return first;
}

void Contest::run(double seconds, unsigned least, unsigned warm_ups) {
  const auto look = [this] { return between_cores_ ? probe() : State::none; };
  const uint64_t until = base::now_ns() + static_cast<uint64_t>(seconds * 1e9);
  for (unsigned turn = 0; turn < warm_ups + least || base::now_ns() < until; ++turn) {
    Round round{look(), std::vector<Reading>(names_.size())};
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const Entry& entry = entries_[(i + turn) % entries_.size()];  // nobody is always first
      const auto values = entry.turn();
      for (std::size_t v = 0; v < values.size(); ++v) {
        round.readings.at(entry.first + v).value = values[v];
      }
      round.state = agree(round.state, look());
    }
    if (turn >= warm_ups) rounds_.push_back(std::move(round));
  }
}

std::vector<Result> Contest::settle_here(const Result& form, const std::vector<Contestant>& names,
                                         std::vector<Round> rounds) const {
  const bool stateless = !between_cores_ || form.threads == 1 || turns::cores().size() < 2;
  // Without states, all rounds are of one.
  if (stateless) {
    for (Round& round : rounds) round.state = State::shared;
  }
  auto results = settle(form, names, rounds);
  for (Result& result : results) {
    if (stateless) {
      result.state = State::none;
      result.extra.erase("state_changed");
    }
    if (form.threads > turns::cores().size()) {
      result.verdict = "no verdict: more workers than cores";
    }
  }
  return results;
}

std::vector<std::size_t> Contest::by_median(std::vector<std::size_t> variants) const {
  const auto median_of = [this](std::size_t who) {
    std::vector<double> values;
    for (const Round& round : rounds_) values.push_back(round.readings[who].value);
    return summarize(std::move(values)).median;
  };
  std::stable_sort(variants.begin(), variants.end(),
                   [&](std::size_t a, std::size_t b) { return median_of(a) < median_of(b); });
  return variants;
}

std::vector<Result> Contest::results(const Result& form,
                                     const std::vector<std::size_t>& who) const {
  std::vector<Contestant> names;
  std::vector<Round> rounds(rounds_.size());
  for (std::size_t r = 0; r < rounds.size(); ++r) rounds[r].state = rounds_[r].state;
  for (const std::size_t one : who) {
    names.push_back({one == kNoLimit ? std::string() : names_[one], {}});
    for (std::size_t r = 0; r < rounds.size(); ++r) {
      rounds[r].readings.push_back(one == kNoLimit ? Reading() : rounds_[r].readings[one]);
    }
  }
  auto results = settle_here(form, names, std::move(rounds));
  if (who.size() > 1 && who[1] == kNoLimit) {
    for (Result& result : results) {
      result.limit.reset();
      result.ratio.reset();
    }
  }
  return results;
}

std::vector<Result> Contest::speedups(const Result& form, std::size_t who, std::size_t than) const {
  std::vector<Round> rounds;
  for (const Round& round : rounds_) {
    rounds.push_back({round.state, {{round.readings[than].value / round.readings[who].value}}});
  }
  return settle_here(form, {{names_[who], {}}}, std::move(rounds));
}

Result form(std::string mode, unsigned workers) {
  Result result = figure("task", std::move(mode), "ns", Better::lower);
  result.threads = workers;
  return result;
}

void print_all(const std::vector<Result>& results, const Options& options) {
  for (const Result& result : results) print(result, options.json);
}

}  // namespace weft::bench::tasks
