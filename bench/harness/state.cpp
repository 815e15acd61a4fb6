#include "harness/state.hpp"

#include "harness/statistics.hpp"
#include "limits/limits.hpp"

namespace weft::bench {

double probe_one_way_ns(Pair& pair, unsigned round_trips) {
  constexpr unsigned kBatch = 100;
  YardMemory& yard = pair.yard().memory();
  std::vector<double> batches;
  pair.meet();
  for (unsigned done = 0; done < round_trips; done += kBatch) {
    batches.push_back(
        cache_line_one_way_ns(yard.ping[0].value, yard.ping[1].value, pair.rank(), kBatch));
  }
  // The lower quartile: a batch in which either side lost its core says nothing of caches.
  return summarize(batches).low;
}

}  // namespace weft::bench
