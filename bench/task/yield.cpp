// Tasks that yield to each other on one worker: two, or as many as --tasks says.
//
// Measured: a yield, in ns: the time from a task's call of yield to its return, in which each of
// the others ran and yielded as well, by their number; the median of laps of about 2000. All run
// the same function, as the tasks of a program mostly do: the processor then foretells where the
// call returns to. Beside it, of two, two functions (`from_two_places`): one return of two goes
// wrong. Limit: two bare switches of Boost.Context, there and back, with nothing around them: what
// any stackful task must pay. Rivals: as many fibers of Boost.Fiber, which run one function, too;
// of two, two threads on one core that hand a word to each other and call sched_yield until it
// comes back (a yield of a thread may return without the other having run; these are counted in).
//
// It lies when the work between two switches needs the caches, or is so little that a few dozen
// tasks' stacks stay in them where a program's do not.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <boost/context/detail/fcontext.hpp>
#include <vector>

#include "fibers.hpp"
#include "rounds.hpp"
#include "task.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/task/scheduler.hpp"

namespace weft::bench::tasks::yield {
namespace {

constexpr double kTurn = 0.004;

struct Tasks {
  static void yield() { task::yield(); }
};
struct FibersOfBoost {
  static void yield() { boost::this_fiber::yield(); }
};

/// Not in line: whoever yields does so here.
template <class Kind>
[[gnu::noinline]] void yield_times(uint64_t times) {
  for (uint64_t i = 0; i < times; ++i) Kind::yield();
}

/// Between two looks of a task at the clock, or whether it is over.
uint64_t times_at_once(uint64_t crowd) { return std::max<uint64_t>(1000 / crowd, 1); }

template <class Kind>
double one_of(uint64_t crowd) {
  const uint64_t times = times_at_once(crowd);
  return per_item_ns(crowd * times, kTurn, [times] { yield_times<Kind>(times); });
}

enum class Places { one, two };

double task_ns(task::Scheduler& scheduler, uint64_t crowd, Places places) {
  return scheduler.run([=] {
    bool done = false;  // plain: there is one worker
    std::vector<task::Handle<void>> others(crowd - 1);
    for (auto& other : others) {
      other = task::spawn([&done, places, times = times_at_once(crowd)] {
        while (!done) places == Places::one ? yield_times<Tasks>(times) : task::yield();
      });
    }
    const double ns = one_of<Tasks>(crowd);
    done = true;
    for (auto& other : others) other.join();
    return ns;
  });
}

double fiber_ns(uint64_t crowd) {
  return on_first_core([crowd] {
    Fibers fibers;
    bool done = false;
    std::vector<Fibers::Fiber> others;
    for (uint64_t i = 1; i < crowd; ++i) {
      others.push_back(fibers.start_later([&done, times = times_at_once(crowd)] {
        while (!done) yield_times<FibersOfBoost>(times);
      }));
    }
    const double ns = one_of<FibersOfBoost>(crowd);
    done = true;
    for (auto& other : others) other.join();
    return ns;
  });
}

namespace context = boost::context::detail;

double bare_ns() {
  return on_first_core([] {
    std::vector<char> stack(kFiberStackBytes);
    context::transfer_t there{context::make_fcontext(stack.data() + stack.size(), stack.size(),
                                                     [](context::transfer_t back) {
                                                       for (;;) {
                                                         back = context::jump_fcontext(back.fctx,
                                                                                       nullptr);
                                                       }
                                                     }),
                              nullptr};
    return per_item_ns(1, kTurn, [&] { there = context::jump_fcontext(there.fctx, nullptr); });
  });
}

double thread_ns() {
  enum : int { first, second, neither };
  base::OwnLine<std::atomic<int>> turn;
  double ns = 0;
  turns::run_together(2, [&](unsigned me) {
    turns::bind_to(0);
    // release and acquire: each sees what the other did in its turn, as a task does.
    if (me == 0) {
      ns = per_item_ns(1, kTurn,
                       [&] {
                         turn->store(second, std::memory_order_release);
                         while (turn->load(std::memory_order_acquire) == second) sched_yield();
                       }) /
           2;
      turn->store(neither, std::memory_order_release);
      return;
    }
    for (int whose = first; whose != neither; whose = turn->load(std::memory_order_acquire)) {
      if (whose == second) turn->store(first, std::memory_order_release);
      sched_yield();
    }
  });
  return ns;
}

}  // namespace

void measure(const Wanted& wanted) {
  const uint64_t crowd = wanted.tasks_or_two();
  task::Scheduler scheduler({.workers = 1});
  Contest contest(false);
  const auto enter = [&](const char* name, Places places) {
    return contest.enter(name, [&, places] { return task_ns(scheduler, crowd, places); });
  };
  std::vector<std::size_t> who{enter("weft", Places::one)};
  if (kSwitchesCanBeMeasured) {
    who.push_back(contest.enter("two_bare_switches", bare_ns));
    who.push_back(contest.enter("boost_fiber", [&] { return fiber_ns(crowd); }));
  }
  if (crowd == 2) {
    who.push_back(contest.enter("sched_yield", thread_ns));
    who.push_back(enter("from_two_places", Places::two));
  }
  contest.run(wanted.options.seconds);
  print_all(contest.results(form(wanted.named("yield"), 1), who), wanted.options);
}

}  // namespace weft::bench::tasks::yield
