// Other processes: their memory, and starting and reading them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weft::bench {

/// Memory of a process (0: this one) as the kernel counts it, in bytes; 0 if it cannot be read.
struct ProcessMemory {
  std::size_t resident = 0;      ///< VmRSS: all pages mapped in, shared ones counted in full
  std::size_t anonymous = 0;     ///< RssAnon: private pages
  std::size_t shared = 0;        ///< RssShmem: shared memory
  std::size_t proportional = 0;  ///< PSS: shared pages divided by those who share them
};
ProcessMemory process_memory(int pid = 0);
/// VmRSS alone: cheaper.
std::size_t resident_bytes(int pid = 0);

/// What a finished program left.
struct Finished {
  int code = -1;  ///< exit code; 128 + signal; -1: could not be started
  std::string output;
  uint64_t started_ns = 0;  ///< base::now_ns() just before it was started
  uint64_t ended_ns = 0;    ///< and when it had ended
};

/// Runs `words[0]` with the other words, gathering its stdout; stderr passes through unless
/// `quiet`. Killed after `limit_seconds`.
Finished run_program(const std::vector<std::string>& words, double limit_seconds,
                     bool quiet = false);

}  // namespace weft::bench
