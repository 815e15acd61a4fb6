// The completion queue alone.
//
// Measured, through: producers on one core (on all but one, where there are more) push items of 40
// bytes as fast as they can, one consumer on a core of its own pops them; wall time for each item.
// Measured, alone: one thread pushes one and pops it; core time for both.
// Rivals: a plain Vyukov queue (the figure to reach), moodycamel's ConcurrentQueue (held to its
// first memory; orders per producer only), Boost's lock-free queue. Bounded ones have 4096 cells;
// who finds a queue full or empty does something else for about half a microsecond, as a progress
// loop does, and yields now and then. It would lie: if who waits polled without pause (then each
// item is taken from under its writer, and the figure is that of a ping-pong); with producer and
// consumer on one core (then it measures the scheduler), and by the state of the cores' caches
// (hence the probe beside each round).
#include <concurrentqueue.h>

#include <boost/lockfree/queue.hpp>
#include <memory>

#include "comm/bounded_queue.hpp"
#include "hand_over.hpp"
#include "plain_vyukov.hpp"
#include "turns.hpp"

namespace weft::bench::queue {
namespace {

constexpr std::size_t kCells = 4096;

struct Item {
  uint64_t words[5];
};

struct Weft {
  comm::BoundedQueue<Item> queue{kCells};
  bool push(uint64_t n) {
    return queue.try_push_with([n](Item& cell) { cell = {{n, n, n, n, n}}; });
  }
  bool pop(uint64_t& sum) {
    return queue.try_pop_with([&](const Item& cell) { sum += cell.words[0] ^ cell.words[4]; });
  }
};
struct WeftCopy {
  comm::BoundedQueue<Item> queue{kCells};
  bool push(uint64_t n) { return queue.try_push({{n, n, n, n, n}}); }
  bool pop(uint64_t& sum) {
    Item item;
    if (!queue.try_pop(item)) return false;
    sum += item.words[0] ^ item.words[4];
    return true;
  }
};
struct Plain {
  PlainVyukovQueue<Item> queue{kCells};
  bool push(uint64_t n) { return queue.push({{n, n, n, n, n}}); }
  bool pop(uint64_t& sum) {
    Item item;
    if (!queue.pop(item)) return false;
    sum += item.words[0] ^ item.words[4];
    return true;
  }
};
struct Moodycamel {
  // Room for the cells and for what each of up to nine producers may keep to itself.
  moodycamel::ConcurrentQueue<Item> queue{kCells, 0, 9};
  // Takes no memory beyond that: false when there is none.
  bool push(uint64_t n) { return queue.try_enqueue({{n, n, n, n, n}}); }
  bool pop(uint64_t& sum) {
    Item item;
    if (!queue.try_dequeue(item)) return false;
    sum += item.words[0] ^ item.words[4];
    return true;
  }
};
struct Boost {
  boost::lockfree::queue<Item, boost::lockfree::capacity<kCells>> queue;
  bool push(uint64_t n) { return queue.bounded_push({{n, n, n, n, n}}); }
  bool pop(uint64_t& sum) {
    Item item;
    if (!queue.pop(item)) return false;
    sum += item.words[0] ^ item.words[4];
    return true;
  }
};

template <class Turn>
StructureContest measure(StructureContest form, double seconds, Turn turn) {
  std::vector<StructureContest> contests{std::move(form)};
  const auto weft = std::make_unique<Weft>();
  const auto copy = std::make_unique<WeftCopy>();
  const auto plain = std::make_unique<Plain>();
  const auto moody = std::make_unique<Moodycamel>();
  const auto boost = std::make_unique<Boost>();
  turns::contest(contests,
                 {{"weft BoundedQueue", [&] { return turn(*weft); }},
                  {"plain Vyukov queue", [&] { return turn(*plain); }},
                  {"moodycamel ConcurrentQueue", [&] { return turn(*moody); }},
                  {"boost queue", [&] { return turn(*boost); }},
                  {"weft BoundedQueue, copying", [&] { return turn(*copy); }}},
                 seconds);
  return std::move(contests[0]);
}

}  // namespace

StructureContest measure_through(unsigned producers, double seconds) {
  const uint64_t each = 200'000 / producers;
  return measure({.structure = "queue",
                  .mode = "through",
                  .threads = producers,
                  .what = "wall time of one item from producer to consumer",
                  .contestants = {},
                  .rounds = {}},
                 seconds, [=](auto& queue) { return hand_over::through(queue, producers, each); });
}

StructureContest measure_alone(double seconds) {
  return measure({.structure = "queue",
                  .mode = "alone",
                  .threads = 1,
                  .what = "core time of one push and its pop by one thread",
                  .contestants = {},
                  .rounds = {}},
                 seconds, [](auto& queue) { return hand_over::alone(queue, 200'000); });
}

}  // namespace weft::bench::queue
