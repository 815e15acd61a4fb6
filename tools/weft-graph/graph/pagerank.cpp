// PageRank over the ranks: one step of the iteration in each round.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "graph/chunks.hpp"
#include "graph/distributed.hpp"
#include "weft/base/cache_line.hpp"

namespace weft::graph {
namespace {

class PageRank final : public RoundWork {
 public:
  PageRank(const LocalGraph& graph, const PageRankRule& rule, int threads)
      : graph_(graph),
        damping_(rule.damping),
        n_(graph.all_vertices()),
        bounds_(balanced_blocks(graph.rows.offsets, threads)),
        sums_(static_cast<std::size_t>(threads)),
        rank_(graph.count(), 1 / n_),
        shares_(graph.count() + graph.mirrors.size()),
        next_(shares_.size()) {
    for (Vertex v = 0; v < graph.count(); ++v) set_share(shares_, v, *sums_[0]);
    // There is no change yet; what is sent on the first end marks must not end the run.
    sums_[0]->change = std::numeric_limits<double>::infinity();
    for (std::size_t to = 0; to < graph.mirrored.size(); ++to) {
      const auto all = static_cast<uint32_t>(graph.mirrored[to].size());
      for (uint32_t first = 0; first < all; first += kPiece) {
        pieces_.push_back({static_cast<int>(to), first, std::min(kPiece, all - first)});
      }
    }
  }

  /// Between rounds: how many arcs a step follows.
  uint64_t advance() {
    pieces_left_.reset(pieces_.size());
    return graph_.rows.targets.size();
  }

  /// A message carries values alone: both sides keep the vertices in the same order.
  void gather(int, Outbox& out) override {
    pieces_left_.for_each([&](std::size_t i) {
      const Piece& piece = pieces_[i];
      const auto& mirrored = graph_.mirrored[static_cast<std::size_t>(piece.to)];
      std::array<double, kPiece> values;
      for (uint32_t k = 0; k < piece.count; ++k) values[k] = shares_[mirrored[piece.first + k]];
      out.push_run(piece.to, 0, piece.first, sizeof(double),
                   std::as_bytes(std::span(values).first(piece.count)));
    });
  }
  void scatter(int, int from, std::span<const std::byte> packet) override {
    RunHeader run{};
    std::memcpy(&run, packet.data(), sizeof(run));
    double* const place =
        shares_.data() + graph_.count() + graph_.mirrors_begin[static_cast<std::size_t>(from)];
    std::memcpy(place + run.first, packet.data() + sizeof(run), run.bytes);
  }
  Contribution contribution() override {
    Contribution mine;
    for (const auto& sums : sums_) {
      mine.values[0] += sums->dangling;
      mine.values[1] += sums->change;
    }
    return mine;
  }

  void step(ThreadTeam& team, bool parallel, double all_dangling) {
    const double same_for_all = (1 - damping_) / n_ + damping_ * all_dangling / n_;
    const auto work = [&](int thread) {
      const auto part = static_cast<std::size_t>(thread);
      Sums mine;
      for (Vertex v = bounds_[part]; v < bounds_[part + 1]; ++v) {
        double sum = 0;
        for (const uint32_t from : graph_.rows.neighbours(v)) sum += shares_[from];
        const double rank = same_for_all + damping_ * sum;
        mine.change += std::fabs(rank - rank_[v]);
        rank_[v] = rank;
        set_share(next_, v, mine);
      }
      *sums_[part] = mine;
    };
    if (parallel) {
      team.run(work);
    } else {
      for (int part = 0; part < team.size(); ++part) work(part);
    }
    shares_.swap(next_);
  }

  [[nodiscard]] std::vector<double> take_result() { return std::move(rank_); }

 private:
  static constexpr uint32_t kPiece = 512;
  struct Piece {  // of mirrored[to]
    int to;
    uint32_t first, count;
  };
  struct Sums {
    double dangling = 0, change = 0;
  };
  void set_share(std::vector<double>& shares, Vertex v, Sums& sums) {
    const uint32_t degree = graph_.rows.degree(v);
    if (degree == 0) sums.dangling += rank_[v];
    shares[v] = degree == 0 ? 0 : rank_[v] / degree;
  }

  const LocalGraph& graph_;
  const double damping_, n_;
  const std::vector<Vertex> bounds_;       // a thread's vertices
  std::vector<base::OwnLine<Sums>> sums_;  // a thread's sums of the last step
  std::vector<double> rank_;
  std::vector<double> shares_, next_;  // rank over degree, of the block and its mirrors
  std::vector<Piece> pieces_;          // what a round sends
  Chunks pieces_left_{1};
};

}  // namespace

std::vector<double> pagerank(Exchange& exchange, const LocalGraph& graph, const RunOptions& options,
                             RoundLog& log) {
  PageRank work(graph, options.pagerank, exchange.team().size());
  log.start();
  for (uint32_t step = 0;; ++step) {
    const bool parallel = work.advance() >= options.parallel_from;
    const RoundTotals totals = exchange.run(work, parallel);
    log.add(totals);
    const auto [dangling, change] = totals.sum.values;
    if (change < options.pagerank.tolerance || step == options.pagerank.iterations) break;
    work.step(exchange.team(), parallel, dangling);
  }
  return work.take_result();
}

}  // namespace weft::graph
