// A board: shared memory where members of a node show each other what short collectives take.
//
// Design, invariants and memory orders: docs/design/node-boards.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/base/cache_line.hpp"

namespace weft::mpi {

/// What lies in the shared memory. Zeroed memory is a board that was never used.
///
/// Uses have numbers, from 1, which grow; all members make the same uses, but one may leave out one
/// that it does not know of. In each use members may *arrive*, each in its own place, and one of
/// them *releases* the others. What is shown has kBytes at most. Or, of kExchangers at most, all
/// *exchange*: each arrives, and looks for all others; two places each, in turn.
struct Board {
  static constexpr uint32_t kMembers = 32;
  static constexpr uint32_t kExchangers = kMembers / 2;
  static constexpr uint32_t kPlaces = 32;  ///< of releases: so far may a releaser be ahead
  static constexpr uint32_t kBytes = 240;

  struct alignas(base::kCacheLine) Arrival {
    std::atomic<uint32_t> number;  ///< the last use in which the member arrived
    std::atomic<uint32_t> taken;   ///< it is through with all uses up to this
    std::atomic<uint32_t> asked;   ///< the first member's wish to be told of the arrival, or
                                   ///< those of all others: a bit each
    uint32_t bytes;
    std::byte data[kBytes];
  };
  struct alignas(base::kCacheLine) Release {
    std::atomic<uint32_t> word;  ///< 2 x the use that was released, or + 1 that was broken
    uint32_t bytes;
    uint64_t unused;
    std::byte data[kBytes];
  };

  alignas(base::kCacheLine) std::atomic<uint32_t> sleepers;  ///< members that wait by a letter
  std::atomic<uint32_t> broken;           ///< the use that was, the last one of all; 0: none
  std::atomic<uint32_t> departures;       ///< of members for good
  std::atomic<uint32_t> asked[kMembers];  ///< members' wishes to be told of the release
  Release releases[kPlaces];
  Arrival arrivals[kMembers];
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

/// That a member be told by a letter of what it waits for. Who grants a wish has published that
/// before.
class LetterWish {
 public:
  /// `made` stands in the word while there is the wish.
  LetterWish(std::atomic<uint32_t>& at, uint32_t made) noexcept : at_(&at), made_(made) {}
  void make() const noexcept {
    // seq_cst: who grants it publishes, and then looks here.
    at_->store(made_, std::memory_order_seq_cst);
  }
  /// True: it was there, and is no more. By who grants it: a letter must be sent. By who made it:
  /// none will come.
  [[nodiscard]] bool take() const noexcept {
    uint32_t made = made_;
    return at_->load(std::memory_order_seq_cst) == made &&
           at_->compare_exchange_strong(made, 0, std::memory_order_seq_cst);
  }

 private:
  std::atomic<uint32_t>* at_;
  uint32_t made_;
};

/// The same of one among several, of whom each has a bit of the word.
class OneOfWishes {
 public:
  OneOfWishes(std::atomic<uint32_t>& at, uint32_t member) noexcept
      : at_(&at), bit_(uint32_t{1} << member) {}
  void make() const noexcept {
    // seq_cst: as above.
    at_->fetch_or(bit_, std::memory_order_seq_cst);
  }
  /// By who made it. True: no letter will come.
  [[nodiscard]] bool take() const noexcept {
    return (at_->fetch_and(~bit_, std::memory_order_seq_cst) & bit_) != 0;
  }
  /// By who grants them: of whom a letter is wanted, a bit each.
  [[nodiscard]] static uint32_t take_all(std::atomic<uint32_t>& at) noexcept {
    return at.load(std::memory_order_seq_cst) == 0 ? 0 : at.exchange(0, std::memory_order_seq_cst);
  }

 private:
  std::atomic<uint32_t>* at_;
  uint32_t bit_;
};

/// A member's place at a board, in its own process.
///
/// Who may call: the member's thread that makes the collective call, one at a time; `begin` first,
/// `end` last in each use (in an exchange: `begin_exchange`). Nothing here blocks.
class Seat {
 public:
  enum class State : uint8_t { open, released, broken };

  /// The first use has a number after `before`, which all members must give alike, and each has
  /// taken its seat before any of them makes a use.
  Seat(Board& board, uint32_t members, uint32_t mine, uint32_t before) noexcept
      : board_(&board), members_(members), mine_(mine), number_(before), all_took_(before) {
    // relaxed: others learn by messages that it was taken.
    if (members != 0) arrival().taken.store(before, std::memory_order_relaxed);
  }
  [[nodiscard]] uint32_t members() const noexcept { return members_; }
  [[nodiscard]] uint32_t mine() const noexcept { return mine_; }
  [[nodiscard]] const Board& board() const noexcept { return *board_; }

  /// The first act of a use, with a number that is larger than the one before; `end` is the last.
  void begin(uint32_t number) noexcept {
    // release: as `end`. What was left out must not be waited for.
    if (number != number_ + 1) arrival().taken.store(number - 1, std::memory_order_release);
    number_ = number;
  }
  void end() noexcept {
    // release: what was read of the use is read before its place is taken again (has_space).
    arrival().taken.store(number_, std::memory_order_release);
  }

  // --- Arriving.
  [[nodiscard]] Board::Arrival& arrival() noexcept { return board_->arrivals[mine_]; }
  /// What is to be seen stands in `arrival()`. True: who waits for it wants a letter.
  [[nodiscard]] bool arrive() noexcept {
    // seq_cst: publishes, and then looks who asked, who asks and then looks at it.
    arrival().number.store(number_, std::memory_order_seq_cst);
    return wish_for(mine_).take();
  }
  /// The first member's, that it be told that `member` has arrived. A wish is of one use: the next
  /// one's releaser is another, and it is that one's business.
  [[nodiscard]] LetterWish wish_for(uint32_t member) noexcept {
    return {arrival_of(member).asked, 2 * number_ + 1};
  }
  [[nodiscard]] bool has_arrived(uint32_t member) const noexcept {
    return board_->arrivals[member].number.load(std::memory_order_seq_cst) == number_;
  }
  [[nodiscard]] Board::Arrival& arrival_of(uint32_t member) noexcept {
    return board_->arrivals[member];
  }

