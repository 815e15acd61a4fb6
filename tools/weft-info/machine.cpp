// The machine: processor, cores this process may use, memory nodes, memory, host.
#include <fmt/format.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <fstream>
#include <set>
#include <string>

#include "report.hpp"
#include "weft/base/topology.hpp"

namespace weft::info {
namespace {

std::string processor_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) {
      const std::size_t colon = line.find(": ");
      if (colon != std::string::npos) return line.substr(colon + 2);
    }
  }
  return "unknown";
}

}  // namespace

Section about_machine() {
  const base::Topology& machine = base::Topology::machine();
  std::string cores;
  for (const base::Core& core : machine.cores()) {
    cores += fmt::format("{}{}", cores.empty() ? "" : " ", core.os_index);
  }
  utsname name{};
  uname(&name);
  struct sysinfo memory {};
  sysinfo(&memory);
  std::string topology = machine.describe();
  while (topology.ends_with('\n')) topology.pop_back();
  return {"Machine",
          {{"host", name.nodename},
           {"processor", processor_model()},
           {"cores usable", fmt::format("{} ({})", machine.cores().size(), cores)},
           {"memory nodes", fmt::format("{}{}", machine.numa_nodes(),
                                        machine.faked() ? " (made up by base.topology)" : "")},
           {"memory", fmt::format("{} MiB", (memory.totalram * memory.mem_unit) >> 20)},
           {"topology", topology}}};
}

}  // namespace weft::info
