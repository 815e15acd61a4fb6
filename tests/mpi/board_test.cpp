// Boards of nodes: seats of several members, played by one thread, and by a thread each.
#include "mpi/collectives/board.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <bit>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/stress.hpp"

namespace weft::mpi {
namespace {

constexpr auto kAll = [](uint32_t) { return true; };

std::vector<Seat> seats_at(Board& board, uint32_t members, uint32_t before = 0) {
  std::vector<Seat> seats;
  for (uint32_t i = 0; i < members; ++i) seats.emplace_back(board, members, i, before);
  return seats;
}

TEST(Board, ArrivalsAndAReleaseAreOfOneUse) {
  const auto board = std::make_unique<Board>();
  std::vector<Seat> seats = seats_at(*board, 3);
  for (uint32_t use = 1; use <= 3 * Board::kPlaces; ++use) {
    for (Seat& seat : seats) seat.begin(use);
    EXPECT_FALSE(seats[0].has_arrived(1));
    EXPECT_FALSE(seats[1].arrive());
    EXPECT_TRUE(seats[0].has_arrived(1));
    EXPECT_FALSE(seats[0].has_arrived(2));
    EXPECT_FALSE(seats[2].arrive());
    EXPECT_EQ(seats[2].state(), Seat::State::open);
    seats[0].note_all_here();
    ASSERT_TRUE(seats[0].has_space(kAll));
    EXPECT_TRUE(seats[0].release());
    for (Seat& seat : seats) {
      EXPECT_EQ(seat.state(), Seat::State::released);
      seat.end();
    }
  }
}

TEST(Board, AReleaserIsNoFurtherAheadThanThereArePlaces) {
  const auto board = std::make_unique<Board>();
  std::vector<Seat> seats = seats_at(*board, 3);
  uint32_t use = 0;
  while (++use, seats[1].begin(use), seats[1].has_space(kAll)) {
    ASSERT_TRUE(seats[1].release());
    seats[1].end();
    ASSERT_LE(use, Board::kPlaces);
  }
  EXPECT_EQ(use, Board::kPlaces + 1);
  const auto take_first = [&](Seat& seat) {
    seat.begin(1);
    EXPECT_EQ(seat.state(), Seat::State::released);
    seat.end();
  };
  take_first(seats[0]);
  EXPECT_FALSE(seats[1].has_space(kAll)) << "the third has not taken it";
  EXPECT_TRUE(seats[1].has_space([](uint32_t member) { return member != 2; }))
      << "who does not count is not waited for";
  take_first(seats[2]);
  EXPECT_TRUE(seats[1].has_space(kAll));
}

TEST(Board, WhoLeftAUseOutIsInStepAgain) {
  const auto board = std::make_unique<Board>();
  std::vector<Seat> seats = seats_at(*board, 2);
  for (uint32_t use = 1; use <= Board::kPlaces; ++use) {
    seats[0].begin(use);
    ASSERT_TRUE(seats[0].has_space(kAll));
    ASSERT_TRUE(seats[0].release());
    seats[0].end();
    if (use == 1) continue;  // the other's arguments were wrong
    seats[1].begin(use);
    EXPECT_EQ(seats[1].state(), Seat::State::released);
    seats[1].end();
  }
  seats[0].begin(Board::kPlaces + 1);
  EXPECT_TRUE(seats[0].has_space(kAll)) << "the place of the use that was left out";
}

TEST(Board, ABrokenUseIsTheLastForAll) {
  const auto board = std::make_unique<Board>();
  std::vector<Seat> seats = seats_at(*board, 4);
  for (uint32_t i = 0; i < 3; ++i) seats[i].begin(5);
  seats[3].begin(6);
  EXPECT_EQ(seats[3].state(), Seat::State::open);
  EXPECT_TRUE(seats[1].break_up());
  EXPECT_TRUE(seats[2].break_up()) << "broken is broken";
  EXPECT_FALSE(seats[0].release());
  EXPECT_EQ(seats[0].state(), Seat::State::broken);
  EXPECT_EQ(seats[3].state(), Seat::State::broken) << "a member that left that use out";
  EXPECT_EQ(seats_at(*board, 4, 4)[0].state(), Seat::State::open) << "a use before";
}

TEST(Board, WhatWasReleasedIsNotBroken) {
  const auto board = std::make_unique<Board>();
  std::vector<Seat> seats = seats_at(*board, 2);
  for (Seat& seat : seats) seat.begin(9);
  EXPECT_TRUE(seats[0].release());
  EXPECT_FALSE(seats[1].break_up());
  EXPECT_EQ(seats[1].state(), Seat::State::released);
}

TEST(Board, AWishIsOfOneUse) {
  const auto board = std::make_unique<Board>();
  std::vector<Seat> seats = seats_at(*board, 3);
  seats[0].begin(1);
  EXPECT_TRUE(seats[0].release());
  seats[1].begin(1);
  seats[1].end();
  seats[1].begin(2);
  seats[1].wish_of(1).make();
  EXPECT_FALSE(seats[0].wish_of(1).take()) << "use 1's releaser is late";
  seats[2].begin(2);
  EXPECT_TRUE(seats[2].wish_of(1).take());
  EXPECT_FALSE(seats[2].wish_of(1).take());
  EXPECT_FALSE(seats[1].wish_of(1).take()) << "a letter is under way";
}

TEST(Board, TwoExchange) {
  const auto board = std::make_unique<Board>();
  std::vector<Seat> seats = seats_at(*board, 2);
  for (uint32_t use = 1; use <= 9; ++use) {
    // Who was through first begins the next one, while the other still reads this one.
    seats[use % 2].begin_exchange(use);
    EXPECT_FALSE(seats[use % 2].has_shown(1 - use % 2));
    EXPECT_EQ(seats[use % 2].show(), 0U);
    Seat& late = seats[1 - use % 2];
    if (use > 1) {
      EXPECT_TRUE(late.has_shown(use % 2)) << "the one before";
    }
    late.begin_exchange(use);
    EXPECT_TRUE(late.has_shown(use % 2));
    seats[use % 2].wish_to_see(1 - use % 2).make();
    EXPECT_EQ(late.show(), 1U << (use % 2)) << "a letter is wanted";
    EXPECT_TRUE(seats[use % 2].has_shown(1 - use % 2));
  }
}

/// One of several threads that exchange, from use 1 on, until the first has had enough. Now and
/// then one waits by a letter.
struct Exchanger {
  static constexpr uint64_t kLast = UINT64_MAX;

