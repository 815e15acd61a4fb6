// A lane's ring: one producing process, one consuming thread, frames of one to a few cells.
//
// Purpose: carries frames so that one of up to 56 bytes costs one cache line on either side.
// Owner and lifetime: the cells and the published head lie in the consumer's segment. Producer
// state (RingProducer) is private to the sending process, consumer state (RingConsumer) to the
// receiving port.
// Who may call: RingProducer under its owner's lock; RingConsumer the polling thread.
// Progress: both sides wait-free; a full ring is told, not waited for.
// Layout: a frame's first cell begins with a control word:
//     bits 0–31 stamp | 32–47 length in bytes | 48–51 kind | 52–63 sender's port
//   and its bytes follow it without a gap through the frame's cells, which are contiguous; a frame
//   that would wrap is preceded by a pad frame up to the ring's end (whose length counts cells).
//
// Invariants
//  1. The stamp of position p is p's low 31 bits with the top bit set: never 0, and different from
//     those of the laps before it.
//  2. When a cell is released, its first word is either the stamp word of that lap or 0: the
//     consumer zeroes the first word of every continuation cell. So old payload never looks like a
//     stamp, and a cell at the consumer's head holds 0, last lap's stamp, or the stamp awaited.
//  3. The stamp word is the last store of a frame. A producer stopped or killed before it has
//     published nothing, after it everything. Nobody waits in between.
//  4. head ≤ tail ≤ head + capacity; the producer's copy of head is never ahead of the published
//     one, and that never ahead of the consumer's.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fabric/layout.hpp"

namespace weft::fabric {

enum class FrameKind : uint8_t { inlined = 0, packet = 1, open_packet = 2, pad = 3 };

/// A frame's control word, taken apart.
struct ControlWord {
  uint32_t stamp;
  uint16_t length;
  FrameKind kind;
  uint16_t port;

  static constexpr uint32_t stamp_of(uint64_t position) noexcept {
    return static_cast<uint32_t>(position) | 0x80000000u;
  }
  [[nodiscard]] constexpr uint64_t packed() const noexcept {
    return uint64_t{stamp} | uint64_t{length} << 32 | uint64_t{static_cast<uint8_t>(kind)} << 48 |
           uint64_t{port} << 52;
  }
  static constexpr ControlWord unpack(uint64_t word) noexcept {
    return {static_cast<uint32_t>(word), static_cast<uint16_t>(word >> 32),
            static_cast<FrameKind>((word >> 48) & 0xf), static_cast<uint16_t>(word >> 52)};
  }
};

inline constexpr std::size_t kWordBytes = 8;

/// Cells that a frame of `length` bytes after its control word occupies.
constexpr uint32_t cells_of(std::size_t length) noexcept {
  return static_cast<uint32_t>((length + kWordBytes + sizeof(Cell) - 1) / sizeof(Cell));
}

inline std::atomic<uint64_t>& word_of(Cell& cell) noexcept {
  return *reinterpret_cast<std::atomic<uint64_t>*>(cell.bytes);
}

/// Most bytes of a frame that is one cell.
inline constexpr std::size_t kOneCellBytes = sizeof(Cell) - kWordBytes;

/// The sending side.
class RingProducer {
 public:
  RingProducer() = default;
  RingProducer(Cell* cells, uint32_t capacity, const std::atomic<uint64_t>* head) noexcept
      : cells_(cells), head_(head), limit_(capacity), mask_(capacity - 1) {}

  /// Where the next frame of `cells` cells goes; nullptr if there is no room for it now.
  [[nodiscard]] Cell* claim(uint32_t cells) noexcept {
    const uint32_t offset = static_cast<uint32_t>(tail_) & mask_;
    if (offset + cells > mask_ + 1) [[unlikely]] {
      if (!pad_to_end(mask_ + 1 - offset, cells)) return nullptr;
      return cells_;
    }
    if (!has_room(cells)) [[unlikely]]
      return nullptr;
    fetch_ahead(cells);
    return cells_ + offset;
  }

  /// `claim(1)` where there is room for some frames more as far as is known; nullptr: ask `claim`.
  [[nodiscard]] Cell* claim_one() const noexcept {
    if (tail_ + kAhead >= limit_) [[unlikely]]
      return nullptr;
    fetch_ahead(1);
    return cells_ + (static_cast<uint32_t>(tail_) & mask_);
  }

  /// Publishes the frame that was written at `cell`, which `claim` gave.
  void publish(Cell* cell, uint32_t cells, std::size_t length, FrameKind kind,
               uint16_t port) noexcept {
    const ControlWord word{ControlWord::stamp_of(tail_), static_cast<uint16_t>(length), kind, port};
    // release: pairs with RingConsumer::peek's acquire; the frame's bytes are seen with its stamp.
    word_of(*cell).store(word.packed(), std::memory_order_release);
    tail_ += cells;
  }

 private:
  static constexpr uint32_t kAhead = 4;

  /// Asks for the line of a later cell, so that it is there when its turn comes: not of the next,
  /// on which an idle consumer is looking, nor of the next frame's others if it is as long as this
  /// one, for a fast consumer is there as soon. Those who share a lane wait at each lock for their
  /// stores.
  void fetch_ahead(uint32_t cells) const noexcept {
    const uint32_t ahead = std::max(kAhead, 2 * cells);
    base::prefetch_for_write(cells_ + (static_cast<uint32_t>(tail_ + ahead) & mask_));
  }

