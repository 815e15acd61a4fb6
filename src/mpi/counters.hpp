// What MPI counts (002 §IV): registered by the part that counts, read through MPI_T and printed at
// exit with WEFT_MPI_STATS=1.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weft::mpi {

enum class CounterKind : uint8_t { sum, level, high_water, nanoseconds };

struct CounterEntry {
  std::string name;  ///< "messages_sent"
  std::string help;  ///< one sentence
  CounterKind kind = CounterKind::sum;
  bool per_comm = false;  ///< `read` is given a Comm, else nullptr
  std::function<uint64_t(const class Comm* comm)> read;
};

/// Registers a counter; at set-up, by one thread. Takes the tool interface's lock.
void add_counter(CounterEntry entry);
/// Under that lock, or by who sets up or ends the process.
[[nodiscard]] const std::vector<CounterEntry>& counters() noexcept;

}  // namespace weft::mpi
