// Which processors each rank is bound to.
#pragma once

#include <sched.h>

#include <string>
#include <vector>

#include "weft/base/core_claim.hpp"
#include "weftrun/options.hpp"

namespace weft::run {

/// One rank's processors. Not bound: `cpus` is empty.
struct Place {
  std::vector<int> cpus;
  /// "core 3", "cores 2,3", "memory node 1 (cores 4,5,6,7)", or "" if not bound.
  std::string text;
};

struct Placement {
  /// This host's r-th rank, the first being 0, goes to places[r % places.size()]; empty: nobody is
  /// bound.
  std::vector<Place> places;
  /// A refusal by the system is no failure: nobody asked for this, or the topology is a pretended
  /// one (WEFT_BASE_TOPOLOGY), whose processors may not exist.
  bool may_fail = false;

  /// How many of the host's `ranks` share the cores of its `rank`-th, and which of them it is.
  [[nodiscard]] base::CoreShare share_of(int rank, int ranks) const {
    const int apart = places.empty() ? 1 : static_cast<int>(places.size());
    return {rank / apart, (ranks - rank % apart - 1) / apart + 1};
  }
  [[nodiscard]] const Place* of(int rank) const {
    return places.empty() ? nullptr : &places[static_cast<std::size_t>(rank) % places.size()];
  }
};

/// Of `ranks` on this host.
Placement make_placement(Bind bind, int ranks);

}  // namespace weft::run
