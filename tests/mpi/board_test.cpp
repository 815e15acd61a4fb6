// Boards of nodes: seats of several members, played by one thread, and by a thread each.
#include "mpi/collectives/board.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
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
  seats[1].make_wish(seats[1].wish_of(1));
  EXPECT_FALSE(seats[0].take_wish(seats[0].wish_of(1))) << "use 1's releaser is late";
  seats[2].begin(2);
  EXPECT_TRUE(seats[2].take_wish(seats[2].wish_of(1)));
  EXPECT_FALSE(seats[2].take_wish(seats[2].wish_of(1)));
  EXPECT_FALSE(seats[1].take_wish(seats[1].wish_of(1))) << "a letter is under way";
}

TEST(Board, TwoExchange) {
  const auto board = std::make_unique<Board>();
  std::vector<Seat> seats = seats_at(*board, 2);
  for (uint32_t use = 1; use <= 9; ++use) {
    // Who was through first begins the next one, while the other still reads this one.
    seats[use % 2].begin_exchange(use);
    EXPECT_FALSE(seats[use % 2].has_shown(1 - use % 2));
    EXPECT_FALSE(seats[use % 2].show());
    Seat& late = seats[1 - use % 2];
    if (use > 1) {
      EXPECT_TRUE(late.has_shown(use % 2)) << "the one before";
    }
    late.begin_exchange(use);
    EXPECT_TRUE(late.has_shown(use % 2));
    seats[use % 2].make_wish(seats[use % 2].place_of(1 - use % 2).asked);
    EXPECT_TRUE(late.show()) << "a letter is wanted";
    EXPECT_TRUE(seats[use % 2].has_shown(1 - use % 2));
  }
}

/// Each sees what the other one shows in each exchange, however far apart they come.
TEST(Board, TwoExchangeInStep) {
  if (!base::environment("WEFT_STRESS_SECONDS").found) base::set_config("stress.seconds", "1");
  const uint64_t seed = weft::test::stress_seed();
  const weft::test::StressClock clock(1.0);
  const auto board = std::make_unique<Board>();
  std::vector<Seat> seats = seats_at(*board, 2);
  constexpr uint64_t kLast = UINT64_MAX;
  const auto play = [&](uint32_t mine) {
    Seat& seat = seats[mine];
    std::mt19937_64 random(seed + mine);
    for (uint32_t use = 1;; ++use) {
      seat.begin_exchange(use);
      const uint64_t shown = mine == 0 && !clock.running(use) ? kLast : uint64_t{use} << 8 | mine;
      std::memcpy(seat.place_of(mine).data, &shown, sizeof shown);
      EXPECT_FALSE(seat.show());
      while (!seat.has_shown(1 - mine)) sched_yield();
      for (uint64_t i = random() % 100; i == 0; ++i) sched_yield();
      uint64_t seen = 0;
      std::memcpy(&seen, seat.place_of(1 - mine).data, sizeof seen);
      if (shown == kLast || seen == kLast) return;
      ASSERT_EQ(seen, uint64_t{use} << 8 | (1 - mine));
    }
  };
  std::jthread other([&] { play(1); });
  play(0);
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
      sent = seats[0].has_sleepers() && seats[0].take_wish(seats[0].wish_of(1));
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
    seat.make_wish(seat.wish_of(1));
    const bool late = seat.state() != Seat::State::open;
    const bool counts_on_it = !late || !seat.take_wish(seat.wish_of(1));
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
