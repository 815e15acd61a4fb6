// What is decided before a lane transport is built.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/base/types.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::fabric {

struct LaneSetup {
  Geometry geometry;
  std::vector<Rank> ranks;    ///< those it connects, ascending, this one among them
  uint32_t inline_cells = 4;  ///< most cells of a frame
  uint32_t exposures = 1024;  ///< rows of the exposure table
  bool reads = true;          ///< may cross-memory attach be tried
  bool membarrier = true;     ///< may sleepers execute the senders' barrier
  int packet_node = -1;       ///< NUMA node of the packets; -1: this rank's own
};

/// These, and the rest from the configuration.
LaneSetup lane_setup(const Geometry& geometry, std::vector<Rank> ranks);

/// `fabric.inline_cells`, as far as the rings have room for two such messages.
uint32_t configured_inline_cells(const Geometry& geometry);

}  // namespace weft::fabric
