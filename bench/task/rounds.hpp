// A contest between threads and tasks of this process: as harness/contest.hpp, without a second
// rank.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/contest.hpp"
#include "harness/laps.hpp"
#include "harness/result.hpp"
#include "turns.hpp"

namespace weft::bench::tasks {

/// Measures contestants turn by turn, in an order that changes, and makes results of any of them
/// afterwards. Owned and called by one thread.
class Contest {
 public:
  /// Instead of a limit: there is none.
  static constexpr std::size_t kNoLimit = ~std::size_t{0};

  /// `between_cores`: something passes from core to core. Then a probe of the cores' state stands
  /// between every two turns, and results are told apart by it.
  explicit Contest(bool between_cores) : between_cores_(between_cores) {}

  /// A contestant, whose turn takes some milliseconds or more and returns its value.
  std::size_t enter(std::string name, std::function<double()> turn);
  /// One whose turn gives a value for each of `names`: the number of the first; the others follow.
  std::size_t enter_all(std::vector<std::string> names, std::function<std::vector<double>()> turn);

  /// Rounds until `seconds` are over, at least `least`, after some that warm up and are thrown
  /// away.
  void run(double seconds, unsigned least = 5, unsigned warm_ups = 1);

  /// After the run: the variants of one rival, the fastest first, to be the limit.
  [[nodiscard]] std::vector<std::size_t> by_median(std::vector<std::size_t> variants) const;
  /// `who`: the figure, its limit, further rivals (these go to `extra` by name). A figure of one
  /// worker has no cache state, whatever the rounds were probed for.
  [[nodiscard]] std::vector<Result> results(const Result& form,
                                            const std::vector<std::size_t>& who) const;
  /// How many times less `who` took than `than`, round by round.
  [[nodiscard]] std::vector<Result> speedups(const Result& form, std::size_t who,
                                             std::size_t than) const;

 private:
  struct Entry {
    std::function<std::vector<double>()> turn;
    std::size_t first;
  };
  std::vector<Result> settle_here(const Result& form, const std::vector<Contestant>& names,
                                  std::vector<Round> rounds) const;

  bool between_cores_;
  std::vector<Entry> entries_;
  std::vector<std::string> names_;
  std::vector<Round> rounds_;  ///< readings in the order of names_
};

/// A result's form: "task", `mode`, ns, lower is better.
Result form(std::string mode, unsigned workers);
void print_all(const std::vector<Result>& results, const Options& options);

/// Median ns of one of `items`, over laps of some microseconds, of calls of `batch`, which does
/// them all. The first call warms up.
template <class Batch>
double per_item_ns(uint64_t items, double seconds, Batch batch) {
  constexpr uint64_t kItemsOfALap = 2000;
  batch();
  Laps laps(static_cast<unsigned>(std::max<uint64_t>(kItemsOfALap / items, 1)));
  laps.start();
  const uint64_t until = laps.last_ns() + static_cast<uint64_t>(seconds * 1e9);
  do {
    batch();
    laps.count();
  } while (laps.laps() == 0 || laps.last_ns() < until);
  return laps.median_ns() / static_cast<double>(items);
}

/// Runs `body` on a thread of its own, bound to the first core, and returns what it returns.
template <class Body>
double on_first_core(Body body) {
  double value = 0;
  turns::run_together(1, [&](unsigned) { value = body(); });
  return value;
}

}  // namespace weft::bench::tasks
