#include "harness/machine.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <fstream>

#include "weft/base/config.hpp"
#include "weft/fabric/config.hpp"
#include "weft_build_info.hpp"

namespace weft::bench {
namespace {

std::string kernel_name() {
  utsname names{};
  return uname(&names) == 0 ? fmt::format("{} {}", names.sysname, names.release) : "unknown";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

}  // namespace

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) != 0 && line.rfind("CPU implementer", 0) != 0) continue;
    const auto colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

double load_average() {
  double load = -1;
  return getloadavg(&load, 1) == 1 ? load : -1;
}

std::string security_mode() {
  fabric::register_fabric_config();
  return base::config_text("fabric.security");
}

void describe_machine(nlohmann::ordered_json& line) {
  line["commit"] = build_info::kCommit;
  line["compiler"] = build_info::kCompiler;
  line["flags"] = fmt::format("{} {}", build_info::kBuildType, build_info::kFlags);
  line["cpu"] = cpu_name();
  line["cores"] = sysconf(_SC_NPROCESSORS_ONLN);
  line["kernel"] = kernel_name();
  line["date"] = today();
  line["security"] = security_mode();
}

}  // namespace weft::bench
