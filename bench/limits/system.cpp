// The cheapest calls into the system.
//
// Measured: the mean of 10,000 calls in ns: a system call that does nothing (getppid, not cached by
// the library), sched_yield with nobody to yield to, and a read of CLOCK_MONOTONIC.
// It lies when another thread wants the core (yield then measures that thread).
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "limits/limits.hpp"
#include "weft/base/clock.hpp"

namespace weft::bench {
namespace {

template <class Call>
double mean_ns(Call call) {
  constexpr int kCalls = 10000;
  const uint64_t start = base::now_ns();
  for (int i = 0; i < kCalls; ++i) call();
  return static_cast<double>(base::now_ns() - start) / kCalls;
}

}  // namespace

double system_call_ns() {
  return mean_ns([] { syscall(SYS_getppid); });
}

double yield_ns() {
  return mean_ns([] { sched_yield(); });
}

double clock_ns() {
  return mean_ns([] { base::now_ns(); });
}

}  // namespace weft::bench
