// The room's configuration table, and what follows from it.
#pragma once

#include <cstdint>

#include "weft/fabric/transport.hpp"

namespace weft::fabric {

/// Registers the table of fabric.* keys; the makers of transports do it themselves. Idempotent.
void register_fabric_config();

/// A geometry as configured, for `ports` ports.
Geometry default_geometry(uint32_t ports = 1);

}  // namespace weft::fabric
