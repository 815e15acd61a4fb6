// As many waiting tasks of one worker as need several blocks of signals: all are found again.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/stress.hpp"
#include "task/switch.hpp"
#include "weft/task/scheduler.hpp"

namespace weft::task {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = kThreadSanitized;
#endif

/// With the length that `make stress` gives it four blocks of 262,144, else only the second level
/// of the first: a million take 4.5 GB. A sanitizer bears few stacks.
std::size_t how_many() {
  if (kSanitized) return 2000;
  return test::stress_seconds() >= 30 ? 1'000'000 : 20'000;
}

uint64_t bytes_available() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    uint64_t kib = 0;
    if (word == "MemAvailable:" && file >> kib) return kib << 10;
  }
  return ~uint64_t{0};
}

class Million : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Workers, Million, testing::Values(1, 2, 4),
                         [](const auto& with) { return std::to_string(with.param); });

TEST_P(Million, WaitingTasksAllHearTheirSignals) {
  const std::size_t count = how_many();
  if (bytes_available() < count * 6000) GTEST_SKIP() << "no memory for " << count << " stacks";
  std::mt19937_64 random(test::stress_seed());
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});

  Scheduler scheduler({.workers = GetParam()});
  // The second time with the records and stacks of the first.
  for (int round = 0; round < 2; ++round) {
    std::atomic<std::size_t> waiting{0};
    const std::unique_ptr<std::atomic<int>[]> told(new std::atomic<int>[count] {});
    std::vector<Handle<int>> all;
    all.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      // All at home with the same worker, though others may run them.
      all.push_back(scheduler.spawn(
          [&waiting, &mine = told[i]] {
            waiting.fetch_add(1);
            while (mine == 0) wait();
            return mine.load();
          },
          {.worker = 0}));
    }
    while (waiting != count) std::this_thread::yield();
    std::shuffle(order.begin(), order.end(), random);
    // Half by a thread, half by a task of whatever worker, at the same time.
    const auto tell = [&](std::size_t from, std::size_t until) {
      for (std::size_t at = from; at < until; ++at) {
        const std::size_t i = order[at];
        told[i] = static_cast<int>(i % 1000 + 1);
        signal(all[i].ref());
      }
    };
    auto teller = scheduler.spawn([&] { tell(0, count / 2); }, {.worker = GetParam() - 1});
    tell(count / 2, count);
    teller.join();
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(all[i].join(), static_cast<int>(i % 1000 + 1)) << i;
    }
  }
  const Stats stats = scheduler.stats();
  EXPECT_EQ(stats.spawned, stats.ended);
  EXPECT_EQ(stats.spawned, 2 * (count + 1));
}

}  // namespace
}  // namespace weft::task