  [[nodiscard]] bool has_room(uint32_t cells) noexcept {
    if (tail_ + cells <= limit_) [[likely]]
      return true;
    // acquire: pairs with RingConsumer's release of cells; its zeroing and reading are over.
    const uint64_t limit = head_->load(std::memory_order_acquire) + mask_ + 1;
    // The head comes from outside: one that runs ahead of the tail is not believed.
    if (limit > tail_ + mask_ + 1) return false;
    limit_ = limit;
    return tail_ + cells <= limit_;
  }
  [[nodiscard]] bool pad_to_end(uint32_t pad, uint32_t cells) noexcept {
    if (!has_room(pad + cells)) return false;
    publish(cells_ + (mask_ + 1 - pad), pad, pad, FrameKind::pad, 0);
    return true;
  }

  Cell* cells_ = nullptr;
  const std::atomic<uint64_t>* head_ = nullptr;
  uint64_t tail_ = 0;
  uint64_t limit_ = 0;  ///< head as last seen + capacity: positions below it are free to write
  uint32_t mask_ = 0;   ///< capacity - 1
};

/// The receiving side.
class RingConsumer {
 public:
  enum class Peek : uint8_t { nothing, frame, nonsense };
  enum class Next : uint8_t { nothing, one, longer, other };

  RingConsumer() = default;
  RingConsumer(Cell* cells, uint32_t capacity, std::atomic<uint64_t>* head) noexcept
      : cells_(cells), head_out_(head), mask_(capacity - 1) {}

  /// True if there is no next frame now.
  [[nodiscard]] bool is_empty() const noexcept {
    // relaxed: whoever finds a frame goes on to `peek`.
    const uint64_t word =
        word_of(cells_[static_cast<uint32_t>(head_) & mask_]).load(std::memory_order_relaxed);
    return static_cast<uint32_t>(word) != ControlWord::stamp_of(head_);
  }

  /// Looks at the next frame. `nonsense`: a control word that no producer writes.
  [[nodiscard]] Peek peek(ControlWord& word, const std::byte*& bytes) noexcept {
    for (;;) {
      const uint32_t offset = static_cast<uint32_t>(head_) & mask_;
      // acquire: pairs with RingProducer::publish's release.
      word = ControlWord::unpack(word_of(cells_[offset]).load(std::memory_order_acquire));
      if (word.stamp != ControlWord::stamp_of(head_)) return Peek::nothing;
      if (word.kind == FrameKind::pad) [[unlikely]] {
        if (word.length == 0 || word.length > mask_ + 1 - offset) return Peek::nonsense;
        release(word.length);
        continue;
      }
      if (word.kind > FrameKind::pad || cells_of(word.length) > mask_ + 1 - offset) [[unlikely]]
        return Peek::nonsense;
      bytes = cells_[offset].bytes + kWordBytes;
      return Peek::frame;
    }
  }

  /// Asks for the cell behind the next, to be there when that frame was dealt with: the locks on
  /// the way would not let the look at it begin before.
  void fetch_second() const noexcept {
    __builtin_prefetch(cells_ + (static_cast<uint32_t>(head_ + 1) & mask_));
  }

  /// The usual cases of `peek` in a few instructions, for the frame that begins `ahead` cells
  /// behind those that were given back, if all in between were shown so. one: it is inline and of
  /// one cell, and here are its bytes; longer: of several; other: `peek` tells.
  [[nodiscard]] Next peek_inlined(uint32_t ahead, const std::byte*& bytes,
                                  std::size_t& length) noexcept {
    const uint64_t position = head_ + ahead;
    const uint32_t offset = static_cast<uint32_t>(position) & mask_;
    Cell& cell = cells_[offset];
    // acquire: pairs with RingProducer::publish's release.
    const uint64_t word = word_of(cell).load(std::memory_order_acquire);
    if (static_cast<uint32_t>(word) != ControlWord::stamp_of(position)) return Next::nothing;
    // Kind and length side by side: small together only if the kind is inlined, which is 0.
    static_assert(static_cast<int>(FrameKind::inlined) == 0);
    length = (word >> 32) & 0xfffff;
    bytes = cell.bytes + kWordBytes;
    if (length <= kOneCellBytes) [[likely]]
      return Next::one;
    return length <= 0xffff && cells_of(length) <= mask_ + 1 - offset ? Next::longer : Next::other;
  }

  /// Gives the next frame, of so many cells, back to the producer.
  void consume(uint32_t cells) noexcept { release(cells); }
  /// The same for `n` frames of one cell each.
  void consume_ones(uint32_t n) noexcept {
    head_ += n;
    if (head_ - published_ > mask_ / 4) publish_head();
  }

  /// Tells the producer how far this side is. Called when the lane has nothing more for now, so
  /// that a waiting producer never waits for less than a quarter of a ring.
  void publish_head() noexcept {
    if (head_ == published_) return;
    published_ = head_;
    // release: pairs with RingProducer::has_room's acquire; reading and zeroing come before it.
    head_out_->store(head_, std::memory_order_release);
  }

 private:
  void release(uint32_t cells) noexcept {
    for (uint32_t i = 1; i < cells; ++i)  // invariant 2; relaxed: the head's release covers it
      word_of(cells_[(static_cast<uint32_t>(head_) + i) & mask_])
          .store(0, std::memory_order_relaxed);
    head_ += cells;
    if (head_ - published_ > mask_ / 4) publish_head();
  }

  Cell* cells_ = nullptr;
  std::atomic<uint64_t>* head_out_ = nullptr;
  uint64_t head_ = 0;
  uint64_t published_ = 0;
  uint32_t mask_ = 0;  ///< capacity - 1
};

}  // namespace weft::fabric
