// How many records and stacks tasks take, and how much of a stack.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <thread>

#include "task/scheduler_impl.hpp"
#include "task/worker.hpp"
#include "weft/base/clock.hpp"
#include "weft/task/scheduler.hpp"

namespace weft::task {
namespace {

std::size_t records_of(Scheduler& scheduler) {
  std::size_t records = 0;
  for (const auto& worker : scheduler.impl().workers) {
    worker->for_each_record([&](const detail::Record& /*record*/) { ++records; });
  }
  return records;
}

// Whoever spawns them, a thread or another worker's task, they end at their home.
TEST(RoomTest, RecordsOfDetachedTasksServeWhoeverSpawnsFromElsewhere) {
  constexpr int kTasks = 5000;
  Scheduler scheduler({.workers = 1});
  Scheduler elsewhere({.workers = 1});
  const auto spawn_one_by_one = [&] {
    std::atomic<int> ended{0};
    for (int i = 0; i < kTasks; ++i) {
      scheduler.spawn_detached([&ended] { ++ended; });
      while (ended <= i) yield();
    }
  };
  const std::size_t before = records_of(scheduler);  // those of schedulers that have ended serve on
  spawn_one_by_one();
  elsewhere.run(spawn_one_by_one);
  EXPECT_LE(records_of(scheduler), before + 1024);
}

}  // namespace
}  // namespace weft::task
