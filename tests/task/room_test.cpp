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
  constexpr int kTasks = 2000;
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

/// How much of its stack the calling task has yet to use.
[[gnu::noinline]] std::size_t room_here() {
  const char* const here = static_cast<const char*>(__builtin_frame_address(0));
  return static_cast<std::size_t>(here - detail::Worker::current()->stack()->low);
}

/// Joins a child from a frame of that size: the child's room.
template <std::size_t kFrame>
[[gnu::noinline]] std::size_t room_of_child(const SpawnOptions& options) {
  volatile char frame[kFrame];
  for (std::size_t i = 0; i < kFrame; i += 1024) frame[i] = 1;
  const std::size_t room = spawn(room_here, options).join();
  return room + frame[0] - 1;
}

// A child runs on what is left of its parent's stack only if that is as much as it asked for.
TEST(RoomTest, AChildHasTheStackThatItAskedFor) {
  constexpr std::size_t kOfAll = 128 << 10;
  constexpr std::size_t kOverhead = 8 << 10;  // its ends, and the worker's own frames
  Scheduler scheduler({.workers = 1, .stack_bytes = kOfAll});
  scheduler.run([] {
    for (const std::size_t asked : {kOfAll / 4, kOfAll / 2, kOfAll / 2 + 1, kOfAll, 2 * kOfAll}) {
      EXPECT_GE(room_of_child<1024>({.stack_bytes = asked}) + kOverhead, asked);
      EXPECT_GE(room_of_child<40 * 1024>({.stack_bytes = asked}) + kOverhead, asked);
      EXPECT_GE(room_of_child<80 * 1024>({.stack_bytes = asked}) + kOverhead, asked);
    }
  });
}

}  // namespace
}  // namespace weft::task
