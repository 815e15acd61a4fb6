// Rank 0's graph to all ranks, and values of all vertices back to rank 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "graph/exchange.hpp"
#include "graph/partition.hpp"

namespace weft::graph {

/// Everyone's `mine`, in rank order, on every rank. Collective.
std::vector<std::byte> gather_bytes(Exchange& exchange, std::span<const std::byte> mine);

template <class Value>
std::vector<Value> gather_all(Exchange& exchange, const Value& mine) {
  static_assert(std::is_trivially_copyable_v<Value>);
  const auto bytes = gather_bytes(exchange, std::as_bytes(std::span(&mine, 1)));
  std::vector<Value> all(bytes.size() / sizeof(Value));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

/// Rank 0 cuts `whole` (not looked at elsewhere) into a block per rank and sends each its rows.
/// Collective.
LocalGraph distribute(Exchange& exchange, const Csr* whole);

/// All vertices' values, in vertex order, on rank 0; empty elsewhere. Collective.
std::vector<std::byte> collect_bytes(Exchange& exchange, const LocalGraph& graph,
                                     std::size_t value_bytes, std::span<const std::byte> mine);

template <class Value>
std::vector<Value> collect(Exchange& exchange, const LocalGraph& graph,
                           std::span<const Value> mine) {
  static_assert(std::is_trivially_copyable_v<Value>);
  const auto bytes = collect_bytes(exchange, graph, sizeof(Value), std::as_bytes(mine));
  std::vector<Value> all(bytes.size() / sizeof(Value));
  if (!bytes.empty()) std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

}  // namespace weft::graph
