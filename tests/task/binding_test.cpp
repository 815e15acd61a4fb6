// Which cores the workers are bound to: each to one, and to others than those of other schedulers
// and ranks.
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

#include "task/configured.hpp"
#include "weft/base/core_claim.hpp"
#include "weft/base/topology.hpp"
#include "weft/task/scheduler.hpp"

namespace weft::task {
namespace {

/// The processors that the calling thread may run on, as the system says.
std::vector<int> allowed() {
  cpu_set_t set;
  std::vector<int> processors;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  }
  return processors;
}

std::vector<std::vector<int>> allowed_to_workers(Scheduler& scheduler) {
  return scheduler.run([&] {
    std::vector<std::vector<int>> all(static_cast<std::size_t>(scheduler.workers()));
    for (int worker = 0; worker < scheduler.workers(); ++worker) {
      // Where it is stolen it tells of the thief.
      auto task = spawn([&all] { all[static_cast<std::size_t>(this_worker())] = allowed(); },
                        {.worker = worker});
      task.join();
    }
    return all;
  });
}

class Binding : public testing::Test {
 protected:
  void SetUp() override { ::unsetenv(base::kCoreShareVariable); }  // NOLINT(concurrency-mt-unsafe)
  void TearDown() override { SetUp(); }
  static void share(const char* text) {
    ::setenv(base::kCoreShareVariable, text, 1);  // NOLINT(concurrency-mt-unsafe)
  }
  const std::vector<base::Core>& cores = base::Topology::machine().cores();
  [[nodiscard]] std::vector<int> core(std::size_t at) const {
    return {cores[at % cores.size()].os_index};
  }
};

TEST_F(Binding, SchedulersOfAProcessTakeCoresAfterOneAnother) {
  Scheduler first({.workers = 1});
  EXPECT_EQ(allowed_to_workers(first)[0], core(0));
  {
    Scheduler second({.workers = 1});
    EXPECT_EQ(allowed_to_workers(second)[0], core(1));
  }
  Scheduler third({.workers = 1});  // what the second gave back
  EXPECT_EQ(allowed_to_workers(third)[0], core(1));
}

TEST_F(Binding, RanksOfANodeBeginApart) {
  for (const char* text : {"0/2", "1/2"}) {
    share(text);
    Scheduler scheduler({.workers = 1});
    EXPECT_EQ(allowed_to_workers(scheduler)[0], core(text[0] == '0' ? 0 : cores.size() / 2))
        << text;
  }
}

TEST_F(Binding, OffOrTooManyMeansWhereverTheProcessMayRun) {
  const std::vector<int> all = allowed();
  Scheduler off({.workers = 1, .bind = false});
  EXPECT_EQ(allowed_to_workers(off)[0], all);
  Scheduler many({.workers = static_cast<int>(cores.size()) + 1});
  for (const auto& each : allowed_to_workers(many)) {
    EXPECT_TRUE(each.empty() || each == all);
  }
  const test::Configured by_key("task.bind", "false");
  Scheduler configured({.workers = 1});
  EXPECT_EQ(allowed_to_workers(configured)[0], all);
}

}  // namespace
}  // namespace weft::task
