// What a process that has nothing to do uses of its processors.
#pragma once

#include <time.h>

#include <chrono>
#include <thread>

namespace weft::test {

/// How many processors this process uses from a while after now on, while nothing happens. One
/// thread that looks on makes that one, or what of it the machine has to spare; a busy machine
/// makes it less, never more.
inline double processors_while_idle() {
  const auto seconds = [](clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // until all sleep
  const double used = seconds(CLOCK_PROCESS_CPUTIME_ID);
  const double begun = seconds(CLOCK_MONOTONIC);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  return (seconds(CLOCK_PROCESS_CPUTIME_ID) - used) / (seconds(CLOCK_MONOTONIC) - begun);
}

/// Room for a late wake-up or two. ThreadSanitizer has a thread of its own that looks through
/// memory.
#ifdef __SANITIZE_THREAD__
inline constexpr double kAlmostNone = 0.8;
#else
inline constexpr double kAlmostNone = 0.02;
#endif

}  // namespace weft::test
