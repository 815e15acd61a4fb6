// A fixed number of records in one mapping that costs memory only where it was used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/base/slot_pool.hpp"

namespace weft::base {

/// Zeroed, page-aligned memory that becomes resident when touched. Throws Error(no_memory).
std::byte* map_records(std::size_t bytes);
void unmap_records(std::byte* memory, std::size_t bytes) noexcept;

/// `count` records of T, handed out by a SlotPool. T must be valid when all its bytes are zero and
/// need no destructor. Thread-safe; `allocate` answers nullptr when none is free.
template <class T>
class Records {
 public:
  explicit Records(uint32_t count)
      : count_(count),
        free_(count),
        records_(reinterpret_cast<T*>(map_records(std::size_t{count} * sizeof(T)))) {}
  ~Records() {
    unmap_records(reinterpret_cast<std::byte*>(records_), std::size_t{count_} * sizeof(T));
  }
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  [[nodiscard]] T* allocate() noexcept {
    const uint32_t index = free_.alloc();
    return index == SlotPool::kNone ? nullptr : records_ + index;
  }
  void release(T& record) noexcept { free_.free(index_of(record)); }
  /// Several, by their numbers.
  void release(std::span<const uint32_t> indices) noexcept { free_.free(indices); }

  [[nodiscard]] uint32_t index_of(const T& record) const noexcept {
    return static_cast<uint32_t>(&record - records_);
  }
  [[nodiscard]] T& operator[](uint32_t index) noexcept { return records_[index]; }
  [[nodiscard]] uint32_t count() const noexcept { return count_; }
  /// Records in use; exact only when nothing moves.
  [[nodiscard]] uint32_t live() const noexcept {
    return count_ - static_cast<uint32_t>(free_.available());
  }

 private:
  uint32_t count_;
  SlotPool free_;
  T* records_;  // last: where it cannot be had, the pool goes by itself
};

}  // namespace weft::base
