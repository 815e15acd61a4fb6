// A counting semaphore for tasks and threads.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "weft/base/error.hpp"
#include "weft/task/waiter.hpp"

namespace weft::task {

namespace detail {

/// CountingSemaphore, whatever its maximum.
/// Layout: in one word the count, above the bits of the queue.
/// Invariants
///  1. kWaiters: the list is not empty; changed only in the queue (kQueue).
///  2. Who is linked found the count at zero, in the queue; and while kQueue or kWaiters is set
///  only
///     who holds the queue adds to it. So kWaiters implies that the count is zero, and whoever
///     holds the queue then is the only one to change the word: others can only set kQueue, which
///     is set.
class Semaphore {
 public:
  static constexpr uint64_t kMost = ~uint64_t{0} >> 3;
  explicit Semaphore(uint64_t count) noexcept : state_(count * kOne) {}
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  bool try_acquire() noexcept {
    uint64_t state = state_.load(std::memory_order_relaxed);
    while (state >= kOne) {
      // acquire: pairs with release's release.
      if (state_.compare_exchange_weak(state, state - kOne, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }
  void release(uint64_t count) noexcept {
    uint64_t state = state_.load(std::memory_order_relaxed);
    while ((state & (kQueue | kWaiters)) == 0) [[likely]] {
        // release: pairs with try_acquire's acquire. The last access.
        if (state_.compare_exchange_weak(state, state + count * kOne, std::memory_order_release,
                                         std::memory_order_relaxed)) {
          return;
        }
      }
    release_slowly(count);
  }
  bool acquire_slowly(uint64_t deadline_ns) noexcept;

 private:
  static constexpr uint64_t kQueue = 1;  ///< somebody changes the list
  static constexpr uint64_t kWaiters = 2;
  static constexpr uint64_t kOne = 4;  ///< of the count

  void release_slowly(uint64_t count) noexcept;
  bool unlink(Waiter& self) noexcept;

  std::atomic<uint64_t> state_;
  WaiterList waiters_;  ///< under kQueue
};

}  // namespace detail

/// A number of permits. The names of std::counting_semaphore.
///
/// Owner and lifetime: may be destroyed by whoever acquired the last permit that will be released,
/// even while that `release` has not returned yet.
/// Who may call: any task or thread, mixed.
/// Progress: one atomic operation where nobody waits. `acquire` suspends a task, or its thread;
/// `release` never does. Permits are given to those who wait, first come, first served: nobody
/// starves, and nobody is woken in vain.
template <std::ptrdiff_t kLeastMax = static_cast<std::ptrdiff_t>(detail::Semaphore::kMost)>
class CountingSemaphore {
  static_assert(kLeastMax >= 0 &&
                kLeastMax <= static_cast<std::ptrdiff_t>(detail::Semaphore::kMost));

 public:
  static constexpr std::ptrdiff_t max() noexcept { return kLeastMax; }
  /// 0 ≤ permits ≤ max(), now and later.
  explicit CountingSemaphore(std::ptrdiff_t permits) noexcept
      : semaphore_(static_cast<uint64_t>(permits)) {
    WEFT_CHECK(permits >= 0 && permits <= max(), "a semaphore has from 0 to max() permits");
  }

  /// No more than leave max() at most, which is looked at for each call alone.
  void release(std::ptrdiff_t permits = 1) noexcept {
    WEFT_CHECK(permits >= 0 && permits <= max(), "a semaphore has from 0 to max() permits");
    semaphore_.release(static_cast<uint64_t>(permits));
  }
  void acquire() noexcept {
    if (!semaphore_.try_acquire()) (void)semaphore_.acquire_slowly(kNoDeadline);
  }
  [[nodiscard]] bool try_acquire() noexcept { return semaphore_.try_acquire(); }
  /// A deadline of `base::now_ns()`. One that has passed: as try_acquire.
  [[nodiscard]] bool try_acquire_until(uint64_t deadline_ns) noexcept {
    return semaphore_.try_acquire() || semaphore_.acquire_slowly(deadline_ns);
  }
  template <class Clock, class Duration>
  [[nodiscard]] bool try_acquire_until(
      const std::chrono::time_point<Clock, Duration>& time) noexcept {
    return semaphore_.try_acquire() || semaphore_.acquire_slowly(deadline_at(time));
  }
  template <class Rep, class Period>
  [[nodiscard]] bool try_acquire_for(const std::chrono::duration<Rep, Period>& time) noexcept {
    return semaphore_.try_acquire() || semaphore_.acquire_slowly(deadline_after(time));
  }

 private:
  detail::Semaphore semaphore_;
};

using BinarySemaphore = CountingSemaphore<1>;

}  // namespace weft::task
