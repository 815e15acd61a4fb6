#include "comm/lane_cells.hpp"

#include "comm/flood_bound.hpp"
#include "weft/base/config.hpp"
#include "weft/base/error.hpp"
#include "weft/fabric/config.hpp"

namespace weft::bench {

int64_t configured(std::string_view key, int64_t fallback) {
  try {
    return base::config_int(key);
  } catch (const Error&) {
    return fallback;
  }
}

std::size_t lane_cells() { return static_cast<std::size_t>(configured("fabric.lane_cells", 256)); }

double flood_bound(uint32_t devices) {
  // Both ranks' packets are mapped in each; a lane is counted from both of its ends.
  const fabric::Geometry geometry = fabric::default_geometry();
  const int64_t packets = int64_t{2} * geometry.packets * geometry.packet_bytes;
  const int64_t cells =
      configured("fabric.lane_cells", 256) + configured("fabric.control_cells", 64);
  const int64_t lanes = 2 * int64_t{devices} * devices * cells * 64;
  // Records of two lines each, and a line of the matching table for each message that waits.
  const int64_t records = configured("comm.operations", 65536) * 128 +
                          configured("comm.unexpected", 16384) * (128 + 64);
  constexpr int64_t kQueue = 4096 * 128;  // EndpointSpec::queue_capacity
  constexpr int64_t kRounding = 1 << 20;
  return static_cast<double>(packets + lanes + records + kQueue + kRounding);
}

}  // namespace weft::bench
