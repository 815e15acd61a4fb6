// Loops whose iterations run beside each other: a range is halved, and halved again, by tasks.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>

#include "weft/task/task.hpp"

namespace weft::task {

/// What a loop runs over: an integer, given to the body as it is, or a random-access iterator,
/// whose element the body gets.
template <class I>
concept LoopIndex = (std::integral<I> && !std::same_as<I, bool> && sizeof(I) <= 8) ||
                    std::random_access_iterator<I>;

namespace detail {

/// How many iterations a task does where nobody says: so that each worker of the caller's scheduler
/// gets eight tasks or so, enough to even out. Error(not_initialized): the caller is no task.
uint64_t default_grain(uint64_t iterations);

template <LoopIndex I>
uint64_t iterations(const I& first, const I& last) noexcept {
  if (!(first < last)) return 0;
  if constexpr (std::integral<I>) {
    return static_cast<uint64_t>(last) - static_cast<uint64_t>(first);  // also where they are < 0
  } else {
    return static_cast<uint64_t>(last - first);
  }
}
template <LoopIndex I>
I advanced(const I& first, uint64_t by) noexcept {
  if constexpr (std::integral<I>) {
    return static_cast<I>(static_cast<uint64_t>(first) + by);
  } else {
    return first + static_cast<std::iter_difference_t<I>>(by);
  }
}
/// A loop: `body` of each, put together by `combine`, in order.
template <class I, class T, class Body, class Combine>
class Loop {
 public:
  Loop(Body& body, Combine& combine, uint64_t grain) noexcept
      : body_(body), combine_(combine), grain_(grain) {}

  /// `count` ≥ 1 iterations from `first`. Nothing: another part of the loop threw.
  std::optional<T> run(const I& first, uint64_t count) {
    // relaxed: only saves work; what was thrown comes by the joins.
    if (failed_.load(std::memory_order_relaxed)) [[unlikely]]
      return std::nullopt;
    try {
      return count <= grain_ ? run_here(first, count) : run_halves(first, count);
    } catch (...) {
      failed_.store(true, std::memory_order_relaxed);
      throw;
    }
  }

 private:
  std::optional<T> run_halves(const I& first, uint64_t count) {
    const uint64_t half = count / 2;
    auto rest = task::spawn(
        [this, from = advanced(first, half), n = count - half] { return run(from, n); });
    std::optional<T> left;
    try {
      left = run(first, half);
    } catch (...) {
      join_in_vain(rest);
      throw;
    }
    std::optional<T> right = rest.join();
    if (!left || !right) return std::nullopt;
    return std::optional<T>(combine_(*std::move(left), *std::move(right)));
  }
  std::optional<T> run_here(const I& first, uint64_t count) {
    T value(call(first));
    const I end = advanced(first, count);
    for (I at = advanced(first, 1); at != end; ++at) {
      value = combine_(std::move(value), T(call(at)));
    }
    return std::optional<T>(std::move(value));
  }
  decltype(auto) call(const I& at) {
    if constexpr (std::integral<I>) {
      return body_(at);
    } else {
      return body_(*at);
    }
  }
  /// This half threw, and the loop throws one thing.
  static void join_in_vain(Handle<std::optional<T>>& half) noexcept {
    try {
      (void)half.join();
    } catch (...) {  // dropped
    }
  }

  Body& body_;
  Combine& combine_;
  const uint64_t grain_;
  std::atomic<bool> failed_{false};
};

}  // namespace detail

/// init ⊕ body(first) ⊕ … ⊕ body(last - 1), where a ⊕ b is `combine(a, b)`: in order, but bracketed
/// anyhow, so ⊕ must be associative. T can be moved; what `body` returns converts to T. `grain`: so
/// many iterations are not cut further; 0: eight tasks for each worker, or so.
/// Called by a task, which waits for those that it spawns (by a plain thread: Scheduler::run).
/// `body` and `combine` are called by several tasks at once. The first exception in order that
/// left one of them is thrown, once all that was begun has ended; what was not begun is left out.
/// Error(not_initialized): the caller is no task. Error(no_memory): no room for one.
template <LoopIndex I, class T, class Body, class Combine>
T parallel_reduce(std::type_identity_t<I> first, I last, T init, Body&& body, Combine&& combine,
                  uint64_t grain = 0) {
  const uint64_t count = detail::iterations(first, last);
  const uint64_t usual = detail::default_grain(count);  // which wants a task, whatever the grain
  if (grain == 0) grain = usual;
  if (count == 0) return init;
  detail::Loop<I, T, std::remove_reference_t<Body>, std::remove_reference_t<Combine>> loop(
      body, combine, grain);
  std::optional<T> all = loop.run(first, count);
  return combine(std::move(init), *std::move(all));
}

/// body(first), …, body(last - 1), in any order and several at once. The rest as parallel_reduce.
template <LoopIndex I, class Body>
void parallel_for(std::type_identity_t<I> first, I last, uint64_t grain, Body&& body) {
  struct Nothing {};
  (void)parallel_reduce(
      first, last, Nothing{},
      [&body](auto&& each) {
        body(std::forward<decltype(each)>(each));
        return Nothing{};
      },
      [](Nothing, Nothing) noexcept { return Nothing{}; }, grain);
}
template <LoopIndex I, class Body>
void parallel_for(std::type_identity_t<I> first, I last, Body&& body) {
  parallel_for(first, last, uint64_t{0}, body);
}

}  // namespace weft::task
