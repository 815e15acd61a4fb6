// Two tasks that signal each other and wait, within a worker and between two (000 Fig. 4.4).
//
// Measured: a round: one task signals the other and waits, the other has waited, signals back and
// waits again: two signals and two waits, in ns; the median of laps of 2000 rounds. Nothing else
// passes between them: a wait that ended without a signal would be one round too many, and is
// counted (`strays`, of all rounds of a turn; 0 is expected).
//
// Within a worker. Limit: two fibers of Boost.Fiber on one thread with its mutex and condition
// variable; beside it the same through its buffered channels, and two threads on one core that wake
// each other by futex.
// Between two workers, each on a core of its own, with one level of bits and with two. Limit: the
// round trip of a cache line between two threads on these cores, by plain stores and loads; beside
// it two threads that wake each other by futex.
//
// It lies between two workers where a wait lasts longer than the two microseconds in which a
// waiting task looks by itself (then its worker leaves it, or sleeps, and must be woken), and when
// the two cores are threads of one.
#include <fmt/format.h>

#include <atomic>
#include <mutex>

#include "fibers.hpp"
#include "limits/limits.hpp"
#include "rounds.hpp"
#include "task.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/topology.hpp"
#include "weft/task/scheduler.hpp"

namespace weft::bench::tasks {
namespace {

constexpr double kTurn = 0.006;

struct Game {
  double ns = 0;
  double strays = 0;
};

// A signal that comes before a task has started starts it, and is not kept: so the first one goes
// to who runs already, and the game begins when the other is about to wait.
Game task_game(task::Scheduler& scheduler) {
  const int last = scheduler.workers() - 1;
  const auto play = [last] {
    base::OwnLine<std::atomic<bool>> ready;  // release and acquire are the signal's
    base::OwnLine<std::atomic<bool>> over;
    uint64_t returned = 0;
    auto other = task::spawn(
        [&, here = task::this_task()] {
          ready->store(true, std::memory_order_relaxed);
          task::signal(here);
          for (;; ++returned) {
            task::wait();
            if (over->load(std::memory_order_relaxed)) return;
            task::signal(here);
          }
        },
        {.worker = last});
    const task::TaskRef there = other.ref();
    uint64_t hits = 0;
    do {
      task::wait();
    } while (!ready->load(std::memory_order_relaxed));
    Game game;
    game.ns = per_item_ns(1, kTurn, [&] {
      task::signal(there);
      task::wait();
      ++hits;
    });
    over->store(true, std::memory_order_relaxed);
    task::signal(there);
    other.join();
    game.strays = static_cast<double>(std::max(hits, returned) - std::min(hits, returned));
    return game;
  };
  return scheduler.run(play, {.worker = 0});
}

// Two fibers; `play(me)` is one's half of a round.
template <class Play>
double fiber_ns(Play play) {
  return on_first_core([&] {
    Fibers fibers;
    bool over = false;
    auto other = fibers.start_later([&] {
      // NOLINTNEXTLINE(bugprone-infinite-loop): the other fiber ends it.
      while (!over) play(1);
    });
    const double ns = per_item_ns(1, kTurn, [&] { play(0); });
    over = true;
    play(0);
    other.join();
    return ns;
  });
}

double fiber_condition_ns() {
  boost::fibers::mutex mutex;
  boost::fibers::condition_variable changed;
  int turn = 0;
  return fiber_ns([&](int me) {
    std::unique_lock lock(mutex);
    if (me == 0) {
      turn = 1;
      changed.notify_one();
      changed.wait(lock, [&] { return turn == 0; });
    } else {
      changed.wait(lock, [&] { return turn == 1; });
      turn = 0;
      changed.notify_one();
    }
  });
}

double fiber_channel_ns() {
  boost::fibers::buffered_channel<int> there(2);
  boost::fibers::buffered_channel<int> back(2);
  return fiber_ns([&](int me) {
    int ball = 0;
    if (me == 0) {
      (void)there.push(1);
      (void)back.pop(ball);
    } else {
      (void)there.pop(ball);
      (void)back.push(ball);
    }
  });
}

// Two threads by futex; the second on the core of this number.
double futex_ns(std::size_t core) {
  const auto& cores = base::Topology::machine().cores();
  return on_first_core([&] { return futex_round_trip_ns(cores.at(core).os_index, kTurn); });
}

double line_round_trip_ns() {
  base::OwnLine<std::atomic<uint64_t>> lines[2];
  double one_way = 0;
  turns::run_together(2, [&](unsigned me) {
    const double mine = cache_line_one_way_ns(*lines[0], *lines[1], static_cast<int>(me), 20'000);
    if (me == 0) one_way = mine;
  });
  return 2 * one_way;
}

std::size_t enter_game(Contest& contest, task::Scheduler& scheduler, const std::string& name,
                       std::vector<double>& strays) {
  return contest.enter(name, [&] {
    const Game game = task_game(scheduler);
    strays.push_back(game.strays);
    return game.ns;
  });
}

void print_game(const Contest& contest, const std::string& mode, unsigned workers,
                const std::vector<std::size_t>& who, const std::vector<double>& strays,
                const Options& options) {
  auto results = contest.results(form(mode, workers), who);
  for (Result& result : results) {
    result.extra["strays"] = *std::max_element(strays.begin(), strays.end());
  }
  print_all(results, options);
}

void measure_within(const Wanted& wanted, double seconds) {
  task::Scheduler one_level({.workers = 1});
  task::Scheduler two_levels({.workers = 1, .two_levels = true});
  Contest contest(false);
  std::vector<double> strays[2];
  const auto one = enter_game(contest, one_level, "weft", strays[0]);
  const auto two = enter_game(contest, two_levels, "weft_two_levels", strays[1]);
  std::vector<std::size_t> rivals;
  if (kSwitchesCanBeMeasured) {
    rivals = {contest.enter("boost_fiber", fiber_condition_ns),
              contest.enter("boost_fiber_channel", fiber_channel_ns)};
  }
  rivals.push_back(contest.enter("threads_futex", [] { return futex_ns(0); }));
  contest.run(seconds);
  const auto with = [&](std::size_t who) {
    std::vector<std::size_t> all{who};
    all.insert(all.end(), rivals.begin(), rivals.end());
    return all;
  };
  print_game(contest, "pingpong", 1, with(one), strays[0], wanted.options);
  print_game(contest, "pingpong_two_levels", 1, with(two), strays[1], wanted.options);
}

void measure_between(const Wanted& wanted, double seconds) {
  task::Scheduler one_level({.workers = 2});
  task::Scheduler two_levels({.workers = 2, .two_levels = true});
  Contest contest(true);
  std::vector<double> strays[2];
  const auto one = enter_game(contest, one_level, "weft", strays[0]);
  const auto line = contest.enter("cache_line_round_trip", line_round_trip_ns);
  const auto two = enter_game(contest, two_levels, "weft_two_levels", strays[1]);
  const auto futex = contest.enter("threads_futex", [] { return futex_ns(1); });
  contest.run(seconds);
  print_game(contest, "pingpong", 2, {one, line, futex}, strays[0], wanted.options);
  print_game(contest, "pingpong_two_levels", 2, {two, line, futex}, strays[1], wanted.options);
}

}  // namespace

void measure_pingpong(const Wanted& wanted) {
  const auto counts = wanted.workers_or_one_and_two();
  for (const unsigned workers : counts) {
    const double seconds = wanted.options.seconds / static_cast<double>(counts.size());
    workers == 1 ? measure_within(wanted, seconds) : measure_between(wanted, seconds);
  }
}

}  // namespace weft::bench::tasks
