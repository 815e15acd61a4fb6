// One-way cost of a cache line between two cores.
//
// Measured: from the store on one side to the load that sees it on the other, as half of a round
// trip over two lines (each written by one side, read by the other), in ns; the median of laps of
// 100 round trips. With a payload: the same with the bytes copied in before the flag and, if
// asked for, out after it.
// It lies when both sides share a core (then it is the scheduler's time), when the two cores' cache
// state changes inside a call, and when the lines' neighbours are written by others.
#include <algorithm>
#include <cstring>
#include <thread>

#include "harness/laps.hpp"
#include "limits/limits.hpp"
#include "weft/base/topology.hpp"

namespace weft::bench {
namespace {

// `on_turn` runs before each hand-over, `on_arrival` after each.
template <class Turn, class Arrival>
double ping_pong(std::atomic<uint64_t>& line0, std::atomic<uint64_t>& line1, int side,
                 unsigned round_trips, Turn on_turn, Arrival on_arrival) {
  auto& mine = side == 0 ? line0 : line1;
  auto& theirs = side == 0 ? line1 : line0;
  // Each line is written by one side only, and both stand at the same number between calls.
  const uint64_t base = mine.load(std::memory_order_relaxed);
  Laps laps(std::min(round_trips, 100U));
  laps.start();
  for (uint64_t i = base + 1; i <= base + round_trips; ++i) {
    // acquire pairs with the other side's release store: its payload is visible.
    if (side == 0) {
      on_turn();
      mine.store(i, std::memory_order_release);
      spin_until([&] { return theirs.load(std::memory_order_acquire) >= i; });
      on_arrival();
    } else {
      spin_until([&] { return theirs.load(std::memory_order_acquire) >= i; });
      on_arrival();
      on_turn();
      mine.store(i, std::memory_order_release);
    }
    laps.count();
  }
  return laps.median_ns() / 2;
}

}  // namespace

double cache_line_one_way_ns(std::atomic<uint64_t>& line0, std::atomic<uint64_t>& line1, int side,
                             unsigned round_trips) {
  const auto nothing = [] {};
  return ping_pong(line0, line1, side, round_trips, nothing, nothing);
}

double thread_one_way_ns(Pair& pair, unsigned round_trips) {
  YardMemory::Line lines[2]{};
  std::thread partner([&] {
    base::bind_this_thread(pair.peer_core());
    cache_line_one_way_ns(lines[0].value, lines[1].value, 1, round_trips);
  });
  const double one_way = cache_line_one_way_ns(lines[0].value, lines[1].value, 0, round_trips);
  partner.join();
  return one_way;
}

double copied_one_way_ns(Pair& pair, const Buffer& buffer, bool read, unsigned round_trips) {
  YardMemory& yard = pair.yard().memory();
  std::byte* out = yard.bulk[pair.rank()];
  const std::byte* in = yard.bulk[1 - pair.rank()];
  pair.meet();
  return ping_pong(
      yard.ping[0].value, yard.ping[1].value, pair.rank(), round_trips,
      [&] { std::memcpy(out, buffer.data(), buffer.bytes()); },
      [&] {
        if (read) std::memcpy(buffer.data(), in, buffer.bytes());
      });
}

}  // namespace weft::bench
