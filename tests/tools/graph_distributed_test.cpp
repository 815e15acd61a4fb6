// bfs, cc and pagerank over ranks that are threads of this process, against serial runs and
// against the results that stand beside the data.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/config_override.hpp"
#include "graph/distributed.hpp"
#include "graph/generator.hpp"
#include "graph/reader.hpp"
#include "graph/share.hpp"
#include "graph/summary.hpp"
#include "graph_support.hpp"
#include "weft/comm/config.hpp"
#include "weft/fabric/config.hpp"

namespace weft::graph {
namespace {

using test::run_ranks;

struct Shape {
  int ranks, threads;
  uint64_t parallel_from;
};
// Both ways through a round: everything by all threads, and nothing.
constexpr std::array<Shape, 8> kShapes{{{1, 1, 0},
                                        {1, 3, 0},
                                        {2, 1, 0},
                                        {2, 2, 0},
                                        {2, 2, UINT64_MAX},
                                        {3, 2, 64},
                                        {5, 3, 0},
                                        {8, 1, 0}}};

/// Everything about `graph` on a job of that shape equals the serial answers.
void expect_right(const Csr& graph, Vertex root, const Shape& shape) {
  SCOPED_TRACE(testing::Message() << shape.ranks << " ranks x " << shape.threads << " threads, "
                                  << "parallel from " << shape.parallel_from);
  PageRankRule rule;
  rule.iterations = 60;
  const auto right_levels = serial_bfs(graph, root);
  const auto right_labels = serial_components(graph);
  const auto right_ranks = serial_pagerank(graph, rule);
  run_ranks(shape.ranks, [&](Runtime& runtime) {
    ThreadTeam team(shape.threads);
    Exchange exchange(runtime, team);
    const LocalGraph local = distribute(exchange, exchange.rank() == 0 ? &graph : nullptr);
    EXPECT_EQ(local.all_edges, graph.edges());
    EXPECT_EQ(local.all_vertices(), graph.vertices());
    RunOptions options;
    options.parallel_from = shape.parallel_from;
    options.pagerank = rule;
    RoundLog log;
    const auto levels = bfs(exchange, local, root, options, log);
    const auto labels = components(exchange, local, options, log);
    const auto ranks = pagerank(exchange, local, options, log);
    const auto all_levels = collect<uint32_t>(exchange, local, levels);
    const auto all_labels = collect<Vertex>(exchange, local, labels);
    const auto all_ranks = collect<double>(exchange, local, ranks);
    if (exchange.rank() != 0) {
      EXPECT_TRUE(all_levels.empty());
      return;
    }
    EXPECT_EQ(all_levels, right_levels);
    EXPECT_EQ(all_labels, right_labels);
    ASSERT_EQ(all_ranks.size(), right_ranks.size());
    for (std::size_t v = 0; v < right_ranks.size(); ++v) {
      ASSERT_NEAR(all_ranks[v], right_ranks[v], 1e-12 * right_ranks[v]) << "vertex " << v;
    }
  });
}

TEST(GraphDistributed, SmallAndOddGraphs) {
  const std::vector<std::pair<Vertex, std::vector<Edge>>> graphs{
      {1, {}},        // one vertex
      {7, {}},        // vertices, no edge
      {2, {{0, 1}}},  // fewer vertices than ranks
      {4, {{0, 1}, {1, 2}, {2, 0}, {2, 3}}},
      {6, {{0, 5}, {5, 1}, {1, 4}, {4, 2}, {2, 3}}},  // a path to and fro between blocks
  };
  for (const auto& [vertices, edges] : graphs) {
    const Csr graph = build_csr(vertices, edges);
    for (const Shape& shape : kShapes) expect_right(graph, 0, shape);
  }
}

TEST(GraphDistributed, KroneckerGraph) {
  const Csr graph = build_csr(1 << 11, kronecker_edges(11));
  for (const Shape& shape : kShapes) expect_right(graph, vertex_of_max_degree(graph), shape);
}

TEST(GraphDistributed, PathThatCrossesBlocksAtEveryStep) {
  // Vertex i is followed by i + n/2 and that by i + 1: the worst for label propagation.
  constexpr Vertex kHalf = 150;
  std::vector<Edge> edges;
  for (Vertex i = 0; i < kHalf; ++i) {
    edges.emplace_back(i, kHalf + i);
    if (i + 1 < kHalf) edges.emplace_back(kHalf + i, i + 1);
  }
  const Csr graph = build_csr(2 * kHalf, edges);
  for (const Shape& shape : kShapes) expect_right(graph, 0, shape);
}

TEST(GraphDistributed, ResultsHaveTheSameBitsForAnyShape) {
  const Csr graph = build_csr(1 << 10, kronecker_edges(10));
  std::vector<Summary> summaries;
  for (const Shape& shape : kShapes) {
    run_ranks(shape.ranks, [&](Runtime& runtime) {
      ThreadTeam team(shape.threads);
      Exchange exchange(runtime, team);
      const LocalGraph local = distribute(exchange, exchange.rank() == 0 ? &graph : nullptr);
      RunOptions options;
      options.parallel_from = shape.parallel_from;
      RoundLog log;
      Summary whole;
      const auto levels = bfs(exchange, local, 5, options, log);
      for (const auto& part : gather_all(exchange, summarize_levels(local, levels)))
        whole.add(part);
      const auto ranks = pagerank(exchange, local, options, log);
      for (const auto& part : gather_all(exchange, summarize_ranks(local, ranks))) whole.add(part);
      if (exchange.rank() == 0) summaries.push_back(whole);
    });
  }
  for (const Summary& summary : summaries) {
    EXPECT_EQ(summary.hash, summaries[0].hash);
    EXPECT_EQ(summary.sum_of_levels, summaries[0].sum_of_levels);
    EXPECT_NEAR(summary.weighted, summaries[0].weighted, 1e-12);
    EXPECT_EQ(summary.top[4].vertex, summaries[0].top[4].vertex);
  }
}

/// Packets of every size from every thread to every rank, many rounds: what was sent arrives once,
/// in its own round.
class Flood final : public RoundWork {
 public:
  Flood(Exchange& exchange, uint32_t round) : exchange_(exchange), round_(round) {}
  struct Item {
    uint32_t round, number;
  };
  static uint32_t items(int from, int to, uint32_t round) {
    return (round * 7919 + static_cast<uint32_t>(from * 31 + to) * 104729) % 3000;
  }
  void gather(int, Outbox& out) override {
    // Each thread takes the next rank that nobody has sent to yet.
    for (int to; (to = next_.fetch_add(1)) < exchange_.size();) {
      if (to == exchange_.rank()) continue;
      const uint32_t count = items(exchange_.rank(), to, round_);
      for (uint32_t i = 0; i < count; ++i) out.push(to, Item{round_, i});
    }
  }
  void scatter(int, int from, std::span<const std::byte> packet) override {
    for_each_item<Item>(packet, [&](const Item& item) {
      if (item.round != round_) wrong_.fetch_add(1);
      came_.fetch_add(1);
      sum_.fetch_add(item.number + static_cast<uint64_t>(from));
    });
  }
  Contribution contribution() override { return {1, {0.5, static_cast<double>(round_)}}; }
  void check(const RoundTotals& totals) const {
    uint64_t came = 0, sum = 0;
    for (int from = 0; from < exchange_.size(); ++from) {
      if (from == exchange_.rank()) continue;
      const uint64_t count = items(from, exchange_.rank(), round_);
      came += count;
      sum += count * (count - (count > 0)) / 2 + count * static_cast<uint64_t>(from);
    }
    EXPECT_EQ(wrong_.load(), 0);
    EXPECT_EQ(came_.load(), came);
    EXPECT_EQ(sum_.load(), sum);
    EXPECT_EQ(totals.sum.active, static_cast<uint64_t>(exchange_.size()));
    EXPECT_EQ(totals.sum.values[0], 0.5 * exchange_.size());
    EXPECT_EQ(totals.sum.values[1], static_cast<double>(round_) * exchange_.size());
  }

