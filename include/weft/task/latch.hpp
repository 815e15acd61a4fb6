// A latch for tasks and threads: counts down once.
#pragma once

#include <atomic>
#include <cstddef>
#include <limits>

#include "weft/base/error.hpp"
#include "weft/task/waiter.hpp"

namespace weft::task {

/// Opens, once and for ever, when it was counted down to zero. The names of std::latch.
///
/// Owner and lifetime: may be destroyed as soon as it is open (`try_wait` says so, or a `wait`
/// returned), even while the last `count_down` has not returned yet, if nobody else still calls.
/// Who may call: any task or thread, mixed.
/// Progress: `count_down` is one atomic operation, the last one two, and never suspends. `wait`
/// suspends a task, or its thread.
/// Invariant: the stack of waiters is closed by the last access of the last `count_down`; whoever
/// was linked by then is granted, whoever comes later finds it closed.
class Latch {
 public:
  static constexpr std::ptrdiff_t max() noexcept {
    return std::numeric_limits<std::ptrdiff_t>::max();
  }
  explicit Latch(std::ptrdiff_t expected) noexcept
      : left_(expected), waiters_(expected == 0 ? opened() : nullptr) {
    WEFT_CHECK(expected >= 0, "a latch expects 0 or more");
  }
  Latch(const Latch&) = delete;
  Latch& operator=(const Latch&) = delete;

  /// `n` ≤ what is left.
  void count_down(std::ptrdiff_t n = 1) noexcept {
    if (n == 0) return;
    // acq_rel: the last one hands on what all others wrote.
    const std::ptrdiff_t left = left_.fetch_sub(n, std::memory_order_acq_rel);
    WEFT_CHECK(n > 0 && left >= n, "a latch is counted down by no more than it expects");
    if (left == n) open();
  }
  /// May be false for a moment after the last `count_down` began.
  [[nodiscard]] bool try_wait() const noexcept { return is_open(); }
  void wait() const noexcept {
    if (!is_open()) const_cast<Latch*>(this)->wait_slowly();
  }
  void arrive_and_wait(std::ptrdiff_t n = 1) noexcept {
    count_down(n);
    wait();
  }

 private:
  static detail::Waiter* opened() noexcept { return reinterpret_cast<detail::Waiter*>(1); }
  [[nodiscard]] bool is_open() const noexcept {
    // acquire: pairs with open's release; what was written before any count_down is seen.
    return waiters_.load(std::memory_order_acquire) == opened();
  }
  void open() noexcept;
  void wait_slowly() noexcept;

  std::atomic<std::ptrdiff_t> left_;
  std::atomic<detail::Waiter*> waiters_;  ///< a stack; or opened()
};

}  // namespace weft::task
