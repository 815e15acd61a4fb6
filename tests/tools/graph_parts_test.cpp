// The parts that need no messages: rows, blocks, generator, sets, threads, serial answers.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <numeric>
#include <random>

#include "graph/distributed.hpp"
#include "graph/generator.hpp"
#include "graph/partition.hpp"
#include "graph/serial.hpp"
#include "graph/summary.hpp"
#include "graph/thread_team.hpp"
#include "graph/union_find.hpp"

namespace weft::graph {
namespace {

using testing::ElementsAre;

constexpr std::array<Edge, 7> kTriangleAndTail{
    {{0, 1}, {1, 0}, {1, 2}, {2, 0}, {2, 2}, {2, 3}, {2, 3}}};

TEST(GraphCsr, DropsLoopsAndRepetitions) {
  const Csr graph = build_csr(5, kTriangleAndTail);
  EXPECT_EQ(graph.vertices(), 5);
  EXPECT_EQ(graph.edges(), 4);
  EXPECT_THAT(graph.neighbours(2), ElementsAre(0, 1, 3));
  EXPECT_EQ(graph.degree(4), 0);
  EXPECT_EQ(vertex_of_max_degree(graph), 2);
  EXPECT_EQ(build_csr(0, {}).vertices(), 0);
}

TEST(GraphPartition, BlocksCoverAllRowsAndBalance) {
  const Csr graph = build_csr(1 << 12, kronecker_edges(12));
  uint32_t longest = 0;
  for (Vertex v = 0; v < graph.vertices(); ++v) longest = std::max(longest, graph.degree(v));
  for (const int parts : {1, 2, 3, 7, 64}) {
    const auto bounds = balanced_blocks(graph.offsets, parts);
    ASSERT_EQ(bounds.size(), parts + 1);
    EXPECT_EQ(bounds.front(), 0);
    EXPECT_EQ(bounds.back(), graph.vertices());
    const uint64_t fair = (graph.targets.size() + graph.vertices()) / static_cast<uint64_t>(parts);
    for (std::size_t p = 0; p + 1 < bounds.size(); ++p) {
      ASSERT_LE(bounds[p], bounds[p + 1]);
      const uint64_t weight =
          graph.offsets[bounds[p + 1]] - graph.offsets[bounds[p]] + bounds[p + 1] - bounds[p];
      EXPECT_LE(weight, fair + longest + 1);
      for (Vertex v = bounds[p]; v < bounds[p + 1]; ++v) {
        ASSERT_EQ(block_of(bounds, v), static_cast<int>(p));
      }
    }
  }
}

TEST(GraphPartition, WhatDoesNotDivideIsSpreadOverAllParts) {
  constexpr int kParts = 1000;
  std::vector<uint64_t> offsets(1500);  // rows without arcs: each weighs one
  const auto bounds = balanced_blocks(offsets, kParts);
  for (std::size_t p = 0; p < kParts; ++p) ASSERT_LE(bounds[p + 1] - bounds[p], 2) << p;
}

TEST(GraphPartition, MorePartsThanRowsLeavesSomeEmpty) {
  const Csr graph = build_csr(4, kTriangleAndTail);
  const auto bounds = balanced_blocks(graph.offsets, 9);
  EXPECT_EQ(bounds.back(), 4);
  EXPECT_TRUE(std::is_sorted(bounds.begin(), bounds.end()));
}

Csr rows_of(const Csr& graph, Vertex first, Vertex end) {
  Csr rows;
  rows.offsets.assign(graph.offsets.begin() + first, graph.offsets.begin() + end + 1);
  for (auto& offset : rows.offsets) offset -= graph.offsets[first];
  rows.targets.assign(graph.targets.begin() + static_cast<std::ptrdiff_t>(graph.offsets[first]),
                      graph.targets.begin() + static_cast<std::ptrdiff_t>(graph.offsets[end]));
  return rows;
}

TEST(GraphPartition, MirrorsOfOneRankAreMirroredOfTheOther) {
  const Csr graph = build_csr(1 << 10, kronecker_edges(10));
  constexpr int kRanks = 5;
  const auto bounds = balanced_blocks(graph.offsets, kRanks);
  std::vector<LocalGraph> locals;
  for (int r = 0; r < kRanks; ++r) {
    const auto p = static_cast<std::size_t>(r);
    locals.push_back(
        make_local(bounds, r, graph.edges(), rows_of(graph, bounds[p], bounds[p + 1])));
  }
  for (std::size_t here = 0; here < kRanks; ++here) {
    const LocalGraph& local = locals[here];
    for (Vertex v = 0; v < local.count(); ++v) {
      std::vector<Vertex> back;
      for (const uint32_t to : local.rows.neighbours(v)) back.push_back(local.vertex(to));
      const auto whole = graph.neighbours(local.first + v);
      ASSERT_TRUE(std::equal(back.begin(), back.end(), whole.begin(), whole.end()));
    }
    for (std::size_t there = 0; there < kRanks; ++there) {
      std::vector<uint32_t> mirrors;
      for (uint32_t m = local.mirrors_begin[there]; m < local.mirrors_begin[there + 1]; ++m) {
        EXPECT_EQ(local.mirrors[m].owner, static_cast<int>(there));
        mirrors.push_back(local.mirrors[m].index);
      }
      EXPECT_EQ(mirrors, locals[there].mirrored[here]);
    }
  }
}

TEST(GraphGenerator, IsDeterministicSkewedAndShuffled) {
  const auto edges = kronecker_edges(12);
  EXPECT_EQ(edges.size(), 16U << 12);
  EXPECT_EQ(edges, kronecker_edges(12));
  EXPECT_NE(edges, kronecker_edges(12, 2));
  const Csr graph = build_csr(1 << 12, edges);
  EXPECT_GT(graph.edges(), 40000);  // most draws are new edges
  EXPECT_GT(graph.degree(vertex_of_max_degree(graph)),
            20 * graph.targets.size() / graph.vertices());
  EXPECT_NE(vertex_of_max_degree(graph), 0);  // without the shuffle it is
}

TEST(GraphGenerator, ScaleOneWorks) {
  for (const auto& [a, b] : kronecker_edges(1)) {
    EXPECT_LT(a, 2);
    EXPECT_LT(b, 2);
  }
}

TEST(GraphUnionFind, ThreadsJoinLikeOne) {
  constexpr uint32_t kMembers = 20000;
  std::minstd_rand random(7);
  std::vector<Edge> edges(18000);
  for (auto& [a, b] : edges) {
    a = static_cast<Vertex>(random() % kMembers);
    b = static_cast<Vertex>(random() % kMembers);
  }
  UnionFind sets(kMembers);
  ThreadTeam team(4);
  team.run([&](int thread) {
    for (std::size_t i = static_cast<std::size_t>(thread); i < edges.size(); i += 4) {
      sets.join(edges[i].first, edges[i].second);
    }
  });
  const auto right = serial_components(build_csr(kMembers, edges));
  for (uint32_t i = 0; i < kMembers; ++i) ASSERT_EQ(sets.find(i), right[i]);
}

TEST(GraphThreadTeam, EachPieceRunsOnceOnEveryThread) {
  for (const int threads : {1, 2, 5, 16}) {
    ThreadTeam team(threads);
    std::vector<int> runs(static_cast<std::size_t>(threads), 0);
    for (int piece = 0; piece < 300; ++piece) {
      team.run([&](int thread) { ++runs[static_cast<std::size_t>(thread)]; });
    }
    EXPECT_THAT(runs, testing::Each(300));
  }
}

TEST(GraphSerial, AnswersOnAGraphDoneByHand) {
  const Csr graph = build_csr(6, kTriangleAndTail);  // vertices 4 and 5 alone
  EXPECT_THAT(serial_bfs(graph, 3), ElementsAre(2, 2, 1, 0, kUnreached, kUnreached));
  EXPECT_THAT(serial_components(graph), ElementsAre(0, 0, 0, 0, 4, 5));
  const auto ranks = serial_pagerank(graph, {});
  EXPECT_NEAR(std::accumulate(ranks.begin(), ranks.end(), 0.0), 1, 1e-12);
  EXPECT_NEAR(ranks[0], ranks[1], 1e-12);
  EXPECT_EQ(ranks[4], ranks[5]);
  // The fixed point's own equation, for the vertex at the tail and for a lonely one.
  const double dangling = (ranks[4] + ranks[5]) / 6;
  EXPECT_NEAR(ranks[3], 0.15 / 6 + 0.85 * (ranks[2] / 3 + dangling), 1e-12);
  EXPECT_NEAR(ranks[4], 0.15 / 6 + 0.85 * dangling, 1e-12);
}

TEST(GraphSummary, OfBlocksAddsUpToThatOfTheWhole) {
  const Csr graph = build_csr(1 << 9, kronecker_edges(9));
  const auto levels = serial_bfs(graph, 1);
  const auto ranks = serial_pagerank(graph, {});
  const LocalGraph whole = make_local({0, graph.vertices()}, 0, graph.edges(), graph);
  const auto bounds = balanced_blocks(graph.offsets, 4);
  Summary level_sum, rank_sum;
  for (std::size_t r = 0; r < 4; ++r) {
    const LocalGraph block = make_local(bounds, static_cast<int>(r), graph.edges(),
                                        rows_of(graph, bounds[r], bounds[r + 1]));
    level_sum.add(summarize_levels(block, std::span(levels).subspan(block.first, block.count())));
    rank_sum.add(summarize_ranks(block, std::span(ranks).subspan(block.first, block.count())));
  }
  const Summary all_levels = summarize_levels(whole, levels);
  EXPECT_EQ(level_sum.hash, all_levels.hash);
  EXPECT_EQ(level_sum.sum_of_levels, all_levels.sum_of_levels);
  EXPECT_EQ(level_sum.max_level, all_levels.max_level);
  EXPECT_EQ(level_sum.arcs, all_levels.arcs);
  const Summary all_ranks = summarize_ranks(whole, ranks);
  EXPECT_NEAR(rank_sum.weighted, all_ranks.weighted, 1e-14);
  EXPECT_NEAR(rank_sum.l1_from_even, all_ranks.l1_from_even, 1e-14);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(rank_sum.top[i].vertex, all_ranks.top[i].vertex);
  auto moved = levels;
  std::swap(moved[1], moved[2]);
  if (levels[1] != levels[2]) {
    EXPECT_NE(summarize_levels(whole, moved).hash, all_levels.hash);
  }
}

}  // namespace
}  // namespace weft::graph
