#include "graph/generator.hpp"

#include "graph/mix.hpp"

namespace weft::graph {
namespace {

/// Shuffles 0 … 2^scale-1: a few rounds of steps each of which can be undone, so that no two
/// numbers fall together, and no table is needed.
Vertex shuffled(Vertex v, int scale, uint64_t seed) {
  const uint64_t mask = (uint64_t{1} << scale) - 1;
  const int half = (scale + 1) / 2;
  uint64_t x = v;
  for (uint64_t round = 0; round < 3; ++round) {
    x = (x * (mix(seed + round) | 1) + mix(seed ^ (round + 17))) & mask;
    x ^= x >> half;
  }
  return static_cast<Vertex>(x);
}

}  // namespace

std::vector<Edge> kronecker_edges(int scale, uint64_t seed) {
  // Thresholds out of 2^16: a quarter of a random word decides one level of the recursion.
  constexpr uint64_t kA = 37355, kAB = kA + 12452, kABC = kAB + 12452;  // .57 .19 .19 (.05)
  std::vector<Edge> edges(static_cast<std::size_t>(kKroneckerEdgeFactor) << scale);
  for (std::size_t i = 0; i < edges.size(); ++i) {
    Vertex row = 0, column = 0;
    uint64_t random = 0;
    for (int level = 0; level < scale; ++level) {
      random =
          level % 4 == 0 ? mix(mix(seed) + i * 8 + static_cast<uint64_t>(level / 4)) : random >> 16;
      const uint64_t draw = random & 0xFFFF;
      row = row << 1 | static_cast<Vertex>(draw >= kAB);
      column = column << 1 | static_cast<Vertex>((draw >= kA && draw < kAB) || draw >= kABC);
    }
    edges[i] = {shuffled(row, scale, seed), shuffled(column, scale, seed)};
  }
  return edges;
}

}  // namespace weft::graph
