#include "harness/perf_counters.hpp"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weft::bench {
namespace {

int open_counter(uint64_t what, int group) {
  perf_event_attr attributes{};
  attributes.type = PERF_TYPE_HARDWARE;
  attributes.size = sizeof(attributes);
  attributes.config = what;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  attributes.read_format = PERF_FORMAT_GROUP;
  return static_cast<int>(
      syscall(SYS_perf_event_open, &attributes, 0, -1, group, PERF_FLAG_FD_CLOEXEC));
}

}  // namespace

PerfCounters::PerfCounters() {
  group_ = open_counter(PERF_COUNT_HW_INSTRUCTIONS, -1);
  if (group_ >= 0) misses_ = open_counter(PERF_COUNT_HW_CACHE_MISSES, group_);
  if (group_ >= 0 && misses_ >= 0) return;
  const int error = errno;
  why_not_ =
      fmt::format("perf_event_open: {}{}", std::strerror(error),
                  error == ENOENT || error == EOPNOTSUPP ? " (this machine shows no counters)"
                  : error == EACCES || error == EPERM    ? " (kernel.perf_event_paranoid)"
                                                         : "");
}

PerfCounters::~PerfCounters() {
  if (misses_ >= 0) close(misses_);
  if (group_ >= 0) close(group_);
}

Events PerfCounters::read() const {
  uint64_t values[3]{};  // how many, then each
  if (!work() || ::read(group_, values, sizeof(values)) != sizeof(values)) return {};
  return {static_cast<double>(values[1]), static_cast<double>(values[2])};
}

}  // namespace weft::bench
