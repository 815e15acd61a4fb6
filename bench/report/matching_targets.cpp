// What MPI's matching engines are to reach.
#include <functional>

#include "report/targets.hpp"

namespace weft::bench {

void add_matching_targets(std::vector<Target>& targets) {
  const auto add = std::bind_front(add_target, std::ref(targets), "matching");
  add("matching, queues of 1024, x list", "keyed_1024", 1, "ratio", false, 40);
  add("matching, queues of 1024, 2 threads, x 1 thread", "keyed_1024", 2, "over_one_thread", false,
      1.3);
  add("tail queues, queues of 1, 2 threads, x list", "tail_1", 2, "ratio", false, 1.2);
  add("tail queues, queues of 32, 2 threads, x list", "tail_32", 2, "ratio", false, 1.9);
}

}  // namespace weft::bench
