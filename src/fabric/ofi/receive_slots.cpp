#include "fabric/ofi/receive_slots.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "fabric/layout.hpp"

namespace weft::fabric::ofi {

ReceiveSlots::ReceiveSlots(Endpoint& endpoint, uint32_t bytes, uint32_t most, uint32_t tag)
    : endpoint_(endpoint),
      bytes_(bytes),
      tag_(tag),
      stride_((std::size_t{bytes} + kPage - 1) / kPage * kPage),
      pages_(most * stride_),
      slots_(most) {
  idle_.reserve(most);
  for (std::size_t i = slots_.size(); i-- > 0;) {
    slots_[i].owner = this;
    slots_[i].buffer = pages_.base() + i * stride_;
    slots_[i].state = State::idle;
    idle_.push_back(&slots_[i]);
  }
}

bool ReceiveSlots::owns(const void* context) const noexcept {
  const auto* const at = static_cast<const Slot*>(context);
  return std::less_equal<>()(slots_.data(), at) && std::less<>()(at, slots_.data() + slots_.size());
}

bool ReceiveSlots::post(Slot& slot) noexcept {
  if (endpoint_.receive({slot.buffer, bytes_}, descriptor_, tag_, slot.context) != 0) return false;
  slot.state = State::posted;
  ++posted_;
  return true;
}

void ReceiveSlots::put_back(Slot& slot) noexcept {
  --posted_;
  if (std::exchange(slot.state, State::idle) == State::recalled) --recalled_;
  if (posted_ < wanted_) [[likely]] {
    if (post(slot)) [[likely]]
      return;
  } else if (!endpoint_.registers()) {
    ::madvise(slot.buffer, stride_, MADV_DONTNEED);
  }
  idle_.push_back(&slot);
}

void ReceiveSlots::post_waiting() noexcept {
  while (posted_ < wanted_ && !idle_.empty() && post(*idle_.back())) idle_.pop_back();
}

void ReceiveSlots::want(uint32_t count) noexcept {
  wanted_ = static_cast<uint32_t>(std::min<std::size_t>(count, slots_.size()));
  post_waiting();
  if (posted_ - recalled_ > wanted_) recall(posted_ - recalled_ - wanted_);
}

/// The provider keeps one that it fills just now; that one ends by itself, and so does one that it
/// cannot give back.
void ReceiveSlots::recall(uint32_t count) noexcept {
  for (Slot& slot : slots_) {
    if (count == 0) return;
    if (slot.state != State::posted || endpoint_.cancel(slot.context) != 0) continue;
    slot.state = State::recalled;
    ++recalled_;
    --count;
  }
}

}  // namespace weft::fabric::ofi
