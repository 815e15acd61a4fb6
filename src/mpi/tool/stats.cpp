// The counters at exit (mpi.stats).
#include "mpi/tool/stats.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <iterator>
#include <string>

#include "mpi/comm.hpp"
#include "mpi/counters.hpp"
#include "mpi/process.hpp"

namespace weft::mpi {
namespace {

std::string shown(const CounterEntry& entry, const Comm* comm) {
  const uint64_t value = entry.read(comm);
  return entry.kind == CounterKind::nanoseconds
             ? fmt::format("{:.3f} ms", static_cast<double>(value) / 1e6)
             : fmt::format("{}", value);
}

}  // namespace

void print_stats() {
  const int rank = runtime().rank().value;
  const Comm* world = comms().find(MPI_COMM_WORLD);
  std::string text;
  for (const CounterEntry& entry : counters()) {
    if (entry.per_comm && world == nullptr) continue;
    fmt::format_to(std::back_inserter(text), "weft: rank {}: {}{} = {}\n", rank, entry.name,
                   entry.per_comm ? " (MPI_COMM_WORLD)" : "",
                   shown(entry, entry.per_comm ? world : nullptr));
  }
  // One write, so that ranks do not mix their lines.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace weft::mpi
