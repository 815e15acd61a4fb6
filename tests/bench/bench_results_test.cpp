// Results: their JSON lines, grouping by cache state, and the table of targets.
#include <gtest/gtest.h>

#include "harness/contest.hpp"
#include "report/results_file.hpp"
#include "report/targets.hpp"

namespace weft::bench {
namespace {

Result latency(double ratio, double spread, State state = State::shared) {
  Result r = figure("latency", "matched", "ns", Better::lower);
  r.size_bytes = 8;
  r.devices = 1;
  r.value = {ratio * 50, (ratio - spread) * 50, (ratio + spread) * 50, 10};
  r.limit_name = "cache_line_one_way";
  r.limit = Summary{50, 50, 50, 10};
  r.ratio = Summary{ratio, ratio - spread, ratio + spread, 10};
  r.state = state;
  return r;
}

const Target& target_of(const Result& result, std::string_view measure = "ratio") {
  for (const Target& target : all_targets()) {
    if (target.speaks_of(result) && target.measure == measure) return target;
  }
  throw std::runtime_error("no target speaks of " + title(result));
}

TEST(Results, ALineCarriesEverythingAndComesBack) {
  Result r = latency(1.4, 0.05);
  r.fairness = 0.8;
  r.extra["window"] = 64;
  const auto line = to_json(r);
  for (const char* key :
       {"bench",   "mode",     "size_bytes", "threads",    "devices",  "median", "spread",
        "samples", "unit",     "better",     "limit_name", "limit",    "ratio",  "state",
        "verdict", "fairness", "window",     "commit",     "compiler", "flags",  "cpu",
        "cores",   "kernel",   "date",       "security"}) {
    EXPECT_TRUE(line.contains(key)) << key;
  }
  const auto back = parse_results(line.dump() + "\n\n", "text");
  ASSERT_EQ(back.size(), 1U);
  EXPECT_EQ(identity(back[0]), identity(r));
  EXPECT_DOUBLE_EQ(back[0].value.median, r.value.median);
  EXPECT_NEAR(back[0].ratio->spread(), 0.05, 1e-9);
  EXPECT_EQ(back[0].state, State::shared);
  EXPECT_TRUE(back[0].lower_is_better);
  EXPECT_DOUBLE_EQ(*back[0].fairness, 0.8);
}

/// Lines from before it was told are of the same figures as those without tags.
TEST(Results, ThoseOfAnotherSecurityAreOtherFigures) {
  auto line = to_json(latency(1.4, 0.05));
  line["security"] = "plain";
  const auto identity_of = [&] { return identity(from_json(line)); };
  const std::string plain = identity_of();
  line["security"] = "mac";
  EXPECT_NE(identity_of(), plain);
  line.erase("security");
  EXPECT_EQ(identity_of(), plain);
}

TEST(Results, WhatWasNotMeasuredIsNullAndNotZero) {
  Result r = figure("counters", "matched", "instructions", Better::lower);
  r.verdict = "not measured: no counters";
  const auto line = to_json(r);
  EXPECT_TRUE(line["median"].is_null());
  EXPECT_TRUE(line["limit"].is_null());
  const Result back = from_json(line);
  EXPECT_EQ(back.value.samples, 0U);
  EXPECT_EQ(back.verdict, r.verdict);
  EXPECT_EQ(short_text(back), "counters matched: not measured: no counters");
}

TEST(Results, AStateInWhichNothingWasMeasuredIsNamed) {
  const Result measured = latency(1.4, 0.05);
  const Target& target = target_of(measured);
  using States = std::vector<State>;
  EXPECT_EQ(states_missing(target, {latency(1, 0)}), States{State::unshared});
  EXPECT_EQ(states_missing(target, {latency(1, 0), latency(1, 0, State::unshared)}), States{});
  const States both{State::shared, State::unshared};
  EXPECT_EQ(states_missing(target, {latency(1, 0, State::unknown)}), both);
  EXPECT_EQ(states_missing(target, {latency(1, 0, State::one_core)}), both);
  EXPECT_EQ(states_missing(target, {latency(1, 0, State::none)}), States{});
  EXPECT_EQ(states_missing(target, {}), States{}) << "then the whole line says so";
  Result other = latency(1, 0);
  other.mode = "queue";
  EXPECT_EQ(states_missing(target, {other, latency(1, 0)}), States{State::unshared});
  Target alone = target;
  alone.only_state = State::shared;
  EXPECT_EQ(states_missing(alone, {latency(1, 0)}), States{});
  EXPECT_EQ(states_missing(alone, {latency(1, 0, State::unknown)}), States{}) << "as with nothing";
}

TEST(Results, ABadLineIsNamed) {
  try {
    parse_results("{\"bench\": 1}\n", "file.json");
    FAIL() << "it was accepted";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("file.json:1"), std::string::npos) << error.what();
  }
  EXPECT_THROW(parse_results("no json", "x"), std::runtime_error);
}

TEST(Results, UnitsArePrintedForPeople) {
  EXPECT_EQ(with_unit(74.26, "ns"), "74.3 ns");
  EXPECT_EQ(with_unit(1430, "ns"), "1.43 µs");
  EXPECT_EQ(with_unit(23.1e6, "/s"), "23.1 M/s");
  EXPECT_EQ(with_unit(46e9, "B/s"), "46.0 GB/s");
  EXPECT_EQ(with_unit(8, "B"), "8 B");
  EXPECT_EQ(with_unit(65536, "B"), "64.0 KiB");
}

std::vector<Round> rounds_of(State state, std::size_t count, double value, double limit) {
  return std::vector<Round>(count, Round{state, {{value, 0.5}, {limit, -1}}});
}

const std::vector<Contestant> kTwo{{"figure", {}}, {"limit", {}}};

TEST(Settle, EachStateBecomesAResultAndChangedRoundsAreOnlyCounted) {
  auto rounds = rounds_of(State::shared, 4, 60, 50);
  for (const auto& more :
       {rounds_of(State::unshared, 5, 220, 200), rounds_of(State::one_core, 3, 50, 20),
        rounds_of(State::unknown, 9, 1000, 1)}) {
    rounds.insert(rounds.end(), more.begin(), more.end());
  }
  const auto results = settle(latency(0, 0), kTwo, rounds);
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results[0].verdict, "ok");
  EXPECT_EQ(results[2].state, State::one_core);
  EXPECT_EQ(results[2].verdict.rfind("no verdict", 0), 0U);
  EXPECT_EQ(results[0].state, State::shared);
  EXPECT_DOUBLE_EQ(results[0].value.median, 60);
  EXPECT_DOUBLE_EQ(results[0].ratio->median, 1.2);
  EXPECT_EQ(results[1].state, State::unshared);
  EXPECT_DOUBLE_EQ(results[1].ratio->median, 1.1);
  EXPECT_EQ(results[1].extra["state_changed"], 9);
  EXPECT_EQ(results[1].limit_name, "limit");
  EXPECT_DOUBLE_EQ(*results[1].fairness, 0.5);
}

