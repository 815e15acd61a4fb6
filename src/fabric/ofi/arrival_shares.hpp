// How many receives to post for each size, from what came lately.
//
// Purpose: the histogram of arrivals of 001 §6.2.2. There, the sizes that came most often get
// receives posted for them. Here all sizes have some, and the histogram says how the budget is
// shared: as many of each as would come in one go if the next messages were such as the last ones.
// Owner and lifetime: part of a ReceivePool.
// Who may call: the holder of the engine's lock. No system calls, no heap.
//
// Invariant: what `shares` says costs at most the budget, and never is below kLeast of a size.
// Source: 001 §6.2.2, approach 3. There the program has to name a safe point at which receives may
// be posted anew, for MPI cannot say whether one is being filled; libfabric's cancel can.
#pragma once

#include <array>
#include <cstdint>

#include "fabric/ofi/size_classes.hpp"

namespace weft::fabric::ofi {

class ArrivalShares {
 public:
  static constexpr uint32_t kMostClasses = 16;
  static constexpr uint32_t kLeast = 2;  ///< of each size, whatever came
  using Counts = std::array<uint32_t, kMostClasses>;

  /// `budget`: bytes of all receives together; `most`: receives of one size, and, `most_together`,
  /// of all.
  ArrivalShares(const SizeClasses& classes, uint64_t budget, uint32_t most,
                uint32_t most_together) noexcept;

  /// A message of that class came. True: it is time to ask `shares` again.
  [[nodiscard]] bool note(uint32_t number) noexcept {
    ++came_[number];
    return ++since_ >= kInterval;
  }
  /// How many of each there should be now; half of what it remembers is forgotten with that.
  [[nodiscard]] Counts shares() noexcept;
  /// As if all sizes came equally often: to begin with.
  [[nodiscard]] Counts equal_shares() const noexcept;

 private:
  static constexpr uint32_t kInterval = 512;  ///< messages between two looks

  [[nodiscard]] Counts share(const std::array<uint64_t, kMostClasses>& weights) const noexcept;

  const SizeClasses classes_;
  const uint64_t budget_;
  const uint32_t most_, most_together_;
  std::array<uint64_t, kMostClasses> came_{};
  uint32_t since_ = 0;
};

}  // namespace weft::fabric::ofi
