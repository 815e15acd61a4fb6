#include "graph/generator.hpp"

#include <array>

#include "graph/mix.hpp"

namespace weft::graph {
namespace {

/// A shuffle of 0 … 2^scale-1: a few rounds of steps each of which can be undone, so that no two
/// numbers fall together, and no table is needed.
class Shuffle {
 public:
  Shuffle(int scale, uint64_t seed) : mask_((uint64_t{1} << scale) - 1), half_((scale + 1) / 2) {
    for (uint64_t i = 0; i < factors_.size(); ++i) {
      factors_[i] = mix(seed + i) | 1;  // odd: a bijection modulo 2^scale
      offsets_[i] = mix(seed ^ (i + 17));
    }
  }
  [[nodiscard]] Vertex operator()(uint64_t x) const {
    for (std::size_t i = 0; i < factors_.size(); ++i) {
      x = (x * factors_[i] + offsets_[i]) & mask_;
      x ^= x >> half_;
    }
    return static_cast<Vertex>(x);
  }

 private:
  const uint64_t mask_;
  const int half_;
  std::array<uint64_t, 3> factors_{}, offsets_{};
};

}  // namespace

std::vector<Edge> kronecker_edges(int scale, uint64_t seed) {
  // Thresholds out of 2^16: a quarter of a random word decides one level of the recursion.
  constexpr uint64_t kA = 37355, kAB = kA + 12452, kABC = kAB + 12452;  // .57 .19 .19 (.05)
  std::vector<Edge> edges(static_cast<std::size_t>(kKroneckerEdgeFactor) << scale);
  const Shuffle shuffled(scale, seed);
  const uint64_t start = mix(seed);
  for (std::size_t i = 0; i < edges.size(); ++i) {
    Vertex row = 0, column = 0;
    uint64_t random = 0;
    for (int level = 0; level < scale; ++level) {
      random =
          level % 4 == 0 ? mix(start + i * 8 + static_cast<uint64_t>(level / 4)) : random >> 16;
      const uint64_t draw = random & 0xFFFF;
      row = row << 1 | static_cast<Vertex>(draw >= kAB);
      column = column << 1 | static_cast<Vertex>((draw >= kA && draw < kAB) || draw >= kABC);
    }
    edges[i] = {shuffled(row), shuffled(column)};
  }
  return edges;
}

}  // namespace weft::graph
