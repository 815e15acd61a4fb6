// Tasks that signal each other in a ring and wait, within a worker and between two (000 Fig. 4.4):
// two, or as many as --tasks says, of which neighbours are on different workers.
//
// Measured: a round of two: one task signals the next and waits, which has waited, signals the next
// and waits again: two signals and two waits, in ns; the median of laps of about 2000. All run the
// same function. Nothing else passes between them: a wait that ended without a signal would be one
// round too many, and is counted (`strays`, of all rounds of a turn; 0 is expected).
//
// Within a worker. Limit: as many fibers of Boost.Fiber on one thread with its mutex and condition
// variables; beside it the same through its buffered channels, and, of two, two threads on one core
// that wake each other by futex.
// Between two workers, each on a core of its own, with one level of bits and with two. Limit: the
// round trip of a cache line between two threads on these cores, by plain stores and loads; beside
// it two threads that wake each other by futex, and Boost.Fiber as within a worker, its fibers
// dealt to two threads.
//
// It lies between two workers where a wait lasts longer than the two microseconds in which a
// waiting task looks by itself (then its worker leaves it, or sleeps, and must be woken), as it
// does in a ring of many; and when the two cores are threads of one.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <vector>

#include "fibers.hpp"
#include "limits/limits.hpp"
#include "rounds.hpp"
#include "task.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/topology.hpp"
#include "weft/task/scheduler.hpp"

