// weft-bench task: which benchmarks there are.
#include "task.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "turns.hpp"

namespace weft::bench {
namespace {

struct Entry {
  const char* name;
  void (*measure)(const tasks::Wanted&);
  unsigned most_workers = 0;  ///< 0: any number
  uint64_t least_tasks = 1;
};

// `blocked` first, while the process has not made a scheduler.
constexpr Entry kEntries[] = {
    {"blocked", tasks::blocked::measure, 1},
    {"spawn", tasks::spawn::measure},
    {"yield", tasks::yield::measure, 1, 2},
    {"pingpong", tasks::pingpong::measure, 2, 2},
    {"fib", tasks::fib::measure},
    {"queens", tasks::queens::measure},
    {"uts", tasks::uts::measure},
    {"mutex", tasks::mutex::measure},
    {"barrier", tasks::barrier::measure},
};

bool has_too_many_workers(const Entry& entry, const std::vector<unsigned>& counts) {
  return entry.most_workers != 0 &&
         std::ranges::any_of(counts, [&](unsigned count) { return count > entry.most_workers; });
}

}  // namespace

std::vector<unsigned> tasks::Wanted::workers_or_one_and_two() const {
  if (!workers.empty()) return workers;
  if (turns::cores().size() < 2) return {1};
  return {1, 2};
}

std::vector<std::string> task_benchmarks() {
  std::vector<std::string> names;
  for (const Entry& entry : kEntries) names.emplace_back(entry.name);
  return names;
}

std::string contradiction(const TaskOptions& wanted) {
  if (!std::ranges::is_sorted(wanted.workers, std::less_equal<>())) {
    return fmt::format("--workers {}: from few to many, each once", fmt::join(wanted.workers, ","));
  }
  for (const Entry& entry : kEntries) {
    if (wanted.name != entry.name) continue;
    if (has_too_many_workers(entry, wanted.workers)) {
      return fmt::format("{} is for {}, not for --workers {}", entry.name,
                         entry.most_workers == 1 ? "one worker" : "one worker or two",
                         fmt::join(wanted.workers, ","));
    }
    if (wanted.tasks != 0 && wanted.tasks < entry.least_tasks) {
      return fmt::format("{} is between two tasks at least, not for --tasks {}", entry.name,
                         wanted.tasks);
    }
  }
  return {};
}

int run_task(const Options& options, const TaskOptions& task_options) {
  const tasks::Wanted wanted{options, task_options.tasks, task_options.workers};
  for (const Entry& entry : kEntries) {
    if (!task_options.name.empty() && task_options.name != entry.name) continue;
    if (has_too_many_workers(entry, wanted.workers)) {
      fmt::print(stderr, "weft-bench task: {} is left out, not being for --workers {}\n",
                 entry.name, fmt::join(wanted.workers, ","));
      continue;
    }
    if (wanted.tasks != 0 && wanted.tasks < entry.least_tasks) continue;
    entry.measure(wanted);
  }
  return 0;
}

}  // namespace weft::bench
