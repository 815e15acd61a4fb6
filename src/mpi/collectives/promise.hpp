// The coroutine behind a Schedule: who goes on with it, and when.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <string>

#include "mpi/collectives/frames.hpp"
#include "mpi/collectives/posts.hpp"
#include "mpi/schedule.hpp"
#include "weft/comm/runtime.hpp"

namespace weft::mpi {

/// Goes on with a launched schedule when the transfers of a step have ended.
///
/// Owner and lifetime: one per launch, made there, ended by whoever brings the schedule to its end.
/// Who may call: `launch` and `suspend` by whoever runs the coroutine, one at a time; `on_end` by
/// anybody. Never blocks.
/// Invariants (docs/design/mpi-schedules.md):
///  1. `left_` is the number of transfers of the step that have not been told, plus one for whoever
///     is still setting waiters. Who brings it to 0 owns the coroutine.
///  2. While it is not 0 the coroutine is suspended, or is being suspended, and its frame lives.
class Driver final : public Waiter {
 public:
  Driver(Schedule&& schedule, Request& request, Comm& comm, std::string& why) noexcept
      : request_(request), comm_(comm), why_(why), schedule_(std::move(schedule)) {
    // relaxed: who waits for its end is told of it by the program.
    comm_.launched.fetch_add(1, std::memory_order_relaxed);
  }
  /// Runs the coroutine until it waits for something, or is over.
  void go(std::coroutine_handle<> at) noexcept;
  /// The coroutine `at` waits for a step. False: all of it has ended, go on.
  bool suspend(Posts& step, std::coroutine_handle<> at) noexcept;
  /// The outermost coroutine has come to its end, in this thread, within `go`.
  void note_over() noexcept { *over_ = true; }
  void on_end(Transfer& transfer) noexcept override;

  static void* operator new(std::size_t bytes) { return allocate_frame(bytes); }
  static void operator delete(void* at, std::size_t bytes) noexcept { release_frame(at, bytes); }

 private:
  struct Resume final : Deferred {
    explicit Resume(Driver& of) noexcept : driver(of) {}
    void run() noexcept override { driver.go(driver.at_); }
    Driver& driver;
  };
  void finish() noexcept;

  std::atomic<uint32_t> left_{0};
  std::coroutine_handle<> at_;  ///< the innermost coroutine
  bool* over_ = nullptr;        ///< of the `go` that runs now
  Request& request_;
  Comm& comm_;
  std::string& why_;  ///< takes the sentence of a failure
  Schedule schedule_;
  Resume resume_{*this};
};

/// A schedule as a part of another one, which goes on with its messages although messages of the
/// part failed, and fails at its own end.
struct SubSchedule {
  const Schedule& schedule;
};
[[nodiscard]] inline SubSchedule part(const Schedule& schedule) noexcept { return {schedule}; }

struct Schedule::promise_type {
  Driver* driver = nullptr;        ///< nullptr: in `run`, which waits in place
  std::coroutine_handle<> caller;  ///< the schedule that awaits this one
  std::exception_ptr failure;
  Trouble own_trouble;              ///< the outermost's is that of all of its parts
  Trouble* trouble = &own_trouble;  ///< what the whole has met so far

  /// Nothing has failed: all that was received is what was meant.
  [[nodiscard]] bool is_well() const noexcept { return trouble->error == MPI_SUCCESS; }
  /// How it ended. Throws.
  void report() const {
    if (failure) [[unlikely]]
      std::rethrow_exception(failure);
    if (!is_well()) [[unlikely]]
      fail_of(*trouble);
  }

  /// Waits for a step, in place or by suspending.
  struct StepWait {
    Posts& step;
    promise_type& promise;
    [[nodiscard]] bool await_ready() noexcept {
      if (promise.driver != nullptr) return step.ended();
      step.wait();
      return true;
    }
    [[nodiscard]] bool await_suspend(std::coroutine_handle<> at) noexcept {
      return promise.driver->suspend(step, at);
    }
    bool await_resume() noexcept {
      step.finish(*promise.trouble);
      return promise.is_well();
    }
  };
  /// Runs another schedule to its end.
  struct ChildWait {
    Handle child;
    promise_type& promise;
    bool throws;
    [[nodiscard]] bool await_ready() const noexcept { return !child; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> at) noexcept {
      child.promise().driver = promise.driver;
      child.promise().caller = at;
      child.promise().trouble = promise.trouble;
      return child;
    }
    bool await_resume() const {
      if (child && (throws || child.promise().failure)) child.promise().report();
      return promise.is_well();
    }
  };
  struct Final {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(Handle at) const noexcept {
      promise_type& promise = at.promise();
      if (promise.caller) return promise.caller;
      if (promise.driver != nullptr) promise.driver->note_over();
      return std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };

  /// Waits for nothing.
  struct Noted : std::suspend_never {
    explicit Noted(const promise_type& of) noexcept : promise(of) {}
    bool await_resume() const noexcept { return promise.is_well(); }
    const promise_type& promise;
  };
  /// Notes what was met elsewhere.
  Noted await_transform(const Trouble& met) noexcept {
    if (met.error != MPI_SUCCESS) [[unlikely]]
      trouble->note(met.error, met.process);
    return Noted(*this);
  }

  Schedule get_return_object() noexcept { return Schedule(Handle::from_promise(*this)); }
  std::suspend_always initial_suspend() const noexcept { return {}; }
  Final final_suspend() const noexcept { return {}; }
  void return_void() const noexcept {}
  void unhandled_exception() noexcept { failure = std::current_exception(); }

  // Each answers whether the whole is well.
  StepWait await_transform(Posts& step) noexcept { return {step, *this}; }
  ChildWait await_transform(const Schedule& child) noexcept {
    return {child.handle(), *this, true};
  }
  ChildWait await_transform(const SubSchedule& child) noexcept {
    return {child.schedule.handle(), *this, false};
  }

  static void* operator new(std::size_t bytes) { return allocate_frame(bytes); }
  static void operator delete(void* at, std::size_t bytes) noexcept { release_frame(at, bytes); }
};

/// Runs it like `run`, as one of several that a blocking call consists of and that have `met` that
/// before: it goes on with its messages, and what it meets is added. Throws what is no message's.
void run_part(const Schedule& schedule, Trouble& met);

/// A schedule of nothing: it is over before it begins.
[[nodiscard]] inline Schedule nothing() noexcept { return Schedule(nullptr); }

}  // namespace weft::mpi
