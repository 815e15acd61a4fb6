// The machine as hwloc sees it, or as a synthetic description makes it up.
#include "weft/base/topology.hpp"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <memory>

#include "base/base_config.hpp"
#include "base/binding.hpp"
#include "weft/base/config.hpp"
#include "weft/base/error.hpp"

namespace weft::base {
namespace {

struct Destroy {
  void operator()(hwloc_topology* t) const noexcept { hwloc_topology_destroy(t); }
};
using Loaded = std::unique_ptr<hwloc_topology, Destroy>;

/// Reads the machine, 2–3 ms. No type of object is filtered out: a memory node hangs under the
/// package, cache or group that it is local to, and would lose its processors with it.
Loaded load(const std::string& synthetic) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw Error(Errc::no_memory, "hwloc: cannot start");
  Loaded topology(raw);
  if (!synthetic.empty() && hwloc_topology_set_synthetic(raw, synthetic.c_str()) != 0) {
    throw Error(Errc::bad_config,
                fmt::format("base.topology: hwloc cannot read '{}'; a good one is "
                            "'numa:2 core:4 pu:1'",
                            synthetic));
  }
  if (hwloc_topology_load(raw) != 0) {
    throw Error(Errc::no_permission, "hwloc: cannot read this machine's topology");
  }
  return topology;
}

/// The processors of this process's affinity mask.
std::vector<bool> affinity_mask() {
  std::vector<bool> allowed;
  for (int count = 1024; count <= 1 << 20; count *= 2) {
    std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(count),
                                                         [](cpu_set_t* s) { CPU_FREE(s); });
    const std::size_t bytes = CPU_ALLOC_SIZE(count);
    if (set == nullptr || sched_getaffinity(0, bytes, set.get()) != 0) continue;
    for (int i = 0; i < count; ++i) allowed.push_back(CPU_ISSET_S(i, bytes, set.get()));
    break;
  }
  return allowed;
}

/// The processors that a made-up affinity list names: all of them if it is empty.
std::vector<bool> faked_mask(const std::string& list, hwloc_topology_t t) {
  std::unique_ptr<hwloc_bitmap_s, void (*)(hwloc_bitmap_t)> named(hwloc_bitmap_alloc(),
                                                                  hwloc_bitmap_free);
  const hwloc_const_cpuset_t all = hwloc_topology_get_topology_cpuset(t);
  if (list.empty()) {
    hwloc_bitmap_copy(named.get(), all);
  } else if (hwloc_bitmap_list_sscanf(named.get(), list.c_str()) != 0 ||
             hwloc_bitmap_iszero(named.get()) != 0 ||
             hwloc_bitmap_isincluded(named.get(), all) == 0) {
    throw Error(Errc::bad_config,
                fmt::format("base.faked_affinity takes a list of processors of base.topology, such "
                            "as '0-1,3', not '{}'",
                            list));
  }
  std::vector<bool> allowed(static_cast<std::size_t>(hwloc_bitmap_last(named.get()) + 1));
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    allowed[i] = hwloc_bitmap_isset(named.get(), static_cast<unsigned>(i)) != 0;
  }
  return allowed;
}

/// The dense number of the memory node that processor `os` is local to.
int node_of(hwloc_topology_t t, unsigned os) noexcept {
  for (hwloc_obj_t node = nullptr;
       (node = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
    if (node->cpuset != nullptr && hwloc_bitmap_isset(node->cpuset, os) != 0) {
      return static_cast<int>(node->logical_index);
    }
  }
  return 0;
}

}  // namespace

const Topology& Topology::machine() {
  // Never destroyed: threads are placed, and MPI is asked, while statics end.
  static const Topology& read_once = *new Topology;
  return read_once;
}

