// Whether a thread that waits yields its core, beside somebody who computes on it
// (docs/design/waiting.md).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "weft/base/clock.hpp"

namespace weft::base {

/// A yield that lasts a time slice went to somebody who computes, and the next would, too. So for a
/// while none is made: the kernel shares the core out all the same. Any thread; all are hints.
class LongYields {
 public:
  /// After a yield, begun at `before`, ended now (ticks), to whom nobody knows here. True: it was
  /// a long one.
  bool note(uint64_t before, uint64_t now) noexcept {
    static const uint64_t most = to_ticks(kMostNs);
    const uint64_t took = now - before;
    if (!is_long(took)) return false;
    until_.store(now + std::min(kTimes * took, most), std::memory_order_relaxed);
    return true;
  }
  /// Whether what took so many ticks is a time slice's time.
  [[nodiscard]] static bool is_long(uint64_t took) noexcept {
    static const uint64_t long_one = to_ticks(kLongNs);
    return took > long_one;
  }
  /// Whether the core is kept at `now`.
  [[nodiscard]] bool keeps_core(uint64_t now) const noexcept {
    static const uint64_t most = to_ticks(kMostNs);
    // Unsigned: what is over is far ahead; so is it where the counter was set back.
    return until_.load(std::memory_order_relaxed) - now - 1 < most;
  }
  void forget() noexcept { until_.store(0, std::memory_order_relaxed); }

 private:
  static constexpr double kLongNs = 500e3;
  static constexpr double kMostNs = 50e6;
  static constexpr uint64_t kTimes = 16;

  std::atomic<uint64_t> until_{0};
};

}  // namespace weft::base
