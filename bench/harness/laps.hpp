// Laps: many short spans of one turn, of which the median is taken, so that a moment in which the
// core was lost costs one lap and not the turn.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/statistics.hpp"
#include "weft/base/clock.hpp"

namespace weft::bench {

/// One thread's laps of `per_lap` events each. A clock read per lap: some 30 ns.
class Laps {
 public:
  explicit Laps(unsigned per_lap) : per_lap_(per_lap) { spans_.reserve(4096); }

  void start() {
    spans_.clear();
    events_ = 0;
    last_ = base::now_ns();
  }
  /// An event has ended.
  void count() {
    if (++events_ < per_lap_) return;
    const uint64_t now = base::now_ns();
    spans_.push_back(static_cast<double>(now - last_) / per_lap_);
    events_ = 0;
    last_ = now;
  }
  [[nodiscard]] std::size_t laps() const noexcept { return spans_.size(); }
  /// base::now_ns() when the last lap ended.
  [[nodiscard]] uint64_t last_ns() const noexcept { return last_; }
  /// ns of one event; 0 if no lap was ended.
  [[nodiscard]] double median_ns() const { return summarize(spans_).median; }

 private:
  unsigned per_lap_;
  unsigned events_ = 0;
  uint64_t last_ = 0;
  std::vector<double> spans_;
};

/// Median over laps of 1000 calls.
template <class Call>
double median_call_ns(unsigned calls, Call call) {
  Laps laps(1000);
  laps.start();
  for (unsigned i = 0; i < calls; ++i) {
    call(i);
    laps.count();
  }
  return laps.median_ns();
}

}  // namespace weft::bench
