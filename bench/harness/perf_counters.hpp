// The processor's event counters of one thread, where the machine and the kernel permit.
#pragma once

#include <cstdint>
#include <string>

namespace weft::bench {

/// Counts of user-mode events between two reads.
struct Events {
  double instructions = 0;
  double cache_misses = 0;
};

/// The calling thread's counters. Opened by, and used by, one thread.
class PerfCounters {
 public:
  PerfCounters();
  ~PerfCounters();
  PerfCounters(const PerfCounters&) = delete;
  PerfCounters& operator=(const PerfCounters&) = delete;
  [[nodiscard]] bool work() const noexcept { return why_not_.empty(); }
  /// Why they do not: "perf_event_open: No such file or directory (no counters in this machine)".
  [[nodiscard]] const std::string& why_not() const noexcept { return why_not_; }
  /// Since this object was made. A system call.
  [[nodiscard]] Events read() const;

 private:
  int group_ = -1;
  int misses_ = -1;
  std::string why_not_;
};

}  // namespace weft::bench
