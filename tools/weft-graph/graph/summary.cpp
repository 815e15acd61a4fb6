#include "graph/summary.hpp"

#include <algorithm>
#include <cmath>

#include "graph/mix.hpp"
#include "graph/serial.hpp"

namespace weft::graph {
namespace {

bool is_before(const Summary::Top& a, const Summary::Top& b) {
  return a.value > b.value || (a.value == b.value && a.vertex < b.vertex);
}

void offer(std::array<Summary::Top, 5>& top, const Summary::Top& candidate) {
  if (candidate.value < 0 || !is_before(candidate, top.back())) return;
  top.back() = candidate;
  std::sort(top.begin(), top.end(), is_before);
}

}  // namespace

void Summary::add(const Summary& other) {
  reached += other.reached;
  max_level = std::max(max_level, other.max_level);
  sum_of_levels += other.sum_of_levels;
  components += other.components;
  sum += other.sum;
  l1_from_even += other.l1_from_even;
  weighted += other.weighted;
  for (const Top& candidate : other.top) offer(top, candidate);
  hash += other.hash;
  arcs += other.arcs;
}

Summary summarize_levels(const LocalGraph& graph, std::span<const uint32_t> levels) {
  Summary summary;
  for (Vertex v = 0; v < graph.count(); ++v) {
    summary.hash += checksum_share(graph.first + v, levels[v]);
    if (levels[v] == kUnreached) continue;
    ++summary.reached;
    summary.max_level = std::max<uint64_t>(summary.max_level, levels[v]);
    summary.sum_of_levels += levels[v];
    summary.arcs += graph.rows.degree(v);
  }
  return summary;
}

Summary summarize_labels(const LocalGraph& graph, std::span<const Vertex> labels) {
  Summary summary;
  summary.arcs = graph.rows.targets.size();
  for (Vertex v = 0; v < graph.count(); ++v) {
    summary.hash += checksum_share(graph.first + v, labels[v]);
    if (labels[v] == graph.first + v) ++summary.components;  // its own lowest vertex
  }
  return summary;
}

Summary summarize_ranks(const LocalGraph& graph, std::span<const double> ranks) {
  Summary summary;
  summary.arcs = graph.rows.targets.size();
  const double even = 1.0 / graph.all_vertices();
  for (Vertex v = 0; v < graph.count(); ++v) {
    // A weight between 0 and 1 that tells vertices apart, so that exchanged values show.
    const double weight = static_cast<double>(mix(graph.first + v) >> 11) * 0x1p-53;
    summary.sum += ranks[v];
    summary.l1_from_even += std::fabs(ranks[v] - even);
    summary.weighted += weight * ranks[v];
    offer(summary.top, {graph.first + v, ranks[v]});
  }
  return summary;
}

}  // namespace weft::graph
