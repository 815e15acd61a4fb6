// The benchmarks of the task scheduler: `weft-bench task NAME`, or all of them one after the other.
//
// Every figure is of tasks in one process, beside rivals and limits that take turns with it (see
// rounds.hpp). A result's `threads` are the scheduler's workers. What is measured, between which
// points, and what would make it lie, stands at the head of each source.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/options.hpp"

namespace weft::bench {

/// The flags that `task` has beside those of all benchmarks.
struct TaskOptions {
  std::string name;    ///< one of task_benchmarks(); empty: all
  uint64_t tasks = 0;  ///< this many, or about so many at most; 0: as the benchmark likes
  std::vector<unsigned> workers;  ///< with these numbers of them; empty: as the benchmark likes
};

std::vector<std::string> task_benchmarks();
/// Why a benchmark cannot be run with these flags; empty if it can.
std::string contradiction(const TaskOptions& wanted);
int run_task(const Options& options, const TaskOptions& task_options);

namespace tasks {

/// Options of both kinds, as the benchmarks below get them.
struct Wanted {
  const Options& options;
  uint64_t tasks;
  const std::vector<unsigned>& workers;

  /// The numbers of workers to measure with: what was asked for, else one, and two where there are
  /// two cores.
  [[nodiscard]] std::vector<unsigned> workers_or_one_and_two() const;
  /// For what needs two tasks at least.
  [[nodiscard]] uint64_t tasks_or_two() const { return tasks != 0 ? tasks : 2; }
  /// `mode` of two tasks, and of N `mode`_N.
  [[nodiscard]] std::string named(const std::string& mode) const {
    return tasks_or_two() == 2 ? mode : mode + "_" + std::to_string(tasks);
  }
};

// Each prints its results, and has a namespace of its own: their parts are alike.
namespace spawn {
void measure(const Wanted& wanted);
}
namespace yield {
void measure(const Wanted& wanted);
}
namespace pingpong {
void measure(const Wanted& wanted);
}
namespace fib {
void measure(const Wanted& wanted);
}
namespace queens {
void measure(const Wanted& wanted);
}
namespace uts {
void measure(const Wanted& wanted);
}
namespace mutex {
void measure(const Wanted& wanted);
}
namespace barrier {
void measure(const Wanted& wanted);
}
namespace blocked {
void measure(const Wanted& wanted);
}

}  // namespace tasks
}  // namespace weft::bench
