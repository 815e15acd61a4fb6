// Tasks that wait for each other at a barrier (000 Fig. 4.5 b).
//
// Measured: so many tasks, dealt to the workers in turn, arrive at one barrier and wait for all,
// over and over; from the first spawn to the last join, divided by the phases, in ns a phase.
// Limit: Boost.Fiber's barrier with as many fibers on as many threads. Beside it std::barrier with
// as many threads on as many cores, up to 64.
//
// It lies where tasks do something between two phases: then what counts is when the last arrives.
#include "weft/task/barrier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <boost/fiber/barrier.hpp>

#include "fibers.hpp"
#include "rounds.hpp"
#include "task.hpp"
#include "weft/base/clock.hpp"
#include "weft/task/scheduler.hpp"

namespace weft::bench::tasks::barrier {
namespace {

constexpr uint64_t kCrowds[] = {2, 64, 1024};
constexpr uint64_t kMostThreads = 64;
constexpr uint64_t kArrivals = 50'000;         ///< of a turn, all together
constexpr uint64_t kArrivalsOfThreads = 2000;  ///< they take microseconds each
constexpr uint64_t kLeastPhases = 200;         ///< beside which making all of them is little

struct Work {
  uint64_t crowd;
  unsigned workers;
  /// Phases of a turn that has so many arrivals.
  [[nodiscard]] uint64_t phases(uint64_t arrivals) const {
    return std::max<uint64_t>(arrivals / crowd, kLeastPhases);
  }
};

double task_ns(task::Scheduler& scheduler, const Work& work) {
  const uint64_t phases = work.phases(kArrivals);
  return scheduler.run([&, phases] {
    task::Barrier<> barrier(static_cast<std::ptrdiff_t>(work.crowd));
    std::vector<task::Handle<void>> handles(work.crowd);
    int next = 0;
    const uint64_t start = base::now_ns();
    for (auto& handle : handles) {
      handle = task::spawn(
          [&barrier, phases] {
            for (uint64_t i = 0; i < phases; ++i) barrier.arrive_and_wait();
          },
          {.worker = next++ % scheduler.workers()});
    }
    for (auto& handle : handles) handle.join();
    return static_cast<double>(base::now_ns() - start) / static_cast<double>(phases);
  });
}

double fiber_ns(const Work& work) {
  const uint64_t phases = work.phases(kArrivals);
  boost::fibers::barrier barrier(work.crowd);
  return fiber_crowd_ns(work.workers, work.crowd,
                        [&] {
                          for (uint64_t i = 0; i < phases; ++i) barrier.wait();
                        }) /
         static_cast<double>(phases);
}

double thread_ns(const Work& work) {
  const uint64_t phases = work.phases(kArrivalsOfThreads);
  std::barrier barrier(static_cast<std::ptrdiff_t>(work.crowd));
  return turns::run_together(
             static_cast<unsigned>(work.crowd),
             [&](unsigned) {
               for (uint64_t i = 0; i < phases; ++i) barrier.arrive_and_wait();
             },
             work.workers) /
         static_cast<double>(phases);
}

void measure(const Wanted& wanted, const Work& work, double seconds) {
  task::Scheduler scheduler({.workers = static_cast<int>(work.workers)});
  Contest contest(work.workers > 1);
  std::vector<std::size_t> who{contest.enter("weft", [&] { return task_ns(scheduler, work); })};
  if (kSwitchesCanBeMeasured) {
    who.push_back(contest.enter("boost_fiber", [&] { return fiber_ns(work); }));
  }
  if (work.crowd <= kMostThreads) {
    who.push_back(contest.enter("std_barrier", [&] { return thread_ns(work); }));
  }
  contest.run(seconds);
  print_all(contest.results(form(fmt::format("barrier_{}", work.crowd), work.workers), who),
            wanted.options);
}

}  // namespace

void measure(const Wanted& wanted) {
  const auto counts = wanted.workers_or_one_and_two();
  std::vector<uint64_t> crowds(std::begin(kCrowds), std::end(kCrowds));
  if (wanted.tasks != 0) crowds = {wanted.tasks};
  const auto each = static_cast<double>(counts.size() * crowds.size());
  for (const unsigned workers : counts) {
    for (const uint64_t crowd : crowds) {
      measure(wanted, {crowd, workers}, wanted.options.seconds / each);
    }
  }
}

}  // namespace weft::bench::tasks::barrier
