// The counters at exit (mpi.stats).
#include "mpi/tool/stats.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

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

/// Of a communicator that nobody used there is nothing to tell.
bool was_used(const Comm& comm) {
  const auto& all = counters();
  return std::any_of(all.begin(), all.end(), [&](const CounterEntry& entry) {
    return entry.per_comm && entry.read(&comm) != 0;
  });
}

std::string comm_name(Comm& comm) {
  const std::scoped_lock guard(comm.lock);
  return comm.name.empty() ? fmt::format("context {}", comm.context) : comm.name;
}

/// Those of no communicator (nullptr), or of one.
void tell_counters(std::string& text, const Comm* comm, const std::string& name) {
  const int rank = runtime().rank().value;
  for (const CounterEntry& entry : counters()) {
    if (entry.per_comm != (comm != nullptr)) continue;
    fmt::format_to(std::back_inserter(text), "weft: rank {}: {}{} = {}\n", rank, entry.name, name,
                   shown(entry, comm));
  }
}

}  // namespace

void print_stats() {
  std::string text;
  tell_counters(text, nullptr, "");
  // Those with a handle of their own are not among the others.
  std::vector<Comm*> all{comms().find(MPI_COMM_WORLD), comms().find(MPI_COMM_SELF)};
  comms().for_each([&](MPI_Comm, Comm* made, const void*) { all.push_back(made); });
  for (Comm* comm : all) {
    if (comm != nullptr && was_used(*comm))
      tell_counters(text, comm, " (" + comm_name(*comm) + ")");
  }
  // One write, so that ranks do not mix their lines.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace weft::mpi
