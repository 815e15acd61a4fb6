#include "structures.hpp"

#include <utility>

namespace weft::bench {

std::vector<StructureContest> measure_structures(double seconds, const std::string& only) {
  std::vector<StructureContest> all;
  const auto wanted = [&](const std::string& name) { return name.find(only) != std::string::npos; };
  if (wanted("queue/alone")) all.push_back(queue::measure_alone(seconds));
  if (wanted("table/insert") || wanted("table/delete"))
    for (auto& half : table::measure_fresh_keys(seconds)) all.push_back(std::move(half));
  for (const unsigned bytes : {8u, 40u}) {
    if (wanted("ring/alone")) all.push_back(ring::measure_alone(bytes, seconds));
    if (wanted("ring/through")) all.push_back(ring::measure_through(bytes, seconds));
  }
  for (const unsigned threads : {1u, 2u, 8u}) {
    if (wanted("pool/pair")) all.push_back(pool::measure_pair(threads, seconds));
    if (wanted("pool/crowd")) all.push_back(pool::measure_crowd(threads, seconds));
    for (const bool locks : {false, true}) {
      const std::string suffix = locks ? "_with_locks" : "";
      if (wanted("table/own" + suffix))
        all.push_back(table::measure_own_keys(threads, seconds, locks));
      if (wanted("table/shared" + suffix))
        all.push_back(table::measure_shared_keys(threads, seconds, locks));
    }
    if (wanted("queue/through")) all.push_back(queue::measure_through(threads, seconds));
  }
  for (const bool locks : {false, true}) {
    const std::string suffix = locks ? "_with_locks" : "";
    for (const auto& [many, few] : {std::pair{2u, 1u}, std::pair{8u, 2u}}) {
      if (wanted("table/own" + suffix))
        all.push_back(table::measure_own_scaling(many, few, seconds, locks));
      if (wanted("table/shared" + suffix))
        all.push_back(table::measure_shared_scaling(many, few, seconds, locks));
    }
  }
  return all;
}

}  // namespace weft::bench
