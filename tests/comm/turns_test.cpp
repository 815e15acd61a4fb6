// Threads that share a core take turns: who is next, what the watch is for, and whole
// conversations.
#include "comm/turns.hpp"

#include <pthread.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <deque>
#include <latch>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "base/asleep.hpp"
#include "base/config_override.hpp"
#include "base/stress.hpp"
#include "comm/bound.hpp"
#include "comm/ranks.hpp"
#include "comm/runtime_impl.hpp"
#include "weft/base/clock.hpp"
#include "weft/comm/config.hpp"

namespace weft {
namespace {

using comm::Turns;
using test::bytes_of;
using test::on_ranks;
using test::on_threads;
using test::writable;

// --- Who is next ---------------------------------------------------------------------------------

/// What the watch does here: nothing, or count.
constexpr Turns::Rescue kNothing{
    .serve = [](void* /*argument*/) noexcept {}, .left = nullptr, .argument = nullptr};
Turns::Rescue counting(std::atomic<int>& served) {
  return {.serve = [](void* count) noexcept { ++*static_cast<std::atomic<int>*>(count); },
          .left = nullptr,
          .argument = &served};
}

/// A thread that sleeps patiently, and writes its number down when it is woken.
class Waiter {
 public:
  Waiter(std::vector<int>& woken, std::mutex& lock, int number)
      : thread_([this, &woken, &lock, number] {
          parker_ = &base::this_parker();
          id_ = test::this_thread_id();
          base::this_parker().park_patiently();
          const std::scoped_lock held(lock);
          woken.push_back(number);
          done_ = true;
        }) {
    test::wait_until_asleep(id_);
  }
  ~Waiter() { thread_.join(); }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  void owe(Turns& turns) {
    const base::WakeQueue::Scope collecting(&turns.owed);
    parker_.load()->unpark();
  }
  void wait() const {
    while (!done_) std::this_thread::yield();
  }

