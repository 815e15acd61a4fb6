// A short-section lock with an owner: nearly free for that one thread, dear for any other.
#pragma once

#include <atomic>
#include <cstdint>

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
/// owner executes the fence, a system call, under the inner lock: only others of his kind wait. Who
/// has time rather asks the owner (`ask`), which costs neither a fence.
/// Invariants
///  1. `kIntruded` is changed only under `lock_`.
///  2. The owner raises `inside_`, then looks for `kIntruded`; another sets that, executes
///     the heavy fence, then waits for `inside_` to fall. One of the two sees the other (Dekker).
class OwnerLock {
 public:
  /// False: another thread is inside; `enter` then waits for it. Or somebody has asked.
  [[nodiscard]] bool try_enter_as_owner() noexcept { return try_enter_unless(kIntruded | kAsked); }
  /// The same, whether somebody has asked or not.
  [[nodiscard]] bool try_enter_though_asked() noexcept { return try_enter_unless(kIntruded); }
  /// By the owner: true once for those who have asked since the last time.
  [[nodiscard]] bool take_asked() noexcept {
    // relaxed, then acquire where somebody has: pairs with ask's release.
    return (others_.load(std::memory_order_relaxed) & kAsked) != 0 &&
           (others_.fetch_and(static_cast<uint8_t>(~kAsked), std::memory_order_acquire) & kAsked) !=
               0;
  }
  /// By anybody else: the owner, before it enters the next time, is to look what is wanted of it.
  void ask() noexcept { others_.fetch_or(kAsked, std::memory_order_release); }
  // release: pairs with enter's acquire.
  void leave_as_owner() noexcept { inside_.store(false, std::memory_order_release); }

  void enter() noexcept {
    lock_.lock();
    others_.fetch_or(kIntruded, std::memory_order_relaxed);  // ordered by the fences
    heavy_fence();
    // acquire: pairs with leave_as_owner's release.
    for (Backoff backoff; inside_.load(std::memory_order_acquire);) backoff.pause();
  }
  /// As `enter`, but gives up where another is inside and does not leave within a moment.
  [[nodiscard]] bool try_enter() noexcept {
    if (!lock_.try_lock()) return false;
    others_.fetch_or(kIntruded, std::memory_order_relaxed);  // ordered by the fences
    heavy_fence();
    for (int look = 0; look < kLooks; ++look) {
      if (!inside_.load(std::memory_order_acquire)) return true;  // pairs as in `enter`
      cpu_relax();
    }
    leave();
    return false;
  }
  void leave() noexcept {
    // release: pairs with try_enter_unless's acquire.
    others_.fetch_and(static_cast<uint8_t>(~kIntruded), std::memory_order_release);
    lock_.unlock();
  }

 private:
  static constexpr int kLooks = 64;
  static constexpr uint8_t kIntruded = 1;
  static constexpr uint8_t kAsked = 2;

  bool try_enter_unless(uint8_t others) noexcept {
    inside_.store(true, std::memory_order_relaxed);  // ordered by the fences
    light_fence();
    // acquire: pairs with leave's release; what the other wrote is seen.
    if ((others_.load(std::memory_order_acquire) & others) == 0) [[likely]]
      return true;
    leave_as_owner();
    return false;
  }

  std::atomic<bool> inside_{false};
  std::atomic<uint8_t> others_{0};
  SpinLock lock_;
};

}  // namespace weft::base
