// Connected components over the ranks: local ones joined first, then the lowest name travels.
#include <atomic>

#include "graph/chunks.hpp"
#include "graph/distributed.hpp"
#include "graph/union_find.hpp"

namespace weft::graph {
namespace {

/// A vertex of the receiver, and the lowest vertex that the sender knows to be connected with it.
struct Claim {
  uint32_t local;
  Vertex lowest;
};

// relaxed throughout: labels only ever fall, and each round ends with a join of all threads.
class Components final : public RoundWork {
 public:
  explicit Components(const LocalGraph& graph)
      : graph_(graph),
        sets_(graph.count() + static_cast<uint32_t>(graph.mirrors.size())),
        lowest_(sets_.size()),
        told_(graph.mirrors.size()) {}

  /// Joins what is connected inside the block, mirrors included.
  void join_block(ThreadTeam& team) {
    chunks_.reset(graph_.count());
    const auto join = [this](int) {
      chunks_.for_each([this](std::size_t i) {
        const auto v = static_cast<uint32_t>(i);
        for (const uint32_t to : graph_.rows.neighbours(v)) {
          if (to > v) sets_.join(v, to);  // every edge once: mirrors have the highest numbers
        }
      });
    };
    team.run(join);
    for (auto& lowest : lowest_) lowest.store(UINT32_MAX, std::memory_order_relaxed);
    for (uint32_t i = 0; i < sets_.size(); ++i) lower(i, graph_.vertex(i));
    // The owner of a mirror knows the mirror's own number without being told.
    for (uint32_t m = 0; m < told_.size(); ++m) told_[m] = graph_.vertex(graph_.count() + m);
  }

  /// Between rounds: how many mirrors the next one looks at.
  uint64_t advance() {
    sent_.store(0, std::memory_order_relaxed);
    const bool news = news_.exchange(false, std::memory_order_relaxed);
    chunks_.reset(news ? told_.size() : 0);
    return news ? told_.size() : 0;
  }

  void gather(int, Outbox& out) override {
    uint64_t sent = 0;
    chunks_.for_each([&](std::size_t m) {
      const auto mirror = static_cast<uint32_t>(m);
      const Vertex lowest = label(graph_.count() + mirror);
      if (lowest >= told_[m]) return;
      told_[m] = lowest;
      out.push(graph_.mirrors[m].owner, Claim{graph_.mirrors[m].index, lowest});
      ++sent;
    });
    sent_.fetch_add(sent, std::memory_order_relaxed);
  }
  void scatter(int, int, std::span<const std::byte> packet) override {
    for_each_item<Claim>(packet, [this](const Claim& claim) { lower(claim.local, claim.lowest); });
  }
  Contribution contribution() override { return {sent_.load(std::memory_order_relaxed), {}}; }

  [[nodiscard]] std::vector<Vertex> result() {
    std::vector<Vertex> labels;
    labels.reserve(graph_.count());
    for (uint32_t v = 0; v < graph_.count(); ++v) labels.push_back(label(v));
    return labels;
  }

 private:
  Vertex label(uint32_t local) {
    return lowest_[sets_.find(local)].load(std::memory_order_relaxed);
  }
  void lower(uint32_t local, Vertex to) {
    auto& lowest = lowest_[sets_.find(local)];
    Vertex seen = lowest.load(std::memory_order_relaxed);
    while (to < seen) {
      if (lowest.compare_exchange_weak(seen, to, std::memory_order_relaxed)) {
        if (!news_.load(std::memory_order_relaxed)) news_.store(true, std::memory_order_relaxed);
        return;
      }
    }
  }

  const LocalGraph& graph_;
  UnionFind sets_;                           // of local numbers, mirrors included
  std::vector<std::atomic<Vertex>> lowest_;  // [root of a set]: what is known so far
  std::vector<Vertex> told_;                 // [mirror]: what its owner knows from here
  Chunks chunks_{1024};
  std::atomic<uint64_t> sent_{0};
  std::atomic<bool> news_{false};  // some label fell since the last gather began
};

}  // namespace

std::vector<Vertex> components(Exchange& exchange, const LocalGraph& graph,
                               const RunOptions& options, RoundLog& log) {
  log.start();
  Components work(graph);
  work.join_block(exchange.team());
  for (uint64_t sent = 1; sent != 0;) {
    const uint64_t looks = work.advance();
    const RoundTotals totals = exchange.run(work, looks >= options.parallel_from);
    sent = totals.sum.active;
    log.add(totals);
  }
  return work.result();
}

}  // namespace weft::graph
