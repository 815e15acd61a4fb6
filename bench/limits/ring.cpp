// The single-producer ring of 64-byte cells.
//
// Measured: items per second at the producer, from the median of laps of 4096 items (or 8 windows),
// several times what the ring holds; each item is one whole cell: seven payload words, and a
// sequence word that the producer publishes and the consumer waits for; the consumer reads all of
// it. It publishes how far it has read once per quarter of the ring (or, with a window, once per
// window, which the producer awaits). This is about the least that a message between two cores can
// cost.
//
// It lies when the payload is not read, or when the ring is so small that the two meet in one line.
#include "harness/laps.hpp"
#include "limits/limits.hpp"
#include "weft/base/clock.hpp"

namespace weft::bench {
namespace {

constexpr uint64_t kLast = ~uint64_t{0};

// Both sides have passed this many cells so far; cells are never cleared, so positions go on.
uint64_t position = 0;

double produce(YardMemory& yard, std::size_t cells, unsigned window, double seconds) {
  const uint64_t first = position;
  const uint64_t until = base::now_ns() + static_cast<uint64_t>(seconds * 1e9);
  uint64_t read = first;  // how far the consumer is known to be
  const auto put = [&](uint64_t payload) {
    // acquire: pairs with the consumer's release; it has read the cell that we overwrite.
    if (position - read >= cells) {
      spin_until([&] {
        read = yard.ring_head.value.load(std::memory_order_acquire);
        return position - read < cells;
      });
    }
    RingCell& cell = yard.ring[position & (cells - 1)];
    for (auto& word : cell.payload) word = payload;
    // release: pairs with the consumer's acquire.
    cell.sequence.store(++position, std::memory_order_release);
  };
  const unsigned batch = window != 0 ? window : 4096;
  Laps laps(window != 0 ? 8 : 1);
  laps.start();
  do {
    for (unsigned i = 0; i < batch; ++i) put(position);
    if (window != 0) {
      spin_until(
          [&] { return yard.ring_acknowledged.value.load(std::memory_order_acquire) >= position; });
    }
    laps.count();
  } while (laps.laps() == 0 || laps.last_ns() < until);
  put(kLast);
  spin_until([&] { return yard.ring_head.value.load(std::memory_order_acquire) >= position; });
  return batch * 1e9 / laps.median_ns();
}

void consume(YardMemory& yard, std::size_t cells, unsigned window) {
  const uint64_t first = position;
  uint64_t sum = 0;
  for (;;) {
    const RingCell& cell = yard.ring[position & (cells - 1)];
    spin_until([&] { return cell.sequence.load(std::memory_order_acquire) == position + 1; });
    uint64_t payload = 0;
    for (const uint64_t word : cell.payload) payload |= word;
    ++position;
    if (payload == kLast) break;
    sum += payload;
    if (window != 0 && (position - first) % window == 0) {
      yard.ring_acknowledged.value.store(position, std::memory_order_release);
    }
    if (position % (cells / 4) == 0)
      yard.ring_head.value.store(position, std::memory_order_release);
  }
  yard.ring_head.value.store(position, std::memory_order_release);
  const uint64_t last = position - 1;  // payloads were the positions first … last - 1
  if (sum != (first + last - 1) * (last - first) / 2) throw std::runtime_error("ring: wrong sum");
}

}  // namespace

double ring_rate(Pair& pair, std::size_t cells, unsigned window, double seconds) {
  pair.meet();
  YardMemory& yard = pair.yard().memory();
  if (pair.leads()) return produce(yard, cells, window, seconds);
  consume(yard, cells, window);
  return 0;
}

}  // namespace weft::bench
