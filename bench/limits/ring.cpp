// The single-producer ring of 64-byte cells.
//
// Measured: items per second at the producer, from the median of laps of 4096 items (or 8 windows),
// several times what the ring holds. An item is one whole cell, written by the producer and read by
// the consumer. `ring` is the textbook's: two indices on lines of their own, each published with
// every item and looked at by the other side only when it believes that the ring is full or empty;
// with a window the producer waits after each until all of it was read. `flag_ring` has no indices:
// a word of each cell says full or empty, so that one line carries item and news. That is about
// the least that a message between two cores can cost.
//
// It lies when the payload is not read, and when the ring is so small that the two meet in one
// line.
#include "harness/laps.hpp"
#include "limits/limits.hpp"
#include "weft/base/clock.hpp"

namespace weft::bench {
namespace {

constexpr uint64_t kLast = ~uint64_t{0};
constexpr unsigned kBatch = 4096;

void write(RingCell& cell, uint64_t payload) {
  for (auto& word : cell.payload) word = payload;
}

uint64_t read(const RingCell& cell) {
  uint64_t payload = 0;
  for (const uint64_t word : cell.payload) payload |= word;
  return payload;
}

// Puts batches for `seconds`, then the last item; items per second.
template <class Put, class AfterBatch>
double produce(unsigned batch, unsigned lap, double seconds, Put put, AfterBatch after_batch) {
  const uint64_t until = base::now_ns() + static_cast<uint64_t>(seconds * 1e9);
  Laps laps(lap);
  laps.start();
  do {
    for (unsigned i = 0; i < batch; ++i) put(i);
    after_batch();
    laps.count();
  } while (laps.laps() == 0 || laps.last_ns() < until);
  put(kLast);
  return batch * 1e9 / laps.median_ns();
}

// How many items have passed in earlier turns: indices are never set back.
uint64_t passed = 0;

}  // namespace

double ring_rate(Pair& pair, std::size_t cells, unsigned window, double seconds) {
  pair.meet();
  YardMemory& yard = pair.yard().memory();
  auto& written = yard.ring_written.value;
  auto& emptied = yard.ring_emptied.value;
  // Releases and acquires of each index pair with the other side's.
  if (!pair.leads()) {
    uint64_t known = passed;
    for (uint64_t payload = 0; payload != kLast;) {
      if (known == passed) {
        spin_until([&] { return (known = written.load(std::memory_order_acquire)) != passed; });
      }
      payload = read(yard.ring[passed & (cells - 1)]);
      emptied.store(++passed, std::memory_order_release);
    }
    return 0;
  }
  uint64_t known = passed;
  const auto wait_for = [&](uint64_t item) {
    spin_until([&] { return (known = emptied.load(std::memory_order_acquire)) >= item; });
  };
  const auto put = [&](uint64_t payload) {
    if (passed - known >= cells) wait_for(passed - cells + 1);
    write(yard.ring[passed & (cells - 1)], payload);
    written.store(++passed, std::memory_order_release);
  };
  const double rate =
      produce(window != 0 ? window : kBatch, window != 0 ? 8 : 1, seconds, put, [&] {
        if (window != 0) wait_for(passed);
      });
  wait_for(passed);
  return rate;
}

double flag_ring_rate(Pair& pair, std::size_t cells, double seconds) {
  pair.meet();
  RingCell* ring = pair.yard().memory().flag_ring;  // all empty between turns
  // Release and acquire of the flag pair with each other in both directions.
  const auto wait = [](const RingCell& cell, bool full) {
    spin_until([&] { return (cell.full.load(std::memory_order_acquire) != 0) == full; });
  };
  uint64_t at = 0;
  if (!pair.leads()) {
    for (uint64_t payload = 0; payload != kLast; ++at) {
      RingCell& cell = ring[at & (cells - 1)];
      wait(cell, true);
      payload = read(cell);
      cell.full.store(0, std::memory_order_release);
    }
    return 0;
  }
  const auto put = [&](uint64_t payload) {
    RingCell& cell = ring[at++ & (cells - 1)];
    wait(cell, false);
    write(cell, payload);
    cell.full.store(1, std::memory_order_release);
  };
  const double rate = produce(kBatch, 1, seconds, put, [] {});
  wait(ring[(at - 1) & (cells - 1)], false);
  return rate;
}

}  // namespace weft::bench
