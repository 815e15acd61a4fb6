// All solutions of n queens, each node of the search a detached task (000 Fig. 4.6 b).
//
// Measured: from the spawn of the first queens to the end of the last node, in ns for the whole,
// with one worker and with two, the median of nine searches one after the other; and how many times
// faster two are than one, in the same round. The board is three bit masks. A node spawns a task
// for each place of the next queen; nobody joins them: the nodes below the second queen count
// themselves in a counter of their own subtree (at most one atomic addition a node, mostly on a
// line that no other worker wants), and the last subtree to end signals the task that waits.
// Solutions and tasks are counted, and compared with what is known.
//
// Limit: with one worker the same search as a plain recursion; with two the same with one worker.
// Beside it Boost.Fiber, a detached fiber a node, started at once, on one thread; and a detached
// std::thread a node, of a smaller board (std_thread_queens, 7), times how many nodes this one has
// more: whole it would take seconds.
//
// It lies where one counter for all would have been natural: two workers would spend their time on
// its line.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <stdexcept>
#include <thread>

#include "by_workers.hpp"
#include "fibers.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/clock.hpp"

namespace weft::bench::tasks::queens {
namespace {

constexpr unsigned kBoard = 11;
constexpr unsigned kSmallestBoard = 4;
constexpr int kSearches = 9;  ///< of a turn: the first ones find workers asleep and caches cold

struct Found {
  uint64_t solutions = 0;
  uint64_t nodes = 0;  ///< tasks: all but the empty board
  friend bool operator==(const Found&, const Found&) = default;
};
constexpr Found kKnown{2680, 166925};  ///< of kBoard

/// A board with queens in its first rows: which columns, and which diagonals at the next row.
struct Board {
  uint32_t columns = 0, left = 0, right = 0;

  /// Columns where the next queen may stand.
  [[nodiscard]] uint32_t places(uint32_t all) const { return all & ~(columns | left | right); }
  [[nodiscard]] Board with(uint32_t place) const {
    return {columns | place, (left | place) << 1, (right | place) >> 1};
  }
  [[nodiscard]] int queens() const { return std::popcount(columns); }
};

template <class Each>
void for_each_place(uint32_t places, Each each) {
  for (; places != 0; places &= places - 1) each(places & -places);
}

void search_plainly(uint32_t all, const Board& board, Found& found) {
  if (board.columns == all) ++found.solutions;
  for_each_place(board.places(all), [&](uint32_t place) {
    ++found.nodes;
    search_plainly(all, board.with(place), found);
  });
}

/// Counts the nodes of a part of the tree that have not ended.
struct alignas(base::kCacheLine) Counter {
  std::atomic<int32_t> open{0};
  std::atomic<uint32_t> solutions{0};
};

struct Search {
  explicit Search(unsigned n)
      : all((1U << n) - 1), subtrees(std::size_t{n} * n), waiting(task::this_task()) {}

  /// `by` nodes more in `counter`. Whoever ends the last of a subtree ends a part of the trunk.
  void open(Counter& counter, int by) {
    // acq_rel: what the nodes counted is passed on, from one to the next, to who waits.
    if (counter.open.fetch_add(by, std::memory_order_acq_rel) + by != 0) return;
    if (&counter != &trunk) {
      open(trunk, -1);
      return;
    }
    const task::TaskRef who = waiting;
    done.store(true, std::memory_order_release);  // pairs with who waits: this may be gone now
    task::signal(who);
  }
  [[nodiscard]] uint64_t solutions() const {
    uint64_t sum = 0;
    for (const Counter& one : subtrees) sum += one.solutions.load(std::memory_order_relaxed);
    return sum;
  }

  const uint32_t all;
  Counter trunk;  ///< nodes of one queen, and subtrees
  std::vector<Counter> subtrees;
  std::atomic<uint32_t> next{0};  ///< subtree
  const task::TaskRef waiting;
  std::atomic<bool> done{false};
};

struct Node {
  Search* search;
  Counter* counter;
  Board board;

