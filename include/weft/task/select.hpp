// select: waits for the first of several things, and does what belongs to it.
//
//   const int which = select(deadline_after(1s),
//                            on_receive(jobs, [&](Job job) { run(job); }),
//                            on_send(results, std::move(result), [&] { ++sent; }),
//                            on_ready(stop, [&] { done = true; }));
//   if (which == kTimedOut) …
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "weft/task/channel.hpp"
#include "weft/task/future.hpp"
#include "weft/task/task.hpp"
#include "weft/task/wait_list.hpp"

namespace weft::task {

namespace detail {

template <class Channel, class F>
class ReceiveCase final : public ToReceive<Channel> {
  using Value = typename Channel::Value;
  static constexpr bool kWantsEnd = std::is_invocable_v<F&, std::optional<Value>>;

 public:
  ReceiveCase(Channel& channel, F function)
      : ToReceive<Channel>(channel), function_(std::move(function)) {}
  Attempt attempt(WaitEntry* waiter) noexcept override {
    const Attempt received = ToReceive<Channel>::attempt(waiter);
    return kWantsEnd && received == Attempt::closed ? Attempt::done : received;
  }
  void run() {
    if constexpr (kWantsEnd) {
      // A case that is used again finds nothing there once the channel is closed.
      function_(std::exchange(this->value, std::nullopt));
    } else {
      function_(std::move(*this->value));
    }
  }

 private:
  F function_;
};

/// `Own` is T, or T& for a value that stays the caller's until it is sent.
template <class Channel, class Own, class F>
class SendCase final : public Awaited {
  static constexpr bool kWantsEnd = std::is_invocable_v<F&, bool>;

 public:
  template <class U>
  SendCase(Channel& channel, U&& value, F function)
      : channel_(channel), value_(std::forward<U>(value)), function_(std::move(function)) {}
  Attempt attempt(WaitEntry* waiter) noexcept override {
    const Attempt sent = channel_.attempt_send(value_, waiter);
    is_sent_ = sent == Attempt::done;
    return kWantsEnd && sent == Attempt::closed ? Attempt::done : sent;
  }
  void leave(WaitEntry& waiter) noexcept override { channel_.leave_senders(waiter); }
  void run() {
    if constexpr (kWantsEnd) {
      function_(is_sent_);
    } else {
      function_();
    }
  }

 private:
  Channel& channel_;
  Own value_;
  bool is_sent_ = false;
  F function_;
};

template <class F>
class ReadyCase final : public Awaited {
 public:
  ReadyCase(Awaited& awaited, F function) : awaited_(awaited), function_(std::move(function)) {}
  Attempt attempt(WaitEntry* waiter) noexcept override { return awaited_.attempt(waiter); }
  void leave(WaitEntry& waiter) noexcept override { awaited_.leave(waiter); }
  void run() { function_(); }

 private:
  Awaited& awaited_;
  F function_;
};

template <class F>
class ElsewhereCase final : public AwaitedElsewhere {
 public:
  ElsewhereCase(base::Awaited& told, F function)
      : AwaitedElsewhere(told), function_(std::move(function)) {}
  void run() { function_(); }

 private:
  F function_;
};

/// The end of a task.
class ToEnd : public Awaited {
 public:
  explicit ToEnd(Record& record) noexcept : record_(record) {}
  Attempt attempt(WaitEntry* waiter) noexcept override;
  void leave(WaitEntry& waiter) noexcept override;

 private:
  Record& record_;
  void* joiner_ = nullptr;  ///< what we left in the record; nullptr: nothing
};

template <class F>
class EndCase final : public ToEnd {
 public:
  EndCase(Record& record, F function) : ToEnd(record), function_(std::move(function)) {}
  void run() { function_(); }

 private:
  F function_;
};

template <class C>
concept SelectCase = std::derived_from<std::remove_cvref_t<C>, Awaited> &&
    requires(std::remove_cvref_t<C> c) {
  c.run();
};

}  // namespace detail

/// A value comes: `function(T)`. A channel that is closed and empty is left out; but for
/// `function(std::optional<T>)` that is something to come, too, with nothing in it.
template <class Channel, class F>
auto on_receive(Channel& channel, F function) {
  return detail::ReceiveCase<Channel, F>(channel, std::move(function));
}

/// The value is sent: `function()`. A closed channel is left out; but for `function(bool)` that is
/// something to come, too: false. A value given as T&& is moved from only if it was sent; of any
/// other a copy is sent, once: a case of its own for each value.
template <class Channel, class U, class F>
auto on_send(Channel& channel, U&& value, F function) {
  using T = typename Channel::Value;
  if constexpr (std::is_same_v<U&&, T&&>) {
    return detail::SendCase<Channel, T&, F>(channel, value, std::move(function));
  } else {
    return detail::SendCase<Channel, T, F>(channel, std::forward<U>(value), std::move(function));
  }
}

/// The future is ready, with a value or an exception: `function()`, in which `get` does not wait.
template <class T, class F>
auto on_ready(const Future<T>& future, F function) {
  return detail::ReadyCase<F>(future.awaited(), std::move(function));
}
/// The same for anything else that can be awaited.
template <class F>
auto on_ready(Awaited& awaited, F function) {
  return detail::ReadyCase<F>(awaited, std::move(function));
}

/// The same for what another room tells of: of comm, `WhenComplete`.
template <class F>
auto on_ready(base::Awaited& awaited, F function) {
  return detail::ElsewhereCase<F>(awaited, std::move(function));
}

/// The task has ended: `function()`, in which `join` does not wait. Nobody else joins it meanwhile.
template <class R, class F>
auto on_ended(const Handle<R>& handle, F function) {
  WEFT_CHECK(handle.joinable(), "a task that was joined does not end any more");
  return detail::EndCase<F>(*handle.ref().record(), std::move(function));
}

/// Waits until one of the cases can be done, does that one alone, runs its function, and answers
/// its number, from 0. Of several that can be done at once it is the first in order: so who must
/// not starve comes first. kTimedOut: `now_ns()` passed `deadline_ns` (0: nothing can be done now),
/// and nothing was done; a time point, or a duration, serves as well. kAllClosed: all cases are of
/// closed channels. Suspends a task, or its thread. What a function throws is thrown, after its
/// case was done.
template <detail::SelectCase... Cases>
int select(uint64_t deadline_ns, Cases&&... cases) {
  static_assert(sizeof...(cases) > 0);
  Awaited* const all[] = {&cases...};
  WaitEntry waiters[sizeof...(cases)];
  const int which = first_of(all, waiters, deadline_ns);
  int number = 0;
  (void)((number++ == which && (cases.run(), true)) || ...);
  return which;
}
template <class Clock, class Duration, detail::SelectCase... Cases>
int select(const std::chrono::time_point<Clock, Duration>& time, Cases&&... cases) {
  return select(deadline_at(time), std::forward<Cases>(cases)...);
}
template <class Rep, class Period, detail::SelectCase... Cases>
int select(const std::chrono::duration<Rep, Period>& time, Cases&&... cases) {
  return select(deadline_after(time), std::forward<Cases>(cases)...);
}
template <detail::SelectCase... Cases>
int select(Cases&&... cases) {
  return select(kNoDeadline, std::forward<Cases>(cases)...);
}

}  // namespace weft::task
