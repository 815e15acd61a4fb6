// The naive baseline: a bounded queue with a sequence number beside each item, as anyone would
// write it down from the idea: cells packed, copies in and out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::bench {

template <class T>
class PlainVyukovQueue {
 public:
  /// `capacity` is a power of two.
  explicit PlainVyukovQueue(std::size_t capacity) : cells_(capacity), mask_(capacity - 1) {
    for (std::size_t i = 0; i < capacity; ++i) cells_[i].turn.store(i);
  }
  bool push(const T& item) {
    uint64_t at = in_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[at & mask_];
      const auto ahead = static_cast<int64_t>(cell.turn.load(std::memory_order_acquire) - at);
      if (ahead < 0) return false;
      if (ahead > 0) {
        at = in_.load(std::memory_order_relaxed);
      } else if (in_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
        cell.item = item;
        cell.turn.store(at + 1, std::memory_order_release);
        return true;
      }
    }
  }
  bool pop(T& item) {
    uint64_t at = out_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[at & mask_];
      const auto ahead = static_cast<int64_t>(cell.turn.load(std::memory_order_acquire) - (at + 1));
      if (ahead < 0) return false;
      if (ahead > 0) {
        at = out_.load(std::memory_order_relaxed);
      } else if (out_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
        item = cell.item;
        cell.turn.store(at + mask_ + 1, std::memory_order_release);
        return true;
      }
    }
  }

 private:
  struct Cell {
    std::atomic<uint64_t> turn;
    T item;
  };
  std::vector<Cell> cells_;
  std::size_t mask_;
  alignas(64) std::atomic<uint64_t> in_{0};
  alignas(64) std::atomic<uint64_t> out_{0};
};

}  // namespace weft::bench
