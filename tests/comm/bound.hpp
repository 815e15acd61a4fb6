// For tests of what a process with one processor does.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace weft::test {

/// While it lives the calling thread, and whom it starts, may run on one processor only.
class Bound {
 public:
  Bound() {
    EXPECT_EQ(::sched_getaffinity(0, sizeof before_, &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &one);
    EXPECT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  }
  ~Bound() { EXPECT_EQ(::sched_setaffinity(0, sizeof before_, &before_), 0); }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

 private:
  cpu_set_t before_{};
};

/// Threads may enter the kernel's idle class: not in every sandbox.
inline bool has_idle_class() {
  bool has = false;
  std::thread([&] {
    const sched_param none{};
    has = ::sched_setscheduler(0, SCHED_IDLE, &none) == 0;
  }).join();
  return has;
}

}  // namespace weft::test
