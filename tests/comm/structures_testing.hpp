// What the tests of the shared structures share: seeds that are told, lengths, starting together.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/config.hpp"

namespace weft::comm::testing {

/// How long a stress test runs: WEFT_STRESS_SECONDS, or `fallback`.
inline double stress_seconds(double fallback = 1.0) {
  const auto told = base::environment("WEFT_STRESS_SECONDS");
  return told.found ? std::strtod(told.value.c_str(), nullptr) : fallback;
}

/// A seed, printed so that a failure can be run again: WEFT_STRESS_SEED, or a random one.
inline uint64_t told_seed() {
  const auto told = base::environment("WEFT_STRESS_SEED");
  const uint64_t seed = told.found ? std::strtoull(told.value.c_str(), nullptr, 10)
                                   : uint64_t{std::random_device{}()};
  std::printf("[     seed ] WEFT_STRESS_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  return seed;
}

/// Small and fast; good enough to choose operations with.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u) {}
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  uint64_t below(uint64_t bound) { return (next() >> 11) % bound; }

 private:
  uint64_t state_;
};

class Deadline {
 public:
  explicit Deadline(double seconds)
      : end_(std::chrono::steady_clock::now() +
             std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                 std::chrono::duration<double>(seconds))) {}
  [[nodiscard]] bool passed() const { return std::chrono::steady_clock::now() >= end_; }

 private:
  std::chrono::steady_clock::time_point end_;
};

/// Runs `body(i)` on threads 0..count-1 and joins them.
template <class F>
void on_threads(unsigned count, F body) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
  for (auto& thread : threads) thread.join();
}

/// A barrier that yields, and lets threads leave at one instant as far as they have cores.
class Gate {
 public:
  explicit Gate(unsigned parties) : parties_(parties) {}
  void pass() {
    const unsigned turn = turn_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == parties_) {
      arrived_.store(0, std::memory_order_relaxed);
      // The others see the turn a line's transfer or two later.
      go_.store(now() + 400, std::memory_order_relaxed);
      turn_.store(turn + 1, std::memory_order_release);
    } else {
      for (int spin = 0; turn_.load(std::memory_order_acquire) == turn; ++spin)
        if (spin > 2000) sched_yield();
    }
    const int64_t go = go_.load(std::memory_order_relaxed);
    while (now() < go) {
    }
  }

 private:
  static int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  const unsigned parties_;
  std::atomic<unsigned> arrived_{0};
  std::atomic<unsigned> turn_{0};
  std::atomic<int64_t> go_{0};
};

}  // namespace weft::comm::testing
