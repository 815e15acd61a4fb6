// How contexts, tasks or threads, wait for what others do: who waits, lists of them, and the wait
// for the first of several things. What futures, channels and `select` are made of.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/base/asymmetric_fence.hpp"
#include "weft/base/deadline.hpp"
#include "weft/base/idle_work.hpp"
#include "weft/base/parker.hpp"

namespace weft::task {

/// How an attempt went. In `closed` there never will be anything.
enum class Attempt : uint8_t { done, closed, not_now };

/// Purpose: one context's place in one list of those who wait.
///
/// Owner and lifetime: a local variable of who waits. Once enlisted, it must not end before it was
/// removed from its list, or told: `WaitList::tell` touches it until then, and no longer.
/// Who may call: who waits; of another list only after that.
class WaitEntry {
 public:
  explicit WaitEntry(base::Parker& parker = base::this_parker()) noexcept : parker_(&parker) {}
  WaitEntry(const WaitEntry&) = delete;
  WaitEntry& operator=(const WaitEntry&) = delete;

  [[nodiscard]] base::Parker& parker() const noexcept { return *parker_; }
  /// Was put into a list, and not yet taken out of it by `forget`.
  [[nodiscard]] bool is_enlisted() const noexcept { return enlisted_; }
  [[nodiscard]] bool is_told() const noexcept {
    // acquire: pairs with tell's release; what the teller did is seen, and it is done with us.
    return told_.load(std::memory_order_acquire);
  }
  /// Enlisted, and nobody has told it yet.
  [[nodiscard]] bool waits() const noexcept { return enlisted_ && !is_told(); }

  /// For who was taken out of its list by another: returns when it is told, which is soon.
  void await_told() noexcept {
    while (!is_told()) parker_->park();
  }
  /// In no list any more, and free for the next.
  void forget() noexcept { enlisted_ = false; }

 private:
  friend class WaitList;
  friend class WaitSlot;
  void enlist() noexcept {
    enlisted_ = true;
    told_.store(false, std::memory_order_relaxed);  // the list's own order publishes it
  }

  base::Parker* const parker_;
  bool enlisted_ = false;  ///< as who waits knows
  std::atomic<bool> told_{false};
  // Under the list's lock; then the teller's:
  bool listed_ = false;
  WaitEntry* next_ = nullptr;
  WaitEntry* previous_ = nullptr;
};

/// Purpose: those who wait for one thing, first come, first served.
///
/// Owner and lifetime: part of what is waited for. Taking and telling are two steps, so that
/// nobody is woken under a lock, and what is waited for may end as soon as the lock is given back.
/// Who may call: under the owner's lock; `tell` without it.
class WaitList {
 public:
  WaitList() = default;
  WaitList(const WaitList&) = delete;
  WaitList& operator=(const WaitList&) = delete;

  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  void add(WaitEntry& waiter) noexcept;
  /// False: another took it out, and tells it or has done so.
  [[nodiscard]] bool remove(WaitEntry& waiter) noexcept;
  /// For `tell`; nullptr: there is none.
  [[nodiscard]] WaitEntry* take_first() noexcept;
  [[nodiscard]] WaitEntry* take_all() noexcept;
  /// Wakes those who were taken, oldest first. None of them is touched after it was told.
  static void tell(WaitEntry* taken) noexcept;

 private:
  WaitEntry* first_ = nullptr;
  WaitEntry* last_ = nullptr;
};

/// Purpose: where one context waits for what one other publishes without a lock. As long as nobody
/// has to wait, publishing costs one load more.
///
/// Owner and lifetime: part of what is waited for, which must not end before `ring` and `wake` have
/// returned, though who waits may have gone on by then.
/// Who may call: `ring` who publishes, one context at a time; `add` and `leave` who waits, one
/// context at a time; `wake` anyone.
/// Progress: `ring` and `wake` never wait; `add` may take a microsecond.
/// Invariants
///  1. Who waits puts its name down, fences, and looks once more for what it waits for; who
///     publishes does so, fences, and looks for a name. So one of them sees the other.
///  2. While careful_ is false, the publisher's fence is a light one, and it looks at careful_
///     alone. Who puts its name down sees that, sets careful_, and fences heavily.
///  3. A publisher who met nobody kQuiet times clears careful_, fences, and looks for a name once
///     more: who did not see careful_ cleared, is seen there.
class WaitSlot {
 public:
  WaitSlot() = default;
  WaitSlot(const WaitSlot&) = delete;
  WaitSlot& operator=(const WaitSlot&) = delete;

