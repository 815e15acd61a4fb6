#include "graph/share.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "weft/base/error.hpp"

namespace weft::graph {
namespace {

/// An array that arriving runs are put into.
struct Place {
  std::span<std::byte> memory;
  std::size_t value_bytes;
};

template <class Value>
Place place_of(std::vector<Value>& values) {
  return {std::as_writable_bytes(std::span(values)), sizeof(Value)};
}

/// A round of runs: sequence i goes into places[i]. Runs never overlap, so there is no lock.
template <class Gather>
class RunRound final : public RoundWork {
 public:
  RunRound(std::span<const Place> places, Gather& send) : places_(places), send_(send) {}
  void gather(int, Outbox& out) override { send_(out); }
  void scatter(int, int, std::span<const std::byte> packet) override {
    RunHeader header{};
    WEFT_CHECK(packet.size() >= sizeof(header), "a run has a header");
    std::memcpy(&header, packet.data(), sizeof(header));
    WEFT_CHECK(header.sequence < places_.size(), "a run's sequence is known");
    const Place place = places_[header.sequence];
    const std::size_t at = header.first * place.value_bytes;
    WEFT_CHECK(
        at + header.bytes <= place.memory.size() && packet.size() == sizeof(header) + header.bytes,
        "a run lies inside its sequence");
    std::memcpy(place.memory.data() + at, packet.data() + sizeof(header), header.bytes);
  }

 private:
  std::span<const Place> places_;
  Gather& send_;
};

template <class Gather>
void run_round(Exchange& exchange, std::initializer_list<Place> places, Gather send) {
  RunRound<Gather> round({places.begin(), places.size()}, send);
  exchange.run(round, false);
}

template <class Value>
void push_all(Outbox& out, int to, uint32_t sequence, std::span<const Value> values) {
  out.push_run(to, sequence, 0, sizeof(Value), std::as_bytes(values));
}

}  // namespace

std::vector<std::byte> gather_bytes(Exchange& exchange, std::span<const std::byte> mine) {
  std::vector<std::byte> all(mine.size() * static_cast<std::size_t>(exchange.size()));
  const std::size_t at = mine.size() * static_cast<std::size_t>(exchange.rank());
  std::memcpy(all.data() + at, mine.data(), mine.size());
  run_round(exchange, {place_of(all)}, [&](Outbox& out) {
    for (int to = 0; to < exchange.size(); ++to) {
      if (to != exchange.rank()) out.push_run(to, 0, at, 1, mine);
    }
  });
  return all;
}

LocalGraph distribute(Exchange& exchange, const Csr* whole) {
  const auto ranks = static_cast<std::size_t>(exchange.size());
  const auto me = static_cast<std::size_t>(exchange.rank());
  if (me != 0) whole = nullptr;

  // First how large everything is: rank r has vertices bounds[r] … and arcs cuts[r] … .
  std::vector<Vertex> bounds(ranks + 1);
  std::vector<uint64_t> cuts(ranks + 1);
  if (whole != nullptr) {
    bounds = balanced_blocks(whole->offsets, exchange.size());
    std::ranges::transform(bounds, cuts.begin(), [&](Vertex v) { return whole->offsets[v]; });
  }
  run_round(exchange, {place_of(bounds), place_of(cuts)}, [&](Outbox& out) {
    for (int to = 1; whole != nullptr && to < exchange.size(); ++to) {
      push_all<Vertex>(out, to, 0, bounds);
      push_all<uint64_t>(out, to, 1, cuts);
    }
  });

  std::vector<uint32_t> degrees(bounds[me + 1] - bounds[me]);
  Csr rows;
  rows.targets.resize(cuts[me + 1] - cuts[me]);
  run_round(exchange, {place_of(degrees), place_of(rows.targets)}, [&](Outbox& out) {
    if (whole == nullptr) return;
    for (std::size_t to = ranks; to-- > 0;) {  // the last round of the loop is this rank's own
      const std::span all(whole->targets);
      const auto targets = all.subspan(cuts[to], cuts[to + 1] - cuts[to]);
      std::vector<uint32_t> theirs;
      for (Vertex v = bounds[to]; v < bounds[to + 1]; ++v) theirs.push_back(whole->degree(v));
      if (to != 0) {
        push_all<uint32_t>(out, static_cast<int>(to), 0, theirs);
        push_all<Vertex>(out, static_cast<int>(to), 1, targets);
      } else {
        std::ranges::copy(theirs, degrees.begin());
        std::ranges::copy(targets, rows.targets.begin());
      }
    }
  });

  rows.offsets.resize(degrees.size() + 1);
  std::inclusive_scan(degrees.begin(), degrees.end(), rows.offsets.begin() + 1, std::plus<>{},
                      uint64_t{0});
  return make_local(std::move(bounds), exchange.rank(), cuts.back() / 2, std::move(rows));
}

std::vector<std::byte> collect_bytes(Exchange& exchange, const LocalGraph& graph,
                                     std::size_t value_bytes, std::span<const std::byte> mine) {
  std::vector<std::byte> all;
  if (exchange.rank() == 0) {
    all.resize(value_bytes * graph.all_vertices());
    std::ranges::copy(mine, all.begin());
  }
  run_round(exchange, {Place{all, value_bytes}}, [&](Outbox& out) {
    if (exchange.rank() != 0) out.push_run(0, 0, graph.first, value_bytes, mine);
  });
  return all;
}

}  // namespace weft::graph
