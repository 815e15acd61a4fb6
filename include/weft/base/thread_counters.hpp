// Counters that any thread adds to in a cell of its own, summed by whoever reads.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/base/cache_line.hpp"
#include "weft/base/records.hpp"
#include "weft/base/thread_slot.hpp"

namespace weft::base {

/// N counters with a cell per thread slot. For what has no single owner; where one thread or lock
/// holder writes, CounterCells is smaller and a nanosecond cheaper.
///
/// Who may call: everyone, at any time. An addition is a load and a store on a line that no other
/// thread writes; with more live threads than slots the last cell is shared, and takes a fetch-add.
/// Relaxed unless told otherwise: counters order nothing, but who reads with acquire sees what came
/// before each addition with release that is in the sum. A sum read while threads add lies between
/// the sums at the start and at the end of the read.
/// Memory: kThreadSlots cells of whole cache lines, zeroed; give it static or mapped storage, of
/// which pages are touched only as far as slots are used.
template <std::size_t N>
class ThreadCounters {
 public:
  /// The calling thread's cell, for several additions in a row; not for another thread.
  class Mine {
   public:
    void add(std::size_t index, uint64_t n = 1,
             std::memory_order order = std::memory_order_relaxed) noexcept {
      std::atomic<uint64_t>& value = values_[index];
      if (shared_) [[unlikely]] {
        value.fetch_add(n, order);
      } else {
        value.store(value.load(std::memory_order_relaxed) + n, order);
      }
    }

   private:
    friend ThreadCounters;
    Mine(std::atomic<uint64_t>* values, bool shared) noexcept : values_(values), shared_(shared) {}
    std::atomic<uint64_t>* values_;
    bool shared_;
  };

  [[nodiscard]] Mine mine() noexcept {
    const unsigned slot = this_thread_slot();
    return {cells_[slot].values.data(), slot == kSharedThreadSlot};
  }
  void add(std::size_t index, uint64_t n = 1) noexcept { mine().add(index, n); }
  [[nodiscard]] uint64_t read(std::size_t index,
                              std::memory_order order = std::memory_order_relaxed) const noexcept {
    uint64_t sum = 0;
    const std::size_t used = std::min<std::size_t>(thread_slots_used(), cells_.size());
    for (std::size_t slot = 0; slot < used; ++slot) {
      sum += cells_[slot].values[index].load(order);
    }
    return sum;
  }

 private:
  struct alignas(kCacheLine) Cell {
    std::array<std::atomic<uint64_t>, N> values{};
  };
  static_assert(sizeof(Cell) % kCacheLine == 0);
  std::array<Cell, kThreadSlots> cells_{};
};

/// The same with its own mapping, for what there are several of. Throws Error(no_memory).
template <std::size_t N>
class MappedThreadCounters {
 public:
  MappedThreadCounters()
      : cells_(reinterpret_cast<ThreadCounters<N>*>(map_records(sizeof(ThreadCounters<N>)))) {}
  ~MappedThreadCounters() {
    unmap_records(reinterpret_cast<std::byte*>(cells_), sizeof(ThreadCounters<N>));
  }
  MappedThreadCounters(const MappedThreadCounters&) = delete;
  MappedThreadCounters& operator=(const MappedThreadCounters&) = delete;

  [[nodiscard]] typename ThreadCounters<N>::Mine mine() noexcept { return cells_->mine(); }
  void add(std::size_t index, uint64_t n = 1) noexcept { cells_->add(index, n); }
  [[nodiscard]] uint64_t read(std::size_t index,
                              std::memory_order order = std::memory_order_relaxed) const noexcept {
    return cells_->read(index, order);
  }

 private:
  ThreadCounters<N>* const cells_;
};

}  // namespace weft::base
