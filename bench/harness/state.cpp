#include "harness/state.hpp"

#include "limits/limits.hpp"

namespace weft::bench {

double probe_one_way_ns(Pair& pair, unsigned round_trips) {
  YardMemory& yard = pair.yard().memory();
  pair.meet();
  return cache_line_one_way_ns(yard.ping[0].value, yard.ping[1].value, pair.rank(), round_trips);
}

}  // namespace weft::bench
