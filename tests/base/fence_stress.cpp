// The asymmetric fence: of two threads that each store and then load the other's word, at least one
// sees the other's store.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "base/stress.hpp"
#include "weft/base/asymmetric_fence.hpp"
#include "weft/base/backoff.hpp"
#include "weft/base/cache_line.hpp"

namespace weft::base {
namespace {

TEST(AsymmetricFenceStress, OneSideSeesTheOther) {
  std::minstd_rand draw(static_cast<uint32_t>(test::stress_seed()));
  const test::StressClock clock(0.5);
  // Round numbers, so that no reset is needed: a side of round n stores n and looks for n.
  OwnLine<std::atomic<uint64_t>> hot_word;
  OwnLine<std::atomic<uint64_t>> rare_word;
  OwnLine<std::atomic<uint64_t>> start;      // written by the rare side
  OwnLine<std::atomic<uint64_t>> hot_ended;  // written by the hot side
  std::atomic<bool> hot_saw{false};
  constexpr uint64_t kOver = ~uint64_t{0};
  std::thread hot([&] {
    for (uint64_t round = 1;; ++round) {
      uint64_t now = 0;
      for (Backoff wait; (now = start->load(std::memory_order_acquire)) < round;) wait.pause();
      if (now == kOver) return;
      hot_word->store(round, std::memory_order_relaxed);
      light_fence();
      hot_saw.store(rare_word->load(std::memory_order_relaxed) >= round, std::memory_order_relaxed);
      hot_ended->store(round, std::memory_order_release);
    }
  });
  uint64_t rounds = 0;
  uint64_t seen_by_hot = 0;
  uint64_t seen_by_rare = 0;
  while (clock.running(rounds) && !testing::Test::HasFailure()) {
    const uint64_t round = ++rounds;
    start->store(round, std::memory_order_release);
    for (uint64_t pause = draw() % 64; pause > 0; --pause) cpu_relax();
    rare_word->store(round, std::memory_order_relaxed);
    heavy_fence();
    const bool rare_saw = hot_word->load(std::memory_order_relaxed) >= round;
    for (Backoff wait; hot_ended->load(std::memory_order_acquire) < round;) wait.pause();
    const bool saw = hot_saw.load(std::memory_order_relaxed);
    EXPECT_TRUE(rare_saw || saw) << "round " << round;
    seen_by_hot += saw ? 1 : 0;
    seen_by_rare += rare_saw ? 1 : 0;
  }
  start->store(kOver, std::memory_order_release);
  hot.join();
  std::printf("rounds %llu: the hot side saw %llu, the rare side %llu\n",
              static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(seen_by_hot),
              static_cast<unsigned long long>(seen_by_rare));
}

}  // namespace
}  // namespace weft::base
