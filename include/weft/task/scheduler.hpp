// The scheduler: worker threads, and a way in for plain threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "weft/task/task.hpp"

namespace weft::task {

/// Which runnable task of a worker is next. 000 §4.2.3.
enum class Order : uint8_t {
  /// The newest: least memory; what a joining parent waits for. One that waits and goes on again
  /// and again leaves turns to the older.
  depth_first,
  breadth_first,  ///< round about, oldest first
};

/// How much a thief takes from the lowest word of its victim that has anything.
enum class Steal : uint8_t { one, half_word, word };

/// Zero or empty: what the configuration says (`WEFT_TASK_…`).
struct Options {
  int workers = 0;              ///< kernel threads; by default one for each core it may use
  bool bind = true;             ///< each to a core, as task.bind says; task.bind false wins
  std::size_t stack_bytes = 0;  ///< of a task that does not say, guard included
  Order order = Order::depth_first;
  Steal steal = Steal::word;
  /// A task that yields on a thief's thread stays there. (By default it goes home.)
  bool migrate = false;
  /// Indices start at 512, so that signals take both levels: for measuring.
  bool two_levels = false;
};

/// What it did so far; sums over workers, not of one instant.
struct Stats {
  uint64_t spawned = 0;
  uint64_t ended = 0;
  uint64_t steals = 0;  ///< visits that brought something
  uint64_t stolen = 0;  ///< tasks
  uint64_t moved = 0;   ///< tasks that made the worker which ran them their home (Options::migrate)
  uint64_t sleeps = 0;
  uint64_t stacks = 0;  ///< made
};

/// Purpose: runs tasks on a set of workers.
/// Owner and lifetime: whoever makes it. Its end waits until every task has ended; if for
/// `task.patience` (10 s) none can run though some are left, it says which (name, state, where they
/// wait) and leaves them, stacks and all: who joins one gets Error(not_initialized), and what they
/// wait for may be told yet, in vain.
/// Who may call: any thread; `run` and joins of handles suspend a task and block a thread. Several
/// may exist side by side.
/// Errors: Error(bad_argument, bad_config, no_memory) when it is made.
/// fork: the child has no workers. A thread of it may end its copy of a scheduler and make another;
/// spawn and run there are Error(not_initialized). A task that forks is alone in the child, which
/// is to call exec or _exit.
class Scheduler {
 public:
  explicit Scheduler(const Options& options = {});
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// As the functions of the same name in task.hpp; from a plain thread the tasks' homes go round
  /// the workers.
  template <class F>
  auto spawn(F&& function, const SpawnOptions& options = {})
      -> Handle<std::invoke_result_t<std::decay_t<F>&>> {
    return Handle<std::invoke_result_t<std::decay_t<F>&>>(
        detail::spawn(this, std::forward<F>(function), &options, false));
  }
  template <class F>
  void spawn_detached(F&& function, const SpawnOptions& options = {}) {
    static_assert(std::is_void_v<std::invoke_result_t<std::decay_t<F>&>>);
    detail::spawn(this, std::forward<F>(function), &options, true);
  }
  /// Runs `function()` as a task and waits for it.
  template <class F>
  auto run(F&& function, const SpawnOptions& options = {}) {
    return spawn(std::forward<F>(function), options).join();
  }

  [[nodiscard]] int workers() const noexcept;
  [[nodiscard]] Stats stats() const noexcept;
  /// The tasks that live, a line each: home and index, name, state, and in which calls it waits (on
  /// x86-64, of code that keeps frame pointers). Of more than 1,000 the first, and how many wait
  /// where. No task of a worker is chosen while those at home there are looked at: a tenth of
  /// a microsecond each, or more. Takes memory, and reads the program's symbols from its file.
  [[nodiscard]] std::string dump() const;

  class Impl;
  [[nodiscard]] Impl& impl() noexcept { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::task
