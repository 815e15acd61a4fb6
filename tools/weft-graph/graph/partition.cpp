#include "graph/partition.hpp"

#include <algorithm>
#include <utility>

namespace weft::graph {

std::vector<Vertex> balanced_blocks(std::span<const uint64_t> offsets, int parts) {
  const auto rows = static_cast<Vertex>(offsets.size() - 1);
  const uint64_t base = offsets.front();
  const uint64_t whole = offsets.back() - base + rows;
  const auto all = static_cast<uint64_t>(parts);
  std::vector<Vertex> bounds(static_cast<std::size_t>(parts) + 1, rows);
  bounds[0] = 0;
  for (int part = 1; part < parts; ++part) {
    // A row weighs its arcs and one for itself; both sums are known at every row.
    const uint64_t goal =
        whole / all * static_cast<uint64_t>(part) + whole % all * static_cast<uint64_t>(part) / all;
    Vertex low = bounds[static_cast<std::size_t>(part) - 1];
    Vertex high = rows;
    while (low < high) {
      const Vertex middle = low + (high - low) / 2;
      if (offsets[middle] - base + middle < goal) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    bounds[static_cast<std::size_t>(part)] = low;
  }
  return bounds;
}

int block_of(std::span<const Vertex> bounds, Vertex vertex) {
  return static_cast<int>(std::upper_bound(bounds.begin(), bounds.end(), vertex) - bounds.begin()) -
         1;
}

LocalGraph make_local(std::vector<Vertex> bounds, int rank, uint64_t all_edges, Csr rows) {
  LocalGraph local;
  const auto ranks = bounds.size() - 1;
  const auto me = static_cast<std::size_t>(rank);
  const Vertex first = bounds[me];
  const Vertex end = bounds[me + 1];
  const auto is_mine = [&](Vertex v) { return v >= first && v < end; };

  // Which vertices of others are neighbours here: a mark per vertex, later its local number.
  std::vector<uint32_t> number(bounds.back(), 0);
  for (const Vertex target : rows.targets) {
    if (!is_mine(target)) number[target] = 1;
  }
  local.mirrors_begin.push_back(0);
  for (std::size_t owner = 0; owner < ranks; ++owner) {
    for (Vertex v = bounds[owner]; v < bounds[owner + 1]; ++v) {
      if (number[v] == 0) continue;
      number[v] = rows.vertices() + static_cast<uint32_t>(local.mirrors.size());
      local.mirrors.push_back({static_cast<int32_t>(owner), v - bounds[owner]});
    }
    local.mirrors_begin.push_back(static_cast<uint32_t>(local.mirrors.size()));
  }

  local.mirrored.resize(ranks);
  for (Vertex v = 0; v < rows.vertices(); ++v) {
    for (uint64_t arc = rows.offsets[v]; arc < rows.offsets[v + 1]; ++arc) {
      Vertex& target = rows.targets[arc];
      if (is_mine(target)) {
        target -= first;
        continue;
      }
      target = number[target];
      const auto owner = static_cast<std::size_t>(local.mirrors[target - rows.vertices()].owner);
      auto& there = local.mirrored[owner];
      if (there.empty() || there.back() != v) there.push_back(v);
    }
  }
  local.all_edges = all_edges;
  local.bounds = std::move(bounds);
  local.first = first;
  local.rows = std::move(rows);
  return local;
}

}  // namespace weft::graph
