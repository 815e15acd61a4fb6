// Blocks of vertices balanced by edges, and one rank's block with its mirrors of others' vertices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/csr.hpp"

namespace weft::graph {

/// Cuts rows into `parts` runs whose arcs plus rows are about equal; run i is [result[i],
/// result[i+1]). Runs may be empty: there may be more parts than rows.
std::vector<Vertex> balanced_blocks(std::span<const uint64_t> offsets, int parts);

/// The block that holds `vertex`.
int block_of(std::span<const Vertex> bounds, Vertex vertex);

/// Another rank's vertex that a neighbour lives here for.
struct Mirror {
  int32_t owner;   ///< rank that holds the master
  uint32_t index;  ///< its number there
};

/// One rank's part of the graph (000 §3.1: an edge cut). A vertex's *local number* is its place in
/// the block; mirrors are numbered after the block, in ascending order of vertex, hence grouped by
/// owner. Since the graph is undirected, `mirrored` of one rank and the mirrors of another are the
/// same vertices in the same order, known to both without a message.
struct LocalGraph {
  uint64_t all_edges = 0;            ///< of the whole graph
  std::vector<Vertex> bounds{0, 0};  ///< rank r's block is [bounds[r], bounds[r+1])
  Vertex first = 0;                  ///< vertex of local number 0
  Csr rows;                          ///< of the block; targets are local numbers
  std::vector<Mirror> mirrors;
  std::vector<uint32_t> mirrors_begin;          ///< owner r's are [mirrors_begin[r], …[r+1])
  std::vector<std::vector<uint32_t>> mirrored;  ///< [r]: local numbers that have a mirror on r

  [[nodiscard]] Vertex count() const noexcept { return rows.vertices(); }
  [[nodiscard]] Vertex all_vertices() const noexcept { return bounds.back(); }
  /// The vertex behind a local number, mirrors included.
  [[nodiscard]] Vertex vertex(uint32_t local) const noexcept {
    if (local < count()) return first + local;
    const Mirror& mirror = mirrors[local - count()];
    return bounds[static_cast<std::size_t>(mirror.owner)] + mirror.index;
  }
};

/// Makes rank `rank`'s part from its rows, whose targets are still vertices.
LocalGraph make_local(std::vector<Vertex> bounds, int rank, uint64_t all_edges, Csr rows);

}  // namespace weft::graph
