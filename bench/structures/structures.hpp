// The structures of comm, and the ring of a lane, alone, each against what a user would pick
// instead, in one process.
//
// Every contest is measured turn by turn (A B A B): a round is one turn of each contestant, in an
// order that changes, with a probe of the cores' state before and after it. The first contestant is
// weft's, the second the one to reach, the rest are further rivals. Values are nanoseconds: lower
// is better. What is measured, and what would make it lie, is said in the file of each.
#pragma once

#include <string>
#include <vector>

namespace weft::bench {

/// One turn of each contestant.
struct StructureRound {
  /// One-way time of a cache line between the two cores, before and after the round; 0 where the
  /// process has one core only.
  double one_way_before_ns = 0;
  double one_way_after_ns = 0;
  std::vector<double> values;  ///< as contestants
};

struct StructureContest {
  std::string structure;  ///< "pool", "table", "queue", "ring"
  std::string mode;
  unsigned threads = 1;
  std::string what;  ///< the measured quantity in words
  std::vector<std::string> contestants;
  std::vector<StructureRound> rounds;
  /// The contestants are more threads and fewer, and the ns those of all together: how the rate
  /// grows is what is asked.
  bool is_scaling = false;

  /// Median over the rounds of contestant `at`.
  [[nodiscard]] double median(std::size_t at) const;
  /// Median over the rounds of contestant 0's value divided by contestant `at`'s.
  [[nodiscard]] double ratio(std::size_t at) const;
};

/// Each runs for about `seconds` in all, binds only threads of its own, and may be called again.
/// `threads` is how many call the structure at once; the queue has one consumer more.
namespace pool {
StructureContest measure_pair(unsigned threads, double seconds);
StructureContest measure_crowd(unsigned threads, double seconds);
}  // namespace pool
namespace table {
/// The two halves of one run by one thread: [0] inserting, [1] deleting.
std::vector<StructureContest> measure_fresh_keys(double seconds);
/// `with_locks`: the table takes them also for a thread that uses it alone.
StructureContest measure_own_keys(unsigned threads, double seconds, bool with_locks);
/// `threads` is one, or even.
StructureContest measure_shared_keys(unsigned threads, double seconds, bool with_locks);
/// `many` threads against `few`, each on a table of their own.
StructureContest measure_own_scaling(unsigned many, unsigned few, double seconds, bool with_locks);
StructureContest measure_shared_scaling(unsigned many, unsigned few, double seconds,
                                        bool with_locks);
}  // namespace table
namespace queue {
StructureContest measure_through(unsigned producers, double seconds);
StructureContest measure_alone(double seconds);
}  // namespace queue
namespace ring {
/// `bytes` of a frame: 8 or 40.
StructureContest measure_through(unsigned bytes, double seconds);
StructureContest measure_alone(unsigned bytes, double seconds);
}  // namespace ring

/// All of the above for 1, 2 and 8 threads, `seconds` each; those whose "structure/mode" contains
/// `only`.
std::vector<StructureContest> measure_structures(double seconds, const std::string& only = {});

}  // namespace weft::bench
