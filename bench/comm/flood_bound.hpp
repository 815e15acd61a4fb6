// How much memory configuration lets a flood take.
#pragma once

#include <cstdint>

namespace weft::bench {

/// Bytes by which either rank of two may grow under a flood, from the configured sizes of packets,
/// rings and queues, with a megabyte for the allocator's and the kernel's rounding.
double flood_bound(uint32_t devices);

}  // namespace weft::bench
