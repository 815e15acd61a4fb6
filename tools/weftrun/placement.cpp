// Which processors each rank is bound to.
#include "weftrun/placement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "weft/base/config.hpp"
#include "weft/base/error.hpp"
#include "weft/base/topology.hpp"

namespace weft::run {

namespace {

/// The cores from `first` on, up to `end`.
Place part_of(const std::vector<base::Core>& cores, std::size_t first, std::size_t end) {
  Place place;
  for (std::size_t i = first; i < end; ++i) place.cpus.push_back(cores[i].os_index);
  place.text =
      fmt::format("core{} {}", place.cpus.size() == 1 ? "" : "s", fmt::join(place.cpus, ","));
  return place;
}

/// Whether there may be a core for each, before the topology is read, which takes milliseconds.
bool may_have_cores(std::size_t ranks) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return true;  // more than a set holds
  return static_cast<std::size_t>(CPU_COUNT(&allowed)) >= ranks;
}

/// Equal parts for all ranks of this host, or as equal as can be: where one has no core, for
/// nobody.
Placement shares(int ranks) {
  Placement placement;
  placement.may_fail = true;
  const auto count = static_cast<std::size_t>(ranks);
  const bool pretends = !base::config_text("base.topology").empty();
  if (count < 2 || (!pretends && !may_have_cores(count))) return placement;
  const std::vector<base::Core>& cores = base::Topology::machine().cores();
  if (cores.size() < count) return placement;
  for (std::size_t i = 0; i < count; ++i)
    placement.places.push_back(
        part_of(cores, i * cores.size() / count, (i + 1) * cores.size() / count));
  return placement;
}

}  // namespace

Placement make_placement(Bind bind, int ranks) {
  if (bind == Bind::none) return {};
  if (bind == Bind::share) {
    try {
      return shares(ranks);
    } catch (const Error&) {
      return {};  // a machine that cannot be read: nobody asked for it
    }
  }
  Placement placement;
  const base::Topology& machine = base::Topology::machine();
  placement.may_fail = machine.faked();
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
