// Smoke tests of weft-bench as a user runs it: every benchmark for a moment between real processes;
// each printed line must be a whole result. Nothing is asserted about how fast anything was.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "harness/process.hpp"
#include "report/results_file.hpp"

namespace weft::bench {
namespace {

const std::string kFolder = WEFT_BENCH_FOLDER;
constexpr double kWatchdogSeconds = 200;

Finished run(const std::string& arguments, bool quiet = false) {
  std::istringstream split(kFolder + "/weft-bench " + arguments);
  return run_program({std::istream_iterator<std::string>(split), {}}, kWatchdogSeconds, quiet);
}

// The results of a benchmark that must succeed.
std::vector<Result> measure(const std::string& arguments) {
  const auto finished = run(arguments + " --seconds 0.05 --json");
  EXPECT_EQ(finished.code, 0) << arguments << "\n" << finished.output;
  auto results = parse_results(finished.output, arguments);
  if (results.empty()) throw std::runtime_error(arguments + ": no results");  // fails the test
  for (const Result& r : results) {
    SCOPED_TRACE(arguments + ": " + to_text(r));
    EXPECT_FALSE(r.bench.empty());
    EXPECT_FALSE(r.unit.empty());
    EXPECT_TRUE(std::isfinite(r.value.median));
    EXPECT_TRUE(r.verdict == "ok" || r.verdict.rfind("no", 0) == 0) << r.verdict;
    if (r.verdict.rfind("not measured", 0) != 0) {
      EXPECT_GT(r.value.samples, 0U);
      EXPECT_TRUE(r.extra["median"].is_number());
    }
    for (const char* key :
         {"commit", "compiler", "flags", "cpu", "kernel", "date", "security", "spread"}) {
      EXPECT_TRUE(r.extra.contains(key)) << key;
    }
  }
  return results;
}

class EachMode : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Modes, EachMode,
                         testing::Values("matched", "queue", "handler", "put", "get"),
                         [](const auto& parameter) { return std::string(parameter.param); });

TEST_P(EachMode, LatencySmallAndLargeAndThreaded) {
  const std::string mode = GetParam();
  for (const char* more : {"", " --size 4K", " --size 256K", " --threads 4", " --wait block"}) {
    const auto results = measure("latency --mode " + mode + more);
    EXPECT_EQ(results[0].bench, "latency");
    EXPECT_EQ(results[0].mode, mode);
    EXPECT_TRUE(results[0].limit.has_value());
    EXPECT_TRUE(results[0].ratio.has_value());
  }
}

TEST_P(EachMode, RateAndBandwidth) {
  const std::string mode = GetParam();
  for (const char* more : {"", " --size 0", " --threads 4 --devices 2", " --threads 3"}) {
    if (mode == "get" && std::string(more) == " --size 0") continue;
    const auto results = measure("rate --mode " + mode + more);
    EXPECT_EQ(results[0].unit, "/s");
    if (results[0].threads > 1) {
      ASSERT_TRUE(results[0].fairness.has_value());
      EXPECT_LE(*results[0].fairness, 1);
      EXPECT_EQ(results[0].limit_name, "own_rate_1x1");
    }
  }
  for (const char* more : {" --size 64K", " --size 1M", " --size 64K --threads 2"}) {
    EXPECT_EQ(measure("bandwidth --mode " + mode + more)[0].unit, "B/s");
  }
}

TEST(WeftBench, LocksHaveARateAndTheSharesOfTheTime) {
  const auto results = measure("locks --threads 3");
  EXPECT_EQ(results.size(), 9U);
  for (const Result& r : results) {
    EXPECT_GT(r.value.median, 0) << r.mode;
    EXPECT_EQ(r.limit_name, "two_threads");
    const double all = r.extra.value("issue_percent", 0.0) + r.extra.value("poll_percent", 0.0) +
                       r.extra.value("empty_percent", 0.0) +
                       r.extra.value("synchronization_percent", 0.0);
    EXPECT_NEAR(all, 100, 0.5) << r.mode;
  }
}

TEST(WeftBench, WindowsAreWaitedForInFourWays) {
  const auto results = measure("windows --threads 3");
  ASSERT_EQ(results.size(), 4U);
  EXPECT_TRUE(results[0].limit_name.empty());
  for (const Result& r : results) {
    EXPECT_GT(r.value.median, 0) << r.mode;
    if (&r != &results[0]) {
      EXPECT_EQ(r.limit_name, "condition");
    }
  }
}

TEST(WeftBench, EachMessageOfAWindowMayHaveATagOfItsOwn) {
  for (const char* more : {"", " --size 64K", " --threads 3"}) {
    const auto results = measure(std::string("rate --mode matched --own-tags") + more);
    EXPECT_EQ(results[0].mode, "matched_own_tags");
  }
  for (const char* no : {"rate --mode queue --own-tags", "latency --own-tags"})
    EXPECT_EQ(run(no, true).code, 2) << no;
}

TEST(WeftBench, PutsAndGetsInOrdinaryMemory) {
  for (const char* mode : {"put", "get"}) {
    const auto results = measure(std::string("bandwidth --size 256K --ordinary --mode ") + mode);
    EXPECT_EQ(results[0].limit_name, "cross_memory_attach");
    measure(std::string("latency --size 64K --ordinary --mode ") + mode);
  }
}

TEST(WeftBench, EveryProgressModeAndAssignment) {
  for (const char* more : {"--progress explicit", "--progress waiters", "--progress server",
                           "--assignment round_robin --devices 3"}) {
    measure(std::string("pingpong --threads 3 ") + more);
  }
}

TEST(WeftBench, LimitsHaveEachFigureOnce) {
  std::vector<std::string> names;
  for (const Result& r : measure("limits")) names.push_back(r.mode);
  for (const char* name : {"cache_line_one_way", "ring", "memcpy", "cross_memory_attach",
                           "futex_round_trip_one_core", "system_call", "yield", "clock"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
}

TEST(WeftBench, ExplainGivesThePartsAndTheirSum) {
  const Result r = measure("latency --explain")[0];
  double sum = 0;
  for (const char* part : {"transfer", "matching", "pool", "completion"}) {
    ASSERT_TRUE(r.extra.contains(part)) << part;
    sum += r.extra[part].get<double>();
  }
  EXPECT_GT(sum, 0);
  EXPECT_EQ(r.limit_name, "sum_of_parts");
  EXPECT_TRUE(r.extra.contains("off_percent"));
}

TEST(WeftBench, FloodsLoseNothingAndStayWithinTheBound) {
  for (const char* mode : {"matched", "queue", "handler"}) {
    for (const char* size : {"8", "2K", "64K"}) {
      const Result r = measure(std::string("flood --mode ") + mode + " --size " + size)[0];
      EXPECT_EQ(r.extra["nothing_lost"], true);
      EXPECT_GT(r.extra["sent"].get<uint64_t>(), 0U);
      EXPECT_EQ(r.extra["sent"], r.extra["received"]);
#ifndef WEFT_SANITIZED  // a sanitizer keeps freed memory, and much of its own
      EXPECT_LE(r.value.median, r.limit->median);
#endif
    }
  }
}

TEST(WeftBench, IdleTellsShareAndWakeUp) {
  const auto results = measure("idle");
  EXPECT_EQ(results.back().mode, "cpu_share");
  EXPECT_EQ(results.front().mode, "wake");
}

TEST(WeftBench, CountersMeasureOrSayWhyNot) {
  for (const Result& r : measure("counters")) {
    if (r.value.samples == 0) {
      EXPECT_NE(r.verdict.find("perf_event_open"), std::string::npos) << r.verdict;
    } else {
      EXPECT_GT(r.value.median, 0);
    }
  }
}

TEST(WeftBench, StartAndMemoryOfSmallJobs) {
  const auto start = measure("start --ranks 3");
  ASSERT_EQ(start.size(), 2U);
  EXPECT_EQ(start[1].extra["rival"], "rival not installed");
  EXPECT_GE(start[1].value.median, start[0].value.median);
  const auto memory = measure("memory --ranks 2");
  ASSERT_EQ(memory.size(), 1U);
  EXPECT_GT(memory[0].value.median, 0);
}

TEST(WeftBench, RefusesWhatMakesNoSense) {
  EXPECT_EQ(run("latency --mode telepathy", true).code, 2);
  EXPECT_EQ(run("latency --threads 0", true).code, 2);
  EXPECT_EQ(run("nothing", true).code, 2);
  EXPECT_EQ(run("", true).code, 2);
  for (const char* size : {"-1", "-1K", "99999999999", "2G", "1025M", "many", "8Q", "1.5"}) {
    EXPECT_EQ(run(std::string("latency --size ") + size, true).code, 2) << size;
  }
  for (const char* more : {"--mode put", "--threads 2", "--wait block"}) {
    EXPECT_EQ(run(std::string("latency --explain ") + more, true).code, 2) << more;
  }
  EXPECT_EQ(run("latency --size 0", true).code, 1);
  EXPECT_EQ(run("flood --mode put", true).code, 1);
  EXPECT_EQ(run("report /nonexistent", true).code, 1);
  const auto three =
      run_program({kFolder + "/weftrun", "-n", "3", kFolder + "/weft-bench", "latency"},
                  kWatchdogSeconds, true);
  EXPECT_EQ(three.code, 1);
}

// Each with few tasks, and the rows that one core must give, and those that need two.
struct TaskBench {
  const char* words;
  std::vector<std::string> modes;
  std::vector<std::string> modes_of_two = {};
};

TEST(WeftBench, TasksAreMeasuredEachBesideItsRivals) {
  const TaskBench benches[] = {
      {"spawn --tasks 100", {"spawn_100"}},
      {"yield", {"yield"}},
      {"yield --tasks 7", {"yield_7"}},
      {"pingpong --tasks 7",
       {"pingpong_7", "pingpong_two_levels_7"},
       {"pingpong_7", "pingpong_two_levels_7"}},
      {"pingpong", {"pingpong", "pingpong_two_levels"}, {"pingpong", "pingpong_two_levels"}},
      {"fib --tasks 300",
       {"fib_11_both", "fib_11_call"},
       {"fib_11_both_2_over_1", "fib_11_both_half_words"}},
      {"queens --tasks 600",
       {"queens_7"},
       {"queens_7", "queens_7_2_over_1", "queens_7_half_words"}},
      {"uts --tasks 2100",
       {"uts_part_of_T3"},
       {"uts_part_of_T3", "uts_part_of_T3_2_over_1", "uts_part_of_T3_half_words"}},
      {"mutex --tasks 4 --workers 1", {"mutex_0", "mutex_128", "mutex_1024", "mutex_32768"}},
      {"mutex --tasks 4 --workers 2", {}, {"mutex_0", "mutex_32768"}},
      {"barrier --tasks 5", {"barrier_5"}, {"barrier_5"}},
      {"blocked --tasks 300",
       {"blocked_300_cold", "blocked_300_warm", "blocked_300_end", "blocked_300_memory"}},
  };
  for (const TaskBench& bench : benches) {
    const auto results = measure(std::string("task ") + bench.words);
    const auto has = [&](const std::string& mode, unsigned workers) {
      return std::any_of(results.begin(), results.end(), [&](const Result& r) {
        return r.bench == "task" && r.mode == mode && r.threads == workers;
      });
    };
    for (const auto& mode : bench.modes) EXPECT_TRUE(has(mode, 1)) << mode;
    if (results[0].extra["cores"].get<int>() < 2) continue;
    for (const auto& mode : bench.modes_of_two) EXPECT_TRUE(has(mode, 2)) << mode;
  }
}

TEST(WeftBench, TasksHaveLimitsAndOneNameOrAll) {
#ifndef WEFT_SANITIZED  // it does not know of the rivals' switches
  EXPECT_TRUE(measure("task spawn --tasks 10")[0].limit_name.starts_with("boost_fiber"));
  EXPECT_EQ(measure("task yield")[0].limit_name, "two_bare_switches");
#endif
  const auto blocked = measure("task blocked --tasks 300");
  EXPECT_EQ(blocked[0].limit_name, "first_touch");
  EXPECT_TRUE(blocked[3].extra.contains("page_tables"));
  for (const Result& r : blocked) EXPECT_EQ(r.extra["bytes_per_task"], blocked[3].extra["median"]);
  const auto all = measure("task --tasks 40 --workers 1");
  for (const char* mode : {"spawn_40", "yield_40", "pingpong_40", "fib_7_both", "queens_4",
                           "uts_part_of_T3", "mutex_128", "barrier_40", "blocked_40_cold"}) {
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Result& r) {
      return r.mode == mode;
    })) << mode;
  }
  EXPECT_EQ(run("task sleep", true).code, 2);
  EXPECT_EQ(run("task spawn --tasks 0", true).code, 2);
  // What they would not honour they refuse.
  for (const char* words :
       {"pingpong --workers 3", "pingpong --tasks 1", "yield --workers 2", "yield --tasks 1",
        "blocked --workers 2", "queens --workers 2,1", "queens --workers 1,2,2"}) {
    EXPECT_EQ(run(std::string("task ") + words, true).code, 2) << words;
  }
  EXPECT_EQ(measure("task pingpong --workers 1").size(), 2U);
}

