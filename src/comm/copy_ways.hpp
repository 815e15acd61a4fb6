// How a rank copies into packets: through the caches, or past them where their readers are far.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "comm/copy_trial.hpp"
#include "weft/base/copy.hpp"
#include "weft/base/types.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::comm {

/// comm.nontemporal
enum class Nontemporal : uint8_t { automatic, always, never };

/// Whose caches have a packet's lines, and whose are to have them.
struct Readers {
  Rank last;
  Rank next;
  // Those that are no rank.
  static constexpr Rank kNobody{-1};   ///< it is new; or there were unlike ones
  static constexpr Rank kSeveral{-2};  ///< at once, of this node
};

/// A rank's way of copying what each other one of its node reads: what its threads have found out.
/// Any thread; none waits for another. A way that is just changing costs time, nothing else.
class CopyWays {
 public:
  CopyWays(const fabric::Transport& transport, int ranks, Nontemporal choice);
  /// Copies into a packet, or into memory of a reader's own. As visible as by other stores when it
  /// returns.
  void copy(const Readers& readers, std::byte* into, const std::byte* from,
            std::size_t bytes) noexcept {
    if (bytes < base::kLongCopyBytes || bytes >= kTooLong || words_ == nullptr) {
      base::copy_bytes(into, from, bytes);
    } else {
      copy_long(readers, into, from, bytes);
    }
  }

  /// The usual way.
  [[nodiscard]] CopyWay way(const Readers& readers) const noexcept {
    return way(habit_of(readers.last), habit_of(readers.next));
  }
  void note(Rank reader, CopyHabit habit) noexcept {
    word_of(reader).store(habit.word(), std::memory_order_relaxed);
  }

 private:
  /// Shorter ones are not timed, but go as the others do.
  static constexpr std::size_t kTriedBytes = 8 << 10;
  /// More than a core's caches hold: the C library's way, which may go past them itself.
  static constexpr std::size_t kTooLong = std::size_t{1} << 20;
  void copy_long(const Readers& readers, std::byte* into, const std::byte* from,
                 std::size_t bytes) noexcept;
  [[nodiscard]] CopyHabit habit_of(Rank reader) const noexcept {
    return CopyHabit::of(word_of(reader).load(std::memory_order_relaxed));  // as in CopyTrial
  }
  [[nodiscard]] static CopyWay way(CopyHabit last, CopyHabit next) noexcept {
    return next.is_fixed ? next.usual : std::max(last.usual, next.usual);
  }
  [[nodiscard]] std::atomic<uint8_t>& word_of(Rank reader) const noexcept {
    return words_[static_cast<std::size_t>(reader.value - Readers::kSeveral.value)];
  }

  /// CopyHabits, by reader: kSeveral, kNobody, ranks. None: all are cached.
  std::unique_ptr<std::atomic<uint8_t>[]> words_;
};

}  // namespace weft::comm
