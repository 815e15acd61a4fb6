// How the structure benchmarks take turns: threads started together, bound, timed from the moment
// all run to the moment the last is done.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "structures.hpp"

namespace weft::bench::turns {

/// The processors this process may use when first asked.
const std::vector<int>& cores();

/// Binds the calling thread to cores()[number modulo their count].
void bind_to(unsigned number);

/// Half a round trip of a cache line between two bound threads; 0 with one core.
double one_way_ns();

/// ns since some instant. (A call here as below, also where its source is in one piece with the
/// caller's.)
[[gnu::noinline]] int64_t now();

/// Runs `body(thread)` on `count` threads at once, bound in turn to so many cores (0: all); returns
/// the ns from their common start to the end of the last.
[[gnu::noinline]] double run_together(unsigned count, const std::function<void(unsigned)>& body,
                                      unsigned cores = 0);

/// What one core spends on one operation, given the wall time that `threads` took for all of them.
double core_ns_per_op(double wall_ns, unsigned threads, uint64_t operations);

/// A contestant's turn gives one value for each contest of the set (most have one).
struct Contestant {
  std::string name;
  std::function<std::vector<double>()> turn;
};

/// Rounds for `seconds`, at least three, after one that is thrown away. Fills in contestants and
/// rounds of each contest.
void contest(std::vector<StructureContest>& contests, const std::vector<Contestant>& contestants,
             double seconds);

/// Small and fast; seeded, so that each contestant meets the same keys.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(mixed(seed)) {}
  uint64_t next() { return mixed(state_ += 0x9e3779b97f4a7c15u); }

 private:
  static uint64_t mixed(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  uint64_t state_;
};

}  // namespace weft::bench::turns
