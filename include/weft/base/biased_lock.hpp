// A short-section lock that is nearly free for the one thread that keeps taking it.
//
// Purpose: guards what one thread uses for long at a time, without anybody naming that thread: the
// sending side of a lane, a device's progress. For the favoured thread a section costs two plain
// stores and two loads, where an atomic exchange would also wait for every earlier store to leave
// the store buffer, and with it for the cache lines of the ring. (OwnerLock is for what has an
// owner by construction.)
// Owner and lifetime: belongs to what it guards; process-private.
// Who may call: any thread of the process; sections of a few dozen instructions, or tried only.
// Progress: the favoured thread enters without waiting while it is favoured. Others wait for the
// section to end as with a spin lock, or see that it is under way (`try_enter`); taking the favour
// away costs one heavy fence.
// Layout: favour (thread and number of the grant), a busy flag for each grant, the common lock, the
// streak: 32 bytes.
//
// Invariants
//  1. favour_ is changed only under lock_. While it names a thread, whoever else holds lock_ first
//     takes it away: stores kNobody, executes the heavy fence, waits for the grant's busy flag to
//     fall (or gives lock_ back, leaving `draining_` for the next to look at the flag).
//  2. The favoured thread raises the flag of its grant and then looks at favour_ again. Either the
//     heavy fence finds the flag raised, so that the other waits, or this second look sees that
//     the grant is gone (Dekker).
//  3. So the section is held by the favoured thread with its flag raised, or by the holder of lock_
//     with nobody favoured and nothing draining, never both.
//  4. A grant's number is never given twice. A thread that is preempted between its two looks, and
//     raises and lowers the flag of a grant that was lost meanwhile, touches nobody else's flag.
//  5. A thread is favoured after kStreak × 4^(grants so far) sections in a row, kGrants times at
//     most: what threads really share stops paying for heavy fences.
//
// Source: biased locks as known from Java runtimes; here revoked by membarrier(2) instead of by
// stopping the thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "weft/base/asymmetric_fence.hpp"
#include "weft/base/backoff.hpp"
#include "weft/base/error.hpp"
#include "weft/base/locks.hpp"

namespace weft::base {

/// See the head of this file.
class BiasedLock {
 public:
  /// Says how the lock was entered; nullptr: not by favour.
  using Flag = std::atomic<bool>*;

  /// Held while it exists.
  class Hold {
   public:
    explicit Hold(BiasedLock& lock) noexcept : lock_(lock) {
      bool inside = false;
      flag_ = lock.enter_as_favoured(&inside);
      WEFT_CHECK(!inside, "a thread entered a section in which it was already");
      if (flag_ == nullptr) [[unlikely]]
        lock_.enter_slowly();
    }
    ~Hold() { lock_.leave(flag_); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    BiasedLock& lock_;
    Flag flag_;
  };

  /// Takes the lock if the caller is its favoured thread; `leave_as_favoured` gives it back.
  /// `inside`, if given, is set when the caller has it already; else that must not be.
  [[nodiscard]] Flag enter_as_favoured(bool* inside = nullptr) noexcept {
    // relaxed: a thread's own name can only have been stored by itself; others' do not matter.
    const Favour favour = favour_.load(std::memory_order_relaxed);
    if ((favour & ~kNumberMask) != self()) [[unlikely]]
      return nullptr;
    const Flag flag = &busy_[favour & kNumberMask];
    // acquire: pairs with leave_as_favoured and leave_slowly, for the case that an ended thread had
    // this name and its successor inherits the favour.
    const bool raised = flag->load(std::memory_order_acquire);
    if (inside != nullptr && raised) [[unlikely]] {
      *inside = true;
      return nullptr;
    }
    flag->store(true, std::memory_order_relaxed);  // relaxed: ordered by the other's membarrier
    std::atomic_signal_fence(std::memory_order_seq_cst);
    // relaxed: the section behind it meets no other thread's writes but those acquired above.
    if (favour_.load(std::memory_order_relaxed) == favour) [[likely]]
      return flag;
    leave_as_favoured(flag);
    return nullptr;
  }
  /// Enters if nobody is inside, not even the caller, without waiting. `leave` with the same flag
  /// gives it back.
  [[nodiscard]] bool try_enter(Flag& flag) noexcept {
    bool inside = false;
    flag = enter_as_favoured(&inside);
    return flag != nullptr || (!inside && try_enter_slowly());
  }
  void leave(Flag flag) noexcept {
    if (flag != nullptr) [[likely]]
      leave_as_favoured(flag);
    else
      leave_slowly();
  }
  // release: pairs with the acquires in is_exclusive and enter_as_favoured.
  static void leave_as_favoured(Flag flag) noexcept {
    flag->store(false, std::memory_order_release);
  }

 private:
  using Favour = std::uintptr_t;
  static constexpr Favour kNobody = 0;
  static constexpr uint32_t kGrants = 8;
  static constexpr Favour kNumberMask = kGrants - 1;
  static constexpr uint32_t kStreak = 16;

  /// Unlike any other living thread's, and free to get; thread control blocks are aligned to lines.
  static Favour self() noexcept { return reinterpret_cast<Favour>(__builtin_thread_pointer()); }

  [[gnu::noinline]] void enter_slowly() noexcept {
    lock_.lock();
    for (Backoff backoff; !is_exclusive();) backoff.pause();
    count_streak();
  }

  [[gnu::noinline]] bool try_enter_slowly() noexcept {
    if (!lock_.try_lock()) return false;
    if (!is_exclusive()) {
      lock_.unlock();
      return false;
    }
    count_streak();
    return true;
  }

  [[gnu::noinline]] void leave_slowly() noexcept {
    if (earned_) [[unlikely]] {
      earned_ = false;
      const uint32_t number = grants_++;
      // release: this section, too, is seen by a thread that inherits the favour.
      busy_[number].store(false, std::memory_order_release);
      favour_.store(self() | number, std::memory_order_relaxed);  // relaxed: read under lock_ only
    }
    lock_.unlock();
  }

  /// (lock_) Takes the favour away if anybody has it; true once nobody is inside by favour.
  bool is_exclusive() noexcept {
    if (favour_.load(std::memory_order_relaxed) != kNobody) {  // relaxed: changed under lock_ only
      favour_.store(kNobody, std::memory_order_relaxed);       // relaxed: the fence orders it
      heavy_fence();
      draining_ = true;
      streak_ = 0;
      last_ = kNobody;
    }
    // acquire: pairs with leave_as_favoured; the favoured thread's section is over and seen.
    if (draining_) draining_ = busy_[grants_ - 1].load(std::memory_order_acquire);
    return !draining_;
  }

  void count_streak() noexcept {
    if (last_ != self()) {
      last_ = self();
      streak_ = 0;
    } else if (grants_ < kGrants && ++streak_ == kStreak << (2 * grants_)) {
      earned_ = detail::has_heavy_fence;
    }
  }

  std::atomic<Favour> favour_{kNobody};
  std::atomic<bool> busy_[kGrants] = {};
  Favour last_ = kNobody;  // under lock_, as the three below
  uint32_t streak_ = 0;
  uint8_t grants_ = 0;
  bool earned_ = false;
  bool draining_ = false;  // the last grant's thread may still be inside
  SpinLock lock_;
};
static_assert(sizeof(BiasedLock) == 32);

}  // namespace weft::base
