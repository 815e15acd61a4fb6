// The machine: cores this process may use, NUMA nodes, and binding of threads and memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weft::base {

struct Core {
  int os_index;   ///< processor number as sched_setaffinity counts
  int numa_node;  ///< memory node it belongs to, 0 when the machine has one
};

/// Read once with hwloc (2-3 ms). `WEFT_BASE_TOPOLOGY` (an hwloc synthetic description such as
/// "numa:2 core:4 pu:1") replaces the machine's own, for tests; `WEFT_BASE_FAKED_AFFINITY` ("4-7")
/// is then the affinity mask that the process starts with. Error(bad_config) if they make no sense.
class Topology {
 public:
  static const Topology& machine();

  /// Cores this process may use (its affinity mask when the topology was first read, ≥ 1).
  [[nodiscard]] const std::vector<Core>& cores() const noexcept { return cores_; }
  /// That mask leaves out processors which the machine has for this container or login.
  [[nodiscard]] bool narrowed() const noexcept { return narrowed_; }
  /// Processors of the machine, whichever of them this process may use: the same number for all
  /// processes on it.
  [[nodiscard]] int processors() const noexcept { return processors_; }
  /// Whether so many processes of this machine, this one among them, have a processor each. Those
  /// that may use one may use that alone, as far as is seen from here; who may use several shares
  /// these with the others.
  [[nodiscard]] bool has_processors_for(std::size_t processes) const noexcept {
    return processes <= (narrowed_ && cores_.size() > 1 ? cores_.size() : allowed_);
  }
  [[nodiscard]] int numa_nodes() const noexcept { return numa_nodes_; }
  /// Bytes of a second-level cache (the least of several). 0: it shows none.
  [[nodiscard]] uint64_t second_cache_bytes() const noexcept { return second_cache_bytes_; }
  /// Bytes of a third-level cache (the least of several), and of all of them. 0: it shows none.
  [[nodiscard]] uint64_t cache_bytes() const noexcept { return cache_bytes_; }
  [[nodiscard]] uint64_t all_cache_bytes() const noexcept { return all_cache_bytes_; }
  [[nodiscard]] bool faked() const noexcept { return faked_; }
  /// The memory node of the core that the calling thread is bound to, or runs on now.
  [[nodiscard]] int this_numa_node() const noexcept;
  /// One line per level, for weft-info.
  [[nodiscard]] std::string describe() const;
  /// True if the machine has a processor of that number.
  [[nodiscard]] bool has_processor(int os_index) const noexcept;
  /// The system's number of memory node `node`, 0 ≤ node < numa_nodes(), which counts densely.
  [[nodiscard]] int numa_os_index(int node) const noexcept {
    return numa_os_index_.empty() ? 0 : numa_os_index_[static_cast<std::size_t>(node)];
  }

 private:
  Topology();
  std::vector<Core> cores_;
  std::vector<int> node_of_processor_;  // by os_index; -1: no such processor
  std::vector<int> numa_os_index_;      // by node
  int processors_ = 1;
  std::size_t allowed_ = 1;  ///< of these, in this container
  int numa_nodes_ = 1;
  uint64_t second_cache_bytes_ = 0;
  uint64_t cache_bytes_ = 0;
  uint64_t all_cache_bytes_ = 0;
  bool faked_ = false;
  bool narrowed_ = false;
};

/// Binds the calling thread to one processor. False if there is none or the system refuses. Under
/// a faked topology it is only remembered, for `this_numa_node` of this thread.
bool bind_this_thread(int os_index) noexcept;

/// Prefers memory node `node` for the pages of [address, address+bytes), shared mappings
/// included, whoever touches them first. False where the system cannot; `place_log` tells tests
/// what was asked for.
bool prefer_numa_node(void* address, std::size_t bytes, int node) noexcept;

/// The placements asked for so far in this process, newest last: for tests with a faked topology.
struct Placement {
  void* address;
  std::size_t bytes;
  int node;
};
std::vector<Placement> place_log();

}  // namespace weft::base
