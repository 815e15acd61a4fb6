// A mutex for tasks and threads: who waits for it gives its worker to others.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "weft/base/error.hpp"
#include "weft/task/waiter.hpp"

namespace weft::task {

/// Mutual exclusion (000 §4.2.3, "qlock"). The names of std::timed_mutex, for std::lock_guard and
/// std::unique_lock.
///
/// Owner and lifetime: may be destroyed by whoever unlocked it last, even while the `unlock` before
/// that one has not returned yet.
/// Who may call: any task or thread, mixed. A task may suspend while it holds it, and unlock it on
/// another thread. Not recursive.
/// Progress: `lock` and `unlock` are one atomic operation where nobody waits. Who runs may take it
/// again at once, before those who wait; but whoever waits gets it in the end: see the invariants.
/// `unlock` never suspends.
/// Errors: none. Unlocking what nobody has locked is a broken contract, which ends the job.
/// Layout: a word of state, a list of those who wait, first come, first served.
/// Invariants
///  1. kWaiters: the list is not empty; changed only in the queue (kQueue).
///  2. kWoken: one waiter, the *successor*, was unlinked and told to try, and has not yet succeeded
///     or given up. Set in the queue; cleared by the successor alone.
///  3. kWaiters without kWoken implies kLocked: so its holder, at the latest, wakes somebody.
///  4. With kLocked and kQueue its own, and kWoken clear, `unlock` is the only one to change the
///     word: all others can then only set bits that are set.
///  5. A successor that has competed in vain for kPatienceNs links itself in front and insists:
///     the next `unlock` leaves the mutex locked, in its name.
/// Departures from the paper: a waiter that is woken must compete (handing over at each unlock
/// costs a switch for each section), and the spin lock of the queue is a bit of the word.
class Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  /// Suspends a task, or its thread.
  void lock() noexcept {
    if (!take()) [[unlikely]]
      (void)lock_slowly(kNoDeadline);
  }
  [[nodiscard]] bool try_lock() noexcept {
    return (state_.load(std::memory_order_relaxed) & kLocked) == 0 && take();
  }
  void unlock() noexcept {
    uint32_t state = state_.load(std::memory_order_relaxed);
    WEFT_CHECK((state & kLocked) != 0, "a mutex is unlocked by who has locked it");
    do {
      if (is_to_wake(state)) [[unlikely]] {
        unlock_slowly();
        return;
      }
      // release: pairs with take's acquire. The last access.
    } while (!state_.compare_exchange_weak(state, state & ~kLocked, std::memory_order_release,
                                           std::memory_order_relaxed));
  }

  /// A deadline of `base::now_ns()`. One that has passed: as try_lock.
  [[nodiscard]] bool try_lock_until(uint64_t deadline_ns) noexcept {
    return take() || lock_slowly(deadline_ns);
  }
  template <class Clock, class Duration>
  [[nodiscard]] bool try_lock_until(const std::chrono::time_point<Clock, Duration>& time) noexcept {
    return take() || lock_slowly(deadline_at(time));
  }
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period>& time) noexcept {
    return take() || lock_slowly(deadline_after(time));
  }

 private:
  static constexpr uint32_t kLocked = 1;
  static constexpr uint32_t kQueue = 2;  ///< somebody changes the list
  static constexpr uint32_t kWaiters = 4;
  static constexpr uint32_t kWoken = 8;

  static bool is_to_wake(uint32_t state) noexcept {
    return (state & (kWaiters | kWoken)) == kWaiters;
  }
  bool take() noexcept {
    // acquire: pairs with the release of whoever unlocked it; what that one wrote is seen.
    return (state_.fetch_or(kLocked, std::memory_order_acquire) & kLocked) == 0;
  }
  bool lock_slowly(uint64_t deadline_ns) noexcept;
  void unlock_slowly() noexcept;
  bool look_briefly() noexcept;
  bool link(detail::Waiter& self) noexcept;
  bool unlink(detail::Waiter& self) noexcept;
  bool compete(bool is_task) noexcept;
  bool give_up() noexcept;
  bool take_as_successor(uint32_t& state) noexcept;

  std::atomic<uint32_t> state_{0};
  detail::WaiterList waiters_;  ///< under kQueue
};

}  // namespace weft::task
