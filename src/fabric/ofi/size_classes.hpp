// By what size messages of the provider are sorted where receives are posted for each size
// (fabric.ofi.receive=sized), at both ends alike.
//
// Class 0 is what is short: a frame without a packet, or several together. It goes untagged, as
// everything does where there are no classes. The others double, by the size of their packets, up
// to the largest; their number is the tag. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weft::fabric::ofi {

class SizeClasses {
 public:
  /// One class, of `largest`.
  constexpr explicit SizeClasses(uint32_t largest) noexcept
      : shortest_(largest), frame_(0), largest_(largest) {}
  /// Short ones up to `shortest`, then frames of up to `frame` with a packet of up to 8, 16, ...
  /// KiB, the last of them up to `packet`. All with what is around them.
  constexpr SizeClasses(uint32_t shortest, uint32_t frame, uint32_t packet) noexcept
      : shortest_(std::max(shortest, frame)),
        frame_(frame),
        largest_(std::max(frame + packet, shortest_)) {
    while (bytes_of(count_ - 1) < largest_) ++count_;
  }

  [[nodiscard]] constexpr uint32_t count() const noexcept { return count_; }
  /// The most that a message of class `number` has.
  [[nodiscard]] constexpr uint32_t bytes_of(uint32_t number) const noexcept {
    if (number == 0) return shortest_;
    return std::min(largest_, frame_ + (kSmallestPacket << (number - 1)));
  }
  /// `bytes` are at most the largest.
  [[nodiscard]] constexpr uint32_t class_of(uint64_t bytes) const noexcept {
    uint32_t number = 0;
    while (bytes > bytes_of(number)) ++number;
    return number;
  }

 private:
  static constexpr uint32_t kSmallestPacket = 8192;

  uint32_t shortest_, frame_, largest_;
  uint32_t count_ = 1;
};

}  // namespace weft::fabric::ofi
