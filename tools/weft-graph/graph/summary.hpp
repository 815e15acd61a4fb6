// A result in a few numbers that do not depend on how many ranks and threads made it.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "graph/partition.hpp"

namespace weft::graph {

/// Of one block's values, and by `add` of all blocks'. Plain data; what an algorithm does not have
/// stays 0.
struct Summary {
  struct Top {
    Vertex vertex = 0;
    double value = -1;  ///< below 0: there are fewer vertices
  };

  uint64_t reached = 0, max_level = 0, sum_of_levels = 0;  // bfs
  uint64_t components = 0;                                 // cc
  double sum = 0;                                          // pagerank: 1, if no rank is lost
  double l1_from_even = 0;                                 // pagerank: distance from equal ranks
  double weighted = 0;       // pagerank: each rank times a number made from its vertex
  std::array<Top, 5> top{};  // pagerank: greatest first
  uint64_t hash = 0;         ///< bfs, cc: over all (vertex, value)
  uint64_t arcs = 0;         ///< twice the edges: bfs of the reached part, else all

  void add(const Summary& other);
};

Summary summarize_levels(const LocalGraph& graph, std::span<const uint32_t> levels);
Summary summarize_labels(const LocalGraph& graph, std::span<const Vertex> labels);
Summary summarize_ranks(const LocalGraph& graph, std::span<const double> ranks);

}  // namespace weft::graph
