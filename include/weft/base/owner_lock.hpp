// A short-section lock with an owner: nearly free for that one thread, dear for any other.
#pragma once

#include <atomic>

#include "weft/base/asymmetric_fence.hpp"
#include "weft/base/backoff.hpp"
#include "weft/base/locks.hpp"

namespace weft::base {

/// Guards what one thread touches all the time and others hardly ever (per-thread pools). The
/// owner pays two plain stores and a load, where an exchange would also wait for every earlier
/// store; another thread pays a heavy fence, a microsecond or more.
///
/// Who may call: the functions `…_as_owner` only ever one thread at a time (a successor is fine if
/// what passes on the ownership synchronizes); `enter`, `try_enter` and
/// `leave` any thread, the owner included.
/// Progress: sections of a few dozen instructions; waiters spin briefly, then yield. Who is not the
/// owner executes the fence, a system call, under the inner lock: only others of his kind wait.
/// Invariants
///  1. `intruded_` is changed only under `lock_`.
///  2. The owner raises `inside_`, then looks at `intruded_`; another raises `intruded_`, executes
///     the heavy fence, then waits for `inside_` to fall. One of the two sees the other (Dekker).
class OwnerLock {
 public:
  /// False: another thread is inside; `enter` then waits for it.
  [[nodiscard]] bool try_enter_as_owner() noexcept {
    inside_.store(true, std::memory_order_relaxed);  // ordered by the fences
    light_fence();
    // acquire: pairs with leave's release; what the other wrote is seen.
    if (!intruded_.load(std::memory_order_acquire)) [[likely]]
      return true;
    leave_as_owner();
    return false;
  }
  // release: pairs with enter's acquire.
  void leave_as_owner() noexcept { inside_.store(false, std::memory_order_release); }

  void enter() noexcept {
    lock_.lock();
    intruded_.store(true, std::memory_order_relaxed);  // ordered by the fences
    heavy_fence();
    // acquire: pairs with leave_as_owner's release.
    for (Backoff backoff; inside_.load(std::memory_order_acquire);) backoff.pause();
  }
  /// As `enter`, but gives up where another is inside and does not leave within a moment.
  [[nodiscard]] bool try_enter() noexcept {
    if (!lock_.try_lock()) return false;
    intruded_.store(true, std::memory_order_relaxed);  // ordered by the fences
    heavy_fence();
    for (int look = 0; look < kLooks; ++look) {
      if (!inside_.load(std::memory_order_acquire)) return true;  // pairs as in `enter`
      cpu_relax();
    }
    leave();
    return false;
  }
  void leave() noexcept {
    // release: pairs with try_enter_as_owner's acquire.
    intruded_.store(false, std::memory_order_release);
    lock_.unlock();
  }

 private:
  static constexpr int kLooks = 64;

  std::atomic<bool> inside_{false};
  std::atomic<bool> intruded_{false};
  SpinLock lock_;
};

}  // namespace weft::base
