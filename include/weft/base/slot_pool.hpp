// The numbers 0..n-1, taken and given back by many threads: the packet pool of 000 §5.2.4.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/base/cache_line.hpp"
#include "weft/base/locks.hpp"
#include "weft/base/owner_lock.hpp"
#include "weft/base/thread_slot.hpp"

namespace weft::base {

/// Hands out packet or record numbers; what they number lies elsewhere.
///
/// Owner and lifetime: whoever made it; every caller has returned before it is destroyed. It does
/// not insist on having all numbers back: assert `available() == capacity()` where that is due.
/// Who may call: any thread, any function, at any time. A number may be freed by another thread
/// than the one it was given to.
/// Progress: each deque has a lock held for a dozen instructions (for a block copy by thieves and
/// by `alloc_rested`); waiters spin briefly, then yield. `alloc` scans each deque at most once. The
/// lock costs its thread no atomic read-modify-write, and a thief a heavy fence (OwnerLock).
/// Layout: one bounded deque (512 bytes) for each thread slot, in memory that is touched only for
/// slots in use; one shared store of at most n numbers behind them. 4n bytes in all beside the
/// deques, whatever the number of threads.
/// Invariants:
///  1. every number is in exactly one place: a deque, the store, never yet given (`fresh`), in a
///     mover's hands, or the caller's;
///  2. `items[0, count)` of a deque are its numbers, `items[0]` the bottom; they and `count` change
///     under its lock alone, which only the thread of its slot enters as the owner, and nobody the
///     shared slot's;
///  3. nobody holds two locks.
/// Source: 000 §5.2.4. Owner at the top (LIFO: warm), thieves at the bottom, half at a time. Where
/// we depart: deques are bounded and what flows over goes, from the bottom and by the half, to the
/// shared store, so that one-way traffic (allocated here, freed there) moves in blocks and
/// memory does not grow with threads.
class SlotPool {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};
  /// Whether each free is checked against what is out. By default in debug builds alone.
  enum class Checks : uint8_t { by_build, off, on };

  /// The numbers 0..n-1, n < 2^31. Throws weft::Error (no_memory).
  explicit SlotPool(uint32_t n, Checks checks = Checks::by_build);
  ~SlotPool();
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  /// A number that nobody has, or kNone if none was found anywhere.
  [[nodiscard]] uint32_t alloc() noexcept;

  /// The same, but not what the calling thread gave back last: the `depth`-th last of what it keeps
  /// (1 is the last), or the first if that is less. So `depth` numbers go around, for what should
  /// have left other processors' caches before it is written again.
  [[nodiscard]] uint32_t alloc_rested(uint32_t depth) noexcept;

  /// Gives `index` back.
  void free(uint32_t index) noexcept;
  /// Gives all of `indices` back.
  void free(std::span<const uint32_t> indices) noexcept;

  [[nodiscard]] uint32_t capacity() const noexcept { return n_; }
  /// Numbers not given out: exact when nobody calls, a hint otherwise. O(threads); for tests,
  /// teardown and reports.
  [[nodiscard]] uint32_t available() const noexcept;
  /// Of those, the ones that the calling thread keeps: `alloc` gives it these first.
  [[nodiscard]] uint32_t kept() const noexcept { return deques_[this_thread_slot()].size(); }
  /// Numbers from here on were never given to anybody until now.
  [[nodiscard]] uint32_t never_given() const noexcept;

 private:
  static constexpr uint32_t kItems = 126;
  static constexpr uint32_t kBlock = 64;

  struct alignas(kCacheLine) Deque {
    OwnerLock lock;
    std::atomic<uint32_t> count;  ///< atomic for looks without the lock
    uint32_t items[kItems];
    uint32_t size() const noexcept { return count.load(std::memory_order_relaxed); }
    void resize(uint32_t to) noexcept { count.store(to, std::memory_order_relaxed); }
  };
  static_assert(sizeof(Deque) == 512);
  /// A deque's lock while this exists; the caller's own deque by the cheap way where it may.
  class Hold;

  /// Whether the calling thread, whose slot's deque this is, may enter as the owner.
  [[nodiscard]] bool is_own(const Deque& deque) const noexcept {
    return &deque - deques_ != kSharedThreadSlot;
  }
  uint32_t alloc_slow(Deque& mine) noexcept;
  uint32_t refill_from_store(Deque& mine) noexcept;
  uint32_t steal(Deque& mine) noexcept;
  void keep(Deque& mine, const uint32_t* items, uint32_t count) noexcept;
  void put_in_store(const uint32_t* items, uint32_t count) noexcept;
  void mark_given(uint32_t index) noexcept;
  void mark_free(uint32_t index) noexcept;

  uint32_t n_;
  uint32_t most_;   ///< that a deque keeps: fewer in a small pool, or thieves would live on it
  uint32_t block_;  ///< moved between a deque and the store at once
  Deque* deques_ = nullptr;                ///< kThreadSlots of them, zero pages until used
  uint32_t* stored_ = nullptr;             ///< the store: a stack of n places
  std::atomic<uint8_t>* given_ = nullptr;  ///< one for each number, if frees are checked
  std::size_t mapped_bytes_ = 0;
  alignas(kCacheLine) mutable SpinLock store_lock_;
  uint32_t stored_count_ = 0;  ///< under the store's lock, as the next
  uint32_t fresh_ = 0;         ///< first number never given
};

class SlotPool::Hold {
 public:
  Hold(Deque& deque, bool own) noexcept
      : deque_(deque), as_owner_(own && deque.lock.try_enter_as_owner()) {
    if (!as_owner_) [[unlikely]]
      deque_.lock.enter();
  }
  ~Hold() {
    if (as_owner_) [[likely]]
      deque_.lock.leave_as_owner();
    else
      deque_.lock.leave();
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  Deque& deque_;
  bool as_owner_;
};

inline uint32_t SlotPool::alloc() noexcept { return alloc_rested(1); }

[[gnu::always_inline]] inline uint32_t SlotPool::alloc_rested(uint32_t depth) noexcept {
  const unsigned slot = this_thread_slot();
  Deque& mine = deques_[slot];
  uint32_t index = kNone;
  {
    const Hold hold(mine, slot != kSharedThreadSlot);
    if (const uint32_t count = mine.size(); count != 0) [[likely]] {
      const uint32_t at = depth > 1 ? count - std::min(depth, count) : count - 1;
      index = mine.items[at];
      if (depth > 1) std::copy(mine.items + at + 1, mine.items + count, mine.items + at);
      mine.resize(count - 1);
    }
  }
  if (index == kNone) [[unlikely]]
    return alloc_slow(mine);
  if (given_ != nullptr) [[unlikely]]
    mark_given(index);
  return index;
}

inline void SlotPool::free(uint32_t index) noexcept {
  if (given_ != nullptr) [[unlikely]]
    mark_free(index);
  const unsigned slot = this_thread_slot();
  Deque& mine = deques_[slot];
  {
    const Hold hold(mine, slot != kSharedThreadSlot);
    if (const uint32_t count = mine.size(); count < most_) [[likely]] {
      mine.items[count] = index;
      mine.resize(count + 1);
      return;
    }
  }
  keep(mine, &index, 1);
}

}  // namespace weft::base
