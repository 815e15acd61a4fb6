// A scheduler without anything to run uses no processor time. A process of its own: its whole
// processor time is looked at.
#include <gtest/gtest.h>
#include <time.h>

#include <chrono>
#include <thread>
#include <vector>

#include "task/switch.hpp"
#include "task/workers.hpp"

namespace weft::task {
namespace {

using std::chrono::milliseconds;

double seconds_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

/// How many processors this process uses from a while after now on, while nothing happens. One
/// thread that looks on makes that one, or what of it the machine has to spare; a busy machine
/// makes it less, never more.
double processors_while_idle() {
  std::this_thread::sleep_for(milliseconds(200));  // until all sleep
  const double used = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  const double begun = seconds_of(CLOCK_MONOTONIC);
  std::this_thread::sleep_for(milliseconds(200));
  return (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - used) / (seconds_of(CLOCK_MONOTONIC) - begun);
}
/// ThreadSanitizer has a thread of its own that looks through memory.
constexpr double kAlmostNone = kThreadSanitized ? 0.8 : 0.3;

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
