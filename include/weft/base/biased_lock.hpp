// A short-section lock that is nearly free for the one thread that keeps taking it.
//
// Purpose: guards what one thread uses for long at a time, without anybody naming that thread: the
// sending side of a lane, a device's progress, a few keys of a matching table. (OwnerLock is for
// what has an owner by construction; favour.hpp says what the favoured thread saves.)
// Owner and lifetime: belongs to what it guards; process-private.
// Who may call: any thread of the process; sections of a few dozen instructions, or tried only.
// Progress: the favoured thread enters without waiting while it is favoured. Others wait for the
// section to end as with a spin lock, or see that it is under way (`try_enter`); taking the favour
// away costs one heavy fence. Who needs many such locks at once pays one for all (`begin_closing`).
// Layout: the favour, the common lock, the streak: 24 bytes.
//
// Invariants
//  1. Whoever holds lock_ first takes the favour away, or gives lock_ back.
//  2. So the section is held by the favoured thread, or by the holder of lock_ with nobody favoured
//     and nobody inside by favour, never both.
//  3. A thread is favoured after kStreak × Favour::patience sections in a row.
#pragma once

#include <atomic>
#include <cstdint>

#include "weft/base/backoff.hpp"
#include "weft/base/error.hpp"
#include "weft/base/favour.hpp"
#include "weft/base/locks.hpp"

namespace weft::base {

/// See the head of this file.
class BiasedLock {
 public:
  /// Sections nest at most once in each level: the outer ones may hold inner ones.
  using Level = Favour::Level;
  explicit BiasedLock(Level level = Level::outer) noexcept : favour_(level) {}

  /// Says how the lock was entered; nullptr: not by favour.
  using Mark = Favour::Mark;

  /// Held while it exists.
  class Hold {
   public:
    explicit Hold(BiasedLock& lock) noexcept : lock_(lock), mark_(lock.enter()) {}
    ~Hold() { lock_.leave(mark_); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    BiasedLock& lock_;
    Mark mark_;
  };

  /// Waits until it is the caller's; `leave` with the same mark gives it back.
  [[nodiscard]] Mark enter() noexcept {
    bool inside = false;
    const Mark mark = enter_as_favoured(&inside);
    WEFT_CHECK(!inside, "a thread entered a section in which it was already");
    if (mark == nullptr) enter_slowly();
    return mark;
  }

  /// Takes the lock if the caller is its favoured thread; `leave_as_favoured` gives it back.
  /// `inside`, if given, is set when the caller has it already; else that must not be.
  [[nodiscard]] Mark enter_as_favoured(bool* inside = nullptr) noexcept {
    return favour_.enter(inside);
  }
  /// Enters if nobody is inside, not even the caller, without waiting. `leave` with the same mark
  /// gives it back.
  [[nodiscard]] bool try_enter(Mark& mark) noexcept {
    bool inside = false;
    mark = enter_as_favoured(&inside);
    return mark != nullptr || (!inside && try_enter_slowly());
  }
  void leave(Mark mark) noexcept {
    if (mark != nullptr) [[likely]]
      leave_as_favoured(mark);
    else
      leave_slowly();
  }
  static void leave_as_favoured(Mark mark) noexcept { Favour::leave(mark); }

  // For who needs many at once, and is in none: `begin_closing` all of them, one heavy fence if any
  // answered true, `finish_closing` all of them. Nobody is inside any then, until `reopen`. Two who
  // do so exclude each other by a lock of their own, or begin in the same order.
  [[nodiscard]] bool begin_closing() noexcept {
    lock_.lock();
    last_ = kNobodyKnown;
    return favour_.revoke();
  }
  void finish_closing() noexcept {
    for (Backoff backoff; !favour_.take_away();) backoff.pause();
  }
  void reopen() noexcept { lock_.unlock(); }

 private:
  static constexpr uint32_t kStreak = 16;
  static constexpr uint32_t kNobodyKnown = kThreadSlots;

  [[gnu::noinline]] void enter_slowly() noexcept {
    lock_.lock();
    if (!favour_.is_free()) [[unlikely]]
      take_away();
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

  void leave_slowly() noexcept {
    if (earned_) [[unlikely]]
      take_favour();
    lock_.unlock();
  }

  [[gnu::noinline]] void take_favour() noexcept {
    earned_ = false;
    favour_.give_to_caller();
  }

  /// (lock_) Until nobody has the favour, or is inside by it.
  [[gnu::noinline]] void take_away() noexcept {
    for (Backoff backoff; !is_exclusive();) backoff.pause();
  }

  /// (lock_) Takes the favour away if anybody has it; true once nobody is inside by favour.
  bool is_exclusive() noexcept {
    if (favour_.is_given()) {
      streak_ = 0;
      last_ = kNobodyKnown;
    }
    return favour_.take_away();
  }

  void count_streak() noexcept {
    const unsigned self = this_thread_slot();
    if (last_ != self) {
      last_ = self;
      streak_ = 0;
    } else if (++streak_ >= kStreak * favour_.patience()) {
      earned_ = Favour::may_be_callers();
    }
  }

  Favour favour_;
  SpinLock lock_;
  bool earned_ = false;           ///< (lock_)
  uint32_t last_ = kNobodyKnown;  ///< (lock_) the thread that held it last
  uint32_t streak_ = 0;           ///< (lock_) of its sections
};
static_assert(sizeof(BiasedLock) == 24);

}  // namespace weft::base
