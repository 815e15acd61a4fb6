#include "graph/serial.hpp"

#include <cmath>

namespace weft::graph {

std::vector<uint32_t> serial_bfs(const Csr& graph, Vertex root) {
  std::vector<uint32_t> level(graph.vertices(), kUnreached);
  std::vector<Vertex> order{root};
  order.reserve(graph.vertices());
  level[root] = 0;
  for (std::size_t at = 0; at < order.size(); ++at) {
    const Vertex v = order[at];
    for (const Vertex to : graph.neighbours(v)) {
      if (level[to] != kUnreached) continue;
      level[to] = level[v] + 1;
      order.push_back(to);
    }
  }
  return level;
}

std::vector<Vertex> serial_components(const Csr& graph) {
  constexpr Vertex kNone = UINT32_MAX;
  std::vector<Vertex> label(graph.vertices(), kNone);
  std::vector<Vertex> open;
  for (Vertex lowest = 0; lowest < graph.vertices(); ++lowest) {
    if (label[lowest] != kNone) continue;
    label[lowest] = lowest;
    open.push_back(lowest);
    while (!open.empty()) {
      const Vertex v = open.back();
      open.pop_back();
      for (const Vertex to : graph.neighbours(v)) {
        if (label[to] != kNone) continue;
        label[to] = lowest;
        open.push_back(to);
      }
    }
  }
  return label;
}

std::vector<double> serial_pagerank(const Csr& graph, const PageRankRule& rule) {
  const auto n = static_cast<double>(graph.vertices());
  std::vector<double> rank(graph.vertices(), 1 / n);
  std::vector<double> share(graph.vertices());
  for (uint32_t step = 0; step < rule.iterations; ++step) {
    double dangling = 0;
    for (Vertex v = 0; v < graph.vertices(); ++v) {
      if (graph.degree(v) == 0) dangling += rank[v];
      share[v] = graph.degree(v) == 0 ? 0 : rank[v] / graph.degree(v);
    }
    double change = 0;
    for (Vertex v = 0; v < graph.vertices(); ++v) {
      double sum = dangling / n;
      for (const Vertex from : graph.neighbours(v)) sum += share[from];
      const double next = (1 - rule.damping) / n + rule.damping * sum;
      change += std::fabs(next - rank[v]);
      rank[v] = next;
    }
    if (change < rule.tolerance) break;
  }
  return rank;
}

}  // namespace weft::graph
