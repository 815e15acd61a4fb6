// What every stress test of the suite shares: its length and its seed.
#pragma once

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

/// A share of the stress time, counted from now.
class StressClock {
 public:
  explicit StressClock(double share = 1.0)
      : end_ns_(base::now_ns() + static_cast<uint64_t>(stress_seconds() * share * 1e9)) {}
  /// True until the time is over and at least a few `rounds` were done: on a machine so busy that
  /// a thread starts late, it must not have tested nothing.
  [[nodiscard]] bool running(uint64_t rounds = ~uint64_t{0}) const noexcept {
    return rounds < 10 || base::now_ns() < end_ns_;
  }

 private:
  uint64_t end_ns_;
};

}  // namespace weft::test
