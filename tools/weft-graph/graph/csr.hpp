// An undirected graph as compressed rows: each vertex's neighbours side by side, ascending.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace weft::graph {

/// A vertex, numbered 0 … n-1 whatever the file called it.
using Vertex = uint32_t;
using Edge = std::pair<Vertex, Vertex>;

struct Csr {
  std::vector<uint64_t> offsets{
      0};                       ///< vertices() + 1; row v is targets[offsets[v] … offsets[v+1])
  std::vector<Vertex> targets;  ///< every edge twice, once from each end

  [[nodiscard]] Vertex vertices() const noexcept { return static_cast<Vertex>(offsets.size() - 1); }
  [[nodiscard]] uint64_t edges() const noexcept { return targets.size() / 2; }
  [[nodiscard]] uint32_t degree(Vertex v) const noexcept {
    return static_cast<uint32_t>(offsets[v + 1] - offsets[v]);
  }
  [[nodiscard]] std::span<const Vertex> neighbours(Vertex v) const noexcept {
    return {targets.data() + offsets[v], degree(v)};
  }
};

/// Each edge in both directions, loops and repetitions left out.
Csr build_csr(Vertex vertices, std::span<const Edge> edges);

/// The vertex with most neighbours, the lowest of them; 0 in a graph without edges.
Vertex vertex_of_max_degree(const Csr& graph);

}  // namespace weft::graph
