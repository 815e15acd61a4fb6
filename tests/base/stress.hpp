// What every stress test of the suite shares: its length and its seed.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>

#include "weft/base/clock.hpp"
#include "weft/base/config.hpp"

namespace weft::test {

/// WEFT_STRESS_SECONDS, or a short default.
inline double stress_seconds() { return static_cast<double>(base::config_int("stress.seconds")); }

/// A new seed, printed so that a failure can be run again; or WEFT_STRESS_SEED.
inline uint64_t stress_seed() {
  const base::Environment given = base::environment("WEFT_STRESS_SEED");
  const uint64_t seed = given.found ? std::stoull(given.value) : std::random_device{}();
  std::printf("stress: %.0f s, WEFT_STRESS_SEED=%llu\n", stress_seconds(),
              static_cast<unsigned long long>(seed));
  return seed;
}

/// On a machine so busy that a thread starts late, a test must not have tested nothing.
constexpr uint64_t kFewRounds = 10;

/// How many races a test of sleeping and waking must have seen: a million with the length that
/// `make stress` gives it, however long they take, and a few otherwise.
inline uint64_t least_races() { return stress_seconds() >= 30 ? 1'000'000 : kFewRounds; }

/// The same where each race takes a real sleep, of which sanitized programs manage a hundredth.
inline uint64_t least_sleeps() {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  return std::max(least_races() / 100, kFewRounds);
#else
  return least_races();
#endif
}

/// What takes long does so many times less under ThreadSanitizer.
#ifdef __SANITIZE_THREAD__
inline constexpr uint32_t kLess = 5;
#else
inline constexpr uint32_t kLess = 1;
#endif

/// Keeps the calling thread on the `number`-th core that it may use, where there are as many; else
/// does nothing. Who wakes another draws him to its own core: there the two never run at once, and
/// what is to meet at the moment of falling asleep never meets.
class OnCore {
 public:
  explicit OnCore(int number) {
    // Those of the first who asked: threads that are made by one that is kept inherit its core.
    static const cpu_set_t cores = mine();
    before_ = mine();
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (!CPU_ISSET(core, &cores) || number-- > 0) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      bound_ = pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0;
      return;
    }
  }
  ~OnCore() {
    if (bound_) pthread_setaffinity_np(pthread_self(), sizeof before_, &before_);
  }
  OnCore(const OnCore&) = delete;
  OnCore& operator=(const OnCore&) = delete;

 private:
  static cpu_set_t mine() {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    pthread_getaffinity_np(pthread_self(), sizeof cores, &cores);
    return cores;
  }
  cpu_set_t before_;
  bool bound_ = false;
};

/// A share of the stress time, counted from now.
class StressClock {
 public:
  explicit StressClock(double share = 1.0, uint64_t least_rounds = kFewRounds)
      : end_ns_(base::now_ns() + static_cast<uint64_t>(stress_seconds() * share * 1e9)),
        least_rounds_(least_rounds) {}
  /// True until the time is over and at least that many `rounds` were done.
  [[nodiscard]] bool running(uint64_t rounds = ~uint64_t{0}) const noexcept {
    return rounds < least_rounds_ || base::now_ns() < end_ns_;
  }

 private:
  uint64_t end_ns_;
  uint64_t least_rounds_;
};

}  // namespace weft::test
