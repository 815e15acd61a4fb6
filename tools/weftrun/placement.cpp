// Which processors each rank is bound to.
#include "weftrun/placement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weft/base/topology.hpp"

namespace weft::run {

Placement make_placement(Bind bind) {
  Placement placement;
  if (bind == Bind::none) return placement;
  const base::Topology& machine = base::Topology::machine();
  placement.pretended = machine.faked();
  if (bind == Bind::core) {
    for (const base::Core& core : machine.cores())
      placement.places.push_back({{core.os_index}, fmt::format("core {}", core.os_index)});
    return placement;
  }
  // A memory node without an allowed core gets no rank.
  for (int node = 0; node < machine.numa_nodes(); ++node) {
    Place place;
    for (const base::Core& core : machine.cores())
      if (core.numa_node == node) place.cpus.push_back(core.os_index);
    if (place.cpus.empty()) continue;
    place.text = fmt::format("memory node {} (cores {})", node, fmt::join(place.cpus, ","));
    placement.places.push_back(std::move(place));
  }
  return placement;
}

}  // namespace weft::run
