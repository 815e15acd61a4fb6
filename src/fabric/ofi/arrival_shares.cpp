#include "fabric/ofi/arrival_shares.hpp"

#include <algorithm>

namespace weft::fabric::ofi {

ArrivalShares::ArrivalShares(const SizeClasses& classes, uint64_t budget, uint32_t most,
                             uint32_t most_together) noexcept
    : classes_(classes), budget_(budget), most_(most), most_together_(most_together) {}

ArrivalShares::Counts ArrivalShares::shares() noexcept {
  since_ = 0;
  const Counts counts = share(came_);
  for (uint64_t& count : came_) count /= 2;
  return counts;
}

ArrivalShares::Counts ArrivalShares::equal_shares() const noexcept {
  std::array<uint64_t, kMostClasses> weights;
  weights.fill(1);
  return share(weights);
}

/// Round by round: what one class may not have any more, for it has the most of one, goes to the
/// others.
ArrivalShares::Counts ArrivalShares::share(
    const std::array<uint64_t, kMostClasses>& weights) const noexcept {
  Counts counts{};
  uint64_t bytes = budget_;
  uint64_t receives = most_together_;
  for (uint32_t i = 0; i < classes_.count(); ++i) {
    counts[i] = kLeast;
    bytes -= std::min(bytes, uint64_t{kLeast} * classes_.bytes_of(i));
    receives -= std::min(receives, uint64_t{kLeast});
  }
  const auto may_grow = [&](uint32_t i) { return counts[i] < most_ && weights[i] != 0; };
  for (uint32_t round = 0; round < classes_.count(); ++round) {
    uint64_t weight = 0, weight_bytes = 0;  // of the messages counted, and if all had a receive
    for (uint32_t i = 0; i < classes_.count(); ++i) {
      if (!may_grow(i)) continue;
      weight += weights[i];
      weight_bytes += weights[i] * classes_.bytes_of(i);
    }
    if (weight == 0) break;
    // Each gets weights[i] * part / weight_bytes, and all together no more than there is of either.
    const uint64_t part = std::min(bytes, receives * (weight_bytes / weight));
    bool grew = false;
    for (uint32_t i = 0; i < classes_.count(); ++i) {
      if (!may_grow(i)) continue;
      const auto more = static_cast<uint32_t>(
          std::min<uint64_t>(most_ - counts[i], weights[i] * part / weight_bytes));
      counts[i] += more;
      bytes -= std::min(bytes, uint64_t{more} * classes_.bytes_of(i));
      receives -= std::min(receives, uint64_t{more});
      grew |= more != 0;
    }
    if (!grew) break;
  }
  return counts;
}

}  // namespace weft::fabric::ofi
