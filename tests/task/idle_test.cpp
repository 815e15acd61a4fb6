// A scheduler without anything to run uses no processor time. A process of its own: its whole
// processor time is looked at.
#include "base/idle.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "task/workers.hpp"

namespace weft::task {
namespace {

using std::chrono::milliseconds;
using test::kAlmostNone;
using test::processors_while_idle;

class Idle : public test::WithWorkers {};
WEFT_WITH_WORKERS(Idle);

TEST_P(Idle, UsesNoProcessorTime) {
  Scheduler scheduler(options());
  EXPECT_LT(processors_while_idle(), kAlmostNone) << "new";
  scheduler.run([] {
    for (int i = 0; i < 1000; ++i) spawn([] { yield(); }).join();
  });
  EXPECT_LT(processors_while_idle(), kAlmostNone) << "after work";
}

TEST_P(Idle, WhileTasksWaitUsesNoProcessorTime) {
  Scheduler scheduler(options());
  std::vector<Handle<void>> all;
  for (int i = 0; i < 20; ++i) all.push_back(scheduler.spawn([] { wait(); }));
  auto sleeps = scheduler.spawn([] { sleep_for(milliseconds(900)); });
  EXPECT_LT(processors_while_idle(), kAlmostNone);
  for (auto& each : all) {
    signal(each.ref());
    each.join();
  }
  sleeps.join();
}

// Two schedulers, one of which has worked for the other.
TEST_P(Idle, SchedulersUseNoneForEachOther) {
  Scheduler first(options());
  Scheduler second({.workers = 1});
  EXPECT_EQ(first.run([&] { return second.spawn([] { return 5; }).join(); }), 5);
  EXPECT_LT(processors_while_idle(), kAlmostNone);
}

}  // namespace
}  // namespace weft::task
