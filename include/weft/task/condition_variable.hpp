// A condition variable for tasks and threads.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "weft/base/locks.hpp"
#include "weft/task/mutex.hpp"
#include "weft/task/waiter.hpp"

namespace weft::task {

/// Waiting, with a Mutex, for a condition that others make true. The names of
/// std::condition_variable.
///
/// Owner and lifetime: may be destroyed once all who wait have been notified, though they may not
/// have returned yet; its end waits until those among them with a deadline are done with it.
/// Who may call: any task or thread, mixed; `wait…` who holds the lock, which the caller has again
/// when it returns. Notifying is allowed with or without the mutex.
/// Progress: `wait…` suspends a task, or its thread. `notify…` never suspends: one load where
/// nobody waits. First come, first notified; no wait ends without a notification (or its deadline).
/// Invariant: whoever is linked has not been notified; unlinking and granting is notifying. A
/// waiter that finds itself unlinked after its deadline was notified, and says so.
class ConditionVariable {
 public:
  ConditionVariable() = default;
  ~ConditionVariable() {
    if (timed_.load(std::memory_order_acquire) != 0) await_timed();  // as there
  }
  ConditionVariable(const ConditionVariable&) = delete;
  ConditionVariable& operator=(const ConditionVariable&) = delete;

  // relaxed looks: who linked itself did so before it unlocked the mutex. Whoever changed the
  // condition with that mutex after it, sees it linked; whoever did so before it was seen by it.
  void notify_one() noexcept {
    if (!waiters_.looks_empty()) notify_one_slowly();
  }
  void notify_all() noexcept {
    if (!waiters_.looks_empty()) notify_all_slowly();
  }

  void wait(std::unique_lock<Mutex>& lock) noexcept { wait_slowly(*lock.mutex()); }
  template <class Predicate>
  void wait(std::unique_lock<Mutex>& lock, Predicate predicate) {
    while (!predicate()) wait(lock);
  }

  /// A deadline of `base::now_ns()`.
  std::cv_status wait_until(std::unique_lock<Mutex>& lock, uint64_t deadline_ns) noexcept {
    return wait_slowly_until(*lock.mutex(), deadline_ns) ? std::cv_status::no_timeout
                                                         : std::cv_status::timeout;
  }
  /// What the predicate says in the end.
  template <class Predicate>
  bool wait_until(std::unique_lock<Mutex>& lock, uint64_t deadline_ns, Predicate predicate) {
    while (!predicate()) {
      if (wait_until(lock, deadline_ns) == std::cv_status::timeout) return predicate();
    }
    return true;
  }
  template <class Clock, class Duration>
  std::cv_status wait_until(std::unique_lock<Mutex>& lock,
                            const std::chrono::time_point<Clock, Duration>& time) noexcept {
    return wait_until(lock, deadline_at(time));
  }
  template <class Clock, class Duration, class Predicate>
  bool wait_until(std::unique_lock<Mutex>& lock,
                  const std::chrono::time_point<Clock, Duration>& time, Predicate predicate) {
    return wait_until(lock, deadline_at(time), std::move(predicate));
  }
  template <class Rep, class Period>
  std::cv_status wait_for(std::unique_lock<Mutex>& lock,
                          const std::chrono::duration<Rep, Period>& time) noexcept {
    return wait_until(lock, deadline_after(time));
  }
  template <class Rep, class Period, class Predicate>
  bool wait_for(std::unique_lock<Mutex>& lock, const std::chrono::duration<Rep, Period>& time,
                Predicate predicate) {
    return wait_until(lock, deadline_after(time), std::move(predicate));
  }

 private:
  void notify_one_slowly() noexcept;
  void notify_all_slowly() noexcept;
  void await_timed() noexcept;
  void wait_slowly(Mutex& mutex) noexcept;
  /// True: notified.
  bool wait_slowly_until(Mutex& mutex, uint64_t deadline_ns) noexcept;

  base::SpinLock guard_;
  std::atomic<uint32_t> timed_{0};  ///< waits with a deadline that may touch it yet
  detail::WaiterList waiters_;      ///< under guard_
};

}  // namespace weft::task
