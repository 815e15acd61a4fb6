// Clocks: CLOCK_MONOTONIC, and the calibration of the tick counter against it.
#include "weft/base/clock.hpp"

#include <sys/resource.h>
#include <time.h>

namespace weft::base {
namespace {

/// One moment read on both clocks.
struct Moment {
  uint64_t ticks;
  uint64_t ns;
};

/// The best of a few readings: the one whose two tick readings lie closest together, so that a
/// preemption between them does not count.
Moment this_moment() noexcept {
  Moment best{};
  uint64_t best_gap = ~uint64_t{0};
  for (int i = 0; i < 8; ++i) {
    const uint64_t before = ticks();
    const uint64_t ns = now_ns();
    const uint64_t gap = ticks() - before;
    if (gap < best_gap) {
      best_gap = gap;
      best = {before + gap / 2, ns};
    }
  }
  return best;
}

double calibrate() noexcept {
#if defined(__x86_64__)
  const Moment from = this_moment();
  timespec pause{0, 2'000'000};
  nanosleep(&pause, nullptr);
  const Moment to = this_moment();
  return static_cast<double>(to.ticks - from.ticks) / static_cast<double>(to.ns - from.ns);
#else
  return 1.0;
#endif
}

uint64_t read(clockid_t clock) noexcept {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(t.tv_nsec);
}

}  // namespace

uint64_t now_ns() noexcept { return read(CLOCK_MONOTONIC); }

uint64_t this_thread_cpu_ns() noexcept { return read(CLOCK_THREAD_CPUTIME_ID); }

uint64_t process_cpu_ns() noexcept { return read(CLOCK_PROCESS_CPUTIME_ID); }

uint64_t this_thread_cores_left() noexcept {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<uint64_t>(usage.ru_nivcsw);
}

double ticks_per_ns() noexcept {
  static const double measured = calibrate();
  return measured;
}

}  // namespace weft::base
