// Coroutines on the scheduler, for those who prefer `co_await` to a function that waits.
//
//   Coroutine<int> sum(Future<int> a, Future<int> b) {
//     co_return co_await a + co_await b;
//   }
//   Future<int> result = sum(std::move(a), std::move(b)).start(scheduler);
#pragma once

#include <concepts>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "weft/base/error.hpp"
#include "weft/task/future.hpp"
#include "weft/task/scheduler.hpp"
#include "weft/task/wait_list.hpp"

namespace weft::task {

template <class T>
class Coroutine;

namespace detail {

/// Continues `coroutine` in a detached task of its own; in the caller's place, if there is no
/// memory for a task.
void resume_in_task(Scheduler& scheduler, std::coroutine_handle<> coroutine) noexcept;

/// What is unparked for a suspended coroutine: it resumes in a task. Lives in its frame.
class Continuation final : public base::Parker {
 public:
  void park() noexcept override;
  bool park_until(uint64_t deadline_ns) noexcept override;
  /// Once. The frame, and this with it, may be gone when it returns.
  void unpark() noexcept override { resume_in_task(*scheduler_, coroutine_); }
  void set(Scheduler& scheduler, std::coroutine_handle<> coroutine) noexcept {
    scheduler_ = &scheduler;
    coroutine_ = coroutine;
  }

 private:
  Scheduler* scheduler_ = nullptr;
  std::coroutine_handle<> coroutine_;
};

class CoroutineContext;

/// Suspends a coroutine until `awaited` has come.
class Awaiter {
 public:
  explicit Awaiter(Awaited& awaited) noexcept : awaited_(&awaited) {}
  Awaiter(const Awaiter&) = delete;
  Awaiter& operator=(const Awaiter&) = delete;

  [[nodiscard]] bool await_ready() noexcept {
    return awaited_->attempt(nullptr) != Attempt::not_now;
  }
  /// Once it is enlisted it may be resumed, and end, elsewhere: nothing of it is touched then.
  template <std::derived_from<CoroutineContext> P>
  bool await_suspend(std::coroutine_handle<P> coroutine) noexcept {
    continuation_.set(coroutine.promise().scheduler(), coroutine);
    return awaited_->attempt(&waiter_) == Attempt::not_now;
  }
  void await_resume() const noexcept {}

 private:
  Awaited* awaited_;
  Continuation continuation_;
  WaitEntry waiter_{continuation_};
};

/// The same for what another room tells of.
class ElsewhereAwaiter {
 public:
  explicit ElsewhereAwaiter(base::Awaited& told) noexcept : awaited_(told) {}
  [[nodiscard]] bool await_ready() noexcept { return awaiter_.await_ready(); }
  template <std::derived_from<CoroutineContext> P>
  bool await_suspend(std::coroutine_handle<P> coroutine) noexcept {
    return awaiter_.await_suspend(coroutine);
  }
  void await_resume() const noexcept {}

 private:
  AwaitedElsewhere awaited_;
  Awaiter awaiter_{awaited_};
};

/// What all coroutines know, whatever they return.
class CoroutineContext {
 public:
  [[nodiscard]] Scheduler& scheduler() const noexcept { return *scheduler_; }
  /// What is awaited says itself how, but for what knows nothing of tasks.
  template <class A>
  decltype(auto) await_transform(A&& awaited) const noexcept {
    if constexpr (std::derived_from<std::remove_cvref_t<A>, base::Awaited>) {
      return ElsewhereAwaiter(awaited);
    } else {
      return std::forward<A>(awaited);
    }
  }

 protected:
  Scheduler* scheduler_ = nullptr;  ///< from its start
};

template <class T>
class FutureAwaiter : public Awaiter {
 public:
  explicit FutureAwaiter(Future<T>& future) noexcept : Awaiter(future.awaited()), future_(future) {}
  T await_resume() { return future_.get(); }

 private:
  Future<T>& future_;
};

/// Starts another coroutine beside, and awaits its end.
template <class T>
class CoroutineAwaiter {
 public:
  explicit CoroutineAwaiter(Coroutine<T>&& coroutine) noexcept : coroutine_(std::move(coroutine)) {}
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <std::derived_from<CoroutineContext> P>
  bool await_suspend(std::coroutine_handle<P> awaiting);
  T await_resume() { return future_.get(); }

