// What was sent on a lane and is not known to have arrived: numbered, in order, sent again if need
// be.
//
// Purpose: a provider's connection may break and come back without a word, and takes what was under
// way with it. A frame therefore stays here until the peer's engine says that it has come.
// Owner and lifetime: frames are of an Engine's FramePool, an Outbox is part of a Channel.
// Who may call: the holder of the engine's lock.
//
// Invariants
//  1. Frames from `oldest_` on have consecutive numbers, `acknowledged()` the first; those before
//     `unsent_` were given to the provider at least once since the last rewind.
//  2. A frame in the provider's hands (`under_way`) is not written to, freed or given to it again;
//     another one may be put in its place.
//  3. How many there are is bounded by what bounds their kinds: credit, the peer's packets, one
//     `leave`; of those about reads, how many may be on their way (Engine::kMostAboutReads).
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "fabric/ofi/endpoint.hpp"
#include "fabric/ofi/wire.hpp"

namespace weft::fabric::ofi {

struct Channel;

struct OutFrame {
  fi_context2 context;  // first: a completion gives its address
  Channel* channel;
  OutFrame* next;
  void* descriptor;                   ///< of its own memory, as Endpoint::enter has it
  std::span<const std::byte> packet;  ///< where it lies; it is lent
  uint64_t number;                    ///< the whole of what the header has the lower half of
  uint32_t length;                    ///< of header and what follows it, but for the packet
  bool under_way;                     ///< in the provider's hands
  bool kept;                          ///< in an Outbox; else free as soon as it is not under way
  bool is_batch;                      ///< copies of several, of the pool of those
  bool abandoned;  ///< another stands for it: the provider, it seems, never lets go of it
  bool stands_in;  ///< for one that is abandoned, of the same packet
  bool is_answer;  ///< no frame, but a peer's read: Engine's Answer, in no Outbox

  [[nodiscard]] std::byte* bytes() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
  [[nodiscard]] WireHeader& header() noexcept { return *reinterpret_cast<WireHeader*>(bytes()); }
};
static_assert(alignof(OutFrame) >= alignof(WireHeader) &&
              sizeof(OutFrame) % alignof(WireHeader) == 0);

/// Frames of one length; takes memory in chunks, and keeps it.
class FramePool {
 public:
  /// For frames that go by `endpoint`, which may be made after it, before the first is taken; null:
  /// by none.
  explicit FramePool(std::size_t frame_bytes, Endpoint* endpoint = nullptr)
      : endpoint_(endpoint),
        stride_((sizeof(OutFrame) + frame_bytes + alignof(std::max_align_t) - 1) /
                alignof(std::max_align_t) * alignof(std::max_align_t)) {}

  /// Takes memory for the first frames now. Throws Error(no_memory), std::bad_alloc.
  void prepare() { add_chunk(); }
  /// Null: no memory, or none that the provider takes.
  [[nodiscard]] OutFrame* take() noexcept {
    if (free_ == nullptr && !grow()) [[unlikely]]
      return nullptr;
    return std::exchange(free_, free_->next);
  }
  void give(OutFrame& frame) noexcept {
    frame.next = free_;
    free_ = &frame;
  }

 private:
  static constexpr std::size_t kChunk = 64;  ///< frames
  bool grow() noexcept;
  void add_chunk();

  Endpoint* const endpoint_;
  const std::size_t stride_;
  OutFrame* free_ = nullptr;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
};

class Outbox {
 public:
  [[nodiscard]] bool is_empty() const noexcept { return oldest_ == nullptr; }
  [[nodiscard]] bool has_unsent() const noexcept { return unsent_ != nullptr; }
  /// The number of the first frame that is not known to have arrived; of the first not sent yet; of
  /// the next one to be appended.
  [[nodiscard]] uint64_t acknowledged() const noexcept { return acknowledged_; }
  [[nodiscard]] uint64_t first_unsent() const noexcept { return unsent_ ? unsent_->number : next_; }

  [[nodiscard]] uint64_t number_of_next() const noexcept { return next_; }

  static void number(OutFrame& frame, uint64_t number) noexcept {
    frame.number = number;
    frame.header().sequence = static_cast<uint32_t>(number);
  }
  void append(OutFrame& frame) noexcept {
    number(frame, next_++);
    frame.kept = true;
    frame.next = nullptr;
    (oldest_ == nullptr ? oldest_ : newest_->next) = &frame;
    newest_ = &frame;
    if (unsent_ == nullptr) unsent_ = &frame;
  }
  /// The next one to give to the provider; null: none, or it has that one still.
  [[nodiscard]] OutFrame* next() const noexcept {
    return unsent_ != nullptr && !unsent_->under_way ? unsent_ : nullptr;
  }
  void advance(std::size_t count) noexcept {
    for (; count != 0; --count) unsent_ = unsent_->next;
  }
  [[nodiscard]] uint64_t unsent_count() const noexcept { return next_ - first_unsent(); }
  /// Everything not acknowledged is to be sent again.
  void rewind() noexcept { unsent_ = oldest_; }
  /// What is to be sent again is still in the provider's hands.
  [[nodiscard]] bool is_held() const noexcept { return unsent_ != nullptr && unsent_->under_way; }
  /// Puts in the place of all such frames what `copy` makes of them; null: no memory, it stays.
  template <class Copy>
  void replace_held(Copy copy) noexcept {
    bool is_unsent = false;
    for (OutFrame** at = &oldest_; *at != nullptr; at = &(*at)->next) {
      OutFrame& held = **at;
      is_unsent |= &held == unsent_;
      OutFrame* const heir = is_unsent && held.under_way ? copy(held) : nullptr;
      if (heir == nullptr) continue;
      heir->number = held.number;
      heir->next = held.next;
      heir->kept = true;
      held.kept = false;
      if (unsent_ == &held) unsent_ = heir;
      if (newest_ == &held) newest_ = heir;
      *at = heir;
    }
  }

  /// False: what was never sent cannot have arrived.
  [[nodiscard]] bool may_acknowledge(uint32_t number) const noexcept {
    return ahead_of(number, static_cast<uint32_t>(next_)) <= 0;
  }
  /// All below `number` have arrived; `free` gets those that are not under way.
  template <class Free>
  void acknowledge(uint32_t number, Free free) noexcept {
    while (oldest_ != nullptr && ahead_of(number, static_cast<uint32_t>(acknowledged_)) > 0) {
      drop_oldest(free);
      ++acknowledged_;
    }
  }
  /// The peer is gone: nothing is sent any more.
  template <class Free>
  void clear(Free free) noexcept {
    while (oldest_ != nullptr) drop_oldest(free);
    acknowledged_ = next_;
  }
  template <class Do>
  void for_each(Do act) noexcept {
    for (OutFrame* one = oldest_; one != nullptr; one = one->next) act(*one);
  }

 private:
  template <class Free>
  void drop_oldest(Free free) noexcept {
    OutFrame& gone = *oldest_;
    if (unsent_ == oldest_) unsent_ = oldest_->next;
    oldest_ = oldest_->next;
    gone.kept = false;
    if (!gone.under_way) free(gone);
  }

  OutFrame* oldest_ = nullptr;
  OutFrame* unsent_ = nullptr;
  OutFrame* newest_ = nullptr;  // valid unless empty
  uint64_t acknowledged_ = 0;
  uint64_t next_ = 0;
};

}  // namespace weft::fabric::ofi
