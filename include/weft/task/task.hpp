// Tasks: functions that run beside each other on few threads, and wait at the price of a switch.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include "weft/base/clock.hpp"
#include "weft/base/deadline.hpp"
#include "weft/base/error.hpp"
#include "weft/task/record.hpp"

namespace weft::task {

class Scheduler;

/// A task's home: the spawner's own worker (of a spawner that is no task, each in turn), or the one
/// of that number (0 ≤ worker < Scheduler::workers()). Any worker without work may start it.
inline constexpr int kAnywhere = -1;

/// How to spawn. The name, which is not copied, appears in dumps and messages: a dump that is under
/// way may read it just as the task ends, so best it stays. The stack: so much of it at least; 0:
/// as the scheduler's options say, or half of that for a task that runs in place of who joins it,
/// on what is left of that one's.
struct SpawnOptions {
  const char* name = nullptr;
  int worker = kAnywhere;  ///< its home
  /// 0: configuration `task.stack_bytes`. A frame that is larger than what is left, a 64-KiB buffer
  /// say, is told as an overflow only if its code was compiled with -fstack-clash-protection, which
  /// weft's CMake package and weft.pc ask for; else it may reach over the guard.
  std::size_t stack_bytes = 0;
};

/// Names a task, to signal it. Freely copied; outlives its task: a signal to a task that has ended
/// does nothing (debug builds log each), though it may wake a later one once in vain.
class TaskRef {
 public:
  TaskRef() = default;
  explicit TaskRef(detail::Record& record) noexcept
      : record_(&record),
        generation_(detail::Record::task_of(record.generation.load(std::memory_order_relaxed))) {}
  [[nodiscard]] bool valid() const noexcept { return record_ != nullptr; }
  [[nodiscard]] detail::Record* record() const noexcept { return record_; }
  [[nodiscard]] uint32_t generation() const noexcept { return generation_; }
  friend bool operator==(const TaskRef&, const TaskRef&) = default;

 private:
  detail::Record* record_ = nullptr;
  uint32_t generation_ = 0;
};

namespace detail {
/// A record whose function is still to be made. Throws Error(no_memory), Error(bad_argument).
Record& begin_spawn(Scheduler* scheduler, const SpawnOptions* options);
/// The record is whole: it may run.
void launch(Record& record) noexcept;
/// Gives back what begin_spawn gave: making the function threw.
void abandon(Record& record) noexcept;
/// Returns when it has ended. Suspends a task, or its thread.
void join(Record& record) noexcept;
/// After join: the record is free again.
void release(Record& record) noexcept;
/// Nobody will join it.
void detach(Record& record) noexcept;
void report_lost(Record& record) noexcept;
/// The calling task's local values end before it does.
void end_own_locals() noexcept;

template <class F>
Record& spawn(Scheduler* scheduler, F&& function, const SpawnOptions* options, bool detached) {
  using Function = std::decay_t<F>;
  static_assert(!std::is_reference_v<std::invoke_result_t<Function&>>,
                "a task returns a value: wrap a reference in std::reference_wrapper");
  Record& record = begin_spawn(scheduler, options);
  try {
    Boxed<Function>::make(record, std::forward<F>(function));
  } catch (...) {
    abandon(record);
    throw;
  }
  record.run = run_boxed<Function>;
  record.detached = detached;
  launch(record);
  return record;
}
}  // namespace detail

/// A task that somebody will join. Move-only. Its end joins, if nobody did: what the task threw is
/// then reported as a warning.
template <class R>
class [[nodiscard]] Handle {
 public:
  Handle() = default;
  explicit Handle(detail::Record& record) noexcept : record_(&record) {}
  Handle(Handle&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    Handle old(std::move(*this));
    record_ = std::exchange(other.record_, nullptr);
    return *this;
  }
  ~Handle() {
    if (record_ == nullptr) return;
    detail::join(*record_);
    if (record_->error) {
      detail::report_lost(*record_);
    } else if constexpr (!std::is_void_v<R>) {
      detail::Boxed<R>::destroy(*record_);
    }
    detail::release(*record_);
  }

