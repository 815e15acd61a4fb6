// A promise and its future: one value, or one exception, from one task or thread to another.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <future>
#include <optional>
#include <type_traits>
#include <utility>

#include "weft/base/error.hpp"
#include "weft/task/wait_list.hpp"

namespace weft::task {

/// What a future brings whose promise ended without a value.
class BrokenPromise : public Error {
 public:
  BrokenPromise() : Error(Errc::cancelled, "a promise ended without a value") {}
};

namespace detail {

/// Purpose: what promise and future share, whatever the value's type.
///
/// Owner and lifetime: counted; promise and future have a share each, the promise until it ends.
/// Who may call: `publish` who has the promise, once; all else who has the future, or waits.
/// Progress: waiters take a short lock; `is_ready` none. `publish` touches it no more once it is
/// seen to be ready, so that all of it, the promise too, may then end.
/// Invariants
///  1. state_ is the lock of waiters_ until it is ready: pending, locked, pending, … ready.
///  2. The value, or error, is written before it is ready, and read only after.
class FutureState : public Awaited {
 public:
  void share() noexcept { shares_.fetch_add(1, std::memory_order_relaxed); }  // has one already
  void give_up() noexcept {
    // acq_rel: release what was done with it to who deletes it; acquire the others'.
    if (shares_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  [[nodiscard]] bool is_ready() const noexcept {
    // acquire: pairs with publish's release; the value is seen.
    return state_.load(std::memory_order_acquire) == State::ready;
  }
  void publish() noexcept;
  Attempt attempt(WaitEntry* waiter) noexcept override;
  void leave(WaitEntry& waiter) noexcept override;

  std::exception_ptr error;

 protected:
  ~FutureState() override = default;

 private:
  enum class State : uint8_t { pending, locked, ready };
  [[nodiscard]] bool lock_unless_ready() noexcept;
  void unlock() noexcept { state_.store(State::pending, std::memory_order_release); }

  std::atomic<State> state_{State::pending};
  std::atomic<uint32_t> shares_{1};
  WaitList waiters_;
};

template <class T>
class FutureValue final : public FutureState {
 public:
  std::optional<T> value;
};
template <>
class FutureValue<void> final : public FutureState {};

/// A share of the state: move-only.
template <class T>
class StateShare {
 public:
  StateShare() = default;
  explicit StateShare(FutureValue<T>* state) noexcept : state_(state) {}
  StateShare(StateShare&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  StateShare& operator=(StateShare&& other) noexcept {
    StateShare old(std::move(*this));
    state_ = std::exchange(other.state_, nullptr);
    return *this;
  }
  ~StateShare() {
    if (state_ != nullptr) state_->give_up();
  }
  explicit operator bool() const noexcept { return state_ != nullptr; }
  FutureValue<T>* operator->() const noexcept { return state_; }
  FutureValue<T>& operator*() const noexcept { return *state_; }

 private:
  FutureValue<T>* state_ = nullptr;
};

template <class T>
class CoroutinePromise;

}  // namespace detail

template <class T>
class Promise;

/// The receiving end. Move-only; from Promise::get_future. `wait` and `ready` may be called by
/// several contexts at once, all else by one alone. Waiting suspends a task, or its thread.
template <class T>
class [[nodiscard]] Future {
 public:
  Future() = default;

  /// False: empty, or its value was taken.
  [[nodiscard]] bool valid() const noexcept { return static_cast<bool>(state_); }
  /// True once `get` would not wait.
  [[nodiscard]] bool ready() const noexcept { return state().is_ready(); }
  void wait() const noexcept { (void)wait_until(kNoDeadline); }
  /// Until it is ready, or `now_ns()` passes `deadline_ns`: std::future_status::ready or timeout.
  std::future_status wait_until(uint64_t deadline_ns) const noexcept {
    return state().is_ready() || wait_for_one(state(), deadline_ns) == Attempt::done
               ? std::future_status::ready
               : std::future_status::timeout;
  }
  template <class Clock, class Duration>
  std::future_status wait_until(
      const std::chrono::time_point<Clock, Duration>& time) const noexcept {
    return wait_until(deadline_at(time));
  }
  template <class Rep, class Period>
  std::future_status wait_for(const std::chrono::duration<Rep, Period>& time) const noexcept {
    return state().is_ready() ? std::future_status::ready : wait_until(deadline_after(time));
  }
  /// Waits for the value and takes it, or throws what the promise was given instead; BrokenPromise
  /// if it ended without either. Once.
  T get() {
    wait();
    const auto state = std::move(state_);
    if (state->error) [[unlikely]]
      std::rethrow_exception(std::exchange(state->error, nullptr));
    if constexpr (!std::is_void_v<T>) return std::move(*state->value);
  }

  /// What to wait for, for `select` and coroutines.
  [[nodiscard]] Awaited& awaited() const noexcept { return state(); }

 private:
  friend class Promise<T>;
  explicit Future(detail::FutureValue<T>& state) noexcept : state_(&state) {}
  [[nodiscard]] detail::FutureValue<T>& state() const noexcept {
    WEFT_CHECK(state_, "a future has a promise, and its value is taken once");
    return *state_;
  }

  detail::StateShare<T> state_;
};

/// The giving end. Move-only; one context at a time. Its end without a value breaks it: the future
/// throws BrokenPromise.
template <class T>
class Promise {
  static_assert(!std::is_reference_v<T>, "wrap a reference in std::reference_wrapper");

 public:
  /// Takes memory from the heap, once for promise and future.
  Promise() : state_(new detail::FutureValue<T>) {}
  Promise(Promise&& other) noexcept = default;
  Promise& operator=(Promise&& other) noexcept {
    Promise old(std::move(*this));
    state_ = std::move(other.state_);
    has_future_ = other.has_future_;
    is_kept_ = other.is_kept_;
    return *this;
  }
  ~Promise() {
    if (!state_ || is_kept_ || !has_future_) return;
    state_->error = std::make_exception_ptr(BrokenPromise());
    state_->publish();
  }

  /// Once.
  [[nodiscard]] Future<T> get_future() {
    WEFT_CHECK(state_ && !has_future_, "a promise has one future");
    has_future_ = true;
    state_->share();
    return Future<T>(*state_);
  }
  /// Once, this or set_exception. What making the value throws, is thrown, and nothing was set.
  /// Whoever waits may end the promise as soon as it has the value.
  template <class... A>
  void set_value(A&&... args) {
    keep(std::forward<A>(args)...);
    state_->publish();
  }
  void set_exception(std::exception_ptr error) noexcept {
    keep_error(std::move(error));
    state_->publish();
  }

 private:
  friend class detail::CoroutinePromise<T>;

  template <class... A>
  void keep(A&&... args) {
    WEFT_CHECK(state_ && !is_kept_, "a promise is kept once");
    if constexpr (std::is_void_v<T>) {
      static_assert(sizeof...(A) == 0);
    } else {
      state_->value.emplace(std::forward<A>(args)...);
    }
    is_kept_ = true;
  }
  void keep_error(std::exception_ptr error) noexcept {
    WEFT_CHECK(state_ && !is_kept_, "a promise is kept once");
    WEFT_CHECK(error != nullptr, "a promise is given an exception");
    state_->error = std::move(error);
    is_kept_ = true;
  }
  void publish() const noexcept { state_->publish(); }

  detail::StateShare<T> state_;
  bool has_future_ = false;
  bool is_kept_ = false;
};

}  // namespace weft::task
