// The registry of what MPI counts.
#include "mpi/counters.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "mpi/tool/tool.hpp"

namespace weft::mpi {
namespace {

std::vector<CounterEntry>& all() {
  static std::vector<CounterEntry>& entries = *new std::vector<CounterEntry>;
  return entries;
}

}  // namespace

void add_counter(CounterEntry entry) {
  const std::scoped_lock guard(tool::lock());  // which readers hold
  // A process that was initialized again, by a session, counts anew; tools know the numbers of old.
  const auto known = std::find_if(all().begin(), all().end(),
                                  [&](const CounterEntry& old) { return old.name == entry.name; });
  if (known == all().end())
    all().push_back(std::move(entry));
  else
    *known = std::move(entry);
}

const std::vector<CounterEntry>& counters() noexcept { return all(); }

}  // namespace weft::mpi
