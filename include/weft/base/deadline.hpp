// Deadlines: times of base::now_ns() until which a wait may take.
#pragma once

#include <chrono>
#include <cstdint>

#include "weft/base/clock.hpp"

namespace weft::base {

/// A deadline that never comes, and one that has passed.
inline constexpr uint64_t kNoDeadline = ~uint64_t{0};
inline constexpr uint64_t kPassed = 0;
/// What is further away may not fit into nanoseconds.
inline constexpr double kCenturyNs = 3.2e18;

/// `now_ns()` and that much time; kNoDeadline for more than a century, kPassed for no time at all.
template <class Rep, class Period>
uint64_t deadline_after(const std::chrono::duration<Rep, Period>& time) noexcept {
  const double ns = std::chrono::duration<double, std::nano>(time).count();
  if (!(ns > 0)) return kPassed;
  if (ns >= kCenturyNs) return kNoDeadline;
  return now_ns() +
         static_cast<uint64_t>(std::chrono::ceil<std::chrono::nanoseconds>(time).count());
}

/// How far the time is away is asked once: a clock that is set meanwhile is not followed.
template <class Clock, class Duration>
uint64_t deadline_at(const std::chrono::time_point<Clock, Duration>& time) noexcept {
  // In floating point first: in the clock's unit the largest time of a coarser one overflows.
  using Nanoseconds = std::chrono::duration<double, std::nano>;
  const auto now = Clock::now();
  const Nanoseconds far =
      Nanoseconds(time.time_since_epoch()) - Nanoseconds(now.time_since_epoch());
  if (far.count() >= kCenturyNs) return kNoDeadline;
  if (far.count() <= -kCenturyNs) return kPassed;
  return time <= now ? kPassed : deadline_after(time - now);
}

}  // namespace weft::base

namespace weft::task {
using base::deadline_after;
using base::deadline_at;
using base::kNoDeadline;
using base::kPassed;
}  // namespace weft::task
