// weft-bench limits: every physical limit by itself, one result each.
//
// What each figure is, and what would make it lie, stands at the head of its own file.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/benches.hpp"
#include "harness/contest.hpp"
#include "limits/limits.hpp"
#include "weft/base/copy.hpp"

namespace weft::bench {
namespace {

constexpr double kTurn = 0.01;

// One figure of its own contest, in the time share it gets.
void show(Pair& pair, const Options& options, double seconds, Result form,
          std::function<double()> turn) {
  Options share = options;
  share.seconds = seconds;
  contest(pair, share, form, {{form.mode, [&] { return Reading{turn()}; }}});
}

Result limit(std::string name, std::size_t bytes, std::string unit) {
  const Better better = unit == "ns" ? Better::lower : Better::higher;
  Result form = figure("limits", std::move(name), std::move(unit), better);
  form.size_bytes = bytes;
  return form;
}

// Run by rank 0 while rank 1 sleeps.
std::function<double()> alone(Pair& pair, std::function<double()> turn) {
  return [&pair, turn = std::move(turn)] { return pair.leads() ? turn() : 0.0; };
}

}  // namespace

int run_limits(const Options& options) {
  Pair pair;
  YardMemory& yard = pair.yard().memory();
  constexpr std::size_t kFigures = 25;
  const double share = options.seconds / kFigures;
  const auto ns = [&](const char* name, std::function<double()> turn) {
    show(pair, options, share, limit(name, 0, "ns"), std::move(turn));
  };
  ns("cache_line_one_way", [&] {
    return cache_line_one_way_ns(yard.ping[0].value, yard.ping[1].value, pair.rank(), 20000);
  });
  if (pair.bound_apart()) {
    ns("cache_line_one_way_threads", alone(pair, [&] { return thread_one_way_ns(pair, 20000); }));
  }
  for (const std::size_t cells : {64, 256, 1024}) {
    show(pair, options, share, limit("ring", cells * sizeof(RingCell), "/s"),
         [&] { return ring_rate(pair, cells, 0, kTurn); });
  }
  for (const std::size_t cells : {256, 1024}) {
    show(pair, options, share, limit("flag_ring", cells * sizeof(RingCell), "/s"),
         [&] { return flag_ring_rate(pair, cells, kTurn); });
  }
  show(pair, options, share, limit("ring_window_64", 256 * sizeof(RingCell), "/s"),
       [&] { return ring_rate(pair, 256, 64, kTurn); });
  for (const std::size_t kib : {4, 64, 1024, 16384}) {
    const std::size_t bytes = kib * 1024;
    CopyLimit copy(bytes, 1);
    show(pair, options, share, limit("memcpy", bytes, "B/s"),
         alone(pair, [&] { return copy.rate(kTurn); }));
    AttachLimit attach(pair, bytes, 1);
    show(pair, options, share, limit("cross_memory_attach", bytes, "B/s"),
         [&] { return attach.rate(kTurn); });
  }
  using By = std::pair<const char*, HandOverBy>;
  for (const auto& [name, by] :
       {By{"hand_over_memcpy", HandOverBy::c_library}, By{"hand_over_cached", HandOverBy::cached},
        By{"hand_over_nontemporal", HandOverBy::nontemporal}}) {
    if (by == HandOverBy::nontemporal && !base::has_nontemporal_copies()) continue;
    show(pair, options, share, limit(name, 64 << 10, "B/s"),
         [&pair, how = by] { return hand_over_rate(pair, how, 64 << 10, kTurn); });
  }
  const Buffer page(4096);
  show(pair, options, share, limit("copied_one_way", 4096, "ns"),
       [&] { return copied_one_way_ns(pair, page, true, 5000); });
  ns("futex_round_trip_one_core", alone(pair, [] { return futex_round_trip_ns(-1, kTurn); }));
  if (pair.bound_apart()) {
    ns("futex_round_trip_two_cores",
       alone(pair, [&] { return futex_round_trip_ns(pair.peer_core(), kTurn); }));
  }
  ns("system_call", alone(pair, system_call_ns));
  ns("yield", alone(pair, yield_ns));
  ns("clock", alone(pair, clock_ns));
  return 0;
}

}  // namespace weft::bench
