// Which of two ways of copying is the quicker one, found from copies that are made anyway
// (docs/design/copies.md, "Far cores").
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace weft::comm {

/// Through the caches, or past them.
enum class CopyWay : uint8_t { cached, nontemporal };

/// A thread's trials of the way that is not in use, once in a while, for one receiver at a time.
///
/// Some copies are timed by the usual way. If that is slow, or not the cached one, the other way
/// has some that are not timed, as what the usual one left in the caches is not its own, and then
/// as many that are. It is taken if it was quicker by far. The more often it was not, the seldomer
/// it is tried. A time is the least of several: others take cores away.
class CopyTrial {
 public:
  static constexpr uint32_t kTimed = 4;
  static constexpr uint32_t kUntimed = 8;
  static constexpr uint32_t kSoon = 32;  ///< copies before the first one
  static constexpr uint32_t kLeastPause = 256;
  static constexpr uint32_t kMostPause = 8192;
  static constexpr double kFast = 10;     ///< bytes a nanosecond: no other way is looked for
  static constexpr double kBetter = 1.5;  ///< quicker by so much, or it is left as it is

  struct Next {
    CopyWay way;
    bool timed;
  };

  /// Whether it has begun with a receiver's copies.
  [[nodiscard]] bool is_under_way() const noexcept { return phase_ != Phase::pause; }
  /// For the next copy, where `usual` is in use.
  [[nodiscard]] Next next(CopyWay usual) noexcept {
    const CopyWay other = usual == CopyWay::cached ? CopyWay::nontemporal : CopyWay::cached;
    switch (phase_) {
      case Phase::pause:
        if (++copies_ < pause_) return {usual, false};
        enter(Phase::usual);
        [[fallthrough]];
      case Phase::usual:
        return {usual, true};
      case Phase::settling:
        if (++copies_ == kUntimed) enter(Phase::other);
        return {other, false};
      case Phase::other:
        break;
    }
    return {other, true};
  }
  /// A copy that was to be timed took so long. Returns what is to be usual from now on.
  [[nodiscard]] CopyWay took(CopyWay usual, std::size_t bytes, double ns) noexcept {
    const double per_byte = ns / static_cast<double>(bytes);
    least_ = copies_ == 0 ? per_byte : std::min(least_, per_byte);
    if (++copies_ < kTimed) return usual;
    if (phase_ == Phase::usual) {
      usual_ = least_;
      if (usual == CopyWay::cached && usual_ * kFast < 1) {
        enter(Phase::pause);
      } else {
        enter(Phase::settling);
      }
      return usual;
    }
    enter(Phase::pause);
    if (least_ * kBetter >= usual_) {
      pause_ = std::min(2 * pause_, kMostPause);
      return usual;
    }
    pause_ = kLeastPause;
    return usual == CopyWay::cached ? CopyWay::nontemporal : CopyWay::cached;
  }
  /// Its receiver gets nothing more: another time.
  void give_up() noexcept { enter(Phase::pause); }

 private:
  enum class Phase : uint8_t { pause, usual, settling, other };
  void enter(Phase phase) noexcept {
    if (phase == Phase::pause) pause_ = std::max(pause_, kLeastPause);
    phase_ = phase;
    copies_ = 0;
  }

  Phase phase_ = Phase::pause;
  uint32_t copies_ = 0;  ///< in this phase
  uint32_t pause_ = kSoon;
  double least_ = 0;  ///< ns a byte, in this phase
  double usual_ = 0;  ///< the same, of the usual way
};

}  // namespace weft::comm
