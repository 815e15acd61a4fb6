// The parker under many threads: no wake-up lost, no permit invented, on few cores.
//
// A lost wake-up shows as a hang, which the test's watchdog ends; nothing here rescues by time,
// except where a deadline is what is tested.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "base/stress.hpp"
#include "base/thread_parker.hpp"
#include "weft/base/backoff.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/parker.hpp"

namespace weft::base {
namespace {

/// A seat for one thread: a ball that comes in, and who to wake when it does.
struct alignas(kCacheLine) Seat {
  std::atomic<uint64_t> balls{0};
  std::atomic<Parker*> sitter{nullptr};
  uint64_t payload = 0;  // plain: ordered by `balls`
};

/// Gives the seat a ball, and wakes its sitter.
void throw_to(Seat& seat) {
  seat.balls.fetch_add(1, std::memory_order_release);  // pairs with await_ball's acquire
  // The parker was published before the first throw: all threads passed the starting line.
  seat.sitter.load(std::memory_order_acquire)->unpark();
}

void await_ball(Seat& seat, uint64_t count, Parker& mine) {
  while (seat.balls.load(std::memory_order_acquire) < count) mine.park();  // pairs with throw_to
}

/// `threads` threads in pairs; each pair throws one ball to and fro, sleeping in between.
uint64_t ping_pong(unsigned threads, double share) {
  const test::StressClock clock(share);
  std::vector<Seat> seats(threads);
  std::atomic<unsigned> seated{0};
  std::atomic<uint64_t> total{0};
  std::vector<std::thread> players;
  for (unsigned t = 0; t < threads; ++t) {
    players.emplace_back([&, t] {
      Seat& mine = seats[t];
      Seat& other = seats[t ^ 1U];
      Parker& parker = this_parker();
      mine.sitter.store(&parker, std::memory_order_release);
      seated.fetch_add(1, std::memory_order_release);
      while (seated.load(std::memory_order_acquire) < threads) sched_yield();
      uint64_t rounds = 0;
      const bool serves = t % 2 == 0;
      // A payload of 0 says that the game is over.
      for (bool playing = true; playing; ++rounds) {
        if (serves) {
          playing = clock.running(rounds);
          other.payload = playing ? rounds + 1 : 0;
          throw_to(other);
          if (!playing) break;
          await_ball(mine, rounds + 1, parker);
          EXPECT_EQ(mine.payload, rounds + 1);
        } else {
          await_ball(mine, rounds + 1, parker);
          playing = mine.payload != 0;
          if (!playing) break;
          EXPECT_EQ(mine.payload, rounds + 1);
          other.payload = rounds + 1;
          throw_to(other);
        }
      }
      total.fetch_add(rounds, std::memory_order_relaxed);
    });
  }
  for (auto& player : players) player.join();
  return total.load(std::memory_order_relaxed);
}

TEST(ParkerStress, PingPongOnePair) { EXPECT_GT(ping_pong(2, 0.25), 0U); }

TEST(ParkerStress, PingPongManyPairsOnFewCores) { EXPECT_GT(ping_pong(128, 0.5), 0U); }

TEST(ParkerStress, OneSleeperManyWakers) {
  // Each waker hands in one piece of work at a time and waits, parked, until it was taken.
  constexpr unsigned kWakers = 16;
  const test::StressClock clock(0.5);
  std::vector<Seat> wakers(kWakers);
  std::vector<OwnLine<std::atomic<bool>>> handed_in(kWakers);
  std::atomic<unsigned> left{kWakers};
  std::atomic<Parker*> sleeper_parker{nullptr};
  uint64_t taken = 0;
  std::thread sleeper([&] {
    Parker& mine = this_parker();
    sleeper_parker.store(&mine, std::memory_order_release);
    for (;;) {
      bool any = false;
      for (unsigned w = 0; w < kWakers; ++w) {
        // acquire: pairs with the waker's release; `payload` is seen.
        if (!handed_in[w]->load(std::memory_order_acquire)) continue;
        any = true;
        ++taken;
        ++wakers[w].payload;
        handed_in[w]->store(false, std::memory_order_relaxed);
        throw_to(wakers[w]);
      }
      if (any) continue;
      if (left.load(std::memory_order_acquire) == 0) break;
      mine.park();
    }
  });
  std::atomic<uint64_t> given{0};
  std::vector<std::thread> threads;
  for (unsigned w = 0; w < kWakers; ++w) {
    threads.emplace_back([&, w] {
      Parker* to_wake = nullptr;
      while ((to_wake = sleeper_parker.load(std::memory_order_acquire)) == nullptr) sched_yield();
      Seat& mine = wakers[w];
      Parker& parker = this_parker();
      mine.sitter.store(&parker, std::memory_order_release);
      uint64_t pieces = 0;
      while (clock.running(pieces)) {
        handed_in[w]->store(true, std::memory_order_release);  // pairs with the sleeper's acquire
        to_wake->unpark();
        await_ball(mine, ++pieces, parker);
        EXPECT_EQ(mine.payload, pieces);
      }
      given.fetch_add(pieces, std::memory_order_relaxed);
      left.fetch_sub(1, std::memory_order_release);  // pairs with the sleeper's acquire
      to_wake->unpark();
    });
  }
  for (auto& thread : threads) thread.join();
  sleeper.join();
  EXPECT_EQ(taken, given.load());
  EXPECT_GT(taken, 0U);
}

TEST(ParkerStress, PermitsRacingWithGoingToSleep) {
  // The waker sees the count move a moment before the sleeper parks again, and strikes then, a few
  // pauses later or sooner each time: between the look for a permit and the announcement of sleep,
  // between that and the system call, and inside it.
  std::mt19937_64 random(test::stress_seed());
  const test::StressClock clock(0.5, test::least_races());
  ThreadParker parker;
  std::atomic<uint64_t> counted{0};
  std::atomic<bool> over{false};
  std::thread sleeper([&] {
    for (;;) {
      parker.park();
      if (over.load(std::memory_order_acquire)) return;
      counted.fetch_add(1, std::memory_order_release);
    }
  });
  uint64_t given = 0;
  while (clock.running(given)) {
    parker.unpark();
    ++given;
    // Spins, so as to see it at once; and yields, in case the sleeper needs this core.
    for (Backoff backoff; counted.load(std::memory_order_acquire) < given;) backoff.pause();
    for (uint64_t spin = random() % 16; spin > 0; --spin) cpu_relax();
  }
  over.store(true, std::memory_order_release);
  parker.unpark();
  sleeper.join();
  EXPECT_EQ(counted.load(), given);
  EXPECT_GE(given, test::least_races());
  std::printf("%llu sleep/wake races\n", static_cast<unsigned long long>(given));
}

TEST(ParkerStress, DeadlinesRacingWithPermitsLoseAndInventNone) {
  // The waker gives the next permit only after the last was counted: so every one must be counted
  // exactly once, however the deadlines fall.
  std::mt19937_64 random(test::stress_seed());
  const test::StressClock clock(0.5);
  ThreadParker parker;
  std::atomic<uint64_t> counted{0};
  std::atomic<bool> over{false};
  uint64_t timed_out = 0;
  std::thread sleeper([&] {
    std::mt19937_64 own(random());
    while (!over.load(std::memory_order_acquire)) {
      if (parker.park_until(now_ns() + own() % 60'000)) {
        counted.fetch_add(1, std::memory_order_release);
      } else {
        ++timed_out;
      }
    }
  });
  uint64_t given = 0;
  while (clock.running(given)) {
    parker.unpark();
    ++given;
    while (counted.load(std::memory_order_acquire) < given) sched_yield();
    EXPECT_EQ(counted.load(), given);
    if (testing::Test::HasFailure()) break;
    for (uint64_t spin = random() % 2000; spin > 0; --spin) cpu_relax();
  }
  over.store(true, std::memory_order_release);
  sleeper.join();
  EXPECT_EQ(counted.load(), given);
  std::printf("permits %llu, deadlines passed %llu\n", static_cast<unsigned long long>(given),
              static_cast<unsigned long long>(timed_out));
}

TEST(ParkerStress, ThreadsComeAndGoWhileTheirParkersAreStillRung) {
  // A bell ringer keeps the parkers of threads that may have ended and rings them all the time; the
  // short-lived threads meanwhile wait for permits of their own.
  const test::StressClock clock(0.5);
  constexpr std::size_t kKept = 64;
  std::vector<std::atomic<Parker*>> kept(kKept);
  std::atomic<bool> over{false};
  std::thread ringer([&] {
    while (!over.load(std::memory_order_acquire)) {
      for (auto& parker : kept) {
        if (Parker* p = parker.load(std::memory_order_acquire); p != nullptr) p->unpark();
      }
      sched_yield();
    }
  });
  uint64_t lived = 0;
  while (clock.running(lived)) {
    std::vector<std::thread> brood;
    for (int i = 0; i < 8; ++i) {
      const std::size_t place = static_cast<std::size_t>(lived++) % kKept;
      brood.emplace_back([&, place] {
        Seat seat;
        Parker& mine = this_parker();
        seat.sitter.store(&mine, std::memory_order_release);
        kept[place].store(&mine, std::memory_order_release);
        std::thread friendly([&] { throw_to(seat); });
        await_ball(seat, 1, mine);
        friendly.join();
      });
    }
    for (auto& thread : brood) thread.join();
  }
  over.store(true, std::memory_order_release);
  ringer.join();
  EXPECT_GT(lived, 0U);
  EXPECT_LT(ParkerPool::made(), 1000U);
}

}  // namespace
}  // namespace weft::base
