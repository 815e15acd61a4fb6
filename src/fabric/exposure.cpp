#include "fabric/exposure.hpp"

#include <fmt/format.h>

namespace weft::fabric {

Exposures::Exposures(std::atomic<uint32_t>* generations, int32_t rank, uint32_t rows)
    : generations_(generations),
      rank_(rank),
      rows_count_(rows),
      rows_(std::make_unique<Row[]>(rows)) {
  free_.reserve(rows);
  for (uint32_t slot = rows; slot-- > 0;) free_.push_back(slot);
}

MemoryKey Exposures::expose(std::span<std::byte> memory, uint32_t segment, uint64_t base) {
  const std::scoped_lock hold(lock_);
  if (free_.empty())
    throw Error(Errc::no_memory,
                fmt::format("all {} rows of the exposure table are in use; raise fabric.exposures",
                            rows_count_));
  const uint32_t slot = free_.back();
  free_.pop_back();
  Row& row = rows_[slot];
  // release: pair with resolve's acquires; who sees one of these sees the even generation before.
  row.address.store(memory.data(), std::memory_order_release);
  row.base.store(base, std::memory_order_release);
  row.bytes.store(memory.size(), std::memory_order_release);
  row.segment.store(segment, std::memory_order_release);
  auto& generation = generations_[slot];
  const uint32_t mine = generation.load(std::memory_order_relaxed) + 1;  // relaxed: under the lock
  // release: pairs with the acquire in resolve, and in LaneTransport::map_peer of a peer.
  generation.store(mine, std::memory_order_release);
  return {rank_, slot, mine, segment, base, memory.size()};
}

void Exposures::withdraw(const MemoryKey& key) noexcept {
  const std::scoped_lock hold(lock_);
  if (key.owner != rank_ || key.slot >= rows_count_ || key.generation % 2 == 0) return;
  if (generations_[key.slot].load(std::memory_order_relaxed) != key.generation) return;
  free_row(key.slot);
}

void Exposures::withdraw_segment(uint32_t segment) noexcept {
  const std::scoped_lock hold(lock_);
  for (uint32_t slot = 0; slot < rows_count_; ++slot)
    if (generations_[slot].load(std::memory_order_relaxed) % 2 == 1 &&
        rows_[slot].segment.load(std::memory_order_relaxed) == segment)
      free_row(slot);
}

void Exposures::free_row(uint32_t slot) noexcept {
  auto& generation = generations_[slot];
  // seq_cst read-modify-write: later writes to the row stay behind it (invariant 2).
  generation.fetch_add(1, std::memory_order_seq_cst);
  free_.push_back(slot);  // reserved in full: does not allocate
}

std::optional<std::span<std::byte>> Exposures::resolve(const MemoryKey& key) const noexcept {
  if (key.owner != rank_ || key.slot >= rows_count_ || key.generation % 2 == 0) return std::nullopt;
  const Row& row = rows_[key.slot];
  const auto& generation = generations_[key.slot];
  // acquire: pairs with expose's release.
  if (generation.load(std::memory_order_acquire) != key.generation) return std::nullopt;
  std::byte* const address = row.address.load(std::memory_order_acquire);
  const bool same = row.base.load(std::memory_order_acquire) == key.base &&
                    row.bytes.load(std::memory_order_acquire) == key.bytes &&
                    row.segment.load(std::memory_order_acquire) == key.segment;
  // The acquires above keep this second look behind them: a row that was being refilled shows.
  if (!same || generation.load(std::memory_order_relaxed) != key.generation) return std::nullopt;
  return std::span(address, key.bytes);
}

}  // namespace weft::fabric