namespace weft::bench::tasks::pingpong {
namespace {

constexpr double kTurn = 0.006;

struct Game {
  double ns = 0;
  double strays = 0;
};

struct Player {
  task::TaskRef next;
  const std::atomic<bool>& over;
  uint64_t rounds;        ///< at once
  uint64_t returned = 0;  ///< from waits, before it was over
};

/// One function for all players, as for the tasks of most programs, and not in line: the processor
/// foretells where a wait returns to from where the last one to wait came from.
[[gnu::noinline]] void volley(Player& me) {
  for (uint64_t round = 0; round < me.rounds; ++round) {
    task::signal(me.next);
    task::wait();
    if (me.over.load(std::memory_order_relaxed)) break;
    ++me.returned;
  }
}

/// It begins once all others run: a signal that comes before may end a wait more than it should.
Game task_game(task::Scheduler& scheduler, uint64_t crowd) {
  const auto workers = static_cast<uint64_t>(scheduler.workers());
  const auto play = [crowd, workers] {
    base::OwnLine<std::atomic<uint64_t>> missing(std::in_place, crowd - 1);
    base::OwnLine<std::atomic<bool>> over;  // release and acquire are the signals', here and above
    std::vector<uint64_t> returned(crowd);
    std::vector<task::Handle<void>> others(crowd - 1);
    task::TaskRef next = task::this_task();
    for (uint64_t i = crowd - 1; i != 0; --i) {  // each knows the one after it
      others[i - 1] = task::spawn(
          [&, &mine = returned[i], next, here = task::this_task()] {
            if (missing->fetch_sub(1, std::memory_order_relaxed) == 1) task::signal(here);
            task::wait();
            Player me{next, *over, ~uint64_t{0}, 1};
            volley(me);
            task::signal(next);
            mine = me.returned;
          },
          {.worker = static_cast<int>(i % workers)});
      next = others[i - 1].ref();
    }
    do {
      task::wait();
    } while (missing->load(std::memory_order_relaxed) != 0);
    Player first{next, *over, std::max<uint64_t>(1000 / crowd, 1)};
    Game game;
    game.ns = 2 * per_item_ns(crowd * first.rounds, kTurn, [&] { volley(first); });
    over->store(true, std::memory_order_relaxed);
    task::signal(next);
    for (auto& other : others) other.join();
    for (uint64_t i = 1; i < crowd; ++i) {
      const uint64_t strays =
          std::max(first.returned, returned[i]) - std::min(first.returned, returned[i]);
      game.strays = std::max(game.strays, static_cast<double>(strays));
    }
    return game;
  };
  return scheduler.run(play, {.worker = 0});
}

// Fibers in a ring, dealt in turn to one thread or two, each on a core of its own; `play(me)` is
// one's part of a round. 0 begins it, and says which is the last: that it is over others might see
// before that one, and leave it without an answer.
template <class Play>
double fiber_ns(unsigned threads, uint64_t crowd, Play play) {
  std::atomic<uint64_t> rounds{~uint64_t{0}};
  double ns = 0;
  turns::run_together(threads, [&](unsigned thread) {
    Fibers fibers;
    std::vector<Fibers::Fiber> others;
    for (uint64_t me = thread; me < crowd; me += threads) {
      if (me == 0) continue;  // this thread's own
      others.push_back(fibers.start_later([&, me] {
        for (uint64_t played = 0; played != rounds.load(std::memory_order_relaxed); ++played)
          play(me);
      }));
    }
    if (thread == 0) {
      uint64_t played = 0;
      ns = 2 * per_item_ns(crowd, kTurn, [&] {
             play(0);
             ++played;
           });
      rounds.store(played + 1, std::memory_order_relaxed);
      play(0);
    }
    for (auto& other : others) other.join();
  });
  return ns;
}

double fiber_condition_ns(unsigned threads, uint64_t crowd) {
  boost::fibers::mutex mutex;
  std::vector<boost::fibers::condition_variable> changed(crowd);
  uint64_t turn = 0;
  const auto pass_on = [&](uint64_t me) {
    turn = (me + 1) % crowd;
    changed[turn].notify_one();
  };
  return fiber_ns(threads, crowd, [&](uint64_t me) {
    std::unique_lock lock(mutex);
    if (me == 0) pass_on(me);
    changed[me].wait(lock, [&] { return turn == me; });
    if (me != 0) pass_on(me);
  });
}

double fiber_channel_ns(unsigned threads, uint64_t crowd) {
  std::deque<boost::fibers::buffered_channel<int>> to;
  for (uint64_t i = 0; i < crowd; ++i) to.emplace_back(2);
  return fiber_ns(threads, crowd, [&](uint64_t me) {
    int ball = 0;
    if (me == 0) (void)to[1].push(1);
    (void)to[me].pop(ball);
    if (me != 0) (void)to[(me + 1) % crowd].push(ball);
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

std::size_t enter_game(Contest& contest, task::Scheduler& scheduler, uint64_t crowd,
                       const std::string& name, std::vector<double>& strays) {
  return contest.enter(name, [&, crowd] {
    const Game game = task_game(scheduler, crowd);
    strays.push_back(game.strays);
    return game.ns;
  });
}

std::vector<std::size_t> enter_fibers(Contest& contest, unsigned threads, uint64_t crowd) {
  return {contest.enter("boost_fiber", [=] { return fiber_condition_ns(threads, crowd); }),
          contest.enter("boost_fiber_channel", [=] { return fiber_channel_ns(threads, crowd); })};
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
  const uint64_t crowd = wanted.tasks_or_two();
  task::Scheduler one_level({.workers = 1});
  task::Scheduler two_levels({.workers = 1, .two_levels = true});
  Contest contest(false);
  std::vector<double> strays[2];
  const auto one = enter_game(contest, one_level, crowd, "weft", strays[0]);
  const auto two = enter_game(contest, two_levels, crowd, "weft_two_levels", strays[1]);
  std::vector<std::size_t> rivals;
  if (kSwitchesCanBeMeasured) {
    rivals = enter_fibers(contest, 1, crowd);
  }
  std::vector<std::size_t> threads;
  if (crowd == 2) threads.push_back(contest.enter("threads_futex", [] { return futex_ns(0); }));
  contest.run(seconds);
  rivals = contest.by_median(rivals);
  rivals.insert(rivals.end(), threads.begin(), threads.end());
  const auto with = [&](std::size_t who) {
    std::vector<std::size_t> all{who};
    all.insert(all.end(), rivals.begin(), rivals.end());
    return all;
  };
  print_game(contest, wanted.named("pingpong"), 1, with(one), strays[0], wanted.options);
  print_game(contest, wanted.named("pingpong_two_levels"), 1, with(two), strays[1], wanted.options);
}

void measure_between(const Wanted& wanted, double seconds) {
  const uint64_t crowd = wanted.tasks_or_two();
  task::Scheduler one_level({.workers = 2});
  task::Scheduler two_levels({.workers = 2, .two_levels = true});
  Contest contest(true);
  std::vector<double> strays[2];
  const auto one = enter_game(contest, one_level, crowd, "weft", strays[0]);
  const auto line = contest.enter("cache_line_round_trip", line_round_trip_ns);
  const auto two = enter_game(contest, two_levels, crowd, "weft_two_levels", strays[1]);
  const auto futex = contest.enter("threads_futex", [] { return futex_ns(1); });
  std::vector<std::size_t> fibers;
  if (kSwitchesCanBeMeasured) fibers = enter_fibers(contest, 2, crowd);
  contest.run(seconds);
  const auto beside = [&](std::size_t who) {
    std::vector<std::size_t> all{who, line, futex};
    all.insert(all.end(), fibers.begin(), fibers.end());
    return all;
  };
  print_game(contest, wanted.named("pingpong"), 2, beside(one), strays[0], wanted.options);
  print_game(contest, wanted.named("pingpong_two_levels"), 2, beside(two), strays[1],
             wanted.options);
}

}  // namespace

void measure(const Wanted& wanted) {
  const auto counts = wanted.workers_or_one_and_two();
  for (const unsigned workers : counts) {
    const double seconds = wanted.options.seconds / static_cast<double>(counts.size());
    workers == 1 ? measure_within(wanted, seconds) : measure_between(wanted, seconds);
  }
}

}  // namespace weft::bench::tasks::pingpong
