// Breadth-first search over the ranks: one level of the tree in each round.
#include <atomic>

#include "graph/chunks.hpp"
#include "graph/distributed.hpp"
#include "weft/base/cache_line.hpp"

namespace weft::graph {
namespace {

class Bfs final : public RoundWork {
 public:
  Bfs(const LocalGraph& graph, int threads)
      : graph_(graph),
        levels_(graph.count()),
        sent_(graph.mirrors.size()),
        found_(static_cast<std::size_t>(threads)) {
    // relaxed: nobody else looks before the first round.
    for (auto& level : levels_) level.store(kUnreached, std::memory_order_relaxed);
  }

  void start_at(Vertex local) {
    levels_[local].store(0, std::memory_order_relaxed);  // relaxed: as above
    frontier_.push_back(local);
  }

  /// Makes what was found the next frontier; the arcs that leave it, counted up to `enough`.
  uint64_t advance(uint64_t enough) {
    ++level_;
    if (level_ > 1) {
      frontier_.clear();
      for (auto& found : found_) {
        frontier_.insert(frontier_.end(), found->begin(), found->end());
        found->clear();
      }
    }
    chunks_.reset(frontier_.size());
    uint64_t arcs = 0;
    for (std::size_t i = 0; i < frontier_.size() && arcs < enough; ++i) {
      arcs += graph_.rows.degree(frontier_[i]);
    }
    return arcs;
  }

  void gather(int thread, Outbox& out) override {
    auto& found = *found_[static_cast<std::size_t>(thread)];
    chunks_.for_each([&](std::size_t i) {
      for (const uint32_t to : graph_.rows.neighbours(frontier_[i])) {
        if (to < graph_.count()) {
          if (claim(to)) found.push_back(to);
        } else {
          send_once(to - graph_.count(), out);
        }
      }
    });
  }
  void scatter(int thread, int, std::span<const std::byte> packet) override {
    auto& found = *found_[static_cast<std::size_t>(thread)];
    for_each_item<uint32_t>(packet, [&](uint32_t local) {
      if (claim(local)) found.push_back(local);
    });
  }
  Contribution contribution() override { return {frontier_.size(), {}}; }

  [[nodiscard]] std::vector<uint32_t> result() const {
    std::vector<uint32_t> levels;
    levels.reserve(levels_.size());
    for (const auto& level : levels_) levels.push_back(level.load(std::memory_order_relaxed));
    return levels;
  }

 private:
  /// True for the one that reaches the vertex first. relaxed: all who try write the same level,
  /// and it is read as a value only after the round.
  bool claim(uint32_t local) {
    uint32_t seen = levels_[local].load(std::memory_order_relaxed);
    return seen == kUnreached &&
           levels_[local].compare_exchange_strong(seen, level_, std::memory_order_relaxed);
  }
  void send_once(uint32_t mirror, Outbox& out) {
    auto& sent = sent_[mirror];
    // relaxed: decides only who sends.
    if (sent.load(std::memory_order_relaxed) != 0) return;
    if (sent.exchange(1, std::memory_order_relaxed) != 0) return;
    out.push(graph_.mirrors[mirror].owner, graph_.mirrors[mirror].index);
  }

  const LocalGraph& graph_;
  std::vector<std::atomic<uint32_t>> levels_;
  std::vector<std::atomic<uint8_t>> sent_;  // per mirror
  std::vector<Vertex> frontier_;
  std::vector<base::OwnLine<std::vector<Vertex>>> found_;  // per thread
  uint32_t level_ = 0;                                     // of what this round finds
  Chunks chunks_{256};                                     // of the frontier
};

}  // namespace

std::vector<uint32_t> bfs(Exchange& exchange, const LocalGraph& graph, Vertex root,
                          const RunOptions& options, RoundLog& log) {
  Bfs work(graph, exchange.team().size());
  if (block_of(graph.bounds, root) == exchange.rank()) work.start_at(root - graph.first);
  log.start();
  for (uint64_t frontier = 1; frontier != 0;) {
    const uint64_t arcs = work.advance(options.parallel_from);
    const RoundTotals totals = exchange.run(work, arcs >= options.parallel_from);
    frontier = totals.sum.active;
    log.add(totals);
  }
  return work.result();
}

}  // namespace weft::graph
