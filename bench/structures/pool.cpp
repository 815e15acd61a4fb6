// The packet pool alone.
//
// Measured: what one core spends on taking one item and giving it back, loop included. `pair`: one
// at a time. `crowd`: as 000 §5.3.4, a random number of up to 64 taken, then all given back.
// Rivals: a std::vector for each thread behind a spin lock of its own that nobody else takes (the
// figure to reach: it cannot serve another thread); malloc and free of 64 bytes; Boost's lock-free
// stack and queue, of fixed size.
// It would lie: if the items were used between (they are not touched here: cache misses on packets,
// which a pool that keeps them warm avoids, are not counted); if threads did not overlap.
#include <atomic>
#include <boost/lockfree/queue.hpp>
#include <boost/lockfree/stack.hpp>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include "turns.hpp"
#include "weft/base/locks.hpp"
#include "weft/base/slot_pool.hpp"

namespace weft::bench::pool {
namespace {

using turns::Random;
constexpr uint32_t kItems = 8192;
constexpr unsigned kCrowd = 64;

/// The uncontended vectors: one for each thread.
struct OwnVectors {
  struct alignas(64) One {
    base::SpinLock lock;
    std::vector<uint32_t> items;
  };
  explicit OwnVectors(unsigned threads) : all(threads) {
    for (auto& one : all) {
      one.items.reserve(kItems);
      for (uint32_t i = 0; i < kItems / threads; ++i) one.items.push_back(i);
    }
  }
  std::vector<One> all;
};

/// Takes and gives as the mode says until `pairs` are done; `take(thread)`, `give(thread, item)`.
template <class Take, class Give>
std::vector<double> turn(unsigned threads, bool crowd, uint64_t pairs, Take take, Give give) {
  const double wall = turns::run_together(threads, [&](unsigned me) {
    if (!crowd) {
      for (uint64_t i = 0; i < pairs; ++i) give(me, take(me));
      return;
    }
    Random random(me + 1);
    decltype(take(me)) held[kCrowd];
    for (uint64_t done = 0; done < pairs;) {
      const auto count = static_cast<unsigned>(random.next() % kCrowd) + 1;
      for (unsigned i = 0; i < count; ++i) held[i] = take(me);
      for (unsigned i = 0; i < count; ++i) give(me, held[i]);
      done += count;
    }
  });
  return {turns::core_ns_per_op(wall, threads, pairs * threads)};
}

StructureContest measure(unsigned threads, double seconds, bool crowd) {
  std::vector<StructureContest> contests(1);
  contests[0] = {.structure = "pool",
                 .mode = crowd ? "crowd" : "pair",
                 .threads = threads,
                 .what = "core time of one alloc and its free",
                 .contestants = {},
                 .rounds = {}};
  const uint64_t pairs = threads > 2 ? 1'000'000 : 500'000;

  base::SlotPool pool(kItems, base::SlotPool::Checks::off);
  OwnVectors vectors(threads);
  boost::lockfree::stack<uint32_t, boost::lockfree::capacity<kItems>> stack;
  boost::lockfree::queue<uint32_t, boost::lockfree::capacity<kItems>> queue;
  for (uint32_t i = 0; i < kItems; ++i) {
    stack.push(i);
    queue.push(i);
  }
  const auto go = [&](auto take, auto give) {
    return [=] { return turn(threads, crowd, pairs, take, give); };
  };
  turns::contest(contests,
                 {{"weft SlotPool", go([&](unsigned) { return pool.alloc(); },
                                       [&](unsigned, uint32_t item) { pool.free(item); })},
                  {"own vector, own lock", go(
                                               [&](unsigned me) {
                                                 auto& own = vectors.all[me];
                                                 std::lock_guard guard(own.lock);
                                                 const uint32_t item = own.items.back();
                                                 own.items.pop_back();
                                                 return item;
                                               },
                                               [&](unsigned me, uint32_t item) {
                                                 auto& own = vectors.all[me];
                                                 std::lock_guard guard(own.lock);
                                                 own.items.push_back(item);
                                               })},
                  {"malloc", go(
                                 [](unsigned) {
                                   void* item = std::malloc(64);
                                   asm volatile("" : "+r"(item));  // or the pair is optimised away
                                   return item;
                                 },
                                 [](unsigned, void* item) { std::free(item); })},
                  {"boost stack", go(
                                      [&](unsigned) {
                                        uint32_t item = 0;
                                        while (!stack.pop(item)) {
                                        }
                                        return item;
                                      },
                                      [&](unsigned, uint32_t item) { stack.push(item); })},
                  {"boost queue", go(
                                      [&](unsigned) {
                                        uint32_t item = 0;
                                        while (!queue.pop(item)) {
                                        }
                                        return item;
                                      },
                                      [&](unsigned, uint32_t item) { queue.push(item); })}},
                 seconds);
  return std::move(contests[0]);
}

}  // namespace

StructureContest measure_pair(unsigned threads, double seconds) {
  return measure(threads, seconds, false);
}
StructureContest measure_crowd(unsigned threads, double seconds) {
  return measure(threads, seconds, true);
}

}  // namespace weft::bench::pool
