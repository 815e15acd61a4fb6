// The three answers computed by one thread, as plainly as possible: what --verify compares with.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/csr.hpp"

namespace weft::graph {

inline constexpr uint32_t kUnreached = UINT32_MAX;

/// PageRank's rule: damping 0.85; the rank of vertices without edges goes to all in equal parts;
/// until one step changes all ranks together by less than `tolerance`, or after `iterations` steps.
struct PageRankRule {
  double damping = 0.85;
  double tolerance = 1e-12;
  uint32_t iterations = 1000;
};

/// Hops from `root`, kUnreached where there is no way.
std::vector<uint32_t> serial_bfs(const Csr& graph, Vertex root);
/// The lowest vertex of each vertex's component.
std::vector<Vertex> serial_components(const Csr& graph);
std::vector<double> serial_pagerank(const Csr& graph, const PageRankRule& rule);

}  // namespace weft::graph
