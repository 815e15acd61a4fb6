// weft-bench: one program for all measurements. Parses the flags and starts what was asked for,
// under weftrun where two ranks are needed and nobody started them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "comm/benches.hpp"
#include "harness/pair.hpp"
#include "task/task.hpp"

namespace weft::bench {
namespace {

TaskOptions task_options;  // what `task` alone has
int run_task_as_wanted(const Options& options) { return run_task(options, task_options); }

enum class Needs { nothing, two_ranks, launcher };

struct Entry {
  const char* name;
  Needs needs;
  int (*run)(const Options&);
  const char* help;
};

constexpr Entry kEntries[] = {
    {"limits", Needs::two_ranks, run_limits, "the physical limits alone"},
    {"latency", Needs::two_ranks, run_latency, "one-way latency; --explain: its parts"},
    {"rate", Needs::two_ranks, run_rate, "message rate in one direction, windowed"},
    {"bandwidth", Needs::two_ranks, run_bandwidth, "bytes per second in one direction, windowed"},
    {"pingpong", Needs::two_ranks, run_pingpong, "messages that blocked threads exchange"},
    {"talk", Needs::two_ranks, run_talk, "messages that tasks exchange, each blocking"},
    {"flood", Needs::two_ranks, run_flood, "a sender that never waits, a receiver that sleeps"},
    {"idle", Needs::two_ranks, run_idle, "what a waiting rank costs, and how fast it wakes"},
    {"counters", Needs::two_ranks, run_counters, "instructions and cache misses per operation"},
    {"receives", Needs::two_ranks, run_receives,
     "between nodes: what is received into, and how much is done at a time"},
    {"start", Needs::nothing, run_start, "start of a job, to first message and whole"},
    {"memory", Needs::nothing, run_memory, "resident memory of an idle rank"},
    {"structures", Needs::nothing, run_structures, "pool, matching, rings, queues against rivals"},
    {"locks", Needs::nothing, run_locks, "threads through one critical section, lock by lock"},
    {"windows", Needs::nothing, run_windows, "threads that wait for the last of 64 completions"},
    {"matching", Needs::nothing, run_matching,
     "MPI's matching engines by queue length and threads"},
    {"task", Needs::nothing, run_task_as_wanted, "tasks: spawn, switch, signal, steal, wait"},
    {"quick", Needs::nothing, run_quick, "what a message costs, in a few seconds"},
    {"all", Needs::nothing, run_all, "everything, into a file"},
    {"scaling", Needs::nothing, run_scaling, "threads and workers, up to one a core, into a file"},
    {"report", Needs::nothing, run_report, "a file's figures beside their targets"},
    {"compare", Needs::nothing, run_compare, "two files, figure by figure"},
    {"hello", Needs::launcher, run_hello, ""},
    {"resident", Needs::launcher, run_resident, ""},
};

constexpr std::size_t kLargestSize = std::size_t{1} << 30;

// A size with or without its unit, in range: what is too large to ask for is said before anything
// is started.
std::string to_size(std::string& text) {
  const std::string given = text;
  std::string why = "is no number of bytes";
  try {
    if (given.find('-') != std::string::npos) {
      why = "is negative";
    } else if (CLI::AsSizeValue(false)(text).empty()) {
      if (std::stoull(text) <= kLargestSize) return {};
      why = "is too large";
    }
  } catch (const std::exception&) {
    // Neither digits nor a unit: as said.
  }
  return fmt::format("{} {}; a message has 0 to 1G bytes", given, why);
}

void add_flags(CLI::App& command, Options& options) {
  static const std::map<std::string, Mode> kModes{{"matched", Mode::matched},
                                                  {"queue", Mode::queue},
                                                  {"handler", Mode::handler},
                                                  {"put", Mode::put},
                                                  {"get", Mode::get}};
  static const std::map<std::string, Waiting> kWaits{
      {"auto", Waiting::automatic}, {"poll", Waiting::poll}, {"block", Waiting::block}};
  command.add_option("--mode", options.mode, "how messages arrive")
      ->transform(CLI::CheckedTransformer(kModes))
      ->option_text("matched|queue|handler|put|get");
  command
      .add_option("--size", options.size,
                  "bytes of one message, up to 1G (K, M, G: powers of 1024)")
      ->transform(CLI::Validator(to_size, "SIZE"));
  command.add_option("--threads", options.threads, "threads per rank")
      ->check(CLI::Range(1U, 1024U));
  command.add_option("--devices", options.devices, "devices per rank; default: configuration");
  command
      .add_option("--seconds", options.seconds,
                  "length of the measurement; quick: of each of its six")
      ->check(CLI::PositiveNumber);
  command.add_flag("--json", options.json, "one JSON object a line");
  command.add_option("--wait", options.waiting, "how threads wait; auto: one polls, many block")
      ->transform(CLI::CheckedTransformer(kWaits))
      ->option_text("auto|poll|block");
  command.add_option("--window", options.window, "messages per acknowledgement");
  command.add_option("--progress", options.progress, "who progresses")
      ->check(CLI::IsMember({"explicit", "waiters", "server"}));
  command.add_option("--assignment", options.assignment, "how threads get devices")
      ->check(CLI::IsMember({"dedicated", "round_robin"}));
  command.add_flag("--ordinary", options.ordinary_memory, "put and get: memory from malloc");
  command.add_flag("--own-tags", options.own_tags,
                   "rate, matched: each message of a window has a tag of its own");
  command.add_flag("--explain", options.explain, "latency: the parts of a message, alone");
  command.add_option("--ranks", options.ranks, "start, memory: with this many ranks only");
  command.add_option("--mpich", options.mpich, "start: folder of MPICH's mpiexec and mpicc");
}

void add_talk_flags(CLI::App& command, Options& options) {
  command.add_option("--tasks", options.tasks, "tasks of each rank")
      ->check(CLI::Range(1U, 2'000'000U));
  command.add_flag("--one", options.one, "one pair at a time, the others wait");
  command.add_option("--compute", options.compute_ns, "nanoseconds of computation at each message")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1'000'000}));
}

