// Breadth-first search, connected components and PageRank over all ranks and their threads.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "graph/exchange.hpp"
#include "graph/partition.hpp"
#include "graph/serial.hpp"
#include "weft/base/clock.hpp"

namespace weft::graph {

/// What each round took, as this rank's clock saw it, and what it moved, over all ranks.
struct RoundLog {
  struct Line {
    uint64_t ns;
    RoundTotals totals;
  };
  std::vector<Line> lines;
  uint64_t ns = 0;  ///< from the first round's start to the last one's end

  void start() { last_ = base::now_ns(); }
  void add(const RoundTotals& totals) {
    const uint64_t now = base::now_ns();
    lines.push_back({now - last_, totals});
    ns += now - std::exchange(last_, now);
  }

 private:
  uint64_t last_ = 0;
};

struct RunOptions {
  /// Rounds with less work than this (arcs or mirrors to look at) are done by one thread: waking
  /// the others costs more than they would save.
  uint64_t parallel_from = 16384;
  PageRankRule pagerank;
};

// All three are collective and return the values of this rank's block, in local order: the same
// bits for any number of ranks and threads (pagerank: but for the last of them, which depend on
// the order in which a few sums are added).

/// Level by level. A round: look at the frontier's neighbours; those that live elsewhere are sent
/// to their owners (reduce), each mirror once in the whole run.
std::vector<uint32_t> bfs(Exchange& exchange, const LocalGraph& graph, Vertex root,
                          const RunOptions& options, RoundLog& log);

/// First the components inside each block, mirrors included, by concurrent union-find; then rounds
/// in which components tell the owners of their mirrors the lowest vertex they know (reduce). So
/// rounds count the blocks' borders that a component's shortest way crosses, not its diameter.
std::vector<Vertex> components(Exchange& exchange, const LocalGraph& graph,
                               const RunOptions& options, RoundLog& log);

/// Each round sends the shares of vertices that have mirrors (broadcast), then every vertex adds
/// its neighbours' (pull). The change and the edgeless vertices' rank travel on the end marks.
std::vector<double> pagerank(Exchange& exchange, const LocalGraph& graph, const RunOptions& options,
                             RoundLog& log);

}  // namespace weft::graph