  Seat seat;
  std::vector<std::atomic<uint32_t>>& letters;  ///< from i to j: at members * i + j
  uint64_t seed;
  const test::StressClock* clock;  ///< the first one's
  uint64_t wrong = 0;
  uint64_t received = 0;

  [[nodiscard]] std::atomic<uint32_t>& letter(uint32_t from, uint32_t to) {
    return letters[std::size_t{seat.members()} * from + to];
  }
  [[nodiscard]] static uint64_t shown(uint32_t use, uint32_t by) { return uint64_t{use} << 8 | by; }

  void wait_for(uint32_t other, bool by_letter) {
    if (by_letter) {
      const OneOfWishes wish = seat.wish_to_see(other);
      wish.make();
      const bool late = seat.has_shown(other);
      if (!late || !wish.take()) {
        std::atomic<uint32_t>& box = letter(other, seat.mine());
        while (box.load(std::memory_order_acquire) == 0) sched_yield();
        box.fetch_sub(1, std::memory_order_relaxed);
        ++received;
        if (!seat.has_shown(other)) ++wrong;
      }
    }
    while (!seat.has_shown(other)) sched_yield();
  }

  void play() {
    std::mt19937_64 random(seed + seat.mine());
    for (uint32_t use = 1;; ++use) {
      seat.begin_exchange(use);
      bool is_last = clock != nullptr && !clock->running(use);
      const uint64_t mine = is_last ? kLast : shown(use, seat.mine());
      std::memcpy(seat.place_of(seat.mine()).data, &mine, sizeof mine);
      for (uint32_t wishes = seat.show(); wishes != 0; wishes &= wishes - 1) {
        const auto to = static_cast<uint32_t>(std::countr_zero(wishes));
        letter(seat.mine(), to).fetch_add(1, std::memory_order_release);
      }
      for (uint32_t other = 0; other < seat.members(); ++other) {
        if (other == seat.mine()) continue;
        wait_for(other, random() % 8 == 0);
        if (random() % 64 == 0) sched_yield();
        uint64_t seen = 0;
        std::memcpy(&seen, seat.place_of(other).data, sizeof seen);
        if (seen == kLast) is_last = true;
        if (seen != kLast && seen != shown(use, other)) ++wrong;
      }
      if (is_last) return;
    }
  }
};

/// Each sees what the others show in each exchange, however far apart they come, and a letter comes
/// to who counts on it.
TEST(BoardStress, SeveralExchangeInStep) {
  const uint64_t seed = test::stress_seed();
  uint64_t all_received = 0;
  for (const uint32_t members : {2U, 3U, Board::kExchangers}) {
    const test::StressClock clock(0.3);
    const auto board = std::make_unique<Board>();
    std::vector<std::atomic<uint32_t>> letters(std::size_t{members} * members);
    std::vector<Exchanger> players;
    for (const Seat& seat : seats_at(*board, members)) {
      players.push_back({seat, letters, seed, seat.mine() == 0 ? &clock : nullptr});
    }
    {
      std::vector<std::jthread> threads;
      for (Exchanger& player : players) threads.emplace_back([&player] { player.play(); });
    }
    uint64_t received = 0;
    for (const Exchanger& player : players) {
      EXPECT_EQ(player.wrong, 0U) << "of " << members << ", seed " << seed;
      received += player.received;
    }
    for (const auto& box : letters) EXPECT_EQ(box.load(), 0U);
    all_received += received;
    std::printf("%u members: %llu letters\n", members, static_cast<unsigned long long>(received));
  }
  EXPECT_GT(all_received, 0U);
}

TEST(Board, EachMemberLeavesOnce) {
  const auto board = std::make_unique<Board>();
  for (Seat& seat : seats_at(*board, 3)) seat.leave();
  EXPECT_EQ(board->departures.load(), 3U);
}

TEST(Board, NumbersGoRound) {
  constexpr uint32_t kLast = UINT32_MAX / 2;
  const auto board = std::make_unique<Board>();
  std::vector<Seat> seats = seats_at(*board, 2, kLast - 3);
  uint32_t use = kLast - 3;
  for (int i = 0; i < 100; ++i) {
    use = use == kLast ? 1 : use + 1;
    for (Seat& seat : seats) seat.begin(use);
    EXPECT_EQ(seats[1].state(), Seat::State::open);
    ASSERT_TRUE(seats[0].has_space(kAll));
    ASSERT_TRUE(seats[0].release());
    EXPECT_EQ(seats[1].state(), Seat::State::released);
    for (Seat& seat : seats) seat.end();
  }
}

TEST(Board, FarAlongASlowMemberIsWaitedForAllTheSame) {
  constexpr uint32_t kBefore = 1'900'000'000;  // of a communicator with many collectives before
  const auto board = std::make_unique<Board>();
  std::vector<Seat> seats = seats_at(*board, 2, kBefore);
  for (uint32_t use = 1; use <= Board::kPlaces; ++use) {
    seats[0].begin(kBefore + use);
    ASSERT_TRUE(seats[0].has_space(kAll));
    ASSERT_TRUE(seats[0].release());
    seats[0].end();
  }
  seats[0].begin(kBefore + Board::kPlaces + 1);
  EXPECT_FALSE(seats[0].has_space(kAll));
}

// --- Threads -------------------------------------------------------------------------------------

void put(std::byte* at, uint64_t value) { std::memcpy(at, &value, sizeof value); }
uint64_t got(const std::byte* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
uint64_t scrambled(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  return value ^ (value >> 27);
}

/// A member in uses 1 to `last`, each of which is a round trip or a release by somebody. In the
/// last one `breaker` tries to break it while the others go on.
struct Player {
  Seat seat;
  uint64_t seed;
  uint32_t last;
  uint32_t breaker;
  bool was_broken = false;
  uint64_t wrong = 0;

  template <class Ready>
  void wait(Ready ready) {
    while (!ready()) sched_yield();
  }

  void play() {
    for (uint32_t use = 1; use <= last && !was_broken; ++use) {
      const uint64_t chance = scrambled(seed + use);
      seat.begin(use);
      if (use == last && breaker == seat.mine()) {
        wait([&] { return seat.has_space(kAll); });
        was_broken = seat.break_up();
        if (!was_broken) take(use);
      } else if (chance % 2 == 0) {
        round_trip(use);
      } else if ((chance >> 8) % seat.members() == seat.mine()) {
        wait([&] { return seat.has_space(kAll); });
        put(seat.release_place().data, scrambled(use));
        was_broken = !seat.release();
      } else {
        take(use);
      }
      seat.end();
    }
  }
  void take(uint32_t use) {
    wait([&] { return seat.state() != Seat::State::open; });
    was_broken = seat.state() == Seat::State::broken;
    if (!was_broken && got(seat.release_place().data) != expected(use)) ++wrong;
  }
  void round_trip(uint32_t use) {
    if (seat.mine() != 0) {
      put(seat.arrival().data, scrambled(use) + seat.mine());
      (void)seat.arrive();
      take(use);
      return;
    }
    uint64_t sum = 0;
    for (uint32_t i = 1; i < seat.members(); ++i) {
      wait([&] { return seat.has_arrived(i) || seat.state() == Seat::State::broken; });
      was_broken = was_broken || seat.state() == Seat::State::broken;
      if (was_broken) return;
      sum += got(seat.arrival_of(i).data);
    }
    seat.note_all_here();
    wait([&] { return seat.has_space(kAll); });
    put(seat.release_place().data, sum);
    was_broken = !seat.release();
  }
  [[nodiscard]] uint64_t expected(uint32_t use) const {
    if (scrambled(seed + use) % 2 != 0) return scrambled(use);
    uint64_t sum = 0;
    for (uint32_t i = 1; i < seat.members(); ++i) sum += scrambled(use) + i;
    return sum;
  }
};

TEST(BoardStress, AllSeeTheSameUntilOneBreaksIt) {
  std::mt19937_64 random(test::stress_seed());
  const test::StressClock clock(0.5);
  uint64_t broken = 0;
  for (uint64_t rounds = 0; clock.running(rounds); ++rounds) {
    const auto board = std::make_unique<Board>();
    const auto members = static_cast<uint32_t>(2 + random() % 4);
    const auto last = static_cast<uint32_t>(1 + random() % 300);
    const uint64_t seed = random();
    const auto breaker = static_cast<uint32_t>(random() % (members + 1));  // or nobody
    std::vector<Player> players;
    for (Seat& seat : seats_at(*board, members)) players.push_back({seat, seed, last, breaker});
    {
      std::vector<std::jthread> threads;
      for (Player& player : players) threads.emplace_back([&player] { player.play(); });
    }
    for (const Player& player : players) {
      ASSERT_EQ(player.wrong, 0U);
      ASSERT_EQ(player.was_broken, players[0].was_broken) << "of " << members << ", use " << last;
    }
    if (players[0].was_broken) ++broken;
    ASSERT_TRUE(rounds < 100 || broken > 0);
  }
}

/// One waits by a letter, the other brings about what it waits for: a letter is sent if and only if
/// the one counts on it.
TEST(BoardStress, ALetterComesToWhoCountsOnIt) {
  const test::StressClock clock(0.5);
  const auto board = std::make_unique<Board>();
  std::vector<Seat> seats = seats_at(*board, 2);
  std::atomic<uint32_t> begun{0};
  std::atomic<uint32_t> done{0};
  bool sent = false;  // by the releaser before `done`
  const auto wait_for = [](const std::atomic<uint32_t>& word, uint32_t use) {
    while (word.load(std::memory_order_acquire) != use) sched_yield();
  };
  constexpr uint32_t kOver = UINT32_MAX;
  std::jthread releaser([&] {
    for (uint32_t use = 1;; ++use) {
      uint32_t now = 0;
      while ((now = begun.load(std::memory_order_acquire)) == use - 1) {
      }
      if (now == kOver) return;
      seats[0].begin(use);
      (void)seats[0].release();
      sent = seats[0].has_sleepers() && seats[0].wish_of(1).take();
      seats[0].end();
      done.store(use, std::memory_order_release);
    }
  });
  Seat& seat = seats[1];
  uint64_t letters = 0;
  uint32_t use = 0;
  bool right = true;
  while (right && clock.running(use)) {
    ++use;
    seat.begin(use);
    begun.store(use, std::memory_order_release);
    for (uint64_t delay = scrambled(use) % 64; delay-- > 0;) base::cpu_relax();
    seat.sleepers().fetch_add(1, std::memory_order_seq_cst);
    seat.wish_of(1).make();
    const bool late = seat.state() != Seat::State::open;
    const bool counts_on_it = !late || !seat.wish_of(1).take();
    wait_for(done, use);
    seat.sleepers().fetch_sub(1, std::memory_order_relaxed);
    seat.end();
    right = sent == counts_on_it;
    if (sent) ++letters;
  }
  begun.store(kOver, std::memory_order_release);
  EXPECT_TRUE(right) << "use " << use;
  std::printf("%u uses, %llu letters\n", use, static_cast<unsigned long long>(letters));
}

}  // namespace
}  // namespace weft::mpi
