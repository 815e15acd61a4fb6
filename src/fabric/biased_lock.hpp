// A short-section lock that is nearly free for the one thread that keeps taking it.
//
// Purpose: guards the sending side of a lane. Most lanes are used by one thread for long; for it a
// section costs two plain stores and two loads, where an atomic exchange would also wait for every
// earlier store to leave the store buffer, and with it for the cache lines of the ring.
// Owner and lifetime: belongs to what it guards; process-private.
// Who may call: any thread of the process; sections of a few dozen instructions.
// Progress: the favoured thread enters without waiting while it is favoured. Others wait for the
// section to end as with a spin lock; taking the favour away costs one membarrier.
// Layout: favour (thread and number of the grant), a busy flag for each grant, the common lock, the
// streak: 32 bytes.
//
// Invariants
//  1. favour_ is changed only under lock_. While it names a thread, whoever else holds lock_ first
//     takes it away: stores kNobody, executes a membarrier, waits for the grant's busy flag.
//  2. The favoured thread raises the flag of its grant and then looks at favour_ again. Either the
//     membarrier finds the flag raised, so that the other waits, or this second look sees that the
//     grant is gone (Dekker).
//  3. So the section is held by the favoured thread with its flag raised, or by the holder of lock_
//     with nobody favoured, never both.
//  4. A grant's number is never given twice. A thread that is preempted between its two looks, and
//     raises and lowers the flag of a grant that was lost meanwhile, touches nobody else's flag.
//  5. A thread is favoured after kStreak × 4^(grants so far) sections in a row, so that lanes that
//     threads really share stop paying for membarriers; after kGrants, nobody is any more.
//
// Source: biased locks as known from Java runtimes; here revoked by membarrier instead of by
// stopping the thread.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "fabric/membarrier.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/locks.hpp"

namespace weft::fabric {

class BiasedLock {
 public:
  /// Says how the lock was entered; nullptr: not by favour.
  using Flag = std::atomic<bool>*;

  /// Held while it exists.
  class Hold {
   public:
    explicit Hold(BiasedLock& lock) noexcept : lock_(lock), flag_(lock.enter_as_favoured()) {
      if (flag_ == nullptr) [[unlikely]]
        lock_.enter_slowly();
    }
    ~Hold() {
      if (flag_ != nullptr) [[likely]]
        leave_as_favoured(flag_);
      else
        lock_.leave_slowly();
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    BiasedLock& lock_;
    Flag flag_;
  };

  /// Takes the lock if the caller is its favoured thread; `leave_as_favoured` gives it back.
  [[nodiscard]] Flag enter_as_favoured() noexcept {
    // relaxed: a thread's own name can only have been stored by itself; others' do not matter.
    const Favour favour = favour_.load(std::memory_order_relaxed);
    if ((favour & ~kNumberMask) != self()) [[unlikely]]
      return nullptr;
    const Flag flag = &busy_[favour & kNumberMask];
    // acquire: pairs with leave_as_favoured and leave_slowly, for the case that an ended thread had
    // this name and its successor inherits the favour.
    (void)flag->load(std::memory_order_acquire);
    flag->store(true, std::memory_order_relaxed);  // relaxed: ordered by the other's membarrier
    std::atomic_signal_fence(std::memory_order_seq_cst);
    // relaxed: the section behind it meets no other thread's writes but those acquired above.
    if (favour_.load(std::memory_order_relaxed) == favour) [[likely]]
      return flag;
    leave_as_favoured(flag);
    return nullptr;
  }
  // release: pairs with the acquires in take_favour_away and enter_as_favoured.
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
    if (favour_.load(std::memory_order_relaxed) != kNobody)  // relaxed: changed under lock_ only
      take_favour_away();
    if (last_ != self()) {
      last_ = self();
      streak_ = 0;
    } else if (grants_ < kGrants && ++streak_ == kStreak << (2 * grants_)) {
      earned_ = private_barrier_works();
    }
  }

  void leave_slowly() noexcept {
    if (earned_) [[unlikely]] {
      earned_ = false;
      const uint32_t number = grants_++;
      // release: this section, too, is seen by a thread that inherits the favour.
      busy_[number].store(false, std::memory_order_release);
      favour_.store(self() | number, std::memory_order_relaxed);  // relaxed: read under lock_ only
    }
    lock_.unlock();
  }

  void take_favour_away() noexcept {
    const std::atomic<bool>& busy = busy_[favour_.load(std::memory_order_relaxed) & kNumberMask];
    favour_.store(kNobody, std::memory_order_relaxed);  // relaxed: the membarrier orders it
    private_barrier();
    // acquire: pairs with leave_as_favoured; the favoured thread's section is over and seen.
    while (busy.load(std::memory_order_acquire)) sched_yield();
    streak_ = 0;
    last_ = kNobody;
  }

  std::atomic<Favour> favour_{kNobody};
  std::atomic<bool> busy_[kGrants] = {};
  Favour last_ = kNobody;  // under lock_, as the three below
  uint32_t streak_ = 0;
  uint8_t grants_ = 0;
  bool earned_ = false;
  base::SpinLock lock_;
};
static_assert(sizeof(BiasedLock) == 32);

}  // namespace weft::fabric