  // --- Releasing.
  [[nodiscard]] Board::Release& release_place() noexcept {
    return board_->releases[number_ % Board::kPlaces];
  }
  [[nodiscard]] State state() noexcept {
    const uint32_t word = release_place().word.load(std::memory_order_seq_cst);
    if (word / 2 == number_) return word % 2 == 0 ? State::released : State::broken;
    const uint32_t broken = board_->broken.load(std::memory_order_relaxed);
    return broken != 0 && is_ahead(number_, broken) ? State::broken : State::open;
  }
  /// Whether all others (those for which `counts` says so) are through with what the place of this
  /// use held before. Before `release`, its data, and `break_up`.
  template <class Counts>
  [[nodiscard]] bool has_space(Counts counts) noexcept {
    // acquire: as state(), which this member asked in that use.
    const uint32_t before = release_place().word.load(std::memory_order_acquire) / 2;
    if (before == 0 || before == number_ || !is_ahead(before, all_took_)) return true;
    uint32_t slowest = number_ - 1;
    for (uint32_t i = 0; i < members_; ++i) {
      // acquire: pairs with end's release.
      const uint32_t taken = board_->arrivals[i].taken.load(std::memory_order_acquire);
      if (i != mine_ && is_ahead(slowest, taken) && counts(i)) slowest = taken;
    }
    all_took_ = slowest;
    return !is_ahead(before, slowest);
  }
  /// All have arrived, so all are through with the uses before.
  void note_all_here() noexcept { all_took_ = number_ - 1; }
  /// What is to be seen stands in `release_place()`. False: the use was broken.
  [[nodiscard]] bool release() noexcept { return decide(2 * number_, 2 * number_ + 1); }
  /// No use can be made of it any more. False: it was released, and counts.
  bool break_up() noexcept {
    if (!decide(2 * number_ + 1, 2 * number_)) return false;
    // relaxed: for who left this use out, and looks again; all others find it in its place.
    board_->broken.store(number_, std::memory_order_relaxed);
    return true;
  }
  /// Somebody may sleep, or want a letter: after the use was decided.
  [[nodiscard]] bool has_sleepers() const noexcept {
    return board_->sleepers.load(std::memory_order_seq_cst) != 0;
  }

  // --- Exchanging, by all members, in place of arriving.
  /// The first act of an exchange. Who has seen all others in one exchange may show its own in the
  /// next, in its other place: they have begun that one, and are through with what was there.
  void begin_exchange(uint32_t number) noexcept {
    begin(number);
    turn_ ^= 1;
  }
  /// Where `member` shows its data.
  [[nodiscard]] Board::Arrival& place_of(uint32_t member) noexcept {
    return board_->arrivals[members_ * turn_ + member];
  }
  /// What is to be seen stands in `place_of(mine())`. The members that want a letter, a bit each.
  [[nodiscard]] uint32_t show() noexcept {
    Board::Arrival& place = place_of(mine_);
    // seq_cst: as `arrive`.
    place.number.store(number_, std::memory_order_seq_cst);
    return OneOfWishes::take_all(place.asked);
  }
  /// This member's, that it be told that `member` has shown its data.
  [[nodiscard]] OneOfWishes wish_to_see(uint32_t member) noexcept {
    return {place_of(member).asked, mine_};
  }
  /// The others have its other place in their caches: it is taken from there while this one waits.
  void prepare_next() noexcept {
    base::prefetch_for_write(&board_->arrivals[members_ * (turn_ ^ 1) + mine_]);
  }
  [[nodiscard]] bool has_shown(uint32_t member) noexcept {
    return place_of(member).number.load(std::memory_order_seq_cst) == number_;
  }

  // --- Sleeping, and wishes for letters.
  [[nodiscard]] std::atomic<uint32_t>& sleepers() noexcept { return board_->sleepers; }
  /// That `member` be told of the release. Of one use, too.
  [[nodiscard]] LetterWish wish_of(uint32_t member) noexcept {
    return {board_->asked[member], 2 * number_ + 1};
  }
  /// The member's communicator has ended: the very last act.
  void leave() noexcept {
    // release: pairs with the acquire of who finds all gone.
    board_->departures.fetch_add(1, std::memory_order_release);
  }

 private:
  /// Whether use a comes after use b. Numbers go round after 2^31 - 1.
  static bool is_ahead(uint32_t a, uint32_t b) noexcept {
    constexpr uint32_t kNumbers = UINT32_MAX / 2;
    return ((a - b - 1) & kNumbers) < kNumbers / 2;
  }
  bool decide(uint32_t wanted, uint32_t other) noexcept {
    std::atomic<uint32_t>& word = release_place().word;
    uint32_t now = word.load(std::memory_order_seq_cst);
    // seq_cst, also where it was decided already: publishes the data, and then looks for sleepers,
    // who say so and then look at it.
    while (now != wanted && now != other) {
      if (word.compare_exchange_weak(now, wanted, std::memory_order_seq_cst)) return true;
    }
    return now == wanted;
  }

  Board* board_;
  uint32_t members_;
  uint32_t mine_;
  uint32_t number_;
  uint32_t all_took_;  ///< all members are known to be through with uses up to this
  uint32_t turn_ = 0;  ///< of an exchange: which of the two places
};

}  // namespace weft::mpi
