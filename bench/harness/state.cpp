#include "harness/state.hpp"

#include "limits/limits.hpp"

namespace weft::bench {

double probe_one_way_ns(Pair& pair, unsigned round_trips) {
  pair.meet();
  return cache_line_one_way_ns(pair.yard().memory().ping[0].value,
                               pair.yard().memory().ping[1].value, pair.rank(), round_trips);
}

}  // namespace weft::bench
