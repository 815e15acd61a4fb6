// weft-bench task: which benchmarks there are.
#include "task.hpp"

#include "turns.hpp"

namespace weft::bench {
namespace {

struct Entry {
  const char* name;
  void (*measure)(const tasks::Wanted&);
};

// `blocked` first, while the process has not made a scheduler.
constexpr Entry kEntries[] = {
    {"blocked", tasks::measure_blocked}, {"spawn", tasks::measure_spawn},
    {"yield", tasks::measure_yield},     {"pingpong", tasks::measure_pingpong},
    {"fib", tasks::measure_fib},         {"queens", tasks::measure_queens},
    {"uts", tasks::measure_uts},         {"mutex", tasks::measure_mutex},
    {"barrier", tasks::measure_barrier},
};

}  // namespace

std::vector<unsigned> tasks::Wanted::workers_or_one_and_two() const {
  if (workers != 0) return {workers};
  if (turns::cores().size() < 2) return {1};
  return {1, 2};
}

std::vector<std::string> task_benchmarks() {
  std::vector<std::string> names;
  for (const Entry& entry : kEntries) names.emplace_back(entry.name);
  return names;
}

int run_task(const Options& options, const TaskOptions& task_options) {
  const tasks::Wanted wanted{options, task_options.tasks, task_options.workers};
  for (const Entry& entry : kEntries) {
    if (task_options.name.empty() || task_options.name == entry.name) entry.measure(wanted);
  }
  return 0;
}

}  // namespace weft::bench