  void operator()() const {
    if (board.columns == search->all) {
      counter->solutions.fetch_add(1, std::memory_order_relaxed);  // open's order passes it on
    }
    const uint32_t places = board.places(search->all);
    // This one ends, and those come; before the first of them can end.
    if (const int more = std::popcount(places) - 1; more != 0) search->open(*counter, more);
    for_each_place(places, [this](uint32_t place) {
      Counter* child = counter;
      if (board.queens() == 1) {
        child = &search->subtrees[search->next.fetch_add(1, std::memory_order_relaxed)];
        child->open.store(1, std::memory_order_relaxed);  // the spawn passes it on
      }
      task::spawn_detached(Node{search, child, board.with(place)});
    });
  }
};

double search_by_tasks_ns(task::Scheduler& scheduler, unsigned n, const Found& expected) {
  const uint64_t before = scheduler.stats().spawned;
  uint64_t solutions = 0;
  const double ns = scheduler.run([&] {
    Search search(n);
    const uint64_t start = base::now_ns();
    search.trunk.open.store(1, std::memory_order_relaxed);
    const Node root{&search, &search.trunk, {}};
    root();
    while (!search.done.load(std::memory_order_acquire)) task::wait();
    const uint64_t end = base::now_ns();
    solutions = search.solutions();
    return static_cast<double>(end - start);
  });
  const Found found{solutions, scheduler.stats().spawned - before - 1};
  if (found != expected) {
    throw std::runtime_error(fmt::format("{} queens: {} solutions by {} tasks, not {} by {}", n,
                                         found.solutions, found.nodes, expected.solutions,
                                         expected.nodes));
  }
  return ns;
}

double task_ns(task::Scheduler& scheduler, unsigned n, const Found& expected) {
  std::vector<double> searches;
  for (int i = 0; i < kSearches; ++i) {
    searches.push_back(search_by_tasks_ns(scheduler, n, expected));
  }
  return summarize(searches).median;
}

double plain_ns(unsigned n) {
  return on_first_core([n] {
    return per_item_ns(1, 0.005, [n] {
      Found found;
      search_plainly((1U << n) - 1, {}, found);
      asm volatile("" : : "r"(found.solutions));
    });
  });
}

void fiber_search(Fibers& fibers, uint32_t all, const Board& board, Found& open) {
  if (board.columns == all) ++open.solutions;
  for_each_place(board.places(all), [&](uint32_t place) {
    ++open.nodes;
    fibers
        .start_at_once([&fibers, &open, all, next = board.with(place)] {
          fiber_search(fibers, all, next, open);
          --open.nodes;
        })
        .detach();
  });
}

double fiber_ns(unsigned n) {
  return on_first_core([n] {
    Fibers fibers;
    Found open;
    const uint64_t start = base::now_ns();
    fiber_search(fibers, (1U << n) - 1, {}, open);
    while (open.nodes != 0) boost::this_fiber::yield();
    return static_cast<double>(base::now_ns() - start);
  });
}

constexpr unsigned kThreadBoard = 7;

struct OpenThreads {
  std::atomic<uint64_t> open{0};
  std::atomic<uint64_t> nodes{0};
};

void thread_search(OpenThreads& search, uint32_t all, const Board& board) {
  for_each_place(board.places(all), [&](uint32_t place) {
    search.open.fetch_add(1, std::memory_order_relaxed);
    std::thread([&search, all, next = board.with(place)] {
      thread_search(search, all, next);
      search.nodes.fetch_add(1, std::memory_order_relaxed);
      search.open.fetch_sub(1, std::memory_order_release);
    }).detach();
  });
}

double thread_ns(unsigned n, const Found& expected) {
  const unsigned board = std::min(n, kThreadBoard);
  OpenThreads search;
  const uint64_t start = base::now_ns();
  thread_search(search, (1U << board) - 1, {});
  while (search.open.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  const uint64_t end = base::now_ns();
  return static_cast<double>(end - start) / static_cast<double>(search.nodes) *
         static_cast<double>(expected.nodes);
}

}  // namespace

void measure(const Wanted& wanted) {
  unsigned n = kBoard;
  Found expected;
  for (;; --n) {
    expected = {};
    search_plainly((1U << n) - 1, {}, expected);
    if (wanted.tasks == 0 || n == kSmallestBoard || expected.nodes <= wanted.tasks) break;
  }
  if (n == kBoard && expected != kKnown) throw std::runtime_error("the recursion miscounts");
  ByWorkers workers(wanted, [n, &expected](task::Scheduler& scheduler) {
    return task_ns(scheduler, n, expected);
  });
  std::vector rivals{workers.contest().enter("plain_recursion", [n] { return plain_ns(n); })};
  if (kSwitchesCanBeMeasured) {
    rivals.push_back(workers.contest().enter("boost_fiber", [n] { return fiber_ns(n); }));
  }
  rivals.push_back(
      workers.contest().enter("std_thread", [n, &expected] { return thread_ns(n, expected); }));
  workers.contest().run(wanted.options.seconds);
  workers.print(fmt::format("queens_{}", n), rivals,
                {{"tasks", expected.nodes},
                 {"solutions", expected.solutions},
                 {"std_thread_queens", std::min(n, kThreadBoard)}});
}

}  // namespace weft::bench::tasks::queens
