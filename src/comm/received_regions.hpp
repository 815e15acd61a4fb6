// Which way the bytes of large messages go into their receiver's buffer: through the caches, or
// past them (docs/design/copies.md, "More than the cache holds").
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "comm/copy_ways.hpp"
#include "weft/base/copy.hpp"

namespace weft::comm {

/// A rank's part of the last-level caches, bytes, for what it receives: half of three quarters of
/// one, as what is sent lies there, too; or less, where many ranks share them.
[[nodiscard]] constexpr uint64_t receiver_cache_bytes(uint64_t of_one_cache, uint64_t of_all,
                                                      int ranks) noexcept {
  return std::min(of_one_cache / 2, of_all / static_cast<uint64_t>(std::max(ranks, 1))) / 4 * 3;
}

/// So much a rank should write to packets before it comes back to the same place: twice what its
/// reader's second-level cache holds, while that is less than half of a rank's part of the last
/// level, of which `receiver_cache` is three quarters; and something in any case.
[[nodiscard]] constexpr uint32_t go_around_bytes(uint64_t second_cache,
                                                 uint64_t receiver_cache) noexcept {
  constexpr uint64_t kLeast = 768 << 10;
  return static_cast<uint32_t>(
      std::max(kLeast, std::min(second_cache * 2, receiver_cache / 3 * 2)));
}

/// The memory that large messages were copied into lately, by regions: as many as a rank's part of
/// the cache holds, and whoever is new takes the place of the oldest. Who receives into the same
/// memory again finds it there, and copies through the caches. Where all places are taken by others
/// the lines would be fetched from memory to be overwritten, and others written back for them: such
/// a region is written past the caches until it is full, or the next message begins there.
///
/// Who may call: one thread at a time. Memory: this object.
class ReceivedRegions {
 public:
  static constexpr std::size_t kMostRegions = 64;
  static constexpr std::size_t kLeastRegions = 16;
  static constexpr unsigned kLeastShift = 16;  // a packet, by default

  /// `bytes`: see receiver_cache_bytes.
  ReceivedRegions(uint64_t bytes, Nontemporal choice) noexcept
      : shift_(std::max(kLeastShift, static_cast<unsigned>(std::bit_width(
                                         (std::max(bytes, uint64_t{1}) - 1) / kMostRegions)))),
        count_(static_cast<uint32_t>(
            std::clamp<uint64_t>(bytes >> shift_, kLeastRegions, kMostRegions))),
        choice_(choice) {}

  /// Copies a part of a message to its place, as visible as by other stores when it returns.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (way_into(reinterpret_cast<uintptr_t>(to), bytes) == CopyWay::nontemporal) {
      base::copy_bytes_nontemporal(to, from, bytes);
    } else {
      base::copy_bytes(to, from, bytes);
    }
  }

  /// The way for a part, which is noted: its region is that of its first byte.
  CopyWay way_into(uintptr_t to, std::size_t bytes) noexcept {
    if (choice_ != Nontemporal::automatic)
      return choice_ == Nontemporal::always ? CopyWay::nontemporal : CopyWay::cached;
    const uint64_t number = to >> shift_;
    Region& region = regions_[last_].number == number ? regions_[last_] : find(number);
    if (region.written == 0) {
      region.first = to;
    } else if (to == region.first || region.written >= region_bytes()) {
      region.way = CopyWay::cached;  // the next message is there
    }
    region.written += bytes;
    return region.way;
  }

  [[nodiscard]] uint64_t region_bytes() const noexcept { return uint64_t{1} << shift_; }
  [[nodiscard]] uint32_t regions() const noexcept { return count_; }

 private:
  struct Region {
    uint64_t number = 0;   ///< address, in regions; 0: none
    uint64_t written = 0;  ///< bytes since it took its place
    uintptr_t first = 0;   ///< the first of them
    CopyWay way = CopyWay::cached;
  };

  Region& find(uint64_t number) noexcept {
    for (uint32_t i = 0; i < count_; ++i) {
      if (regions_[i].number == number) {
        last_ = i;
        return regions_[i];
      }
    }
    last_ = oldest_;
    oldest_ = oldest_ + 1 == count_ ? 0 : oldest_ + 1;
    Region& region = regions_[last_];
    region = {.number = number, .way = region.number == 0 ? CopyWay::cached : CopyWay::nontemporal};
    return region;
  }

  unsigned shift_;
  uint32_t count_;
  Nontemporal choice_;
  uint32_t last_ = 0;
  uint32_t oldest_ = 0;
  std::array<Region, kMostRegions> regions_{};
};

}  // namespace weft::comm