void add_matching_flags(CLI::App& command, Options& options) {
  command.add_option("--length", options.length, "entries that nothing fits, in each queue")
      ->check(CLI::Range(0U, 100'000U));
  command.add_flag("--posted-only", options.posted_only, "no messages wait, only receives");
}

void add_task_flags(CLI::App& command, TaskOptions& task) {
  command.add_option("name", task.name, "one of them; default: all")
      ->check(CLI::IsMember(task_benchmarks()));
  command.add_option("--tasks", task.tasks, "this many, or not more, instead of the usual")
      ->check(CLI::Range(uint64_t{1}, uint64_t{100'000'000}));
  command
      .add_option("--workers", task.workers,
                  "with so many alone, or several numbers, from few to many; default: one, and two")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1U, 1024U));
}

// Why the flags together make no sense; empty if they do.
std::string contradiction(const Entry& entry, const Options& options) {
  if (options.own_tags && (entry.run != run_rate || options.mode != Mode::matched)) {
    return "--own-tags is for rate --mode matched";
  }
  if (entry.run == run_task_as_wanted) return contradiction(task_options);
  if (entry.run != run_latency || !options.explain) return {};
  if (options.mode != Mode::matched) {
    return fmt::format("--explain has the parts of a matched message, not of --mode {}",
                       name_of(options.mode));
  }
  if (options.threads != 1) return "--explain is for one thread a rank, not for several";
  if (options.waiting == Waiting::block) return "--explain polls: it has no --wait block";
  return {};
}

int run(const Entry& entry, const Options& options, char** arguments) {
  if (const std::string why = contradiction(entry, options); !why.empty()) {
    fmt::print(stderr, "weft-bench {}: {}\n", entry.name, why);
    return 2;
  }
  if (entry.needs == Needs::two_ranks && !started_by_launcher()) {
    start_under_weftrun(2, options.threads == 1 ? Bound::core : Bound::share, arguments);
    return 2;  // it said why
  }
  return entry.run(options);
}

int parse_and_run(int count, char** arguments) {
  CLI::App app{"Measurements of weft, each beside the limit of the machine it runs on."};
  app.require_subcommand(1);
  Options options;
  std::vector<CLI::App*> commands;
  for (const Entry& entry : kEntries) {
    CLI::App* command = app.add_subcommand(entry.name, entry.help);
    if (entry.needs == Needs::launcher) command->group("");  // internal: not shown
    add_flags(*command, options);
    const std::string name = entry.name;
    if (name == "all" || name == "scaling") {
      command->add_option("--only", options.only, "only runs whose words contain this");
      command->add_option("file,--file", options.file, "where the results go")->required();
    }
    if (name == "structures")
      command->add_option("--only", options.only, "only those whose structure/mode contains this");
    if (name == "talk") add_talk_flags(*command, options);
    if (name == "matching") add_matching_flags(*command, options);
    if (name == "task") add_task_flags(*command, task_options);
    if (name == "report") command->add_option("file", options.file, "results")->required();
    if (name == "compare") {
      command->add_option("a", options.file, "results before")->required();
      command->add_option("b", options.other_file, "results after")->required();
    }
    commands.push_back(command);
  }
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (!commands[i]->parsed()) continue;
    const bool is_quick = kEntries[i].run == run_quick;
    if (is_quick && commands[i]->count("--seconds") == 0) options.seconds = kQuickSeconds;
    return run(kEntries[i], options, arguments);
  }
  return 2;
}

}  // namespace
}  // namespace weft::bench

int main(int count, char** arguments) {
  try {
    return weft::bench::parse_and_run(count, arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "weft-bench: {}\n", error.what());
    return 1;
  }
}
