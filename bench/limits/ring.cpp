// The single-producer ring of 64-byte cells.
//
// Measured: items per second from the producer's first store to its sight of the consumer's last
// receipt; each item is one cell: a sequence word that the producer publishes and the consumer
// waits for, and a payload word that the consumer reads. The consumer publishes how far it has read
// once per quarter of the ring (or, with a window, once per window, which the producer awaits).
// This is about the least that a message between two cores can cost.
// It lies when the payload is not read, or when the ring is so small that the two meet in one line.
#include "limits/limits.hpp"
#include "weft/base/clock.hpp"

namespace weft::bench {
namespace {

constexpr uint64_t kLast = ~uint64_t{0};

// Both sides have passed this many cells so far; cells are never cleared, so positions go on.
uint64_t position = 0;

double produce(YardMemory& yard, std::size_t cells, unsigned window, double seconds) {
  const uint64_t first = position;
  const uint64_t start = base::now_ns();
  const uint64_t until = start + static_cast<uint64_t>(seconds * 1e9);
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
    cell.payload[0] = payload;
    // release: pairs with the consumer's acquire.
    cell.sequence.store(++position, std::memory_order_release);
  };
  const unsigned batch = window != 0 ? window : 1024;
  do {
    for (unsigned i = 0; i < batch; ++i) put(position);
    if (window != 0) {
      spin_until(
          [&] { return yard.ring_acknowledged.value.load(std::memory_order_acquire) >= position; });
    }
  } while (base::now_ns() < until);
  put(kLast);
  spin_until([&] { return yard.ring_head.value.load(std::memory_order_acquire) >= position; });
  return static_cast<double>(position - first) * 1e9 / static_cast<double>(base::now_ns() - start);
}

void consume(YardMemory& yard, std::size_t cells, unsigned window) {
  const uint64_t first = position;
  uint64_t sum = 0;
  for (;;) {
    const RingCell& cell = yard.ring[position & (cells - 1)];
    spin_until([&] { return cell.sequence.load(std::memory_order_acquire) == position + 1; });
    const uint64_t payload = cell.payload[0];
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
