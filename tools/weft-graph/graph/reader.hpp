// Edge lists from files: any 64-bit ids, comments, tabs or blanks, plain or packed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/csr.hpp"

namespace weft::graph {

/// A file's edges with its ids made dense: the k-th smallest id is vertex k.
struct EdgeList {
  std::vector<Edge> edges;    ///< in the file's order; loops and repetitions still there
  std::vector<uint64_t> ids;  ///< ids[v] is what the file calls vertex v; ascending

  /// The vertex that the file calls `id`.
  [[nodiscard]] std::optional<Vertex> find(uint64_t id) const;
};

/// Reads `path`: a line holds two ids parted by blanks or tabs, and maybe numbers after them, which
/// are ignored (weights, times); lines that begin with # or % are comments. A file that begins with
/// the Matrix Market banner is read as a square coordinate matrix, whose vertices are its rows.
/// Throws Error naming file and line.
EdgeList read_edge_list(const std::string& path);

}  // namespace weft::graph
