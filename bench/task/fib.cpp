// Fibonacci numbers by tasks, without a cut-off (000 Fig. 4.6 a): nothing but spawn and join.
//
// Measured: from the call of fib(n) in a task to its return, divided by the tasks spawned below it,
// in ns a task (of wall time, so that two workers at best halve it). `both`: a call spawns both
// its children and joins them in that order. `call`: it spawns one, calls the other itself, and
// joins: half as many tasks, each with a plain call beside it. With one worker and with two; and
// how many times faster two are than one, in the same round.
// Limit: with one worker Boost.Fiber, one thread, a smaller n, children started at once (breadth
// first it would have them all alive); with two the same with one worker. Beside it POSIX threads,
// one for each task, a smaller n still.
//
// It lies as `spawn` does: no task waits for anything but its children, which mostly run in place.
// A speed-up on two virtual cores that are threads of one core says nothing.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "by_workers.hpp"
#include "fibers.hpp"
#include "weft/base/clock.hpp"

namespace weft::bench::tasks::fib {
namespace {

constexpr unsigned kNumber = 32;
constexpr unsigned kLargestOfFibers = 20;
constexpr unsigned kLargestOfThreads = 9;  ///< 108 of them, all alive at once

uint64_t fib(unsigned n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

uint64_t fib_both(unsigned n) {
  if (n < 2) return n;
  auto first = task::spawn([n] { return fib_both(n - 1); });
  auto second = task::spawn([n] { return fib_both(n - 2); });
  const uint64_t a = first.join();
  return a + second.join();
}

uint64_t fib_call(unsigned n) {
  if (n < 2) return n;
  auto first = task::spawn([n] { return fib_call(n - 1); });
  const uint64_t b = fib_call(n - 2);
  return first.join() + b;
}

uint64_t fiber_both(Fibers& fibers, unsigned n) {
  if (n < 2) return n;
  uint64_t a = 0;
  uint64_t b = 0;
  auto first = fibers.start_at_once([&, n] { a = fiber_both(fibers, n - 1); });
  auto second = fibers.start_at_once([&, n] { b = fiber_both(fibers, n - 2); });
  first.join();
  second.join();
  return a + b;
}

uint64_t fiber_call(Fibers& fibers, unsigned n) {
  if (n < 2) return n;
  uint64_t a = 0;
  auto first = fibers.start_at_once([&, n] { a = fiber_call(fibers, n - 1); });
  const uint64_t b = fiber_call(fibers, n - 2);
  first.join();
  return a + b;
}

uint64_t thread_both(unsigned n) {
  if (n < 2) return n;
  uint64_t a = 0;
  uint64_t b = 0;
  std::thread first([&, n] { a = thread_both(n - 1); });
  std::thread second([&, n] { b = thread_both(n - 2); });
  first.join();
  second.join();
  return a + b;
}

uint64_t thread_call(unsigned n) {
  if (n < 2) return n;
  uint64_t a = 0;
  std::thread first([&, n] { a = thread_call(n - 1); });
  const uint64_t b = thread_call(n - 2);
  first.join();
  return a + b;
}

struct Variant {
  const char* name;
  uint64_t (*by_tasks)(unsigned);
  uint64_t (*by_fibers)(Fibers&, unsigned);
  uint64_t (*by_threads)(unsigned);
  unsigned spawns;  ///< of a call that is no leaf
};
constexpr Variant kVariants[] = {{"both", fib_both, fiber_both, thread_both, 2},
                                 {"call", fib_call, fiber_call, thread_call, 1}};

// Calls that are no leaves: fib(n + 1) - 1.
uint64_t tasks_of(const Variant& variant, unsigned n) { return variant.spawns * (fib(n + 1) - 1); }

// ns a task of `call`, which must return fib(n).
template <class Call>
double timed(const Variant& variant, unsigned n, uint64_t expected, Call call) {
  const uint64_t start = base::now_ns();
  const uint64_t found = call();
  const uint64_t end = base::now_ns();
  if (found != expected) {
    throw std::runtime_error(fmt::format("fib({}) is {}, not {}", n, expected, found));
  }
  return static_cast<double>(end - start) / static_cast<double>(tasks_of(variant, n));
}

void measure(const Wanted& wanted, const Variant& variant, unsigned n, double seconds) {
  ByWorkers workers(wanted, [&variant, n, expected = fib(n)](task::Scheduler& scheduler) {
    return scheduler.run([&variant, n, expected] {
      return timed(variant, n, expected, [&] { return variant.by_tasks(n); });
    });
  });
  std::vector<std::size_t> rivals;
  if (kSwitchesCanBeMeasured) {
    const unsigned small = std::min(n, kLargestOfFibers);
    rivals.push_back(workers.contest().enter("boost_fiber", [&variant, small] {
      return on_first_core([&variant, small] {
        Fibers fibers;
        (void)variant.by_fibers(fibers, small);  // makes the stacks
        return timed(variant, small, fib(small), [&] { return variant.by_fibers(fibers, small); });
      });
    }));
  }
  const unsigned tiny = std::min(n, kLargestOfThreads);
  rivals.push_back(workers.contest().enter("std_thread", [&variant, tiny] {
    return timed(variant, tiny, fib(tiny), [&] { return variant.by_threads(tiny); });
  }));
  workers.contest().run(seconds, 3);
  workers.print(fmt::format("fib_{}_{}", n, variant.name), rivals,
                {{"tasks", tasks_of(variant, n)}});
}

}  // namespace

void measure(const Wanted& wanted) {
  unsigned n = kNumber;
  while (wanted.tasks != 0 && n > 2 && tasks_of(kVariants[0], n) > wanted.tasks) --n;
  for (const Variant& variant : kVariants) {
    measure(wanted, variant, n, wanted.options.seconds / std::size(kVariants));
  }
}

}  // namespace weft::bench::tasks::fib
