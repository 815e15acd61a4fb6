// Parallel loops give what serial ones do.
#include "weft/task/loops.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <list>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "task/workers.hpp"

namespace weft::task {
namespace {

class Loops : public test::WithWorkers {};
WEFT_WITH_WORKERS(Loops);

static_assert(LoopIndex<int> && LoopIndex<std::size_t> && LoopIndex<char>);
static_assert(LoopIndex<std::vector<int>::iterator> && LoopIndex<const int*>);
static_assert(!LoopIndex<bool> && !LoopIndex<double> && !LoopIndex<std::list<int>::iterator>);

TEST_P(Loops, EachIterationIsDoneOnce) {
  Scheduler scheduler(options());
  for (const uint64_t grain : {0U, 1U, 7U, 5000U}) {
    std::vector<std::atomic<int>> done(1000);
    scheduler.run([&] {
      parallel_for(0, done.size(), grain, [&](std::size_t i) { ++done[i]; });
      parallel_for(done.begin(), done.end(), grain, [](std::atomic<int>& each) { ++each; });
    });
    for (const auto& each : done) EXPECT_EQ(each, 2);
  }
}

TEST_P(Loops, RangesOfAnyKind) {
  Scheduler scheduler(options());
  scheduler.run([] {
    std::atomic<int> calls{0};
    const auto count = [&](auto /*i*/) { ++calls; };
    parallel_for(0, 0, count);
    parallel_for(5, -5, count);
    const std::vector<int> none;
    parallel_for(none.begin(), none.end(), count);
    EXPECT_EQ(calls, 0);
    parallel_for(-100, 100, count);
    EXPECT_EQ(calls, 200);
    constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
    parallel_for(kLowest, kLowest + 3, count);
    constexpr uint8_t kHighest = std::numeric_limits<uint8_t>::max();
    parallel_for(uint8_t{0}, kHighest, 10, count);
    EXPECT_EQ(calls, 200 + 3 + 255);
  });
}

TEST_P(Loops, ReduceInOrder) {
  Scheduler scheduler(options());
  scheduler.run([] {
    const auto number = [](int i) { return std::to_string(i) + ' '; };
    const auto append = [](std::string left, const std::string& right) { return left += right; };
    std::string expected = "# ";
    for (int i = 0; i < 300; ++i) expected += number(i);
    for (const uint64_t grain : {0U, 1U, 13U, 1000U}) {
      EXPECT_EQ(parallel_reduce(0, 300, std::string("# "), number, append, grain), expected);
    }
    EXPECT_EQ(parallel_reduce(3, 3, std::string("# "), number, append), "# ");
    const std::vector<int> numbers{3, 1, 4, 1, 5, 9, 2, 6};
    EXPECT_EQ(parallel_reduce(
                  numbers.begin(), numbers.end(), 0L, [](int i) { return i; },
                  [](long a, long b) { return a > b ? a : b; }, 1),
              9);
  });
}

TEST_P(Loops, ReduceWhatCanOnlyBeMoved) {
  Scheduler scheduler(options());
  const auto sum = scheduler.run([] {
    return parallel_reduce(
        1, 101, std::make_unique<int>(0), [](int i) { return std::make_unique<int>(i); },
        [](std::unique_ptr<int> a, const std::unique_ptr<int>& b) {
          *a += *b;
          return a;
        },
        3);
  });
  EXPECT_EQ(*sum, 5050);
}

TEST_P(Loops, MayNest) {
  Scheduler scheduler(options());
  const long sum = scheduler.run([] {
    return parallel_reduce(
        0, 30, 0L,
        [](int i) {
          return parallel_reduce(
              0, 30, 0L,
              [i](int j) {
                if ((i + j) % 7 == 0) yield();
                return i * j;
              },
              std::plus<>());
        },
        std::plus<>());
  });
  EXPECT_EQ(sum, 435L * 435L);
}

TEST_P(Loops, ExceptionsComeToTheCaller) {
  Scheduler scheduler(options());
  scheduler.run([] {
    for (const int bad : {0, 499, 500, 999}) {
      std::atomic<int> under_way{0};
      const auto body = [&](int i) {
        ++under_way;
        if (i % 100 == 50) yield();
        --under_way;
        if (i == bad) throw std::out_of_range("no luck");
        return i;
      };
      EXPECT_THROW(parallel_for(0, 1000, 5, body), std::out_of_range);
      EXPECT_EQ(under_way, 0);  // nothing of it runs on
      EXPECT_THROW((void)parallel_reduce(0, 1000, 0L, body, std::plus<>(), 5), std::out_of_range);
      EXPECT_EQ(under_way, 0);
    }
    EXPECT_THROW(parallel_for(0, 1000, 1, [](int i) { throw i; }), int);
    const auto no_sum = [](int, int) -> int { throw std::runtime_error("cannot add"); };
    EXPECT_THROW((void)parallel_reduce(
                     0, 100, 0, [](int i) { return i; }, no_sum),
                 std::runtime_error);
  });
}

TEST(LoopsTest, NeedATask) {
  EXPECT_THROW(parallel_for(0, 10, [](int) {}), Error);
  EXPECT_THROW(parallel_for(0, 0, [](int) {}), Error);
  EXPECT_THROW(parallel_for(0, 10, 100, [](int) {}), Error);
}

// What `combine` throws, too, keeps what was not begun from being begun.
TEST(LoopsTest, EndSoonAfterCombineThrew) {
  Scheduler scheduler({.workers = 1});
  std::atomic<int> calls{0};
  scheduler.run([&] {
    EXPECT_THROW(parallel_reduce(
                     0, 10'000, 0,
                     [&](int) {
                       ++calls;
                       return 1;
                     },
                     [](int, int) -> int { throw std::runtime_error("no sum"); }, 1),
                 std::runtime_error);
  });
  EXPECT_LT(calls, 5'000);
}

}  // namespace
}  // namespace weft::task