  /// After something was published: wakes who waits for it.
  void ring() noexcept {
    base::light_fence();  // between what was published and careful_; add has the heavy one
    // relaxed: invariants 1 and 2.
    if (careful_.load(std::memory_order_relaxed)) [[unlikely]]
      ring_carefully();
  }
  /// The same for others than the publisher, at any price.
  void wake() noexcept;
  /// After this, the caller looks once more, and if that was in vain, waits to be told. False:
  /// another entry of the same context is here, and is told instead.
  [[nodiscard]] bool add(WaitEntry& waiter) noexcept;
  /// Returns when `waiter` is here no more, nor about to be told.
  void leave(WaitEntry& waiter) noexcept;

 private:
  static constexpr uint32_t kQuiet = 256;  ///< full fences cost about as much as a heavy one
  void ring_carefully() noexcept;

  std::atomic<bool> careful_{false};
  uint32_t quiet_ = 0;  ///< the publisher's: rings since it met somebody
  std::atomic<WaitEntry*> waiter_{nullptr};
};

/// Something that a context can wait for, alone or as one of several.
class Awaited {
 public:
  Awaited() = default;
  Awaited(const Awaited&) = delete;
  Awaited& operator=(const Awaited&) = delete;

  /// done: it has come, and what there is to take was taken. not_now: it has not, and `waiter`, if
  /// given, will be told (or its parker unparked) when it is worth another attempt. After any other
  /// answer `waiter` is in no list. Called again with the same waiter, told or not, until then.
  virtual Attempt attempt(WaitEntry* waiter) noexcept = 0;
  /// The same waiter will make no other attempt. If it was told of something that it did not take,
  /// the next who waits is told instead.
  virtual void leave(WaitEntry& waiter) noexcept = 0;

 protected:
  virtual ~Awaited() = default;
};

/// What another room tells of, the completion of a message perhaps, as one of the things that a
/// context can wait for. `told` must outlive it.
class AwaitedElsewhere : public Awaited {
 public:
  explicit AwaitedElsewhere(base::Awaited& told) noexcept : told_(told) {}
  Attempt attempt(WaitEntry* waiter) noexcept override {
    if (told_.ready()) {
      is_enrolled_ = false;
      return Attempt::done;
    }
    if (waiter == nullptr) return Attempt::not_now;
    // Before: once enrolled, a coroutine may go on elsewhere, and end this.
    is_enrolled_ = true;
    if (told_.enroll(waiter->parker())) return Attempt::not_now;
    is_enrolled_ = false;
    return Attempt::done;
  }
  /// Who never waited takes nobody's name away.
  void leave(WaitEntry& /*waiter*/) noexcept override {
    if (is_enrolled_) told_.withdraw();
    is_enrolled_ = false;
  }

 private:
  base::Awaited& told_;
  bool is_enrolled_ = false;
};

/// What first_of answers instead of a number.
inline constexpr int kTimedOut = -1;
inline constexpr int kAllClosed = -2;

/// Returns when the first of `all` has come: its number. Of several that have come, the first in
/// order; the others are left as they are. Suspends a task, or its thread; with deadline 0, never.
/// `waiters`: as many, of the calling context.
int first_of(std::span<Awaited* const> all, std::span<WaitEntry> waiters,
             uint64_t deadline_ns) noexcept;

/// For one alone.
inline Attempt wait_for_one(Awaited& awaited, uint64_t deadline_ns) noexcept {
  Awaited* const all[] = {&awaited};
  WaitEntry waiters[1];
  switch (first_of(all, waiters, deadline_ns)) {
    case kTimedOut:
      return Attempt::not_now;
    case kAllClosed:
      return Attempt::closed;
    default:
      return Attempt::done;
  }
}

}  // namespace weft::task
