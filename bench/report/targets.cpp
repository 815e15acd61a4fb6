#include "report/targets.hpp"

#include <fmt/format.h>

#include <cmath>

namespace weft::bench {
namespace {

constexpr std::size_t kKi = 1024;
constexpr std::size_t kMi = 1024 * kKi;

std::vector<Target> make_targets() {
  std::vector<Target> targets;
  const auto at_most = [&](std::string what, std::string bench, std::string mode, std::size_t size,
                           double reach, std::string measure = "ratio") {
    add_target(targets, std::move(bench), std::move(what), std::move(mode), 1, std::move(measure),
               true, reach)
        .size_bytes = size;
  };
  const auto at_least = [&](std::string what, std::string bench, std::string mode, std::size_t size,
                            double reach, unsigned threads = 1, unsigned devices = 0,
                            std::string measure = "ratio") {
    Target& added = add_target(targets, std::move(bench), std::move(what), std::move(mode), threads,
                               std::move(measure), false, reach);
    added.size_bytes = size;
    added.devices = devices;
  };
  for (const char* mode : {"matched", "handler", "queue"}) {
    at_most(fmt::format("8 B one-way latency, {}", mode), "latency", mode, 8, 1.5);
  }
  at_most("8 B latency explained by its parts, off by", "latency_explain", "matched", 8, 10,
          "off_percent");
  for (const char* mode : {"queue", "handler", "matched"}) {
    at_least(fmt::format("8 B message rate, {}", mode), "rate", mode, 8, 0.5);
  }
  targets.back().reach_shared = 0.25;  // matched
  for (const unsigned devices : {1U, 64U}) {
    for (const char* mode : {"queue", "handler", "matched"}) {
      const std::string what = fmt::format("8 B rate, 64 x 64 threads, {} devices, {}",
                                           devices == 1 ? "shared" : "own", mode);
      at_least(what, "rate", mode, 8, 0.5, 64, devices);
      targets.back().or_value = 12e6;
      at_least(what + ": fairness", "rate", mode, 8, 0.5, 64, devices, "fairness");
    }
  }
  at_least("64 threads in one section, clhub, beside 2", "locks", "clhub", 0, 0.5, 64);
  at_least("the same: fairness", "locks", "clhub", 0, 0.5, 64, 0, "fairness");
  at_least("blocking ping-pong, 64 pairs, messages/s on each core", "pingpong", "matched", 8, 1,
           64);
  for (const std::size_t size : {64 * kKi, kMi}) {
    at_least("bandwidth, ordinary buffers, matched", "bandwidth", "matched", size, 0.95);
  }
  for (const std::size_t size : {64 * kKi, kMi}) {
    at_least("put into weft-allocated memory", "bandwidth", "put", size, 0.9);
    targets.back().memory = "weft";
  }
  at_most("a waiting rank's share of a core, in percent", "idle", "cpu_share", 8, 1);
  at_most("waking a waiting rank", "idle", "wake", 8, 2);
  for (const char* mode : {"matched", "queue", "handler"}) {
    at_most(fmt::format("flood: memory within its bound, {}", mode), "flood", mode, 8, 1);
  }
  at_most("resident memory of an idle rank of 2", "memory", "idle_rank_of_2", 0, 1);
  at_most("resident memory of an idle rank of 64", "memory", "idle_rank_of_64", 0, 1);
  at_most("its growth with ranks", "memory", "growth_per_rank", 0, 1);
  at_most("64 ranks, start to end, beside MPICH", "start", "whole_64", 0, 1);
  add_structure_targets(targets);
  add_matching_targets(targets);
  add_task_targets(targets);
  return targets;
}

// The measure of a target in a result, with its noise.
struct Measured {
  double value;
  double noise;
};

std::optional<Measured> measured(const Target& target, const Result& result) {
  if (target.measure == "ratio") {
    if (!result.ratio) return std::nullopt;
    return Measured{result.ratio->median, result.ratio->spread()};
  }
  if (target.measure == "value") return Measured{result.value.median, result.value.spread()};
  if (target.measure == "fairness") {
    if (!result.fairness) return std::nullopt;
    return Measured{*result.fairness, 0};
  }
  const auto extra = result.extra.find(target.measure);
  if (extra == result.extra.end() || !extra->is_number()) return std::nullopt;
  return Measured{extra->get<double>(), result.extra.value(target.measure + "_noise", 0.0)};
}

Reached against(double value, double noise, bool at_most, double reach) {
  if (noise > 0 && std::abs(value - reach) <= noise) return Reached::no_verdict;
  return (at_most ? value <= reach : value >= reach) ? Reached::yes : Reached::no;
}

}  // namespace

bool Target::speaks_of(const Result& result) const {
  if (bench != result.bench || mode != result.mode || size_bytes != result.size_bytes) return false;
  if (threads != result.threads || (only_state && *only_state != result.state)) return false;
  if (!memory.empty() && result.extra.value("memory", memory) != memory) return false;
  // Own devices: any number that is not one, for there may be fewer than threads.
  return devices == 0 || (devices == 1) == (result.devices == 1);
}

double Target::reach_in(State state) const {
  return state == State::shared && reach_shared ? *reach_shared : reach;
}

std::string Target::text(const Result& result) const {
  const char* const sign = at_most ? "<=" : ">=";
  std::string text = fmt::format("{} {}", sign,
                                 measure == "value" ? with_unit(reach_in(result.state), result.unit)
                                                    : fmt::format("{:g}", reach_in(result.state)));
  if (or_value) text += fmt::format(" or {} {}", sign, with_unit(*or_value, result.unit));
  return text;
}

Target& add_target(std::vector<Target>& targets, std::string bench, std::string what,
                   std::string mode, unsigned threads, std::string measure, bool at_most,
                   double reach) {
  return targets.emplace_back(Target{.what = std::move(what),
                                     .bench = std::move(bench),
                                     .mode = std::move(mode),
                                     .threads = threads,
                                     .measure = std::move(measure),
                                     .at_most = at_most,
                                     .reach = reach});
}

const std::vector<Target>& all_targets() {
  static const std::vector<Target> targets = make_targets();
  return targets;
}

Reached check(const Target& target, const Result& result) {
  if (result.verdict.rfind("failed", 0) == 0) return Reached::no;
  if (result.verdict != "ok") return Reached::no_verdict;
  const auto found = measured(target, result);
  if (!found) return Reached::no_verdict;
  const Reached first =
      against(found->value, found->noise, target.at_most, target.reach_in(result.state));
  if (first == Reached::yes || !target.or_value) return first;
  const Reached second =
      against(result.value.median, result.value.spread(), target.at_most, *target.or_value);
  return second == Reached::no ? first : second;
}

std::vector<State> states_missing(const Target& target, const std::vector<Result>& results) {
  std::vector<State> missing{State::shared, State::unshared};
  if (target.only_state) missing = {*target.only_state};
  bool known = false;
  for (const Result& result : results) {
    if (!target.speaks_of(result)) continue;
    if (result.state == State::none) return {};
    known = true;
    std::erase(missing, result.state);
  }
  return known ? missing : std::vector<State>{};
}

}  // namespace weft::bench