TEST(WeftBench, SeveralNumbersOfWorkersAreBesideEachOther) {
  const auto all = measure("task --workers 1,2,3 queens --tasks 40");
  for (const unsigned workers : {2U, 3U}) {
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Result& r) {
      return r.threads == workers && r.mode.ends_with("_" + std::to_string(workers) + "_over_1");
    })) << workers;
  }
}

TEST(WeftBench, QuickPrintsLinesAndTakesItsLengthFromTheUser) {
  std::vector<std::string> benches;
  for (const Result& r : measure("quick")) benches.push_back(r.bench);
  for (const char* bench : {"latency", "rate", "bandwidth"}) {
    EXPECT_NE(std::find(benches.begin(), benches.end(), bench), benches.end()) << bench;
  }
  const auto table = run("quick --seconds 0.05");
  EXPECT_EQ(table.code, 0);
  EXPECT_NE(table.output.find("limit is"), std::string::npos) << table.output;
}

TEST(WeftBench, AllIntoAFileThenReportAndCompare) {
  char made[] = "/tmp/weft-bench-test-XXXXXX";
  ASSERT_NE(mkdtemp(made), nullptr);
  const std::string folder = made;
  const std::string file = folder + "/results.json";
  EXPECT_EQ(run("all " + file + " --seconds 0.02 --only flood").code, 0);
  const auto results = read_results(file);
  EXPECT_EQ(results.size(), 3U);
  const auto report = run("report " + file);
  EXPECT_EQ(report.code, 0);
  EXPECT_NE(report.output.find("flood: memory within its bound, queue"), std::string::npos);
  EXPECT_NE(report.output.find("not measured"), std::string::npos);
  const auto same = run("compare " + file + " " + file);
  EXPECT_EQ(same.code, 0);
  EXPECT_NE(same.output.find("no verdict"), std::string::npos) << same.output;
  EXPECT_EQ(same.output.find("worse"), std::string::npos) << same.output;
  EXPECT_EQ(run("scaling " + file + " --seconds 0.02 --only pingpong").code, 0);
  EXPECT_FALSE(read_results(file).empty());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft::bench
