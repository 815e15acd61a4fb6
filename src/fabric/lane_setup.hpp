// What is decided before a lane transport is built.
#pragma once

#include <cstdint>

#include "weft/fabric/transport.hpp"

namespace weft::fabric {

struct LaneSetup {
  Geometry geometry;
  uint32_t inline_cells = 4;  ///< most cells of a frame
  uint32_t exposures = 1024;  ///< rows of the exposure table
  bool reads = true;          ///< may cross-memory attach be tried
  bool membarrier = true;     ///< may sleepers execute the senders' barrier
  int packet_node = -1;       ///< NUMA node of the packets; -1: this rank's own
};

/// `geometry`, and the rest from the configuration.
LaneSetup lane_setup(const Geometry& geometry);

}  // namespace weft::fabric