 private:
  std::atomic<base::Parker*> parker_{nullptr};
  std::atomic<pid_t> id_{0};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

/// The order in which three that came one after the other are woken.
std::vector<int> order_of_three(bool leads) {
  Turns turns(leads, 25'000, kNothing);
  std::vector<int> woken;
  std::mutex lock;
  {
    Waiter a(woken, lock, 0);
    Waiter b(woken, lock, 1);
    Waiter c(woken, lock, 2);
    const std::array<Waiter*, 3> all{&a, &b, &c};
    for (Waiter* each : all) each->owe(turns);
    for (std::size_t i = 1; i <= 3; ++i) {
      EXPECT_TRUE(turns.wake_next(true));
      for (;;) {
        const std::scoped_lock held(lock);
        if (woken.size() == i) break;
      }
    }
    EXPECT_FALSE(turns.wake_next(true));
  }
  return woken;
}

TEST(Turns, TheLeaderTakesWhoWaitedLongest) {
  EXPECT_EQ(order_of_three(true), (std::vector<int>{0, 1, 2}));
}

TEST(Turns, TheFollowerTakesWhoCameLastThenWhoWaitedLongest) {
  EXPECT_EQ(order_of_three(false), (std::vector<int>{2, 0, 1}));
}

TEST(Turns, AnswersAreExpectedForAWhileAndNotWhereTheyNeverCame) {
  Turns turns(true, 25'000, kNothing);
  EXPECT_TRUE(turns.expects_answer(base::ticks()));
  EXPECT_FALSE(turns.expects_answer(0));  // long ago
  (void)turns.wake_next(false);           // in vain
  EXPECT_FALSE(turns.expects_answer(base::ticks()));
  for (int i = 0; i < 32; ++i) (void)turns.wake_next(false);
  EXPECT_TRUE(turns.expects_answer(base::ticks()));  // is tried again
  for (int i = 0; i < 5; ++i) turns.count_answer();
  (void)turns.wake_next(false);
  EXPECT_TRUE(turns.expects_answer(base::ticks()));  // that was one of many
}

TEST(Turns, ATurnIsOverOnlyWhereOthersWait) {
  Turns turns(true, 1'000, kNothing);
  turns.begin_turn();
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(turns.is_over());
  std::vector<int> woken;
  std::mutex lock;
  Waiter waiter(woken, lock, 0);
  waiter.owe(turns);
  EXPECT_TRUE(turns.is_over());
  EXPECT_FALSE(turns.expects_answer(base::ticks()));
  EXPECT_TRUE(turns.wake_next(false));
}

TEST(Turns, WhoRanIsKnown) {
  Turns turns(true, 1000, kNothing);
  turns.note_running();
  EXPECT_FALSE(turns.others_ran());
  std::thread([&] { turns.note_running(); }).join();
  EXPECT_TRUE(turns.others_ran());
  turns.begin_turn();
  EXPECT_FALSE(turns.others_ran());
}

TEST(Turns, ATurnIsLongerWhileFewWait) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kTurn(5);
  std::vector<int> woken;
  std::mutex lock;
  // Another time where this thread lost its core in between.
  for (bool was_soon = false; !was_soon;) {
    Turns turns(true, std::chrono::nanoseconds(kTurn).count(), kNothing);
    std::atomic<uint32_t> parked{1};
    turns.set_parked(parked);
    Waiter waiter(woken, lock, 0);
    const auto before = Clock::now();
    turns.begin_turn();
    waiter.owe(turns);
    std::this_thread::sleep_for(kTurn * 2);
    const bool is_over = turns.is_over();
    was_soon = Clock::now() - before < kTurn * 8;
    EXPECT_FALSE(was_soon && is_over);
    parked = 31;
    EXPECT_TRUE(turns.is_over());
    parked = 1000;
    EXPECT_TRUE(turns.is_over());
    EXPECT_TRUE(turns.wake_next(false));
  }
}

// Who has its answer and waits for its turn is not parked.
TEST(Turns, WhoWaitsForItsTurnCountsAmongThoseWhoWait) {
  constexpr uint64_t kTurnNs = 1'000'000;
  std::vector<int> woken;
  std::mutex lock;
  Turns turns(true, kTurnNs, kNothing);
  const std::atomic<uint32_t> parked{0};
  turns.set_parked(parked);
  constexpr int kWaiters = 31;
  std::deque<Waiter> waiters;
  for (int i = 0; i < kWaiters; ++i) waiters.emplace_back(woken, lock, i).owe(turns);
  turns.begin_turn();
  std::this_thread::sleep_for(std::chrono::nanoseconds(kTurnNs * 2));
  EXPECT_TRUE(turns.is_over());
  while (turns.wake_next(false)) {
  }
}

TEST(Turns, ATurnOfFewAnswersThatComeLastsLonger) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kTurn(20);
  std::vector<int> woken;
  std::mutex lock;
  // Another time where this thread lost its core in between.
  for (bool was_soon = false; !was_soon;) {
    Turns turns(true, std::chrono::nanoseconds(kTurn).count(), kNothing);
    Waiter waiter(woken, lock, 0);
    const auto before = Clock::now();
    turns.begin_turn();
    waiter.owe(turns);
    std::this_thread::sleep_for(kTurn * 5 / 4);
    EXPECT_TRUE(turns.is_over());  // no answer came
    turns.count_answer();
    const bool is_over = turns.is_over();
    was_soon = Clock::now() - before < kTurn * 2;
    EXPECT_FALSE(was_soon && is_over);
    for (int i = 0; i < 16; ++i) turns.count_answer();
    EXPECT_TRUE(turns.is_over());
    turns.begin_turn();
    turns.count_answer();
    std::this_thread::sleep_for(kTurn * 9 / 4);
    EXPECT_TRUE(turns.is_over());
    EXPECT_TRUE(turns.wake_next(false));
  }
}

// --- The watch -----------------------------------------------------------------------------------

TEST(Turns, TheWatchServesWhereNobodyTakesATurnAndThenSleeps) {
  std::atomic<int> served{0};
  Turns turns(true, 25'000, counting(served));
  EXPECT_FALSE(turns.in_use());
  EXPECT_TRUE(turns.has_watch());
  turns.keep_watch();
  EXPECT_TRUE(turns.in_use());
  while (served < 3) std::this_thread::yield();
  // Until it sleeps, which on a busy machine it may still be about to. It serves three times in
  // quiet before that, and up to three times before it was asked, if it looked by then.
  int asleep = 0;
  do {
    asleep = served;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (served != asleep);
  EXPECT_LE(asleep, 6);
  turns.keep_watch();
  while (served < asleep + 3) std::this_thread::yield();
}

/// The calling thread leaves, if it may.
bool leaves(Turns& turns) {
  if (!turns.may_leave()) return false;
  turns.leave();
  return true;
}

TEST(Turns, WhoStaysAwayForLongMayNotLeaveForAWhile) {
  using Clock = std::chrono::steady_clock;
  // What a thread did is its own: another one tries again where this one lost its core in between.
  for (bool was_soon = false; !was_soon;) {
    std::jthread([&] {
      Turns turns(true, 25'000, kNothing);
      EXPECT_TRUE(turns.may_leave());  // which starts a watch
      const auto before = Clock::now();
      turns.leave();
      turns.begin_wait();
      if (Clock::now() - before > std::chrono::microseconds(45)) return;
      was_soon = true;
      EXPECT_TRUE(leaves(turns));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      turns.begin_wait();
      for (int i = 0; i < 16; ++i) EXPECT_FALSE(leaves(turns)) << i;
      EXPECT_TRUE(leaves(turns));
      turns.begin_wait();
    }).join();
  }
}

TEST(Turns, WhoWasAwayWhileOthersTookTurnsDidNoHarm) {
  Turns turns(true, 25'000, kNothing);
  EXPECT_TRUE(leaves(turns));
  turns.keep_watch();  // another's
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  turns.begin_wait();
  EXPECT_TRUE(leaves(turns));
  turns.begin_wait();
}

// Whom it left behind the watch had to wake: that another left meanwhile does not make up for it.
TEST(Turns, WhoLeftThoseWhomTheWatchHadToWakeIsLate) {
  std::jthread([] {
    std::atomic<int> served{0};
    Turns turns(true, 25'000, counting(served));
    std::vector<int> woken;
    std::mutex lock;
    for (const int times : {16, 32, 64}) {
      // Two: whom it finds first in the queue time after time, the watch wakes in any case.
      Waiter first(woken, lock, 0);
      Waiter second(woken, lock, 1);
      first.owe(turns);
      second.owe(turns);
      EXPECT_TRUE(leaves(turns));
      // The first may have begun before.
      for (const int before = served; served < before + 2;) std::this_thread::yield();
      std::thread([&] { EXPECT_TRUE(leaves(turns)); }).join();
      turns.begin_wait();
      for (int i = 0; i < times; ++i) EXPECT_FALSE(leaves(turns)) << i << " of " << times;
      while (turns.wake_next(false)) {
      }
      first.wait();
      second.wait();
    }
  }).join();
}

// A thread whose program has it sleep after each wait wakes the others itself; until it computes.
TEST(Turns, WhoMostlySleepsElsewhereLeavesNobody) {
  std::jthread([] {
    Turns turns(true, 25'000, kNothing);
    const auto span = [&](auto spend) {
      const bool may = turns.may_leave();
      turns.end_wait();
      spend();
      turns.begin_wait();
      return may;
    };
    const auto sleep = [] { std::this_thread::sleep_for(std::chrono::microseconds(50)); };
    const auto compute = [] {
      const uint64_t until = base::now_ns() + 5'000;
      while (base::now_ns() < until) base::cpu_relax();
    };
    EXPECT_TRUE(span(sleep));
    while (span(sleep)) {
    }
    for (int i = 0; i < 32; ++i) (void)span(sleep);  // far from where it would leave again
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(span(sleep)) << i;
    while (!span(compute)) {
    }
  }).join();
}

// --- Threads of two ranks ------------------------------------------------------------------------

/// A process with one core, whatever the machine.
test::ConfigOverride with_one_core(const char* turn = "40us") {
  register_comm_config();
  return test::ConfigOverride({{"comm.cores", "1"}, {"comm.turn", turn}});
}

/// One round trip with the thread of the same number.
void exchange(Endpoint& ep, Rank other, uint32_t thread, bool begins, uint64_t number) {
  uint64_t got = ~number;
  if (begins) ep.send_wait(other, Tag{thread}, bytes_of(number));
  ASSERT_EQ(ep.recv_wait(other, Tag{thread}, writable(got)).error, Errc::ok);
  ASSERT_EQ(got, number);
  if (!begins) ep.send_wait(other, Tag{thread}, bytes_of(number));
}

class TakingTurns : public testing::TestWithParam<std::tuple<const char*, uint32_t, Progress>> {};

TEST_P(TakingTurns, ConversationsGoOn) {
  const auto [turn, devices, progress] = GetParam();
  const auto config = with_one_core(turn);
  for (const int threads : {1, 2, 3, 16}) {
    on_ranks(2,
             [threads](Runtime& rt) {
               Endpoint ep(rt, {});
               const Rank other{1 - rt.rank().value};
               on_threads(threads, [&](int t) {
                 for (uint64_t i = 0; i < 200; ++i)
                   exchange(ep, other, static_cast<uint32_t>(t), rt.rank() == Rank{0}, i);
               });
             },
             {.devices = devices, .progress = progress});
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, TakingTurns,
                         testing::Values(std::tuple{"40us", 1U, Progress::waiters},
                                         std::tuple{"40us", 1U, Progress::workers},
                                         std::tuple{"1us", 1U, Progress::waiters},
                                         std::tuple{"40us", 3U, Progress::waiters},
                                         std::tuple{"0", 1U, Progress::waiters},
                                         std::tuple{"40us", 1U, Progress::server}));

// Whoever gets its message goes off with the server's role unserved, and waits for another whose
// message has come too, and whose wake was put off.
TEST(TakingTurns, WhoLeavesForLongHoldsNobodyUp) {
  const auto config = with_one_core();
  on_ranks(2,
           [](Runtime& rt) {
             Endpoint ep(rt, {});
             constexpr int kThreads = 8;
             constexpr int kRounds = 20;
             for (int round = 0; round < kRounds; ++round) {
               if (rt.rank() == Rank{1}) {
                 rt.barrier();
                 for (uint32_t t = 0; t < kThreads; ++t) ep.send_wait(Rank{0}, Tag{t}, bytes_of(t));
                 rt.barrier();
                 continue;
               }
               std::latch all(kThreads);
               std::vector<std::jthread> threads;
               for (uint32_t t = 0; t < kThreads; ++t) {
                 threads.emplace_back([&, t] {
                   uint32_t got = ~t;
                   EXPECT_EQ(ep.recv_wait(Rank{1}, Tag{t}, writable(got)).error, Errc::ok);
                   EXPECT_EQ(got, t);
                   all.arrive_and_wait();  // not in weft
                 });
               }
               rt.barrier();
               threads.clear();
               rt.barrier();
             }
           },
           {.progress = Progress::waiters});
}

/// Looks now and then whom the idle watch would find, until it saw one of either kind: who has its
/// message, and who is to serve.
class Kinds {
 public:
  explicit Kinds(Runtime::Impl& impl)
      : thread_([this, &impl](const std::stop_token& stop) {
          while (!both_ && !stop.stop_requested()) {
            const bool owed = impl.turns.owed.oldest() != nullptr;
            const bool any = impl.one_left() != nullptr;
            owed_ = owed_ || owed;
            unserved_ = unserved_ || (any && !owed);
            both_ = owed_ && unserved_;
            std::this_thread::sleep_for(std::chrono::microseconds(20));
          }
        }) {}
  [[nodiscard]] bool both() const { return both_; }

 private:
  bool owed_ = false;
  bool unserved_ = false;
  std::atomic<bool> both_{false};
  std::jthread thread_;
};

// All threads of a rank, time after time: who is the last to have its messages wakes nobody. The
// idle watch does.
TEST(TakingTurns, ThreadsThatGoAwayTogetherAreWokenWhereTheCoreIdles) {
  if (!test::has_idle_class()) GTEST_SKIP() << "no idle class";
  const auto config = with_one_core();
  const test::Bound bound;
  for (const int threads : {2, 8, 32}) {
    on_ranks(2, [threads](Runtime& rt) {
      Endpoint ep(rt, {});
      const Rank other{1 - rt.rank().value};
      std::barrier meet(threads);
      std::atomic<bool> go_on{true};
      const Kinds kinds(rt.impl());
      on_threads(threads, [&](int t) {
        const auto tag = static_cast<uint32_t>(t);
        while (go_on) {
          for (uint64_t i = 0; i < 5; ++i) exchange(ep, other, tag, rt.rank() == Rank{0}, i);
          meet.arrive_and_wait();  // not in weft
          // Until both have seen it.
          if (t == 0) {
            const bool enough = rt.impl().turns.idle_watch().woken() >= 3 && kinds.both();
            uint64_t mine = enough ? 0 : 1;
            uint64_t theirs = 0;
            ep.send_wait(other, Tag{1000}, bytes_of(mine));
            EXPECT_EQ(ep.recv_wait(other, Tag{1000}, writable(theirs)).error, Errc::ok);
            go_on = mine + theirs != 0;
          }
          meet.arrive_and_wait();
        }
      });
    });
  }
}

// A thread that is away computes, or one of another process: receivers may be slow. One that waits,
// too, only has its turn.
TEST(TakingTurns, ThreadsThatWaitAreNotTakenForOthersWhoWantTheCore) {
  const auto config = with_one_core();
  const test::Bound bound;
  on_ranks(1, [](Runtime& rt) {
    auto& impl = rt.impl();
    impl.ranks_have_cores = false;  // else it is kept from who computes
    for (const bool waits : {false, true}) {
      std::atomic<bool> ends{false};
      if (waits) impl.waiting += 2;
      std::thread other([&] {
        while (!ends) {
        }
      });
      constexpr int kYields = 40;
      int wanted = 0;
      for (int i = 0; i < kYields || (!waits && wanted == 0); ++i) {
        impl.core_is_shared = false;
        impl.long_yields.forget();
        impl.yield_core();
        if (impl.core_is_shared) ++wanted;
      }
      if (waits) {
        EXPECT_EQ(wanted, 0);
        impl.waiting -= 2;
      }
      ends = true;
      other.join();
    }
  });
}

// Signals end the sleep of threads whose wakes were put off.
TEST(TakingTurns, SignalsDoNoHarm) {
  const auto config = with_one_core();
  struct sigaction action {};
  action.sa_handler = [](int) {};
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  std::mutex lock;
  std::vector<pthread_t> alive;
  std::atomic<bool> over{false};
  std::thread disturber([&] {
    std::minstd_rand random(1);
    while (!over) {
      {
        const std::scoped_lock held(lock);
        if (!alive.empty()) ::pthread_kill(alive[random() % alive.size()], SIGUSR1);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
  on_ranks(2, [&](Runtime& rt) {
    Endpoint ep(rt, {});
    const Rank other{1 - rt.rank().value};
    on_threads(8, [&](int t) {
      {
        const std::scoped_lock held(lock);
        alive.push_back(::pthread_self());
      }
      for (uint64_t i = 0; i < 1000; ++i)
        exchange(ep, other, static_cast<uint32_t>(t), rt.rank() == Rank{0}, i);
      const std::scoped_lock held(lock);
      std::erase_if(alive, [](pthread_t each) { return ::pthread_equal(each, ::pthread_self()); });
    });
  });
  over = true;
  disturber.join();
  ::sigaction(SIGUSR1, &before, nullptr);
}

// Threads that converse, compute, sleep and wait for conditions, with partners that change.
TEST(TakingTurnsStress, NobodyIsForgotten) {
  const auto config = with_one_core();
  const uint64_t seed = test::stress_seed();
  // Several devices take no turns; threads that are bound have a watch for their idle core.
  for (const auto& [devices, binds] : {std::pair{1U, false}, {1U, true}, {2U, false}}) {
    std::optional<test::Bound> bound;
    if (binds) bound.emplace();
    const test::StressClock clock(0.5);
    on_ranks(2,
             [&](Runtime& rt) {
               Endpoint ep(rt, {});
               Endpoint flags(rt, {});
               const Rank other{1 - rt.rank().value};
               const bool begins = rt.rank() == Rank{0};
               constexpr int kThreads = 12;
               on_threads(kThreads, [&](int t) {
                 const auto tag = static_cast<uint32_t>(t);
                 std::minstd_rand random(static_cast<unsigned>(seed) + tag + (begins ? 0 : 100));
                 for (uint64_t i = 0;; ++i) {
                   uint64_t goes_on = begins && clock.running(i) ? 1 : 0;
                   if (begins) {
                     flags.send_wait(other, Tag{tag}, bytes_of(goes_on));
                   } else {
                     EXPECT_EQ(flags.recv_wait(other, Tag{tag}, writable(goes_on)).error, Errc::ok);
                   }
                   if (goes_on == 0) break;
                   for (uint64_t n = random() % 40; n > 0 && begins; --n) {
                     const uint64_t left = n;
                     ep.send_wait(other, Tag{tag}, bytes_of(left));
                     exchange(ep, other, kThreads + tag, true, i);
                   }
                   if (begins) {
                     const uint64_t none = 0;
                     ep.send_wait(other, Tag{tag}, bytes_of(none));
                   }
                   for (uint64_t left = 1; !begins;) {
                     ASSERT_EQ(ep.recv_wait(other, Tag{tag}, writable(left)).error, Errc::ok);
                     if (left == 0) break;
                     exchange(ep, other, kThreads + tag, false, i);
                   }
                   switch (random() % 8) {
                     case 0:
                       std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
                       break;
                     case 1:
                       std::this_thread::yield();
                       break;
                     case 2:
                       (void)rt.progress();
                       break;
                     case 3: {  // for a condition: a message to itself
                       Flag came;
                       uint64_t value = 0;
                       const Post answer = until_posted(rt, [&] {
                         return flags.recv(rt.rank(), Tag{100 + tag}, writable(value), &came);
                       });
                       flags.send_wait(rt.rank(), Tag{100 + tag}, bytes_of(i));
                       if (answer == Post::posted) rt.wait_until([&] { return came.is_set(); });
                       EXPECT_EQ(value, i);
                       break;
                     }
                     default:
                       break;
                   }
                 }
               });
             },
             {.devices = devices, .progress = Progress::waiters});
  }
}

}  // namespace
}  // namespace weft
