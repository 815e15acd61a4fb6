// What tasks are to reach.
#include <fmt/format.h>

#include <functional>
#include <utility>

#include "report/targets.hpp"

namespace weft::bench {

void add_task_targets(std::vector<Target>& targets) {
  const auto add = std::bind_front(add_target, std::ref(targets), "task");
  for (const unsigned tasks : {1U, 64U, 512U, 4096U}) {
    const std::string mode = fmt::format("spawn_{}", tasks);
    add(fmt::format("spawn and join, {} at once", tasks), mode, 1, "value", true, 40);
    add("the same beside Boost.Fiber", mode, 1, "ratio", true, 0.2);
  }
  add("spawn and join, 65536 at once", "spawn_65536", 1, "value", true, 80);
  add("a yield, beside two bare switches", "yield", 1, "ratio", true, 1.5);
  targets.back().or_value = 20;
  add("signal and wait, a round in a worker", "pingpong", 1, "value", true, 40);
  add("the same between two workers, one level", "pingpong", 2, "ratio", true, 2);
  add("the same, two levels", "pingpong_two_levels", 2, "ratio", true, 3);
  for (const char* variant : {"both", "call"}) {
    const std::string mode = fmt::format("fib_32_{}", variant);
    add(fmt::format("fib(32), a task, {}", variant), mode, 1, "value", true, 40);
    add("the same, 2 workers, times faster", mode + "_2_over_1", 2, "value", false, 1.9);
  }
  add("11 queens, a task a node", "queens_11", 1, "value", true, 6.5e6);
  add("the same, 2 workers, times faster", "queens_11_2_over_1", 2, "value", false, 1.6);
  add("64 tasks, sections of 128 cycles, beside one", "mutex_128", 2, "ratio", true, 1.2);
  add("a million waiting tasks: memory of each", "blocked_1000000_memory", 1, "ratio", true, 1);
  add("making one, beside touching a page", "blocked_1000000_cold", 1, "ratio", true, 1.3);
  add("making one again", "blocked_1000000_warm", 1, "value", true, 300);
  for (const auto& [tasks, reach] : {std::pair{64U, 0.6}, std::pair{4096U, 0.4}}) {
    add(fmt::format("{} tasks a process converse, beside one that sends", tasks), "all", tasks,
        "ratio", false, reach);
    targets.back().bench = "talk";
    targets.back().size_bytes = 8;
  }
}

}  // namespace weft::bench