 private:
  Exchange& exchange_;
  const uint32_t round_;
  std::atomic<int> next_{0};
  std::atomic<uint64_t> came_{0}, sum_{0}, wrong_{0};
};

TEST(GraphExchange, EveryPacketArrivesOnceInItsRound) {
  for (const Shape& shape : kShapes) {
    run_ranks(shape.ranks, [&](Runtime& runtime) {
      ThreadTeam team(shape.threads);
      Exchange exchange(runtime, team);
      for (uint32_t round = 0; round < 40; ++round) {
        Flood flood(exchange, round);
        // Ranks disagree on who works alone, and take different times between rounds.
        const bool parallel = (round + static_cast<uint32_t>(exchange.rank())) % 3 != 0;
        if (round % 8 == 0 && exchange.rank() == 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        flood.check(exchange.run(flood, parallel));
      }
    });
  }
}

/// Short packets for rank 1, which rests when it has taken the first.
class Short final : public RoundWork {
 public:
  Short(int packets, std::chrono::milliseconds rest) : packets_(packets), rest_(rest) {}
  void gather(int, Outbox& out) override {
    constexpr std::array<std::byte, 48> kValues{};
    for (int i = 0; i < packets_; ++i) out.push_run(1, 0, 0, 1, kValues);
  }
  void scatter(int, int, std::span<const std::byte>) override {
    if (came_++ == 0) std::this_thread::sleep_for(rest_);
  }
  [[nodiscard]] int came() const { return came_; }

 private:
  int packets_;
  std::chrono::milliseconds rest_;
  int came_ = 0;
};

TEST(GraphExchange, ShortPacketsOfTheNextRoundTakeNoPlaces) {
  register_comm_config();
  fabric::register_fabric_config();
  const weft::test::ConfigOverride few({{"comm.unexpected", "64"}, {"fabric.lane_cells", "1024"}});
  run_ranks(3, [&](Runtime& runtime) {
    ThreadTeam team(1);
    Exchange exchange(runtime, team);
    for (int turn = 0; turn < 10; ++turn) {
      // Rank 1 has sent its marks and rests, rank 0 goes on to the next round, and most of rank 2's
      // packets lie in their lane still.
      const int rank = exchange.rank();
      Short first(rank == 2 ? 400 : 0, std::chrono::milliseconds(5));
      exchange.run(first);
      Short second(rank == 0 ? 400 : 0, std::chrono::milliseconds(0));
      exchange.run(second);
      EXPECT_EQ(first.came(), rank == 1 ? 400 : 0);
      EXPECT_EQ(second.came(), rank == 1 ? 400 : 0);
    }
  });
}

nlohmann::json expected_results(const std::string& path) {
  return nlohmann::json::parse(test::file_content(path));
}

void expect_known_results(const std::string& path, const nlohmann::json& expected, int ranks,
                          int threads) {
  SCOPED_TRACE(path);
  const EdgeList list = read_edge_list(path);
  const Csr graph = build_csr(static_cast<Vertex>(list.ids.size()), list.edges);
  EXPECT_EQ(graph.vertices(), expected["nodes"].get<uint64_t>());
  EXPECT_EQ(graph.edges(), expected["edges"].get<uint64_t>());
  const Vertex root = vertex_of_max_degree(graph);
  EXPECT_EQ(list.ids[root], expected["source_max_degree_vertex"].get<uint64_t>());
  EXPECT_EQ(graph.degree(root), expected["max_degree"].get<uint64_t>());
  run_ranks(ranks, [&](Runtime& runtime) {
    ThreadTeam team(threads);
    Exchange exchange(runtime, team);
    const LocalGraph local = distribute(exchange, exchange.rank() == 0 ? &graph : nullptr);
    const RunOptions options;
    RoundLog log;
    Summary whole;
    const auto levels = bfs(exchange, local, root, options, log);
    const auto labels = components(exchange, local, options, log);
    RoundLog steps;
    const auto values = pagerank(exchange, local, options, steps);
    for (const auto& part : gather_all(exchange, summarize_levels(local, levels))) whole.add(part);
    for (const auto& part : gather_all(exchange, summarize_labels(local, labels))) whole.add(part);
    for (const auto& part : gather_all(exchange, summarize_ranks(local, values))) whole.add(part);
    if (exchange.rank() != 0) return;
    EXPECT_EQ(whole.reached, expected["bfs_reached"].get<uint64_t>());
    EXPECT_EQ(whole.max_level, expected["bfs_max_level"].get<uint64_t>());
    EXPECT_EQ(whole.sum_of_levels, expected["bfs_sum_levels"].get<uint64_t>());
    EXPECT_EQ(whole.components, expected["components"].get<uint64_t>());
    EXPECT_NEAR(whole.sum, 1, 1e-9);
    const auto& top = expected["pagerank_top5"];
    for (std::size_t i = 0; i < whole.top.size(); ++i) {
      EXPECT_EQ(list.ids[whole.top[i].vertex], top[i][0].get<uint64_t>());
      EXPECT_NEAR(whole.top[i].value, top[i][1].get<double>(), 1e-9 * whole.top[i].value);
    }
    const auto known_steps = expected["pagerank_iterations_to_1e12"].get<int64_t>();
    EXPECT_NEAR(static_cast<double>(steps.lines.size()), static_cast<double>(known_steps), 3);
  });
}

TEST(GraphKnownResults, RoadNetworksOfTheRepository) {
  const auto expected = expected_results(test::own_data("graphs-expected.json"));
  for (const auto& [name, results] : expected.items()) {
#ifdef __SANITIZE_THREAD__
    if (name == "road-USA-FLA") continue;  // a minute under ThreadSanitizer, and nothing new
#endif
    expect_known_results(test::own_data(name + ".el.xz"), results, 2, 2);
  }
}

TEST(GraphKnownResults, GraphsOfTheSharedData) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a minute under ThreadSanitizer, and nothing new";
#endif
  const std::string table = test::shared_data("graphs-expected.json");
  if (!std::filesystem::exists(table)) {
    GTEST_SKIP() << "no graphs-expected.json in WEFT_SHARED_DATA";
  }
  const auto expected = expected_results(table);
  for (const auto& [name, results] : expected.items()) {
    if (!name.starts_with("road-")) {  // those are in the repository
      expect_known_results(test::shared_data(name + ".el.xz"), results, 3, 2);
    }
  }
}

TEST(GraphKnownResults, MatricesOfTheSharedData) {
  for (const auto* name : {"bcsstk13.mtx.xz", "bcsstk16.mtx.xz"}) {
    const std::string path = test::shared_data(name);
    if (!std::filesystem::exists(path)) {
      GTEST_SKIP() << "no " << name << " in WEFT_SHARED_DATA";
    }
    const EdgeList list = read_edge_list(path);
    const Csr graph = build_csr(static_cast<Vertex>(list.ids.size()), list.edges);
    expect_right(graph, vertex_of_max_degree(graph), {3, 2, 0});
  }
}

}  // namespace
}  // namespace weft::graph
