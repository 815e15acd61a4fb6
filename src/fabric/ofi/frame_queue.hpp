// Frames of one lane that came from the network and wait to be offered.
//
// Purpose: the ring that a lane of shared memory has by itself. Its length is the sender's credit,
// so that it never overflows.
// Owner and lifetime: part of a Channel.
// Who may call: push whoever holds the engine's lock; front and pop the port's polling thread.
// Progress: wait-free.
// Layout: cells of 64 bytes; a frame takes whole cells, and may wrap round the end.
//
// Invariants
//  1. Cells in [head_, tail_) hold frames; both count cells and only grow.
//  2. A frame takes cells_of(its bytes) at both ends, so the sender can count for the receiver.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "weft/base/cache_line.hpp"
#include "weft/base/copy.hpp"

namespace weft::fabric::ofi {

class FrameQueue {
 public:
  static constexpr std::size_t kCell = 64;
  /// Says how long a frame is and what; lies before its bytes.
  struct Word {
    uint32_t length;
    uint32_t is_packet;  ///< it begins with a fabric::PacketRef
  };
  static constexpr uint32_t cells_of(std::size_t bytes) noexcept {
    return static_cast<uint32_t>((sizeof(Word) + bytes + kCell - 1) / kCell);
  }

  /// `cells`: a power of two.
  void open(uint32_t cells) {
    bytes_ = std::make_unique<std::byte[]>(cells * kCell);
    size_ = cells * kCell;
  }
  [[nodiscard]] bool is_open() const noexcept { return size_ != 0; }

  /// False: no room.
  [[nodiscard]] bool push(bool is_packet, std::span<const std::byte> first,
                          std::span<const std::byte> second) noexcept {
    const std::size_t length = first.size() + second.size();
    const uint64_t tail = tail_.load(std::memory_order_relaxed);  // relaxed: own, under the lock
    // acquire: pairs with pop's release; the cells' last frame was read.
    const uint64_t used = tail - head_.load(std::memory_order_acquire);
    if ((used + cells_of(length)) * kCell > size_) return false;
    const Word word{static_cast<uint32_t>(length), is_packet ? 1u : 0u};
    uint64_t at = copy_in(tail * kCell, std::as_bytes(std::span(&word, 1)));
    at = copy_in(at, first);
    copy_in(at, second);
    // release: pairs with front's acquire; the frame is whole.
    tail_.store(tail + cells_of(length), std::memory_order_release);
    return true;
  }

  [[nodiscard]] bool is_empty() const noexcept {
    // acquire: pairs with push's release.
    return tail_.load(std::memory_order_acquire) == head_.load(std::memory_order_relaxed);
  }
  /// The oldest frame's bytes, in the ring or, where they wrap, in `scratch`, which has room for
  /// the longest. Not empty.
  [[nodiscard]] std::span<const std::byte> front(Word& word, std::byte* scratch) const noexcept {
    const uint64_t at = head_.load(std::memory_order_relaxed) * kCell;  // relaxed: own
    std::memcpy(&word, bytes_.get() + at % size_, sizeof word);
    const std::size_t begin = (at + sizeof word) % size_;
    const std::size_t straight = size_ - begin;
    if (word.length <= straight) return {bytes_.get() + begin, word.length};
    base::copy_bytes(scratch, bytes_.get() + begin, straight);
    base::copy_bytes(scratch + straight, bytes_.get(), word.length - straight);
    return {scratch, word.length};
  }
  void pop(const Word& word) noexcept {
    // relaxed: own. release: pairs with push's acquire.
    const uint64_t head = head_.load(std::memory_order_relaxed);
    head_.store(head + cells_of(word.length), std::memory_order_release);
  }
  /// Cells consumed since it was made.
  [[nodiscard]] uint64_t consumed() const noexcept {
    return head_.load(std::memory_order_relaxed);  // relaxed: a count
  }

 private:
  uint64_t copy_in(uint64_t at, std::span<const std::byte> bytes) noexcept {
    if (bytes.empty()) return at;
    const std::size_t begin = at % size_;
    const std::size_t straight = std::min(bytes.size(), size_ - begin);
    base::copy_bytes(bytes_.get() + begin, bytes.data(), straight);
    if (straight < bytes.size())
      base::copy_bytes(bytes_.get(), bytes.data() + straight, bytes.size() - straight);
    return at + bytes.size();
  }

  std::size_t size_ = 0;
  std::unique_ptr<std::byte[]> bytes_;
  alignas(base::kCacheLine) std::atomic<uint64_t> tail_{0};  ///< written under the engine's lock
  alignas(base::kCacheLine) std::atomic<uint64_t> head_{0};  ///< written by the polling thread
};

}  // namespace weft::fabric::ofi