TEST(Settle, ChangesEverywhereGiveNoVerdict) {
  const auto results = settle(latency(0, 0), kTwo, rounds_of(State::unknown, 6, 100, 50));
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].state, State::unknown);
  EXPECT_EQ(results[0].verdict.rfind("no verdict", 0), 0U);
  EXPECT_EQ(check(target_of(results[0]), results[0]), Reached::no_verdict);
}

TEST(Targets, AreReachedMissedOrUndecided) {
  EXPECT_EQ(check(target_of(latency(1.4, 0.05)), latency(1.4, 0.05)), Reached::yes);
  EXPECT_EQ(check(target_of(latency(1.7, 0.05)), latency(1.7, 0.05)), Reached::no);
  EXPECT_EQ(check(target_of(latency(1.45, 0.1)), latency(1.45, 0.1)), Reached::no_verdict);
  Result failed = latency(1, 0);
  failed.verdict = "failed: exit code 1";
  EXPECT_EQ(check(target_of(failed), failed), Reached::no);
}

TEST(Targets, MatchedRateAsksLessOfASharedCache) {
  Result r = figure("rate", "matched", "/s", Better::higher);
  r.size_bytes = 8;
  r.devices = 1;
  r.value = {4e7, 4e7, 4e7, 10};
  r.ratio = Summary{0.3, 0.3, 0.3, 10};
  r.state = State::shared;
  EXPECT_EQ(check(target_of(r), r), Reached::yes);
  r.state = State::unshared;
  EXPECT_EQ(check(target_of(r), r), Reached::no);
}

TEST(Targets, ManyThreadsMayReachTheAbsoluteRateInstead) {
  Result r = figure("rate", "queue", "/s", Better::higher);
  r.size_bytes = 8;
  r.threads = 64;
  r.devices = 63;
  r.value = {13e6, 13e6, 13e6, 5};
  r.ratio = Summary{0.3, 0.29, 0.31, 5};
  r.fairness = 0.4;
  EXPECT_EQ(check(target_of(r), r), Reached::yes);
  EXPECT_EQ(check(target_of(r, "fairness"), r), Reached::no);
  r.value = {11e6, 11e6, 11e6, 5};
  EXPECT_EQ(check(target_of(r), r), Reached::no);
}

TEST(Targets, PutsIntoOrdinaryMemoryAreAnotherFigure) {
  Result r = figure("bandwidth", "put", "B/s", Better::higher);
  r.size_bytes = 1 << 20;
  r.extra["memory"] = "weft";
  EXPECT_NO_THROW(target_of(r));
  r.extra["memory"] = "ordinary";
  EXPECT_THROW(target_of(r), std::runtime_error);
}

}  // namespace
}  // namespace weft::bench
