// Receives of one size, each for one message: posted up to a number that may change.
//
// Purpose: what `single` has once and `sized` for each size.
// Owner and lifetime: a ReceivePool's.
// Who may call: the holder of the engine's lock.
// Layout: buffers lie one after the other in pages that are not touched before something came.
//
// Invariants
//  1. A slot is idle, or in the provider's hands (posted; recalled: asked back); posted_ counts
//     the latter, recalled_ those of them that were asked back.
//  2. Where more are posted than wanted, the rest is recalled. A slot that ends while there are
//     enough goes idle, and its pages back to the system, unless the provider was told of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fabric/ofi/endpoint.hpp"
#include "fabric/ofi/pages.hpp"

namespace weft::fabric::ofi {

class ReceiveSlots {
 public:
  enum class State : uint8_t { idle, posted, recalled };
  struct Slot {
    fi_context2 context;  // first: a completion gives its address
    ReceiveSlots* owner;
    std::byte* buffer;
    State state;
  };

  /// `most` of `bytes` each, which go under `tag`; none is posted yet. Throws Error(no_memory).
  ReceiveSlots(Endpoint& endpoint, uint32_t bytes, uint32_t most, uint32_t tag);
  /// Before all else, when the endpoint is ready. Throws Error(no_memory).
  void start() { descriptor_ = endpoint_.enter({pages_.base(), pages_.size()}); }
  ReceiveSlots(const ReceiveSlots&) = delete;
  ReceiveSlots& operator=(const ReceiveSlots&) = delete;

  [[nodiscard]] uint32_t tag() const noexcept { return tag_; }
  /// That the context of a completion, or of an error, is one of these.
  [[nodiscard]] bool owns(const void* context) const noexcept;
  [[nodiscard]] std::span<const std::byte> landed(const Slot& slot,
                                                  std::size_t bytes) const noexcept {
    return {slot.buffer, std::min<std::size_t>(bytes, bytes_)};
  }

  /// How many shall be posted, `most` at most. More are at once; of more than that the provider
  /// gives back those that it is not filling, by an error of each.
  void want(uint32_t count) noexcept;
  /// A receive has ended, well or not: it is posted again, if it is wanted.
  void put_back(Slot& slot) noexcept;
  [[nodiscard]] bool has_waiting() const noexcept { return posted_ < wanted_; }
  void post_waiting() noexcept;

 private:
  [[nodiscard]] bool post(Slot& slot) noexcept;
  void recall(uint32_t count) noexcept;

  Endpoint& endpoint_;
  const uint32_t bytes_;
  const uint32_t tag_;
  const std::size_t stride_;
  const Pages pages_;
  void* descriptor_ = nullptr;
  std::vector<Slot> slots_;
  std::vector<Slot*> idle_;  // room for all
  uint32_t wanted_ = 0, posted_ = 0, recalled_ = 0;
};

}  // namespace weft::fabric::ofi
