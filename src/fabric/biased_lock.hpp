// A short-section lock that is nearly free for the one thread that keeps taking it.
//
// Purpose: guards the sending side of a lane. Most lanes are used by one thread for long; for it a
// section costs two plain stores and two loads, where an atomic exchange would also wait for every
// earlier store to leave the store buffer, and with it for the cache lines of the ring.
// Owner and lifetime: belongs to what it guards; process-private.
// Who may call: any thread of the process; sections of a few dozen instructions.
// Progress: the favoured thread enters without waiting while it is favoured. Others wait for the
// section to end as with a spin lock; taking the favour away costs one membarrier.
// Layout: favoured thread and its busy flag, the common lock, the streak: 24 bytes.
//
// Invariants
//  1. favoured_ is changed only under lock_. While it names a thread, whoever else holds lock_
//     first takes the favour away: stores kNobody, executes a membarrier, waits for busy_ = 0.
//  2. The favoured thread raises busy_ and then looks at favoured_ again. Either the membarrier
//     finds busy_ raised, so that the other waits, or this second look sees kNobody (Dekker).
//  3. So the section is held by the favoured thread with busy_ raised, or by the holder of lock_
//     with nobody favoured, never both.
//  4. A thread is favoured after it took the lock kStreak × 2^(times the favour was lost) times in
//     a row, so that lanes that threads really share stop paying for membarriers.
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
  /// Held while it exists.
  class Hold {
   public:
    explicit Hold(BiasedLock& lock) noexcept : lock_(lock), favoured_(lock.enter()) {}
    ~Hold() { lock_.leave(favoured_); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    BiasedLock& lock_;
    bool favoured_;
  };

  /// Takes the lock if the caller is its favoured thread; then `leave_as_favoured` gives it back.
  [[nodiscard]] bool enter_as_favoured() noexcept {
    const Thread me = self();
    // relaxed: a thread's own name can only have been stored by itself; others' do not matter.
    if (favoured_.load(std::memory_order_relaxed) != me) [[unlikely]]
      return false;
    // acquire: pairs with leave's release, for the case that an ended thread had this name.
    (void)busy_.load(std::memory_order_acquire);
    busy_.store(true, std::memory_order_relaxed);  // relaxed: ordered by the other's membarrier
    std::atomic_signal_fence(std::memory_order_seq_cst);
    // relaxed: the section behind it meets no other thread's writes but those acquired above.
    if (favoured_.load(std::memory_order_relaxed) == me) [[likely]]
      return true;
    leave_as_favoured();
    return false;
  }
  // release: pairs with revoke's acquire.
  void leave_as_favoured() noexcept { busy_.store(false, std::memory_order_release); }

 private:
  using Thread = std::uintptr_t;
  static constexpr Thread kNobody = 0;
  static constexpr uint32_t kStreak = 16;
  static constexpr uint32_t kMostLosses = 12;

  /// Unlike any other living thread's, and free to get.
  static Thread self() noexcept { return reinterpret_cast<Thread>(__builtin_thread_pointer()); }

  [[nodiscard]] bool enter() noexcept {
    if (enter_as_favoured()) [[likely]]
      return true;
    enter_slowly(self());
    return false;
  }

  void leave(bool favoured) noexcept {
    if (favoured)
      leave_as_favoured();
    else
      lock_.unlock();
  }

  [[gnu::noinline]] void enter_slowly(Thread me) noexcept {
    lock_.lock();
    if (favoured_.load(std::memory_order_relaxed) != kNobody) revoke();  // relaxed: under lock_
    if (last_ != me) {
      last_ = me;
      streak_ = 0;
    } else if (++streak_ == kStreak << losses_ && losses_ < kMostLosses &&
               private_barrier_works()) {
      // From the next time on. This time lock_ keeps the others out as well.
      favoured_.store(me, std::memory_order_relaxed);  // relaxed: read by others under lock_ only
    }
  }

  void revoke() noexcept {
    favoured_.store(kNobody, std::memory_order_relaxed);  // relaxed: the membarrier orders it
    private_barrier();
    // acquire: pairs with leave's release; the favoured thread's section is over and seen.
    while (busy_.load(std::memory_order_acquire)) sched_yield();
    ++losses_;
    streak_ = 0;
    last_ = kNobody;
  }

  std::atomic<Thread> favoured_{kNobody};
  Thread last_ = kNobody;  // under lock_, as the two below
  uint32_t streak_ = 0;
  uint16_t losses_ = 0;
  std::atomic<bool> busy_{false};
  base::SpinLock lock_;
};
static_assert(sizeof(BiasedLock) == 24);

}  // namespace weft::fabric
