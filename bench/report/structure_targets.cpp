// What the structures alone are to reach.
#include <fmt/format.h>

#include <functional>

#include "report/targets.hpp"

namespace weft::bench {

void add_structure_targets(std::vector<Target>& targets) {
  const auto add = std::bind_front(add_target, std::ref(targets), "structures");
  add("hash matching, insert, ns", "table_insert", 1, "value", true, 15);
  add("hash matching, delete, ns", "table_delete", 1, "value", true, 18);
  add("hash matching, 2 threads, own keys, x 1 thread", "table_own_2_over_1", 2, "ratio", false,
      1.7);
  // One thread alone has the table to itself and takes no locks; this is what they scale like.
  add("the same, one thread takes locks, too", "table_own_with_locks_2_over_1", 2, "ratio", false,
      1.7);
  add("hash matching, 2 threads, shared keys, x 1 thread", "table_shared_2_over_1", 2, "ratio",
      false, 0.7);
  add("hash matching, 8 threads, own keys, x 2 threads", "table_own_8_over_2", 8, "ratio", false,
      1);
  add("hash matching, 8 threads, shared keys, x 2 threads", "table_shared_8_over_2", 8, "ratio",
      false, 1);
  for (const unsigned threads : {1U, 2U, 8U}) {
    add(fmt::format("packet pool, alloc + free, {} threads", threads), "pool_pair", threads,
        "ratio", true, 1.2);
  }
  for (const unsigned producers : {1U, 2U, 8U}) {
    add(fmt::format("completion queue, an item through, {} producers", producers), "queue_through",
        producers, "value", true, 12);
    targets.back().only_state = State::shared;
  }
}

}  // namespace weft::bench
