// Lists of waiters, and the loop that waits for the first of several things.
#include "weft/task/wait_list.hpp"

#include <algorithm>
#include <utility>

#include "weft/base/error.hpp"
#include "weft/base/turn.hpp"
#include "weft/task/task.hpp"

namespace weft::task {

// ---- a list ------------------------------------------------------------------------------------

void WaitList::add(WaitEntry& waiter) noexcept {
  waiter.enlist();
  waiter.listed_ = true;
  waiter.next_ = nullptr;
  waiter.previous_ = last_;
  (last_ != nullptr ? last_->next_ : first_) = &waiter;
  last_ = &waiter;
}

bool WaitList::remove(WaitEntry& waiter) noexcept {
  if (!waiter.listed_) return false;
  waiter.listed_ = false;
  (waiter.previous_ != nullptr ? waiter.previous_->next_ : first_) = waiter.next_;
  (waiter.next_ != nullptr ? waiter.next_->previous_ : last_) = waiter.previous_;
  return true;
}

WaitEntry* WaitList::take_first() noexcept {
  WaitEntry* const first = first_;
  if (first == nullptr) return nullptr;
  (void)remove(*first);
  first->next_ = nullptr;
  return first;
}

WaitEntry* WaitList::take_all() noexcept {
  for (WaitEntry* waiter = first_; waiter != nullptr; waiter = waiter->next_)
    waiter->listed_ = false;
  last_ = nullptr;
  return std::exchange(first_, nullptr);
}

void WaitList::tell(WaitEntry* taken) noexcept {
  while (taken != nullptr) {
    WaitEntry* const next = taken->next_;
    base::Parker& parker = *taken->parker_;  // outlives its context
    // release: pairs with is_told's acquire. The last that we do with it: it may end now.
    taken->told_.store(true, std::memory_order_release);
    parker.unpark();
    taken = next;
  }
}

// ---- a slot ------------------------------------------------------------------------------------

bool WaitSlot::add(WaitEntry& waiter) noexcept {
  // relaxed: an entry that is there is the caller's own.
  if (WaitEntry* const other = waiter_.load(std::memory_order_relaxed); other != nullptr) {
    WEFT_CHECK(&other->parker() == &waiter.parker(), "one waits here at a time");
    waiter.forget();  // what it was told when it was here stands in the way of sleep
    return false;
  }
  waiter.enlist();
  waiter.next_ = nullptr;
  // release: pairs with wake's exchange; the waiter is seen whole.
  waiter_.store(&waiter, std::memory_order_release);
  // seq_cst: between the name and what the caller looks at next, and careful_; pairs with
  // ring_carefully's and wake's.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!careful_.load(std::memory_order_relaxed)) {
    careful_.store(true, std::memory_order_relaxed);  // published by the fence
    base::heavy_fence();                              // pairs with ring's light one
  }
  return true;
}

void WaitSlot::leave(WaitEntry& waiter) noexcept {
  if (!waiter.is_enlisted()) return;
  WaitEntry* mine = &waiter;
  // relaxed: nothing was told. Else who took it tells it.
  if (!waiter_.compare_exchange_strong(mine, nullptr, std::memory_order_relaxed)) {
    waiter.await_told();
  }
  waiter.forget();
}

void WaitSlot::wake() noexcept {
  // seq_cst: between what was published and the name; pairs with add's.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (waiter_.load(std::memory_order_relaxed) == nullptr) return;
  // acquire: pairs with add's release.
  WaitList::tell(waiter_.exchange(nullptr, std::memory_order_acquire));
}

void WaitSlot::ring_carefully() noexcept {
  // seq_cst: as in wake.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (waiter_.load(std::memory_order_relaxed) != nullptr) {
    quiet_ = 0;
    WaitList::tell(waiter_.exchange(nullptr, std::memory_order_acquire));  // as in wake
    return;
  }
  if (++quiet_ < kQuiet) return;
  quiet_ = 0;
  careful_.store(false, std::memory_order_relaxed);
  wake();  // invariant 3
}

// ---- the first of several ----------------------------------------------------------------------

namespace {

/// False: the deadline has come.
bool sleep(std::span<WaitEntry> waiters, uint64_t deadline_ns) noexcept {
  base::Parker& parker = waiters.front().parker();
  if (deadline_ns != kNoDeadline) return parker.park_until(deadline_ns);
  // A task lets its worker do something else; a thread's way into the kernel and back is long.
  if (!this_task().valid()) {
    // One whose attempt has ended in `closed` is told of nothing more.
    const auto is_told = [](const WaitEntry& waiter) {
      return waiter.is_enlisted() && waiter.is_told();
    };
    for (base::BriefSpin spin; spin.again();) {
      if (std::ranges::any_of(waiters, is_told)) return true;
    }
  }
  parker.park();
  return true;
}

/// The number of the first that has come; kTimedOut: none yet; kAllClosed: none ever will.
int attempt_all(std::span<Awaited* const> all, std::span<WaitEntry> waiters,
                bool may_wait) noexcept {
  bool any_open = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Attempt attempt = all[i]->attempt(may_wait ? &waiters[i] : nullptr);
    if (attempt == Attempt::done) return static_cast<int>(i);
    any_open |= attempt == Attempt::not_now;
  }
  return any_open ? kTimedOut : kAllClosed;
}

}  // namespace

int first_of(std::span<Awaited* const> all, std::span<WaitEntry> waiters,
             uint64_t deadline_ns) noexcept {
  const bool may_wait = deadline_ns != 0;
  int which = attempt_all(all, waiters, may_wait);
  for (bool in_time = may_wait; which == kTimedOut && in_time;) {
    in_time = sleep(waiters, deadline_ns);
    which = attempt_all(all, waiters, true);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (static_cast<int>(i) != which) all[i]->leave(waiters[i]);
  }
  return which;
}

}  // namespace weft::task
