// What weft-graph prints.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "graph/distributed.hpp"
#include "graph/summary.hpp"
#include "options.hpp"

namespace weft::graph {

/// The rounds, one line each: all of them, or the first and last few.
void print_rounds(const RoundLog& log, bool all);

/// Time, speed, traffic, and the result with its checksum. `ids` are the file's names of vertices.
void print_result(Algorithm algorithm, const RoundLog& log, const Summary& summary,
                  std::span<const uint64_t> ids);

}  // namespace weft::graph
