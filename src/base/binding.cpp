// Binding of threads to processors and of memory to nodes.
#include "base/binding.hpp"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <memory>
#include <mutex>

#include "weft/base/topology.hpp"

namespace weft::base {
namespace {

constexpr int kNotBound = -1;
constinit thread_local int my_faked_binding = kNotBound;

/// What was asked for; the newest kPlacesKept, so that a long run's memory stays bounded.
constexpr std::size_t kPlacesKept = 4096;
struct Places {
  std::mutex mutex;
  std::deque<Placement> kept;
};
Places& places() {
  static auto* const made = new Places;  // never destroyed: threads may place while statics end
  return *made;
}

void remember(const Placement& placement) {
  Places& all = places();
  const std::lock_guard lock(all.mutex);
  all.kept.push_back(placement);
  if (all.kept.size() > kPlacesKept) all.kept.pop_front();
}

}  // namespace

int faked_binding() noexcept { return my_faked_binding; }

bool prefer_system_node(void* address, std::size_t bytes, int os_index) noexcept {
  constexpr unsigned kBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, 1024 / kBits> mask{};
  const auto node = static_cast<unsigned>(os_index);
  if (node >= mask.size() * kBits) return false;
  mask[node / kBits] = 1UL << (node % kBits);
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(address) & ~(page - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(address) + bytes + page - 1) & ~(page - 1);
  // The policy of a shared mapping belongs to its pages, whoever maps and touches them first.
  // The kernel takes one bit less than the number it is given.
  return syscall(SYS_mbind, begin, end - begin, MPOL_PREFERRED, mask.data(),
                 mask.size() * kBits + 1, 0U) == 0;
}

bool bind_this_thread(int os_index) noexcept {
  try {
    const Topology& machine = Topology::machine();
    if (!machine.has_processor(os_index)) return false;
    if (machine.faked()) {
      my_faked_binding = os_index;
      return true;
    }
    std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(os_index + 1),
                                                         [](cpu_set_t* s) { CPU_FREE(s); });
    if (set == nullptr) return false;
    const std::size_t bytes = CPU_ALLOC_SIZE(os_index + 1);
    CPU_ZERO_S(bytes, set.get());
    CPU_SET_S(os_index, bytes, set.get());
    return sched_setaffinity(0, bytes, set.get()) == 0;
  } catch (...) {
    return false;
  }
}

bool prefer_numa_node(void* address, std::size_t bytes, int node) noexcept {
  try {
    remember({address, bytes, node});
    const Topology& machine = Topology::machine();
    if (node < 0 || node >= machine.numa_nodes()) return false;
    // One node holds every page anyway; and a made-up one cannot be asked for.
    if (machine.faked() || machine.numa_nodes() == 1 || bytes == 0) return true;
    return prefer_system_node(address, bytes, machine.numa_os_index(node));
  } catch (...) {
    return false;
  }
}

std::vector<Placement> place_log() {
  Places& all = places();
  const std::lock_guard lock(all.mutex);
  return {all.kept.begin(), all.kept.end()};
}

}  // namespace weft::base