Topology::Topology() {
  const std::string synthetic = config_text(kTopologyKey);
  faked_ = !synthetic.empty();
  const Loaded loaded = load(synthetic);
  hwloc_topology_t t = loaded.get();

  for (hwloc_obj_t node = nullptr;
       (node = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
    numa_os_index_.push_back(static_cast<int>(node->os_index));
  }
  numa_nodes_ = std::max(1, static_cast<int>(numa_os_index_.size()));
  // Complete: with those that a container or an affinity leaves out.
  processors_ = std::max(1, hwloc_bitmap_weight(hwloc_topology_get_complete_cpuset(t)));
  allowed_ = static_cast<std::size_t>(
      std::max(1, hwloc_bitmap_weight(hwloc_topology_get_allowed_cpuset(t))));

  const auto least = [](uint64_t so_far, uint64_t bytes) {
    return so_far == 0 ? bytes : std::min(so_far, bytes);
  };
  for (hwloc_obj_t cache = nullptr;
       (cache = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_L2CACHE, cache)) != nullptr;) {
    second_cache_bytes_ = least(second_cache_bytes_, cache->attr->cache.size);
  }
  for (hwloc_obj_t cache = nullptr;
       (cache = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_L3CACHE, cache)) != nullptr;) {
    const uint64_t bytes = cache->attr->cache.size;
    cache_bytes_ = least(cache_bytes_, bytes);
    all_cache_bytes_ += bytes;
  }

  const std::vector<bool> allowed =
      faked_ ? faked_mask(config_text(kFakedAffinityKey), t) : affinity_mask();
  for (hwloc_obj_t pu = nullptr;
       (pu = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_PU, pu)) != nullptr;) {
    const unsigned os = pu->os_index;
    if (node_of_processor_.size() <= os) node_of_processor_.resize(os + 1, -1);
    node_of_processor_[os] = node_of(t, os);
    if (os < allowed.size() && allowed[os]) {
      cores_.push_back({static_cast<int>(os), node_of_processor_[os]});
    } else {
      narrowed_ = true;
    }
  }
  if (cores_.empty()) cores_.push_back({std::max(0, sched_getcpu()), 0});
}

int Topology::this_numa_node() const noexcept {
  int processor = faked_ ? faked_binding() : sched_getcpu();
  if (faked_ && processor < 0) {
    // Not bound: any processor of the mask, as the system would choose.
    const auto at = static_cast<std::size_t>(std::max(0, sched_getcpu())) % cores_.size();
    processor = cores_[at].os_index;
  }
  const auto index = static_cast<std::size_t>(processor);
  if (processor < 0 || index >= node_of_processor_.size()) return 0;
  return std::max(0, node_of_processor_[index]);
}

bool Topology::has_processor(int os_index) const noexcept {
  return os_index >= 0 && static_cast<std::size_t>(os_index) < node_of_processor_.size() &&
         node_of_processor_[static_cast<std::size_t>(os_index)] >= 0;
}

std::string Topology::describe() const {
  const Loaded loaded = load(faked_ ? config_text(kTopologyKey) : std::string());
  hwloc_topology_t t = loaded.get();
  std::string text = faked_ ? "a made-up machine (base.topology)\n" : "";
  for (int depth = 0; depth < hwloc_topology_get_depth(t); ++depth) {
    const unsigned count = hwloc_get_nbobjs_by_depth(t, depth);
    hwloc_obj_t first = hwloc_get_obj_by_depth(t, depth, 0);
    char type[64] = "";
    char attributes[128] = "";
    hwloc_obj_type_snprintf(type, sizeof type, first, 0);
    if (hwloc_obj_type_is_cache(first->type) != 0) {
      hwloc_obj_attr_snprintf(attributes, sizeof attributes, first, ", ", 0);
    }
    text += fmt::format("{} {}{}{}\n", count, type, attributes[0] != '\0' ? ", " : "", attributes);
  }
  for (std::size_t i = 0; i < numa_os_index_.size(); ++i) {
    hwloc_obj_t node = hwloc_get_obj_by_type(t, HWLOC_OBJ_NUMANODE, static_cast<unsigned>(i));
    if (node == nullptr) break;
    text += fmt::format("memory node {}: {} MiB\n", i, node->attr->numanode.local_memory >> 20);
  }
  text += fmt::format("{} processors usable by this process\n", cores_.size());
  return text;
}

}  // namespace weft::base
