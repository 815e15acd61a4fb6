// Several blocks in one message, for exchanges by nodes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "mpi/collectives/blocks.hpp"
#include "mpi/collectives/posts.hpp"

namespace weft::mpi {

/// A number of blocks, one after the other: a mark, their sizes, then the bytes of those that are
/// not larger than a limit. Larger ones are named only: they go straight to whom they are for.
///
/// Written by `add`, sent as `message`; or received into `room`, and read by `next`. If something
/// else came, as after a death or a mistaken count, nothing is known of the blocks. One thread.
class Bundle {
 public:
  static constexpr int64_t kUnknown = -1;
  struct Item {
    int64_t bytes = kUnknown;       ///< of the block, as its sender says
    const std::byte* at = nullptr;  ///< nullptr: not here

    [[nodiscard]] bool is_known() const noexcept { return bytes != kUnknown; }
    [[nodiscard]] bool is_here() const noexcept { return at != nullptr; }
    /// Of the block that comes straight, if it does: what is expected, if nothing is known.
    [[nodiscard]] int64_t straight_bytes(int64_t expected) const noexcept {
      return is_known() ? bytes : expected;
    }
    [[nodiscard]] Block block() const noexcept { return bytes_at(at, is_here() ? bytes : 0); }
  };

  /// With room for so many blocks of `limit` bytes. Throws std::bad_alloc.
  Bundle(std::size_t blocks, int64_t limit)
      : limit_(limit),
        sizes_(kWord + static_cast<int64_t>(blocks) * kWord),
        end_(sizes_ + limit * static_cast<int64_t>(blocks)),
        start_(memory_.bytes(end_)),
        filled_(sizes_),
        read_(sizes_) {
    std::memset(start_, 0, kWord);
  }
  Bundle(const Bundle&) = delete;
  Bundle& operator=(const Bundle&) = delete;
  ~Bundle() = default;

  /// Writes the next block. There must be room.
  void add(const Block& block) { write(block.bytes(), block); }
  void add(const Item& item) { write(item.bytes, item.block()); }
  /// All that `other` has left to read.
  void add(Bundle& other) {
    while (other.next_read_ != other.sizes_) add(other.next());
  }
  /// Reads the next block, of no more than there are.
  [[nodiscard]] Item next() noexcept {
    Item item;
    int64_t mark = 0;
    std::memcpy(&mark, start_, sizeof mark);
    if (mark == kMark) std::memcpy(&item.bytes, start_ + next_read_, sizeof item.bytes);
    next_read_ += kWord;
    // It came from elsewhere: it may say anything.
    item.bytes = std::max(item.bytes, kUnknown);
    if (item.is_known() && item.bytes <= limit_ && item.bytes <= end_ - read_) {
      item.at = start_ + read_;
      read_ += item.bytes;
    }
    return item;
  }
  [[nodiscard]] Block message() const noexcept { return bytes_at(start_, filled_); }
  [[nodiscard]] Block room() const noexcept { return bytes_at(start_, end_); }

 private:
  static constexpr int64_t kWord = sizeof(int64_t);
  static constexpr int64_t kMark = 0x656c646e7562;

  void write(int64_t bytes, const Block& block) {
    std::memcpy(start_, &kMark, sizeof kMark);
    std::memcpy(start_ + next_write_, &bytes, sizeof bytes);
    next_write_ += kWord;
    if (bytes > limit_) return;
    copy(block, bytes_at(start_ + filled_, block.bytes()));
    filled_ += block.bytes();
  }

  int64_t limit_;
  int64_t sizes_;  ///< bytes of the mark and all sizes, in front
  int64_t end_;
  Scratch memory_;
  std::byte* start_;
  // Offsets of the next size and the next block.
  int64_t next_write_ = kWord;
  int64_t filled_;
  int64_t next_read_ = kWord;
  int64_t read_;
};

/// Brings a block to its place, if it is here. Notes what cannot be: that it is larger, or that
/// nobody knows; what is noted first (a death) is what is told.
inline void take_block(const Bundle::Item& item, const Block& to, Rank from, Trouble& trouble) {
  const bool fits = item.bytes <= to.bytes() || (!item.is_here() && to.bytes() != 0);
  if (!item.is_known() || !fits) {
    trouble.note(MPI_ERR_TRUNCATE, from);
  } else if (item.is_here()) {
    copy(item.block(), to);
  }
}

}  // namespace weft::mpi
