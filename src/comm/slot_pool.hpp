// The numbers 0..n-1, taken and given back by many threads: the packet pool of 000 §5.2.4.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/base/cache_line.hpp"
#include "weft/base/thread_slot.hpp"

namespace weft::comm {

/// Hands out packet or record numbers; what they number lies elsewhere.
///
/// Owner and lifetime: whoever made it; every caller has returned before it is destroyed. It does
/// not insist on having all numbers back: assert `available() == capacity()` where that is due.
/// Who may call: any thread, any function, at any time. A number may be freed by another thread
/// than the one it was given to.
/// Progress: each deque has a lock held for a dozen instructions (for a block copy by thieves);
/// waiters spin briefly, then yield. `alloc` scans each deque at most once.
/// Layout: one bounded deque (512 bytes) for each thread slot, in memory that is touched only for
/// slots in use; one shared store of at most n numbers behind them. 4n bytes in all beside the
/// deques, whatever the number of threads.
/// Invariants:
///  1. every number is in exactly one place: a deque, the store, never yet given (`fresh`), in a
///     mover's hands, or the caller's;
///  2. a deque's `control` is its number of items, or kBusy while someone has it; `items[0]` is the
///     bottom. Whoever exchanged a count for kBusy alone touches items;
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

  /// Gives `index` back.
  void free(uint32_t index) noexcept;
  /// Gives all of `indices` back.
  void free(std::span<const uint32_t> indices) noexcept;

  [[nodiscard]] uint32_t capacity() const noexcept { return n_; }
  /// Numbers not given out: exact when nobody calls, a hint otherwise. O(threads); for tests,
  /// teardown and reports.
  [[nodiscard]] uint32_t available() const noexcept;

 private:
  static constexpr uint32_t kBusy = ~uint32_t{0};
  static constexpr uint32_t kItems = 127;
  static constexpr uint32_t kBlock = 64;  ///< moved between a deque and the store at once

  struct alignas(base::kCacheLine) Deque {
    std::atomic<uint32_t> control;
    uint32_t items[kItems];
  };
  static_assert(sizeof(Deque) == 512);

  /// Takes the lock; returns the count. Writes at once: a reading test first would fetch a line
  /// that another core owns twice.
  static uint32_t lock(std::atomic<uint32_t>& control) noexcept {
    // acquire: pairs with the release of whoever had it last.
    const uint32_t count = control.exchange(kBusy, std::memory_order_acquire);
    return count != kBusy ? count : lock_slow(control);
  }
  static uint32_t lock_slow(std::atomic<uint32_t>& control) noexcept;
  Deque& own() noexcept { return deques_[base::this_thread_slot()]; }
  uint32_t alloc_slow(Deque& mine) noexcept;
  uint32_t refill_from_store(Deque& mine) noexcept;
  uint32_t steal(Deque& mine) noexcept;
  void keep(Deque& mine, const uint32_t* items, uint32_t count) noexcept;
  void put_in_store(const uint32_t* items, uint32_t count) noexcept;
  void mark_given(uint32_t index) noexcept;
  void mark_free(uint32_t index) noexcept;

  uint32_t n_;
  Deque* deques_ = nullptr;                ///< kThreadSlots of them, zero pages until used
  uint32_t* stored_ = nullptr;             ///< the store: a stack of n places
  std::atomic<uint8_t>* given_ = nullptr;  ///< one for each number, if frees are checked
  std::size_t mapped_bytes_ = 0;
  alignas(base::kCacheLine) mutable std::atomic<uint32_t> store_control_{0};  ///< count or kBusy
  std::atomic<uint32_t> fresh_{0};  ///< first number never given; written under the store's lock
};

inline uint32_t SlotPool::alloc() noexcept {
  Deque& mine = own();
  const uint32_t count = lock(mine.control);
  if (count == 0) [[unlikely]] {
    mine.control.store(0, std::memory_order_relaxed);  // we changed nothing
    return alloc_slow(mine);
  }
  const uint32_t index = mine.items[count - 1];
  // release: pairs with lock's acquire.
  mine.control.store(count - 1, std::memory_order_release);
  if (given_ != nullptr) [[unlikely]]
    mark_given(index);
  return index;
}

inline void SlotPool::free(uint32_t index) noexcept {
  if (given_ != nullptr) [[unlikely]]
    mark_free(index);
  Deque& mine = own();
  const uint32_t count = lock(mine.control);
  if (count < kItems) [[likely]] {
    mine.items[count] = index;
    // release: pairs with lock's acquire.
    mine.control.store(count + 1, std::memory_order_release);
    return;
  }
  mine.control.store(count, std::memory_order_relaxed);  // we changed nothing
  keep(mine, &index, 1);
}

}  // namespace weft::comm
