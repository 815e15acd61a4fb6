// A bounded many-producer many-consumer queue whose items each travel on one cache line.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

#include "weft/base/cache_line.hpp"

namespace weft::comm {

/// Completed events, first packets and deferred work on their way between threads.
///
/// Owner and lifetime: whoever made it; every caller has returned before it is destroyed.
/// Who may call: any thread, any function, at any time.
/// Progress: no call ever waits. A claim is one compare-and-swap that fails only because another
/// succeeded. A producer stopped between claim and publish hides its item and those behind it:
/// `try_pop` answers false, it does not spin. A consumer stopped between claim and release makes
/// `try_push` answer false once the ring comes round to its cell.
/// Order: first in, first out in the order of claims; so per producer in its own order.
/// Layout: `capacity` cells of one line, sequence number and item together, so an item costs one
/// line's transfer each way; the two claim counters on a line each.
/// Invariants, for the cell at index i and the claims p with p mod capacity == i:
///  1. sequence == p: free for the producer that claims p, nobody reads or writes the item;
///  2. sequence == p + 1: the item of claim p is in it; only the consumer that claims p touches it;
///  3. between a claim and the store of the next sequence exactly the claimer touches the item;
///  4. head <= tail <= head + capacity, up to claims whose release is under way.
/// Source: D. Vyukov's bounded queue, as known; the in-place calls and look-ahead are ours.
template <class T>
class BoundedQueue {
  static_assert(std::is_trivially_copyable_v<T>, "a cell is copied, never constructed");
  static_assert(sizeof(T) <= base::kCacheLine - sizeof(uint64_t), "item and sequence on one line");
  static_assert(alignof(T) <= 8);

  static constexpr std::size_t kMost = std::size_t{1} << 50;

 public:
  /// Room for `capacity` items, rounded up to a power of two (at least 2). Allocates; may throw
  /// std::bad_alloc, as it does for more than memory could hold.
  explicit BoundedQueue(std::size_t capacity)
      : mask_(std::bit_ceil(std::clamp(capacity, std::size_t{2}, kMost)) - 1),
        cells_(new Cell[mask_ + 1]) {
    for (std::size_t i = 0; i <= mask_; ++i) cells_[i].sequence.store(i, std::memory_order_relaxed);
  }
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  [[nodiscard]] std::size_t capacity() const noexcept { return mask_ + 1; }

  /// Appends what `fill(T&)` writes into the cell; false if full. `fill` is a few stores: it runs
  /// between claim and publish. The cell's old content is unspecified.
  template <class F>
  [[nodiscard]] bool try_push_with(F&& fill) noexcept {
    uint64_t at = producers_.next.load(std::memory_order_relaxed);  // a guess; the sequence decides
    for (;;) {
      Cell& cell = cells_[at & mask_];
      // acquire: pairs with try_pop's release; its reader is done with the item.
      const uint64_t sequence = cell.sequence.load(std::memory_order_acquire);
      if (sequence == at) {
        // relaxed: the claim orders nothing; the cell's sequence does.
        if (producers_.next.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
          look_ahead(producers_, at);
          fill(*reinterpret_cast<T*>(cell.item));
          // release: pairs with try_pop's acquire; the item is seen with its sequence.
          cell.sequence.store(at + 1, std::memory_order_release);
          return true;
        }
      } else if (static_cast<int64_t>(sequence - at) < 0) {
        end_run(producers_);
        return false;
      } else {
        at = producers_.next.load(std::memory_order_relaxed);
      }
    }
  }

  /// As try_push_with, for a producer that knows itself to be the only one now (by a lock of its
  /// own): saves the compare-and-swap.
  template <class F>
  [[nodiscard]] bool try_push_alone_with(F&& fill) noexcept {
    const uint64_t at = producers_.next.load(std::memory_order_relaxed);  // ours alone
    Cell& cell = cells_[at & mask_];
    // acquire: pairs with try_pop's release; its reader is done with the item.
    if (cell.sequence.load(std::memory_order_acquire) != at) [[unlikely]]
      return false;
    producers_.next.store(at + 1, std::memory_order_relaxed);  // as above
    fill(*reinterpret_cast<T*>(cell.item));
    // release: pairs with try_pop's acquire; the item is seen with its sequence.
    cell.sequence.store(at + 1, std::memory_order_release);
    return true;
  }