  [[nodiscard]] bool joinable() const noexcept { return record_ != nullptr; }
  /// True once `join` would not wait.
  [[nodiscard]] bool has_ended() const noexcept {
    return record_ != nullptr && record_->has_ended();
  }
  /// Waits until the task has ended; its result, or what it threw. Once. Suspends a task, or its
  /// thread. A task that has not started is run in place, where what is left of the stack is
  /// enough.
  R join() {
    WEFT_CHECK(record_ != nullptr, "a task is joined once");
    detail::Record& record = *std::exchange(record_, nullptr);
    detail::join(record);
    struct Release {
      detail::Record& record;
      ~Release() { detail::release(record); }
    } release{record};
    if (record.error) [[unlikely]]
      std::rethrow_exception(std::exchange(record.error, nullptr));
    if constexpr (!std::is_void_v<R>) {
      struct Destroy {
        detail::Record& record;
        ~Destroy() { detail::Boxed<R>::destroy(record); }
      } destroy{record};
      return std::move(detail::Boxed<R>::get(record));
    }
  }
  /// Lets it run on alone. What it throws ends the program, and what it returns is dropped.
  void detach() noexcept requires std::is_void_v<R> {
    if (record_ != nullptr) detail::detach(*std::exchange(record_, nullptr));
  }
  [[nodiscard]] TaskRef ref() const noexcept {
    return record_ != nullptr ? TaskRef(*record_) : TaskRef();
  }

 private:
  detail::Record* record_ = nullptr;
};

/// Runs `function()` beside the caller, a task itself; on the caller's worker unless told
/// otherwise. Functions up to 64 bytes take no memory from the heap. Error(no_memory): no record or
/// stack left; nothing was spawned. Error(not_initialized): the caller is no task (see
/// Scheduler::spawn). How a task rounds is its own; what floating-point exceptions were raised is
/// not (fetestexcept may tell of other tasks', and miss its own).
template <class F>
auto spawn(F&& function) -> Handle<std::invoke_result_t<std::decay_t<F>&>> {
  return Handle<std::invoke_result_t<std::decay_t<F>&>>(
      detail::spawn(nullptr, std::forward<F>(function), nullptr, false));
}
template <class F>
auto spawn(F&& function, const SpawnOptions& options)
    -> Handle<std::invoke_result_t<std::decay_t<F>&>> {
  return Handle<std::invoke_result_t<std::decay_t<F>&>>(
      detail::spawn(nullptr, std::forward<F>(function), &options, false));
}

/// The same for a function that returns nothing and nobody joins. What it throws ends the program.
template <class F>
void spawn_detached(F&& function) {
  static_assert(std::is_void_v<std::invoke_result_t<std::decay_t<F>&>>);
  detail::spawn(nullptr, std::forward<F>(function), nullptr, true);
}
template <class F>
void spawn_detached(F&& function, const SpawnOptions& options) {
  static_assert(std::is_void_v<std::invoke_result_t<std::decay_t<F>&>>);
  detail::spawn(nullptr, std::forward<F>(function), &options, true);
}

/// The calling task; not valid() for a plain thread.
TaskRef this_task() noexcept;
/// Of the calling task, or nullptr.
const char* this_task_name() noexcept;

/// The worker that runs the calling task now (it may be another after any wait); -1 for a plain
/// thread.
int this_worker() noexcept;

/// Lets every other runnable task of the worker run first; sched_yield for a plain thread. A signal
/// that comes while a task yields may be lost to a later wait (000 §4.2.2): loop on a condition.
void yield() noexcept;

/// Suspends the calling task until it is signalled. A signal that came before is kept (one, however
/// many came), also from before the task began. May return without one, so:
/// `while (!condition) wait();`. A plain thread waits, too, for what signals its parker.
void wait() noexcept;
/// The same, or until `now_ns()` passes `deadline_ns`: then false.
bool wait_until(uint64_t deadline_ns) noexcept;
/// Makes the task runnable: one atomic OR, or none if both are at home on the caller's worker.
/// What came before it happens before what the task does after its wait. Any thread.
void signal(const TaskRef& task) noexcept;

void sleep_until(uint64_t deadline_ns) noexcept;
template <class Clock, class Duration>
void sleep_until(const std::chrono::time_point<Clock, Duration>& time) noexcept {
  sleep_until(deadline_at(time));
}
template <class Rep, class Period>
void sleep_for(const std::chrono::duration<Rep, Period>& time) noexcept {
  sleep_until(deadline_after(time));
}

}  // namespace weft::task
