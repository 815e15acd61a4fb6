#include "graph/csr.hpp"

#include <algorithm>

namespace weft::graph {

Csr build_csr(Vertex vertices, std::span<const Edge> edges) {
  Csr graph;
  graph.offsets.assign(std::size_t{vertices} + 1, 0);
  for (const auto& [a, b] : edges) {
    if (a == b) continue;
    ++graph.offsets[a + 1];
    ++graph.offsets[b + 1];
  }
  for (std::size_t v = 0; v < vertices; ++v) graph.offsets[v + 1] += graph.offsets[v];

  graph.targets.resize(graph.offsets.back());
  std::vector<uint64_t> next(graph.offsets.begin(), graph.offsets.end() - 1);
  for (const auto& [a, b] : edges) {
    if (a == b) continue;
    graph.targets[next[a]++] = b;
    graph.targets[next[b]++] = a;
  }

  uint64_t kept = 0;
  uint64_t row = 0;  // where row v began before the rows in front of it shrank
  for (std::size_t v = 0; v < vertices; ++v) {
    const auto begin = graph.targets.begin() + static_cast<std::ptrdiff_t>(row);
    const auto end = graph.targets.begin() + static_cast<std::ptrdiff_t>(graph.offsets[v + 1]);
    row = graph.offsets[v + 1];
    std::sort(begin, end);
    const auto last = std::unique(begin, end);
    std::move(begin, last, graph.targets.begin() + static_cast<std::ptrdiff_t>(kept));
    kept += static_cast<uint64_t>(last - begin);
    graph.offsets[v + 1] = kept;
  }
  graph.targets.resize(kept);
  graph.targets.shrink_to_fit();
  return graph;
}

Vertex vertex_of_max_degree(const Csr& graph) {
  Vertex best = 0;
  for (Vertex v = 1; v < graph.vertices(); ++v) {
    if (graph.degree(v) > graph.degree(best)) best = v;
  }
  return best;
}

}  // namespace weft::graph
