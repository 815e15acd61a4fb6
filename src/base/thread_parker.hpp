// A kernel thread's parker: a four-state futex word.
//
// Purpose: let one thread sleep until another says so, at the price of one atomic exchange for the
// sayer when nobody sleeps.
// Owner and lifetime: one thread at a time; recycled to a later thread, never unmapped.
// Who may call: park and park_until the owner; unpark anyone.
// Progress: unpark is wait-free (one exchange and at most one system call); park blocks.
// Layout: one cache line, so that unparking one thread disturbs no other's.
// Invariants:
//  1. state is empty, permit, asleep or patient. Only unpark and wake write permit; only the owner
//     writes the others, by compare-and-swap (the pool's reset for a new owner apart), so that no
//     permit is overwritten.
//  2. asleep and patient mean: the owner is in, or on its way into or out of, the futex call. So
//     whoever replaces either by permit owes one wake, and pays it; for patient, a WakeQueue may
//     pay it later.
//  3. The owner leaves park only by replacing permit by empty (or, timed out, asleep by empty).
//  4. A wake that comes late finds another wait, or another thread's: that wait sees no permit and
//     sleeps on (park's loop). A permit that comes late makes one later park return early, which
//     callers expect.
// Source: docs/design/parker.md.
#pragma once

#include <atomic>
#include <cstdint>

#include "weft/base/cache_line.hpp"
#include "weft/base/parker.hpp"

namespace weft::base {

class WakeQueue;

class alignas(kCacheLine) ThreadParker final : public Parker {
 public:
  void park() noexcept override;
  bool park_until(uint64_t deadline_ns) noexcept override;
  void park_patiently() noexcept override;
  void unpark() noexcept override;
  void nudge() noexcept override { wake(); }

  /// The calling thread's, whatever a provider says.
  static ThreadParker& of_this_thread() noexcept;
  /// Takes a permit that is there, without sleeping; false if there is none. Owner only.
  bool try_take_permit() noexcept;

 private:
  friend class ParkerPool;
  friend class WakeQueue;
  enum State : uint32_t { kEmpty, kPermit, kAsleep, kPatient };

  /// Sleeps, in state `asleep`, until there is a permit, and takes it. `deadline_ns` nullptr: for
  /// ever.
  bool wait(const uint64_t* deadline_ns, State asleep = kAsleep) noexcept;
  [[nodiscard]] bool has_permit() const noexcept {
    // relaxed: nothing is read through it.
    return state_.load(std::memory_order_relaxed) == kPermit;
  }
  /// Gives the permit, if it is not there, and makes the owner's futex call return.
  void wake() noexcept;

  std::atomic<uint32_t> state_{kEmpty};
  // Of the pool: whether a live thread owns this parker, and the next of all parkers ever made.
  std::atomic<bool> owned_{true};
  ThreadParker* next_ = nullptr;
  // The WakeQueue it is in; the rest under that queue's lock.
  std::atomic<WakeQueue*> queued_{nullptr};
  ThreadParker* older_ = nullptr;
  ThreadParker* newer_ = nullptr;
  std::atomic<bool> in_turn_{false};  ///< to be woken though nobody gave a permit
};
static_assert(sizeof(ThreadParker) == kCacheLine);

/// All thread parkers ever made. For parker.cpp and tests.
class ParkerPool {
 public:
  static ThreadParker& take();
  static void give_back(ThreadParker& parker) noexcept;
  /// How many were ever made: the most threads that waited at one time, about.
  static unsigned made() noexcept;
};

}  // namespace weft::base
