// The lane's ring alone.
//
// Measured, through: one thread writes frames of 8 or of 40 bytes as fast as it can, another on a
// core of its own reads them; wall time for each frame. Measured, alone: one thread writes a frame
// and reads it; core time for both.
// Rivals: Boost's spsc_queue (the figure to reach), and moodycamel's ConcurrentQueue with a token
// for its producer and its consumer (it orders one producer's items; the package has no queue for
// a single pair), held to its first memory. All have as many places as a lane's ring has cells by
// default, and are driven as the queues are (hand_over.hpp).
// The ring does more: a frame brings its length, kind and sender, and has any length in the same
// ring. So one of 8 or of 40 bytes moves a whole cache line here, an eighth or five eighths of one
// in the rivals. It would lie: if who waits polled without pause (then each line is taken from
// under its writer); with both threads on one core (then it measures the scheduler); by the state
// of the cores' caches (hence the probe beside each round). It says nothing of a single frame to a
// waiting reader, for which the ring is made: that is `latency`.
#include "fabric/ring.hpp"

#include <concurrentqueue.h>

#include <boost/lockfree/spsc_queue.hpp>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "hand_over.hpp"
#include "turns.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/fabric/config.hpp"

namespace weft::bench::ring {
namespace {

template <std::size_t kBytes>
struct Payload {
  uint64_t words[kBytes / sizeof(uint64_t)];

  static Payload of(uint64_t n) {
    Payload made;
    for (auto& word : made.words) word = n;
    return made;
  }
  // Its first and its last word: all of it has arrived.
  [[nodiscard]] uint64_t checked() const { return words[0] + words[kBytes / sizeof(uint64_t) - 1]; }
};

/// What the lane does for a frame that fits one cell.
template <std::size_t kBytes>
class Weft {
 public:
  explicit Weft(uint32_t cells)
      : cells_(cells),
        producer_(std::in_place, cells_.data(), cells, &*head_),
        consumer_(std::in_place, cells_.data(), cells, &*head_) {}

  bool push(uint64_t n) {
    fabric::Cell* cell = producer_->claim_one();
    if (cell == nullptr) cell = producer_->claim(1);
    if (cell == nullptr) return false;
    const auto payload = Payload<kBytes>::of(n);
    std::memcpy(cell->bytes + fabric::kWordBytes, &payload, kBytes);
    producer_->publish(cell, 1, kBytes, fabric::FrameKind::inlined, 0);
    return true;
  }
  bool pop(uint64_t& sum) {
    const std::byte* bytes = nullptr;
    std::size_t length = 0;
    if (consumer_->peek_inlined(0, bytes, length) != fabric::RingConsumer::Next::one) {
      consumer_->publish_head();  // nothing more for now
      return false;
    }
    Payload<kBytes> payload;
    std::memcpy(&payload, bytes, kBytes);
    sum += payload.checked();
    consumer_->consume_ones(1);
    return true;
  }

 private:
  std::vector<fabric::Cell> cells_;
  base::OwnLine<std::atomic<uint64_t>> head_{};
  base::OwnLine<fabric::RingProducer> producer_;
  base::OwnLine<fabric::RingConsumer> consumer_;
};

template <std::size_t kBytes>
struct Boost {
  explicit Boost(uint32_t cells) : queue(cells) {}
  bool push(uint64_t n) { return queue.push(Payload<kBytes>::of(n)); }
  bool pop(uint64_t& sum) {
    Payload<kBytes> payload;
    if (!queue.pop(payload)) return false;
    sum += payload.checked();
    return true;
  }
  boost::lockfree::spsc_queue<Payload<kBytes>> queue;
};

template <std::size_t kBytes>
struct Moodycamel {
  explicit Moodycamel(uint32_t cells) : queue(cells, 1, 0), to(queue), from(queue) {}
  bool push(uint64_t n) { return queue.try_enqueue(to, Payload<kBytes>::of(n)); }
  bool pop(uint64_t& sum) {
    Payload<kBytes> payload;
    if (!queue.try_dequeue(from, payload)) return false;
    sum += payload.checked();
    return true;
  }
  moodycamel::ConcurrentQueue<Payload<kBytes>> queue;
  alignas(base::kCacheLine) moodycamel::ProducerToken to;
  alignas(base::kCacheLine) moodycamel::ConsumerToken from;
};

template <std::size_t kBytes, class Turn>
void take_turns(std::vector<StructureContest>& contests, double seconds, Turn turn) {
  const uint32_t cells = fabric::default_geometry().lane_cells;
  const auto weft = std::make_unique<Weft<kBytes>>(cells);
  const auto boost = std::make_unique<Boost<kBytes>>(cells);
  const auto moody = std::make_unique<Moodycamel<kBytes>>(cells);
  turns::contest(contests,
                 {{"weft ring", [&] { return turn(*weft); }},
                  {"boost spsc_queue", [&] { return turn(*boost); }},
                  {"moodycamel ConcurrentQueue, tokens", [&] { return turn(*moody); }}},
                 seconds);
}

template <class Turn>
StructureContest measure(const char* mode, unsigned bytes, const char* what, double seconds,
                         Turn turn) {
  std::vector<StructureContest> contests(1);
  contests[0].structure = "ring";
  contests[0].mode = std::string(mode) + "_" + std::to_string(bytes);
  contests[0].what = what;
  if (bytes == 8) {
    take_turns<8>(contests, seconds, turn);
  } else {
    take_turns<40>(contests, seconds, turn);
  }
  return std::move(contests[0]);
}

}  // namespace

StructureContest measure_through(unsigned bytes, double seconds) {
  return measure("through", bytes, "wall time of one frame from writer to reader", seconds,
                 [](auto& ring) { return hand_over::through(ring, 1, 200'000); });
}

StructureContest measure_alone(unsigned bytes, double seconds) {
  return measure("alone", bytes, "core time of writing one frame and reading it", seconds,
                 [](auto& ring) { return hand_over::alone(ring, 200'000); });
}

}  // namespace weft::bench::ring
