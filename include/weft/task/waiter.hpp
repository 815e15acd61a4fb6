// Who waits for a synchronization object: a node on the waiter's own stack. Not for programs.
#pragma once

#include <atomic>
#include <cstdint>

#include "weft/base/backoff.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/deadline.hpp"
#include "weft/base/parker.hpp"

namespace weft::task::detail {

/// What a waiter was told.
enum class Grant : uint32_t {
  none,
  chance,  ///< try again
  given,   ///< what it waits for is its own, or has happened
};

/// One wait of one context, task or thread.
///
/// Owner and lifetime: on the stack of who waits. Whoever unlinks it from its object grants it,
/// once and as the last access to it; a waiter that somebody else unlinked waits for that grant,
/// whatever its deadline says, so that nothing is lost and nobody writes into a stack that has gone
/// on. Who may call: `wait…`, `reset` its owner; `grant` who unlinked it. The links belong to
/// whoever holds the object's queue. Progress: `grant` never waits. `wait` suspends a task at once
/// (the scheduler looks on for a moment where nothing else can run); a thread spins briefly first.
class alignas(base::kCacheLine) Waiter {
 public:
  /// Of the calling context.
  Waiter() noexcept;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  /// Until granted.
  void wait() noexcept { (void)wait_until(kNoDeadline); }
  /// False: the deadline passed, and nothing had been granted yet.
  [[nodiscard]] bool wait_until(uint64_t deadline_ns) noexcept;
  [[nodiscard]] Grant granted() const noexcept {
    // acquire: pairs with grant's release; what the granter wrote is seen.
    return granted_.load(std::memory_order_acquire);
  }
  void grant(Grant what) noexcept {
    base::Parker& parker = parker_;  // outlives the wait; the waiter need not
    // release: pairs with granted's acquire.
    granted_.store(what, std::memory_order_release);
    parker.unpark();
  }
  /// To be linked once more; after a grant.
  void reset() noexcept { granted_.store(Grant::none, std::memory_order_relaxed); }
  [[nodiscard]] bool is_task() const noexcept { return is_task_; }

  Waiter* next = nullptr;
  Waiter* previous = nullptr;
  bool linked = false;   ///< in a WaiterList
  bool insists = false;  ///< Mutex: it wants the mutex itself, not a chance

 private:
  std::atomic<Grant> granted_{Grant::none};
  const bool is_task_;
  base::Parker& parker_;
};

/// Grants all of a stack of waiters, linked by `next`.
inline void grant_all(Waiter* first, Grant what) noexcept {
  while (first != nullptr) {
    Waiter* const next = first->next;  // not to be read after the grant
    first->grant(what);
    first = next;
  }
}

/// First come, first served; who timed out leaves from anywhere. Who may call: whoever holds the
/// object's queue; `looks_empty` anyone, for a hint.
class WaiterList {
 public:
  [[nodiscard]] bool looks_empty() const noexcept {
    return first_.load(std::memory_order_relaxed) == nullptr;
  }
  void push_back(Waiter& waiter) noexcept { link(waiter, last_, nullptr); }
  void push_front(Waiter& waiter) noexcept {
    link(waiter, nullptr, first_.load(std::memory_order_relaxed));
  }
  void remove(Waiter& waiter) noexcept {
    set_next(waiter.previous, waiter.next);
    set_previous(waiter.next, waiter.previous);
    waiter.linked = false;
  }
  /// nullptr: there is none.
  Waiter* pop_front() noexcept {
    Waiter* const first = first_.load(std::memory_order_relaxed);
    if (first != nullptr) remove(*first);
    return first;
  }
  /// All of them, as a stack for grant_all.
  Waiter* pop_all() noexcept {
    Waiter* const first = first_.load(std::memory_order_relaxed);
    for (Waiter* each = first; each != nullptr; each = each->next) each->linked = false;
    first_.store(nullptr, std::memory_order_relaxed);
    last_ = nullptr;
    return first;
  }

 private:
  void set_next(Waiter* of, Waiter* next) noexcept {
    if (of != nullptr) {
      of->next = next;
    } else {
      first_.store(next, std::memory_order_relaxed);
    }
  }
  void set_previous(Waiter* of, Waiter* previous) noexcept {
    (of != nullptr ? of->previous : last_) = previous;
  }
  void link(Waiter& waiter, Waiter* previous, Waiter* next) noexcept {
    waiter.previous = previous;
    waiter.next = next;
    waiter.linked = true;
    set_next(previous, &waiter);
    set_previous(next, &waiter);
  }

  std::atomic<Waiter*> first_{nullptr};  ///< relaxed: under the queue, but for looks_empty
  Waiter* last_ = nullptr;
};

/// A queue's lock as a bit of the word that says what the object's state is: so that one store ends
/// both the section and the caller's last access to the object. Held for a few instructions, never
/// across anything that suspends. What the word was, without the bit.
template <class Word>
Word enter_queue(std::atomic<Word>& word, Word bit) noexcept {
  base::Backoff backoff;
  for (;;) {
    // acquire: pairs with the release that left the queue before; the links are seen.
    const Word before = word.fetch_or(bit, std::memory_order_acquire);
    if ((before & bit) == 0) [[likely]]
      return before;
    do {
      backoff.pause();
      // relaxed: only decides when to try again.
    } while ((word.load(std::memory_order_relaxed) & bit) != 0);
  }
}

/// The top of a stack of waiters and a number, in one word: both change at once.
struct WaiterWord {
  static constexpr unsigned kNumberBits = 22;
  static constexpr uint64_t kNumbers = uint64_t{1} << kNumberBits;  ///< they go round
  // Of an address of 48 bits a cache line's alignment leaves 42.
  static constexpr unsigned kShift = 64 - 48;
  static_assert((uint64_t{1} << (kNumberBits - kShift)) == alignof(Waiter));

  static uint64_t make(const Waiter* top, uint64_t number) noexcept {
    return (reinterpret_cast<uint64_t>(top) << kShift) | (number & (kNumbers - 1));
  }
  static Waiter* top(uint64_t word) noexcept {
    return reinterpret_cast<Waiter*>((word >> kNumberBits) << (kNumberBits - kShift));
  }
  static uint64_t number(uint64_t word) noexcept { return word & (kNumbers - 1); }
};

}  // namespace weft::task::detail