  [[nodiscard]] bool try_push(const T& item) noexcept {
    return try_push_with([&](T& cell) { cell = item; });
  }

  /// Hands the oldest item to `take(const T&)` where it lies; false if there is none. `take` is a
  /// few loads: it runs between claim and release.
  template <class F>
  [[nodiscard]] bool try_pop_with(F&& take) noexcept {
    uint64_t at = consumers_.next.load(std::memory_order_relaxed);  // a guess; the sequence decides
    for (;;) {
      Cell& cell = cells_[at & mask_];
      // acquire: pairs with try_push's release; the item is visible.
      const uint64_t sequence = cell.sequence.load(std::memory_order_acquire);
      if (sequence == at + 1) {
        // relaxed: the claim orders nothing; the cell's sequence does.
        if (consumers_.next.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
          look_ahead(consumers_, at);
          take(*reinterpret_cast<const T*>(cell.item));
          // release: pairs with try_push's acquire a round later; our reads are done.
          cell.sequence.store(at + mask_ + 1, std::memory_order_release);
          return true;
        }
      } else if (static_cast<int64_t>(sequence - (at + 1)) < 0) {
        end_run(consumers_);
        return false;
      } else {
        at = consumers_.next.load(std::memory_order_relaxed);
      }
    }
  }

  [[nodiscard]] bool try_pop(T& item) noexcept {
    return try_pop_with([&](const T& cell) { item = cell; });
  }

  /// True if `try_pop` would find nothing now. A few loads, for those who look again and again.
  [[nodiscard]] bool seems_empty() noexcept {
    const uint64_t at = consumers_.next.load(std::memory_order_relaxed);
    // relaxed: whoever finds an item goes on to try_pop_with.
    const uint64_t sequence = cells_[at & mask_].sequence.load(std::memory_order_relaxed);
    if (static_cast<int64_t>(sequence - (at + 1)) >= 0) return false;
    end_run(consumers_);
    return true;
  }

  /// Items taken so far; a hint, as the next.
  [[nodiscard]] uint64_t taken() const noexcept {
    return consumers_.next.load(std::memory_order_relaxed);
  }
  /// Claims outstanding: exact when nobody calls, a hint otherwise.
  [[nodiscard]] std::size_t size_hint() const noexcept {
    const uint64_t head = consumers_.next.load(std::memory_order_relaxed);
    const uint64_t tail = producers_.next.load(std::memory_order_relaxed);
    return tail > head ? static_cast<std::size_t>(tail - head) : 0;
  }

 private:
  struct alignas(base::kCacheLine) Cell {
    std::atomic<uint64_t> sequence;
    alignas(8) std::byte item[base::kCacheLine - sizeof(uint64_t)];
  };
  static_assert(sizeof(Cell) == base::kCacheLine);

  /// One side's claims, and how well they went lately.
  struct alignas(base::kCacheLine) Claims {
    std::atomic<uint64_t> next{0};
    std::atomic<uint32_t> run{0};  ///< claims since one found nothing, at most kRun
  };

  /// After a long run, asks for the cell some places on, for writing. A claim is an atomic
  /// operation, which waits until all earlier stores are done; a store into a cell that the other
  /// side's core still holds would make it wait for the transfer. Close behind the other side it
  /// would take away what that is about to use: hence the run.
  void look_ahead(Claims& side, uint64_t at) noexcept {
    // relaxed, and racy between threads of one side: a hint that decides about a prefetch.
    const uint32_t run = side.run.load(std::memory_order_relaxed);
    if (run >= kRun) {
      base::prefetch_for_write(&cells_[(at + kAhead) & mask_]);
    } else {
      side.run.store(run + 1, std::memory_order_relaxed);
    }
  }
  static void end_run(Claims& side) noexcept {
    if (side.run.load(std::memory_order_relaxed) != 0) side.run.store(0, std::memory_order_relaxed);
  }
  static constexpr uint32_t kAhead = 8;
  static constexpr uint32_t kRun = 64;

  const std::size_t mask_;
  const std::unique_ptr<Cell[]> cells_;
  Claims producers_;
  Claims consumers_;
};

}  // namespace weft::comm
