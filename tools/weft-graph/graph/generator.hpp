// Kronecker (R-MAT) graphs, the same on every machine for the same scale and seed.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/csr.hpp"

namespace weft::graph {

inline constexpr int kMaxKroneckerScale = 30;
inline constexpr int kKroneckerEdgeFactor = 16;

/// 16 · 2^scale edges between 2^scale vertices, with Graph500's probabilities (0.57, 0.19, 0.19,
/// 0.05) and shuffled vertex numbers. Holds loops and repetitions, which build_csr drops.
std::vector<Edge> kronecker_edges(int scale, uint64_t seed = 1);

}  // namespace weft::graph
