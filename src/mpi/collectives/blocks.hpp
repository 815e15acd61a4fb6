// Where the data of a collective lies, rank by rank, and room for what is under way.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpi/collectives/frames.hpp"
#include "mpi/counts.hpp"
#include "mpi/datatype.hpp"

namespace weft::mpi {

/// `count` elements of `type` at `at`.
struct Block {
  std::byte* at = nullptr;
  int64_t count = 0;
  const Datatype* type = nullptr;

  [[nodiscard]] int64_t bytes() const noexcept { return count == 0 ? 0 : count * type->size(); }
};

/// MPI_BYTE.
[[nodiscard]] inline const Datatype& byte_type() noexcept { return *datatypes().find(MPI_BYTE); }
[[nodiscard]] inline Block bytes_at(const void* at, int64_t bytes) noexcept {
  return {static_cast<std::byte*>(const_cast<void*>(at)), bytes, &byte_type()};
}

/// A buffer with a block for each rank: of equal size one after the other, with counts and
/// displacements, or with types of their own, too. A view: the program's arrays must outlive it.
struct Parts {
  std::byte* base = nullptr;
  int64_t count = 0;               ///< of each, without `counts`
  const Datatype* type = nullptr;  ///< of each, without `types`
  Counts counts;
  Counts places;  ///< displacements, in extents; with `types`: in bytes
  const Datatype* const* types = nullptr;

  [[nodiscard]] int64_t count_of(int rank) const noexcept {
    return counts.null() ? count : counts[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] Block operator[](int rank) const noexcept {
    const auto i = static_cast<std::size_t>(rank);
    if (types != nullptr) return {base + places[i], counts[i], types[i]};
    if (!counts.null()) return {base + places[i] * type->extent(), counts[i], type};
    return {base + rank * count * type->extent(), count, type};
  }
  /// All of it as one block; without counts only.
  [[nodiscard]] Block whole() const noexcept { return {base, count, type}; }
};

/// Copies one block into another of the same signature. Throws MPI_ERR_TRUNCATE if it is larger.
void copy(const Block& from, const Block& to);

/// Room that is kept in the frame if it is small.
class Scratch {
 public:
  Scratch() noexcept = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (large_ != nullptr) release_frame(large_, size_);
  }
  /// Once per object. Throws std::bad_alloc.
  [[nodiscard]] std::byte* bytes(int64_t count) {
    if (count <= static_cast<int64_t>(sizeof small_)) return small_;
    size_ = static_cast<std::size_t>(count);
    large_ = static_cast<std::byte*>(allocate_frame(size_));
    return large_;
  }
  /// Room for elements: the address that plays the buffer, which need not be the room's start. It
  /// is `phase` bytes from a multiple of kAlignment, so that elements are aligned as in a buffer
  /// that is. Once per object.
  [[nodiscard]] std::byte* elements(int64_t count, const Datatype& type, int64_t phase = 0);

  static constexpr int64_t kAlignment = 16;

 private:
  std::byte* large_ = nullptr;
  std::size_t size_ = 0;
  alignas(kAlignment) std::byte small_[256];
};

/// A block as one run of bytes: itself if its type is contiguous, or else a copy in packed form.
class Packed {
 public:
  Packed(const Block& block, bool fill) : block_(block) {
    if (block.count == 0 || block.type->contiguous()) {
      at_ = block.at;
      return;
    }
    at_ = copy_.bytes(block.bytes());
    if (fill) block.type->pack(block.at, block.count, 0, {at_, size()});
  }
  [[nodiscard]] std::byte* at() const noexcept { return at_; }
  /// Brings what was received to the block.
  void unpack() const {
    if (at_ != block_.at) block_.type->unpack(block_.at, block_.count, 0, {at_, size()});
  }

 private:
  [[nodiscard]] std::size_t size() const noexcept {
    return static_cast<std::size_t>(block_.bytes());
  }
  Block block_;
  std::byte* at_ = nullptr;
  Scratch copy_;
};

}  // namespace weft::mpi
