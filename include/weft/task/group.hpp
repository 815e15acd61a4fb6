// A group: several children that are waited for together.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "weft/base/parker.hpp"
#include "weft/task/scheduler.hpp"
#include "weft/task/task.hpp"

namespace weft::task {

/// Purpose: children without a handle each. A child costs its task and two atomic additions, one
/// at its start and one at its end, wherever that is; the last of them wakes who waits, once.
///
/// Owner and lifetime: mostly a local variable of who waits. Its end waits; what a child threw and
/// no `wait` brought is then reported as a warning. A child that ends touches the group no more
/// once who waits can see it.
/// Who may call: `wait` one context at a time. `spawn` any; but while somebody waits, only the
/// group's own children, whose own end is still to come. A group may be used again after a wait.
/// Progress: `spawn` and a child's end never wait. `wait` suspends a task, or its thread.
/// Invariants
///  1. state_ is kChild for each child that has not ended, plus kFailed once one threw, plus
///     kWaiting while waiter_ is to be woken.
///  2. Who takes the last kChild away while kWaiting stands, and nobody else, reads waiter_, takes
///     kWaiting away, and wakes.
///  3. Who adds kFailed, and nobody else, writes error_, before it takes its own kChild away.
class Group {
 public:
  /// Children are of the scheduler of whoever spawns them: a task.
  Group() = default;
  /// Children are of that scheduler; plain threads may spawn, too.
  explicit Group(Scheduler& scheduler) noexcept : scheduler_(&scheduler) {}
  ~Group() {
    wait_for_all();
    if (error_) [[unlikely]]
      report_lost();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// Runs `function()` as a task. What it returns is dropped. Functions up to 48 bytes take no
  /// memory from the heap. Errors: as task::spawn; then the group is as before.
  template <class F>
  void spawn(F&& function) {
    add_child(std::forward<F>(function), nullptr);
  }
  template <class F>
  void spawn(F&& function, const SpawnOptions& options) {
    add_child(std::forward<F>(function), &options);
  }

  /// Returns when all children have ended, and whatever they spawned into the group; throws what
  /// the first to throw threw.
  void wait() {
    wait_for_all();
    // relaxed: wait_for_all acquired.
    if (state_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      throw_error();
  }

 private:
  static constexpr uint64_t kWaiting = 1;
  static constexpr uint64_t kFailed = 2;
  static constexpr uint64_t kChild = 4;

  /// The function, and its end.
  template <class F>
  struct Child {
    Group* group;
    std::optional<F> function;

    void operator()() noexcept {
      try {
        static_cast<void>((*function)());
      } catch (...) {
        group->keep_error();
      }
      // What it holds, and its local values, are gone before who waits goes on.
      function.reset();
      detail::end_own_locals();
      group->end_child();
    }
  };

  template <class F>
  void add_child(F&& function, const SpawnOptions* options) {
    using Function = std::decay_t<F>;
    // relaxed: the launch of the child publishes it.
    state_.fetch_add(kChild, std::memory_order_relaxed);
    try {
      detail::spawn(
          scheduler_,
          Child<Function>{this, std::optional<Function>(std::in_place, std::forward<F>(function))},
          options, true);
    } catch (...) {
      state_.fetch_sub(kChild, std::memory_order_relaxed);  // not the last while somebody waits
      throw;
    }
  }
  void end_child() noexcept {
    // acq_rel: release what the child did, to wait_for_all; acquire what all others did, so that
    // it is passed on, and waiter_.
    const uint64_t before = state_.fetch_sub(kChild, std::memory_order_acq_rel);
    if ((before & ~kFailed) == (kChild | kWaiting)) wake();
  }
  void wait_for_all() noexcept {
    // acquire: pairs with end_child's release.
    if (state_.load(std::memory_order_acquire) >= kChild) suspend();
  }
  void keep_error() noexcept;
  void wake() noexcept;
  void suspend() noexcept;
  [[noreturn]] void throw_error();
  void report_lost() noexcept;

  std::atomic<uint64_t> state_{0};
  Scheduler* scheduler_ = nullptr;
  base::Parker* waiter_ = nullptr;
  std::exception_ptr error_;
};

}  // namespace weft::task
