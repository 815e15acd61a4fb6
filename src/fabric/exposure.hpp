// The exposure table: memory of this rank that peers may name, and the check of those names.
//
// Purpose: gives out MemoryKeys and tells later whether one still holds. A row's generation moves
// on when it is withdrawn, so that an old key can be told from a new one of the same row.
// Owner and lifetime: generations lie in this rank's segment, where peers read them; the rest is
// private. As long as its transport.
// Who may call: anyone. expose and withdraw take a lock; resolve is wait-free.
//
// Invariants
//  1. A row's generation is odd while it is exposed, even while it is free; it only grows.
//  2. Row contents change only while the generation is even; resolve reads them between two reads
//     of the same odd generation.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "weft/fabric/transport.hpp"

namespace weft::fabric {

class Exposures {
 public:
  /// `generations`: one for each row, zeroed, where peers may read them; outlive this.
  Exposures(std::atomic<uint32_t>* generations, int32_t rank, uint32_t rows);

  /// `segment` and `base` as in MemoryKey. Throws Error(no_memory) if the table is full.
  MemoryKey expose(std::span<std::byte> memory, uint32_t segment, uint64_t base);
  void withdraw(const MemoryKey& key) noexcept;
  /// Withdraws all rows of a shared segment.
  void withdraw_segment(uint32_t segment) noexcept;
  [[nodiscard]] std::optional<std::span<std::byte>> resolve(const MemoryKey& key) const noexcept;

 private:
  struct Row {
    std::atomic<std::byte*> address{nullptr};
    std::atomic<uint64_t> base{0}, bytes{0};
    std::atomic<uint32_t> segment{0};
  };
  void free_row(uint32_t slot) noexcept;

  std::atomic<uint32_t>* generations_;
  int32_t rank_;
  uint32_t rows_count_;
  std::unique_ptr<Row[]> rows_;
  std::mutex lock_;  // guards free_, and writing of rows
  std::vector<uint32_t> free_;
};

}  // namespace weft::fabric
