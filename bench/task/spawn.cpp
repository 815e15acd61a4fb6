// Spawn and join of tasks that do nothing (000 Fig. 4.3).
//
// Measured: a task spawns N tasks, keeping their handles, then joins them in the same order; from
// before the first spawn to after the last join, divided by N, in ns a task; the median over many
// batches, after one that made records and stacks.
// Limit: Boost.Fiber, a fiber for each task on one thread: whichever is fastest of stacks pooled
// and launched as a spawn is (the child later), the same with the child at once, and stacks as it
// takes them by default; the others stand beside it. For few tasks also std::thread.
//
// It lies in our favour where a program's tasks wait: these never have a stack of their own
// (`yield` and `blocked` measure that). With several workers a task may be stolen: a figure of its
// own.
#include <fmt/format.h>

#include <memory>
#include <thread>

#include "fibers.hpp"
#include "rounds.hpp"
#include "task.hpp"
#include "weft/task/scheduler.hpp"

namespace weft::bench::tasks::spawn {
namespace {

constexpr double kTurn = 0.004;
constexpr uint64_t kMostThreads = 64;

double task_ns(task::Scheduler& scheduler, uint64_t tasks) {
  return scheduler.run([tasks] {
    std::vector<task::Handle<void>> handles(tasks);
    return per_item_ns(tasks, kTurn, [&] {
      for (auto& handle : handles) handle = task::spawn([] {});
      for (auto& handle : handles) handle.join();
    });
  });
}

// `start(fibers)` makes one.
template <class Start>
double fiber_ns(uint64_t tasks, Start start) {
  return on_first_core([&] {
    Fibers fibers;
    std::vector<Fibers::Fiber> all(tasks);
    return per_item_ns(tasks, kTurn, [&] {
      for (auto& fiber : all) fiber = start(fibers);
      for (auto& fiber : all) fiber.join();
    });
  });
}

double thread_ns(uint64_t tasks) {
  return on_first_core([&] {
    std::vector<std::thread> all(tasks);
    return per_item_ns(tasks, kTurn, [&] {
      for (auto& thread : all) thread = std::thread([] {});
      for (auto& thread : all) thread.join();
    });
  });
}

void measure(const Wanted& wanted, unsigned workers, uint64_t tasks, double seconds) {
  task::Scheduler scheduler({.workers = static_cast<int>(workers)});
  Contest contest(workers > 1);
  const auto weft = contest.enter("weft", [&] { return task_ns(scheduler, tasks); });
  std::vector<std::size_t> variants;
  if (kSwitchesCanBeMeasured) {
    const auto nothing = [] {};
    variants.push_back(contest.enter("boost_fiber", [&] {
      return fiber_ns(tasks, [&](Fibers& fibers) { return fibers.start_later(nothing); });
    }));
    variants.push_back(contest.enter("boost_fiber_at_once", [&] {
      return fiber_ns(tasks, [&](Fibers& fibers) { return fibers.start_at_once(nothing); });
    }));
    variants.push_back(contest.enter("boost_fiber_own_stacks", [&] {
      return fiber_ns(tasks, [&](Fibers&) { return Fibers::Fiber(nothing); });
    }));
  }
  std::vector<std::size_t> threads;
  if (tasks <= kMostThreads) {
    threads.push_back(contest.enter("std_thread", [&] { return thread_ns(tasks); }));
  }
  contest.run(seconds);
  std::vector<std::size_t> who{weft};
  for (const std::size_t one : contest.by_median(variants)) who.push_back(one);
  who.insert(who.end(), threads.begin(), threads.end());
  print_all(contest.results(form(fmt::format("spawn_{}", tasks), workers), who), wanted.options);
}

}  // namespace

void measure(const Wanted& wanted) {
  const unsigned workers = wanted.workers.empty() ? 1 : wanted.workers.back();
  std::vector<uint64_t> sizes{1, 64, 512, 4096, 65536};
  if (wanted.tasks != 0) sizes = {wanted.tasks};
  for (const uint64_t tasks : sizes) {
    measure(wanted, workers, tasks, wanted.options.seconds / static_cast<double>(sizes.size()));
  }
}

}  // namespace weft::bench::tasks::spawn
