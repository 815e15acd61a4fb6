// Counters that are nearly free to write and summed by whoever reads.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/base/cache_line.hpp"

namespace weft::base {

/// A family of N counters with one writer at a time (a device under its lock, a worker).
///
/// Who may call: `add` the owner; `read` anyone, at any time, seeing a value that was current.
/// Relaxed throughout: a counter orders nothing, and a torn sum is impossible on 64-bit words.
template <std::size_t N>
class alignas(kCacheLine) CounterCells {
 public:
  void add(std::size_t index, uint64_t n = 1) noexcept {
    auto& cell = cells_[index];
    cell.store(cell.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  [[nodiscard]] uint64_t read(std::size_t index) const noexcept {
    return cells_[index].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint64_t>, N> cells_{};
};

}  // namespace weft::base
