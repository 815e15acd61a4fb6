// How whatever carries items from producers to a consumer is measured: `push(number)` and
// `pop(sum)` of it are tried until they succeed. Shared by the queue and the ring.
#pragma once

#include <sched.h>

#include <cstdint>
#include <vector>

#include "turns.hpp"
#include "weft/base/cache_line.hpp"

namespace weft::bench::hand_over {

/// Who finds it full or empty does something else for about half a microsecond, as a progress loop
/// does, and yields now and then.
template <class Try>
void until(Try attempt) {
  for (int waits = 1; !attempt(); ++waits) {
    if (waits % 64 == 0) sched_yield();
    for (int i = 0; i < 32; ++i) base::cpu_relax();
  }
}

// Loops of their own, with what they change on their own stacks: captured, it would share a cache
// line with what the other side reads.
template <class Q>
void produce(Q& queue, uint64_t count) {
  for (uint64_t n = 0; n < count; ++n) until([&] { return queue.push(n); });
}
template <class Q>
void consume(Q& queue, uint64_t count) {
  uint64_t sum = 0;
  for (uint64_t left = count; left != 0; --left) until([&] { return queue.pop(sum); });
  asm volatile("" : : "r"(sum));
}

/// Wall time of one item: producers on all cores but one, the consumer on that.
template <class Q>
std::vector<double> through(Q& queue, unsigned producers, uint64_t each) {
  const double wall = turns::run_together(producers + 1, [&](unsigned me) {
    const auto cores = static_cast<unsigned>(turns::cores().size());
    if (me == 0) {
      turns::bind_to(cores - 1);
      consume(queue, each * producers);
    } else {
      turns::bind_to(cores > 1 ? (me - 1) % (cores - 1) : 0);
      produce(queue, each);
    }
  });
  return {wall / static_cast<double>(each * producers)};
}

/// Core time of one push and its pop by one thread.
template <class Q>
std::vector<double> alone(Q& queue, uint64_t count) {
  uint64_t sum = 0;
  const double wall = turns::run_together(1, [&](unsigned) {
    for (uint64_t n = 0; n < count; ++n) {
      (void)queue.push(n);
      (void)queue.pop(sum);
    }
  });
  asm volatile("" ::"r"(sum));
  return {wall / static_cast<double>(count)};
}

}  // namespace weft::bench::hand_over
