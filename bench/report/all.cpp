// weft-bench all FILE: the whole list of figures, one run after the other, each a job of its own,
// so that one that fails costs its own figures alone. Results go to the file as they come.
// weft-bench scaling FILE: what becomes of it with more threads, and workers, up to one a core.
// weft-bench quick: what a message costs, in a few seconds, as a table.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "comm/benches.hpp"
#include "harness/machine.hpp"
#include "harness/pair.hpp"
#include "harness/process.hpp"
#include "report/results_file.hpp"
#include "task/task.hpp"
#include "turns.hpp"

namespace weft::bench {
namespace {

struct Run {
  std::string words;  ///< separated by blanks
  double seconds;     ///< 0: it decides itself
};

constexpr const char* kModes[] = {"matched", "handler", "queue", "put", "get"};
constexpr unsigned kManyThreads[] = {2, 8, 64};

// About twenty minutes with --seconds 2, the default.
std::vector<Run> plan(double seconds) {
  std::vector<Run> runs{{"limits", 6 * seconds}};
  const auto add = [&](std::string words, double share = 1) {
    runs.push_back({std::move(words), share * seconds});
  };
  // What a target speaks of has more time.
  for (const char* mode : kModes) {
    add(fmt::format("latency --mode {}", mode), 2);
    for (const char* size : {"64", "4K", "64K", "1M"}) {
      add(fmt::format("latency --mode {} --size {}", mode, size));
    }
    for (const unsigned threads : kManyThreads) {
      add(fmt::format("latency --mode {} --threads {}", mode, threads), threads == 64 ? 2 : 1);
      for (const char* size : {"64", "4K", "64K", "1M"}) {
        add(fmt::format("latency --mode {} --threads {} --size {}", mode, threads, size), 0.4);
      }
    }
  }
  add("latency --explain", 3);
  for (const char* mode : kModes) {
    add(fmt::format("rate --mode {}", mode), 2);
    for (const char* size : {"0", "64"}) add(fmt::format("rate --mode {} --size {}", mode, size));
  }
  add("rate --mode matched --own-tags", 2);
  for (const unsigned tasks : {1U, 16U, 64U, 256U, 1024U, 4096U, 16'384U}) {
    add(fmt::format("talk --tasks {}", tasks));
  }
  for (const unsigned tasks : {64U, 4096U}) {
    for (const unsigned ns : {100U, 500U, 2000U, 10'000U})
      add(fmt::format("talk --tasks {} --compute {}", tasks, ns), ns == 500 ? 1 : 0.5);
  }
  for (const unsigned tasks : {1U, 1024U, 65'536U, 1'000'000U}) {
    add(fmt::format("talk --one --tasks {}", tasks));
  }
  add("talk --tasks 1000000");
  for (const char* mode : kModes) {
    add(fmt::format("rate --mode {} --threads 2", mode));
    add(fmt::format("rate --mode {} --threads 8", mode), 2);
    add(fmt::format("rate --mode {} --threads 64 --devices 1", mode), 4);
    add(fmt::format("rate --mode {} --threads 64 --devices 63", mode), 4);
    // No target speaks of these: shorter.
    for (const char* size : {"0", "64"}) {
      add(fmt::format("rate --mode {} --threads 2 --size {}", mode, size), 0.5);
      add(fmt::format("rate --mode {} --threads 8 --size {}", mode, size));
      add(fmt::format("rate --mode {} --threads 64 --devices 1 --size {}", mode, size), 2);
    }
  }
  for (const std::string& name : task_benchmarks()) add("task " + name, 1.5);
  // At least three seconds each, for there are many locks.
  for (const unsigned threads : {1U, 2U, 4U, 8U, 16U, 32U, 64U}) {
    add(fmt::format("locks --threads {}", threads), threads == 64 ? 3 : 1);
  }
  for (const unsigned threads : {1U, 8U, 64U}) add(fmt::format("windows --threads {}", threads));
  for (const unsigned threads : {1U, 2U, 8U}) {
    for (const unsigned length : {0U, 1U, 32U, 128U, 1024U, 8192U}) {
      add(fmt::format("matching --threads {} --length {}", threads, length), 0.5);
      if (length > 1) {
        add(fmt::format("matching --threads {} --length {} --posted-only", threads, length), 0.5);
      }
    }
  }
  for (const char* size : {"64K", "1M", "16M"}) {
    for (const char* mode : {"matched", "handler", "queue", "put", "put --ordinary", "get"}) {
      add(fmt::format("bandwidth --mode {} --size {}", mode, size), 1.5);
      for (const unsigned threads : kManyThreads) {
        add(fmt::format("bandwidth --mode {} --size {} --threads {}", mode, size, threads), 0.4);
      }
    }
  }
  for (const unsigned threads : {1U, 8U, 64U}) {
    add(fmt::format("pingpong --threads {}", threads), threads == 64 ? 4 : 1);
  }
  for (const char* mode : {"matched", "queue", "handler"}) {
    add(fmt::format("flood --mode {}", mode), 1.5);
    add(fmt::format("counters --mode {}", mode));
  }
  add("idle", 4);
  add("memory");
  add("start", 3);
  add("structures", 0.2);
  return runs;
}

// For the demonstration: each figure of `quick` and what it is called there.
struct QuickRun {
  const char* words;
  const char* what;
};
constexpr QuickRun kQuick[] = {
    {"latency --mode matched", "8 B message, one way, matched"},
    {"latency --mode handler", "8 B message, one way, handler"},
    {"latency --mode queue", "8 B message, one way, queue"},
    {"rate --mode queue", "8 B messages a second, queue"},
    {"bandwidth --mode matched --size 1M", "1 MiB messages, ordinary buffers"},
    {"bandwidth --mode put --size 1M", "1 MiB puts into weft's memory"},
};

// 1, 2, 4 … and `most` itself.
std::vector<unsigned> doubling(unsigned most) {
  std::vector<unsigned> counts;
  for (unsigned count = 1; count < most; count *= 2) counts.push_back(count);
  counts.push_back(most);
  return counts;
}

// Each rank has half the cores. About ten minutes on 16 with --seconds 2, the default.
std::vector<Run> scaling_plan(unsigned cores, double seconds) {
  std::vector<Run> runs;
  const auto add = [&](std::string words, double share = 1) {
    runs.push_back({std::move(words), share * seconds});
  };
  const std::vector<unsigned> all = doubling(cores);
  for (const char* name : {"fib", "queens", "uts", "barrier"})
    add(fmt::format("task {} --workers {}", name, fmt::join(all, ",")), 2);
  for (const unsigned threads : all) {
    add(fmt::format("task mutex --workers {}", threads));
    add(fmt::format("locks --threads {}", threads));
    for (const unsigned length : {0U, 1U, 32U, 1024U})
      add(fmt::format("matching --threads {} --length {}", threads, length));
  }
  std::vector<unsigned> of_a_rank = doubling(std::max(1U, cores / 2));
  of_a_rank.push_back(std::min(8 * cores, 1024U));  // many more than cores
  for (const unsigned threads : of_a_rank) {
    for (const char* mode : kModes) {
      add(fmt::format("rate --mode {} --threads {}", mode, threads));
      add(fmt::format("latency --mode {} --threads {}", mode, threads));
    }
    if (threads > 1) add(fmt::format("rate --mode matched --threads {} --devices 1", threads));
    add(fmt::format("bandwidth --mode matched --threads {} --size 64K", threads));
    add(fmt::format("pingpong --threads {}", threads));
  }
  return runs;
}

std::vector<std::string> split(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

// What stands in the file for a run that gave nothing.
Result failed(const Run& run, const std::string& why) {
  const auto words = split(run.words);
  Result result = figure(words.front(), "", "", Better::lower);
  for (std::size_t i = 1; i + 1 < words.size(); ++i) {
    if (words[i] == "--mode") result.mode = words[i + 1];
  }
  result.verdict = "failed: " + why;
  result.extra["words"] = run.words;
  return result;
}

std::vector<Result> perform(const Run& run, const Options& options) {
  std::vector<std::string> words{program_path()};
  for (auto& word : split(run.words)) words.push_back(std::move(word));
  words.insert(words.end(), {"--json", "--seconds", fmt::format("{:.3f}", run.seconds)});
  if (words[1] == "start" && !options.mpich.empty()) {
    words.insert(words.end(), {"--mpich", options.mpich});
  }
  const auto finished = run_program(words, 180 + 20 * run.seconds);
  std::vector<Result> results;
  std::string why;
  try {
    results = parse_results(finished.output, run.words);
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (finished.code != 0) why = fmt::format("exit code {}", finished.code);
  if (results.empty() && why.empty()) why = "it printed nothing";
  if (!why.empty()) results.push_back(failed(run, why));
  return results;
}

// A line of the file: with its own words about the machine, where it has them.
std::string json_line(const Result& result) {
  return (result.extra.contains("commit") ? result.extra : to_json(result)).dump();
}

void print_quick(const QuickRun& quick, const Result& r) {
  // Padded by hand: µ is two bytes.
  const auto cell = [](const std::string& text) {
    const bool micro = text.find("µ") != std::string::npos;
    return fmt::format("{:>{}}", text, micro ? 13 : 12);
  };
  fmt::print("{:<34} {:>9} {} {} {:>7.2f}  {}\n", quick.what, name_of(r.state),
             cell(with_unit(r.value.median, r.unit)),
             cell(with_unit(r.limit ? r.limit->median : 0, r.unit)), r.ratio ? r.ratio->median : 0,
             r.limit_name);
}

}  // namespace

int run_quick(const Options& options) {
  if (!options.json) {
    fmt::print("{:<34} {:>9} {:>12} {:>12} {:>7}  {}\n", "", "cache", "weft", "limit", "ratio",
               "limit is");
  }
  for (const QuickRun& quick : kQuick) {
    for (const Result& r : perform({quick.words, options.seconds}, {})) {
      if (r.verdict.rfind("failed", 0) == 0) {
        fmt::print(stderr, "weft-bench {}: {}\n", quick.words, r.verdict);
        return 1;
      }
      if (options.json) {
        fmt::print("{}\n", json_line(r));
      } else {
        print_quick(quick, r);
      }
      std::fflush(stdout);
    }
  }
  return 0;
}

namespace {

int perform_all(const std::vector<Run>& runs, const Options& options) {
  std::ofstream file(options.file);
  if (!file) throw std::runtime_error("cannot write " + options.file);
  if (const double load = load_average(); load > 0.5) {
    fmt::print(stderr, "weft-bench: the machine is busy (load {:.1f}): these timings will lie\n",
               load);
  }
  unsigned failures = 0;
  for (const Run& run : runs) {
    if (run.words.find(options.only) == std::string::npos) continue;
    for (const Result& result : perform(run, options)) {
      failures += result.verdict.rfind("failed", 0) == 0 ? 1 : 0;
      file << json_line(result) << '\n' << std::flush;
      fmt::print("{}\n", short_text(result));
      std::fflush(stdout);
    }
  }
  if (failures != 0) fmt::print(stderr, "weft-bench: {} runs failed\n", failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace

int run_all(const Options& options) { return perform_all(plan(options.seconds), options); }

int run_scaling(const Options& options) {
  const auto cores = static_cast<unsigned>(turns::cores().size());
  return perform_all(scaling_plan(cores, options.seconds), options);
}

}  // namespace weft::bench
