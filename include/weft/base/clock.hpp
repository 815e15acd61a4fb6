// Clocks: monotonic nanoseconds, and the processor's tick counter for the shortest spans.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace weft::base {

/// Nanoseconds of CLOCK_MONOTONIC; the same clock in all processes of a host. 24–38 ns a call.
uint64_t now_ns() noexcept;
/// What the calling thread has run so far. A system call.
uint64_t this_thread_cpu_ns() noexcept;
/// What all threads of the process have run so far. A system call.
uint64_t process_cpu_ns() noexcept;
/// How often the calling thread has left its core to another that was ready, whether it yielded or
/// its time was over; sleeping does not count. A system call.
uint64_t this_thread_cores_left() noexcept;

/// The tick counter; not comparable between hosts. A few ns a call, never a system call on x86-64.
inline uint64_t ticks() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return now_ns();
#endif
}

/// Ticks in a nanosecond, measured once at first use (about 2 ms).
double ticks_per_ns() noexcept;
inline uint64_t to_ticks(double ns) noexcept { return static_cast<uint64_t>(ns * ticks_per_ns()); }

}  // namespace weft::base
