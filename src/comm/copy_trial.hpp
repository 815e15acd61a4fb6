// Which of two ways of copying over what a rank has read is the quicker one, found from copies that
// are made anyway (docs/design/copies.md, "Far cores").
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft::comm {

/// Through the caches, or past them.
enum class CopyWay : uint8_t { cached, nontemporal };

/// What a rank's threads know of a reader, in a byte that is written when it changes: the way that
/// is usual for what it has read, and how seldom the other one is tried.
struct CopyHabit {
  CopyWay usual = CopyWay::cached;
  bool is_fixed = false;  ///< nothing is tried
  uint8_t pause = 5;      ///< one copy in 2^pause begins a trial

  static CopyHabit of(uint8_t word) noexcept {
    return {static_cast<CopyWay>(word & 1), (word & 2) != 0, static_cast<uint8_t>(word >> 2)};
  }
  [[nodiscard]] uint8_t word() const noexcept {
    return static_cast<uint8_t>(static_cast<uint8_t>(usual) | (is_fixed ? 2 : 0) | pause << 2);
  }
};

/// A thread's trial, of one reader at a time; which one, and when, is left to chance.
///
/// Some copies are timed by the usual way. If that is slow, or goes past the caches, the other way
/// has some that are not timed, since what the usual way left in places that come back soon is not
/// its own; and then some that are timed. Past the caches is taken to be better only where the
/// caches' way is slow and it is quicker by half: a sender does not see that readers who are near
/// read more slowly what was written so. Before the usual way changes it is timed once more:
/// packets may have been new in part when it was first. A time is the least of several: others take
/// cores away.
class CopyTrial {
 public:
  static constexpr uint32_t kTimed = 4;
  static constexpr uint32_t kUntimed = 2;
  static constexpr uint8_t kLeastPause = 8, kMostPause = 13;
  static constexpr uint32_t kMostOthers = 65'536;  ///< copies to others, before it is given up
  static constexpr double kOldNs = 1e8;
  static constexpr double kFast = 10;  ///< bytes a nanosecond: no other way is looked for
  static constexpr double kBetter = 1.5;

  /// If one of the reader of `word` (a CopyHabit) is under way, or begins now, makes a copy by
  /// `copy(way)`; false: the caller does so by the usual one. `now()`: nanoseconds.
  template <class Copy, class Now>
  [[nodiscard]] bool run(std::atomic<uint8_t>& word, std::size_t bytes, Copy copy, Now now) {
    // relaxed, all of it: each way is right, and who is late has lost a trial.
    const CopyHabit habit = CopyHabit::of(word.load(std::memory_order_relaxed));
    if (phase_ == Phase::none) [[likely]] {
      if (!is_time_for(habit)) return false;
      begin(word, habit.usual, now());
    } else if (word_ != &word) {
      if (++others_ == kMostOthers) phase_ = Phase::none;
      return false;
    }
    const double start = now();
    if (usual_ != habit.usual || habit.is_fixed || start - began_ > kOldNs) {
      phase_ = Phase::none;  // another thread was faster, or the cores may have moved
      return false;
    }
    const bool timed = phase_ != Phase::settling && phase_ != Phase::returning;
    copy(way());
    if (timed) {
      took(habit, (now() - start) / static_cast<double>(bytes));
    } else {
      settle();
    }
    return true;
  }

 private:
  enum class Phase : uint8_t { none, usual, settling, other, returning, again };

  [[nodiscard]] bool is_time_for(CopyHabit habit) noexcept {
    if (habit.is_fixed) return false;
    // Xorshift: a fixed count would meet the same reader each time, where they take turns.
    random_ ^= random_ << 13;
    random_ ^= random_ >> 17;
    random_ ^= random_ << 5;
    return (random_ & ((uint32_t{1} << habit.pause) - 1)) == 0;
  }
  void begin(std::atomic<uint8_t>& word, CopyWay usual, double now) noexcept {
    word_ = &word;
    usual_ = usual;
    began_ = now;
    others_ = 0;
    enter(Phase::usual);
  }
  void enter(Phase phase) noexcept {
    phase_ = phase;
    copies_ = 0;
  }
  [[nodiscard]] CopyWay way() const noexcept {
    const bool other = phase_ == Phase::settling || phase_ == Phase::other;
    return (usual_ == CopyWay::cached) == other ? CopyWay::nontemporal : CopyWay::cached;
  }
  void settle() noexcept {
    if (++copies_ == kUntimed) enter(phase_ == Phase::settling ? Phase::other : Phase::again);
  }
  void took(CopyHabit habit, double ns_per_byte) noexcept {
    least_ = copies_ == 0 ? ns_per_byte : std::min(least_, ns_per_byte);
    if (++copies_ < kTimed) return;
    switch (phase_) {
      case Phase::other:
        other_took_ = least_;
        if (better() == usual_) return keep(habit);
        return enter(Phase::returning);
      case Phase::again:
        usual_took_ = std::min(usual_took_, least_);
        if (better() == usual_) return keep(habit);
        return end_with({better(), false, kLeastPause}, habit);
      default:
        usual_took_ = least_;
        if (usual_ == CopyWay::nontemporal || usual_took_ * kFast > 1)
          return enter(Phase::settling);
        return end_with({usual_, false, std::max(habit.pause, kLeastPause)}, habit);
    }
  }
  [[nodiscard]] CopyWay better() const noexcept {
    const double cached = usual_ == CopyWay::cached ? usual_took_ : other_took_;
    const double past = usual_ == CopyWay::cached ? other_took_ : usual_took_;
    return cached * kFast > 1 && past * kBetter < cached ? CopyWay::nontemporal : CopyWay::cached;
  }
  /// Tried next half as often.
  void keep(CopyHabit habit) noexcept {
    const int longer = habit.pause + 1;
    const int pause = std::clamp<int>(longer, kLeastPause, kMostPause);
    end_with({usual_, false, static_cast<uint8_t>(pause)}, habit);
  }
  void end_with(CopyHabit now, CopyHabit before) noexcept {
    phase_ = Phase::none;
    if (now.word() != before.word()) word_->store(now.word(), std::memory_order_relaxed);
  }

  Phase phase_ = Phase::none;
  CopyWay usual_ = CopyWay::cached;  ///< as it began, and below
  std::atomic<uint8_t>* word_ = nullptr;
  double began_ = 0;
  uint32_t others_ = 0;
  uint32_t random_ = 2463534242;
  uint32_t copies_ = 0;    ///< in this phase, and below
  double least_ = 0;       ///< ns a byte
  double usual_took_ = 0;  ///< the same, and below
  double other_took_ = 0;
};

}  // namespace weft::comm
