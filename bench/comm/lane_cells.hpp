// How large the library's own rings are, for limits of the same size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft::bench {

/// A configured number, or `fallback` where no such key is registered.
int64_t configured(std::string_view key, int64_t fallback);

/// 64-byte cells in a lane's ring.
std::size_t lane_cells();

}  // namespace weft::bench
