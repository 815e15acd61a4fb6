// Tasks through one critical section (000 Fig. 4.5 a).
//
// Measured: 64 tasks, dealt to two workers in turn, each lock, compute for so many cycles of the
// tick counter, and unlock, over and over; from the first spawn to the last join, divided by all
// sections, in ns a section. A section also counts itself, on a line that goes with it; the count
// is compared in the end.
// Limit: the section alone: one thread goes through it as often, without any lock. For sections of
// no cycles that is nothing, and the limit is std::mutex. Rivals: std::mutex with as many threads
// on as many cores, Boost.Fiber's mutex with as many fibers on as many threads.
//
// It lies about fairness: a lock that leaves the section with one worker for long moves no cache
// line, and no task is seen to wait. It says nothing of sections that suspend.
#include "weft/task/mutex.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <stdexcept>

#include "fibers.hpp"
#include "rounds.hpp"
#include "task.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/clock.hpp"
#include "weft/task/scheduler.hpp"

namespace weft::bench::tasks::mutex {
namespace {

constexpr uint64_t kTasks = 64;
constexpr unsigned kCycles[] = {0, 128, 1024, 32768};
constexpr double kTurnNs = 10e6;
// What a section may take beside its cycles: how many make a turn.
constexpr double kTasksNs = 20;
constexpr double kThreadsNs = 300;

// Each step waits for the one before, and the first for the section before: none overlap.
uint64_t compute(uint64_t value, unsigned steps) {
  for (unsigned i = 0; i < steps; ++i) {
    value *= 0x9e3779b97f4a7c15u;
    asm volatile("" : "+r"(value));
  }
  return value;
}

double cycles_of_a_step() {
  constexpr unsigned kSteps = 10'000;
  uint64_t least = ~uint64_t{0};
  for (int i = 0; i < 20; ++i) {
    const uint64_t start = base::ticks();
    compute(start, kSteps);
    least = std::min(least, base::ticks() - start);
  }
  return static_cast<double>(least) / kSteps;
}

/// What all go through, `times` each.
struct Work {
  uint64_t crowd;
  unsigned workers;
  unsigned steps;
  double section_ns;
  uint64_t times = 0;

  /// The same, so often that a turn takes some milliseconds.
  [[nodiscard]] Work for_a_turn(double more_ns) const {
    Work work = *this;
    const auto all = static_cast<uint64_t>(kTurnNs / (section_ns + more_ns));
    work.times = std::max<uint64_t>(all / crowd, 1);
    return work;
  }
};

/// The lock, and what it guards: a line each.
template <class Mutex>
struct Section {
  struct Guarded {
    uint64_t passed = 0;
    uint64_t value = 1;
  };
  base::OwnLine<Mutex> mutex;
  base::OwnLine<Guarded> guarded;

  void go_through(const Work& work) {
    for (uint64_t i = 0; i < work.times; ++i) {
      mutex->lock();
      ++guarded->passed;
      guarded->value = compute(guarded->value, work.steps);
      mutex->unlock();
    }
  }
  /// ns a section.
  double check(const Work& work, double wall_ns) {
    const uint64_t all = work.crowd * work.times;
    if (guarded->passed != all) {
      throw std::runtime_error(fmt::format("mutex: {} of {} sections", guarded->passed, all));
    }
    return wall_ns / static_cast<double>(all);
  }
};

double task_ns(task::Scheduler& scheduler, const Work& work) {
  Section<task::Mutex> section;
  return section.check(work, scheduler.run([&] {
    std::vector<task::Handle<void>> handles(work.crowd);
    int next = 0;
    const uint64_t start = base::now_ns();
    for (auto& handle : handles) {
      handle =
          task::spawn([&] { section.go_through(work); }, {.worker = next++ % scheduler.workers()});
    }
    for (auto& handle : handles) handle.join();
    return static_cast<double>(base::now_ns() - start);
  }));
}

double thread_ns(const Work& work) {
  Section<std::mutex> section;
  return section.check(work, turns::run_together(
                                 static_cast<unsigned>(work.crowd),
                                 [&](unsigned) { section.go_through(work); }, work.workers));
}

double fiber_ns(const Work& work) {
  Section<boost::fibers::mutex> section;
  return section.check(work,
                       fiber_crowd_ns(work.workers, work.crowd, [&] { section.go_through(work); }));
}

double alone_ns(const Work& work) {
  struct NoMutex {
    void lock() {}
    void unlock() {}
  };
  return on_first_core([&] {
    Section<NoMutex> section;
    const uint64_t start = base::now_ns();
    for (uint64_t i = 0; i < work.crowd; ++i) section.go_through(work);
    return section.check(work, static_cast<double>(base::now_ns() - start));
  });
}

void measure(const Wanted& wanted, unsigned cycles, const Work& work, double seconds) {
  const Work ours = work.for_a_turn(kTasksNs);
  const Work theirs = work.for_a_turn(kThreadsNs);
  task::Scheduler scheduler({.workers = static_cast<int>(work.workers)});
  Contest contest(work.workers > 1);
  std::vector<std::size_t> who{contest.enter("weft", [&] { return task_ns(scheduler, ours); })};
  if (cycles != 0) who.push_back(contest.enter("section_alone", [&] { return alone_ns(ours); }));
  who.push_back(contest.enter("std_mutex", [&] { return thread_ns(theirs); }));
  if (kSwitchesCanBeMeasured) {
    who.push_back(contest.enter("boost_fiber", [&] { return fiber_ns(theirs); }));
  }
  contest.run(seconds);
  auto results = contest.results(form(fmt::format("mutex_{}", cycles), work.workers), who);
  for (Result& result : results) result.extra["tasks"] = work.crowd;
  print_all(results, wanted.options);
}

}  // namespace

void measure(const Wanted& wanted) {
  const uint64_t crowd = wanted.tasks != 0 ? wanted.tasks : kTasks;
  const unsigned workers = wanted.workers_or_one_and_two().back();
  const double step = cycles_of_a_step();
  for (const unsigned cycles : kCycles) {
    const Work work{.crowd = crowd,
                    .workers = workers,
                    .steps = static_cast<unsigned>(cycles / step),
                    .section_ns = cycles / base::ticks_per_ns()};
    measure(wanted, cycles, work, wanted.options.seconds / std::size(kCycles));
  }
}

}  // namespace weft::bench::tasks::mutex