 private:
  Coroutine<T> coroutine_;
  Future<T> future_;
  std::optional<Awaiter> awaiter_;
};

/// `co_return`: with a value, or without.
template <class Self, class T>
class CoroutineReturn {
 public:
  template <class U = T>
  void return_value(U&& value) {
    static_cast<Self&>(*this).keep(std::forward<U>(value));
  }
};
template <class Self>
class CoroutineReturn<Self, void> {
 public:
  void return_void() { static_cast<Self&>(*this).keep(); }
};

template <class T>
class CoroutinePromise final : public CoroutineContext,
                               public CoroutineReturn<CoroutinePromise<T>, T> {
 public:
  Coroutine<T> get_return_object() noexcept;
  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  /// The frame ends first, arguments and all: who waits for the result may end what they refer to.
  struct Finish {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<CoroutinePromise> self) const noexcept {
      const Promise<T> result = std::move(self.promise().result_);
      self.destroy();
      result.publish();
    }
    void await_resume() const noexcept {}
  };
  [[nodiscard]] Finish final_suspend() const noexcept { return {}; }
  template <class... A>
  void keep(A&&... args) {
    result_.keep(std::forward<A>(args)...);
  }
  void unhandled_exception() noexcept { result_.keep_error(std::current_exception()); }
  Future<T> start_on(Scheduler& scheduler) {
    scheduler_ = &scheduler;
    return result_.get_future();
  }
  /// No task could be made for it: the future has ended.
  void not_started() noexcept { result_.has_future_ = false; }

 private:
  Promise<T> result_;
};

}  // namespace detail

/// Purpose: what a coroutine returns that is to run on a scheduler. It runs from `start` on, in a
/// detached task; it suspends where it awaits what has not come, and goes on in another task of the
/// same scheduler when that comes. In between it is no task, and has no stack.
///
/// Owner and lifetime: move-only. Once started, it ends alone; before, with this. The scheduler
/// must outlive it: its end waits for tasks, but not for coroutines that are suspended, so wait for
/// the future. One that awaits what never comes is never ended.
/// Who may call: `start` once. A coroutine may await a Future, another Coroutine (which is then
/// started on the same scheduler), anything Awaited that stays there once it has come, and what
/// another room tells of as base::Awaited: of comm, `WhenComplete`. It may also wait as any task.
/// What leaves it as an exception, the future throws.
template <class T>
class [[nodiscard]] Coroutine {
 public:
  using promise_type = detail::CoroutinePromise<T>;

  Coroutine(Coroutine&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Coroutine& operator=(Coroutine&& other) noexcept {
    Coroutine old(std::move(*this));
    handle_ = std::exchange(other.handle_, nullptr);
    return *this;
  }
  ~Coroutine() {
    if (handle_) handle_.destroy();
  }

  /// Runs it as a task of `scheduler`. Any context. Throws Error(no_memory); then it may be tried
  /// again.
  Future<T> start(Scheduler& scheduler) {
    WEFT_CHECK(handle_, "a coroutine is started once");
    Future<T> result = handle_.promise().start_on(scheduler);
    try {
      scheduler.spawn_detached([handle = handle_] { handle.resume(); }, {.name = "coroutine"});
    } catch (...) {
      handle_.promise().not_started();
      throw;
    }
    handle_ = nullptr;
    return result;
  }

 private:
  friend promise_type;
  explicit Coroutine(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}

  std::coroutine_handle<promise_type> handle_;
};

/// Suspends the coroutine until the future is ready; what `get` answers, or throws.
template <class T>
detail::FutureAwaiter<T> operator co_await(Future<T>& future) noexcept {
  return detail::FutureAwaiter<T>(future);
}
template <class T>
detail::FutureAwaiter<T> operator co_await(Future<T>&& future) noexcept {
  return detail::FutureAwaiter<T>(future);
}
/// Starts `coroutine` beside the one that awaits it; its result.
template <class T>
detail::CoroutineAwaiter<T> operator co_await(Coroutine<T>&& coroutine) noexcept {
  return detail::CoroutineAwaiter<T>(std::move(coroutine));
}
/// Suspends the coroutine until it has come, or never will. For what stays there once it has come:
/// of what others may take first, a channel's value, being told is no more than a hint.
inline detail::Awaiter operator co_await(Awaited& awaited) noexcept {
  return detail::Awaiter(awaited);
}
/// A case of `select` is for select alone (a task's call, which a coroutine may make, too).
template <class Case>
requires std::derived_from<std::remove_cvref_t<Case>, Awaited> &&
    requires(std::remove_cvref_t<Case> each) {
  each.run();
}
void operator co_await(Case&&) = delete;

template <class T>
template <std::derived_from<detail::CoroutineContext> P>
bool detail::CoroutineAwaiter<T>::await_suspend(std::coroutine_handle<P> awaiting) {
  Scheduler& scheduler = awaiting.promise().scheduler();
  future_ = coroutine_.start(scheduler);
  return awaiter_.emplace(future_.awaited()).await_suspend(awaiting);
}

template <class T>
Coroutine<T> detail::CoroutinePromise<T>::get_return_object() noexcept {
  return Coroutine<T>(std::coroutine_handle<CoroutinePromise>::from_promise(*this));
}

}  // namespace weft::task
