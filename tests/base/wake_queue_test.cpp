// Put-off wakes: who is woken when, in which order, and that nobody is forgotten.
#include "weft/base/wake_queue.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "base/asleep.hpp"
#include "base/stress.hpp"
#include "base/thread_parker.hpp"
#include "weft/base/clock.hpp"

namespace weft::base {
namespace {

using Scope = WakeQueue::Scope;

/// A thread that sleeps until it is told to go on.
class Sleeper {
 public:
  enum class How : uint8_t { patient, plain, in_turn };

  explicit Sleeper(How how = How::patient, WakeQueue* queue = nullptr)
      : thread_([this, how, queue] {
          parker_ = &this_parker();
          id_ = test::this_thread_id();
          if (how == How::patient) this_parker().park_patiently();
          if (how == How::patient && queue != nullptr) queue->take_me_out();
          if (how == How::plain) this_parker().park();
          if (how == How::in_turn) queue->wait_in_turn();
          awake_ = true;
          while (again_) {
            id_ = test::this_thread_id();
            this_parker().park_patiently();
            again_ = false;
            awake_ = true;
          }
        }) {
    test::wait_until_asleep(id_);
  }
  ~Sleeper() {
    if (thread_.joinable()) thread_.join();
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  void unpark() { parker_.load()->unpark(); }
  /// Its sleep is to be followed by another.
  void sleep_again() { again_ = true; }
  [[nodiscard]] bool awake() const { return awake_; }
  void wait_until_awake() const {
    while (!awake_) std::this_thread::yield();
  }
  void wait_until_asleep_again() {
    while (!awake_) std::this_thread::yield();
    awake_ = false;
    test::wait_until_asleep(id_);
  }
  /// A signal ends its system call.
  void disturb() { ASSERT_EQ(::pthread_kill(thread_.native_handle(), SIGUSR1), 0); }

 private:
  std::atomic<Parker*> parker_{nullptr};
  std::atomic<pid_t> id_{0};
  std::atomic<bool> awake_{false};
  std::atomic<bool> again_{false};
  std::thread thread_;
};

/// Long enough for whoever was woken to show it.
void let_run() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

void wake_in_scope(WakeQueue& queue, Sleeper& sleeper) {
  const Scope collecting(&queue);
  sleeper.unpark();
}

TEST(WakeQueue, PutsTheWakeOfAPatientSleeperOff) {
  WakeQueue queue;
  Sleeper sleeper;
  wake_in_scope(queue, sleeper);
  EXPECT_FALSE(queue.empty());
  EXPECT_TRUE(queue.grew());
  let_run();
  EXPECT_FALSE(sleeper.awake());
  EXPECT_TRUE(queue.wake_oldest());
  sleeper.wait_until_awake();
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.wake_oldest());
}

TEST(WakeQueue, WakesAtOnceWhoIsNotPatientAndOutsideAScope) {
  WakeQueue queue;
  Sleeper plain(Sleeper::How::plain);
  wake_in_scope(queue, plain);
  plain.wait_until_awake();
  Sleeper patient;
  {
    const Scope collecting(nullptr);
    patient.unpark();
  }
  patient.wait_until_awake();
  EXPECT_TRUE(queue.empty());
}

TEST(WakeQueue, AnInnerScopesQueueIsTheOuterOnesAfterIt) {
  WakeQueue outer;
  WakeQueue inner;
  Sleeper first;
  Sleeper second;
  {
    const Scope a(&outer);
    {
      const Scope b(&inner);
      const Scope c(nullptr);  // as before
      first.unpark();
    }
    second.unpark();
  }
  EXPECT_EQ(inner.size(), 1U);
  EXPECT_EQ(outer.size(), 1U);
  EXPECT_TRUE(inner.wake_oldest());
  EXPECT_TRUE(outer.wake_oldest());
}

TEST(WakeQueue, OldestAndNewest) {
  WakeQueue queue;
  Sleeper a;
  Sleeper b;
  Sleeper c;
  for (Sleeper* each : {&a, &b, &c}) wake_in_scope(queue, *each);
  EXPECT_TRUE(queue.wake_newest());
  c.wait_until_awake();
  EXPECT_FALSE(queue.grew());
  EXPECT_TRUE(queue.wake_oldest());
  a.wait_until_awake();
  EXPECT_FALSE(b.awake());
  EXPECT_TRUE(queue.wake_newest());
  b.wait_until_awake();
}

TEST(WakeQueue, ASecondPermitPutsNobodyInTwice) {
  WakeQueue queue;
  Sleeper sleeper;
  wake_in_scope(queue, sleeper);
  wake_in_scope(queue, sleeper);
  EXPECT_EQ(queue.size(), 1U);
  EXPECT_TRUE(queue.wake_newest());
}

TEST(WakeQueue, WhoStandsFirstTwiceIsStale) {
  WakeQueue queue;
  Sleeper a;
  Sleeper b;
  wake_in_scope(queue, a);
  queue.wake_stale();
  wake_in_scope(queue, b);
  EXPECT_TRUE(queue.wake_oldest());  // a: so b was not first before
  a.wait_until_awake();
  queue.wake_stale();
  let_run();
  EXPECT_FALSE(b.awake());
  queue.wake_stale();
  b.wait_until_awake();
  queue.wake_stale();
}

TEST(WakeQueue, WhoWaitsInTurnWakesTheFirstAndIsWokenWithoutAPermit) {
  WakeQueue queue;
  Sleeper first;
  wake_in_scope(queue, first);
  Sleeper in_turn(Sleeper::How::in_turn, &queue);
  first.wait_until_awake();
  EXPECT_EQ(queue.size(), 1U);
  EXPECT_FALSE(in_turn.awake());
  EXPECT_TRUE(queue.wake_oldest());
  in_turn.wait_until_awake();
  // Alone, its turn is at once.
  queue.wait_in_turn();
  EXPECT_TRUE(queue.empty());
}

TEST(WakeQueue, WhoWaitsInTurnAndIsUnparkedLeavesTheQueue) {
  WakeQueue queue;
  Sleeper first;
  wake_in_scope(queue, first);
  Sleeper second(Sleeper::How::in_turn, &queue);
  first.wait_until_awake();
  second.unpark();
  second.wait_until_awake();
  while (!queue.empty()) std::this_thread::yield();
}

/// With a handler that does nothing, a signal ends a system call.
class Disturbed : public testing::Test {
 protected:
  void SetUp() override {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    ASSERT_EQ(::sigaction(SIGUSR1, &action, &before_), 0);
  }
  void TearDown() override { ::sigaction(SIGUSR1, &before_, nullptr); }

 private:
  struct sigaction before_ {};
};

TEST(WakeQueue, WhoIsNudgedTakesHimselfOut) {
  WakeQueue queue;
  EXPECT_EQ(queue.oldest(), nullptr);
  Sleeper a(Sleeper::How::patient, &queue);
  Sleeper b(Sleeper::How::patient, &queue);
  wake_in_scope(queue, a);
  wake_in_scope(queue, b);
  Parker* const first = queue.oldest();
  ASSERT_NE(first, nullptr);
  // Whoever is about to nudge it takes nothing away.
  EXPECT_EQ(queue.oldest(), first);
  EXPECT_EQ(queue.size(), 2U);
  EXPECT_TRUE(queue.wake_oldest());
  a.wait_until_awake();
  first->nudge();  // late: nothing is lost
  Parker* const second = queue.oldest();
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second, first);
  second->nudge();
  b.wait_until_awake();
  EXPECT_TRUE(queue.empty());
}

TEST(WakeQueue, WhoWaitsInTurnIsNudgedWithoutAPermit) {
  WakeQueue queue;
  Sleeper first;
  wake_in_scope(queue, first);
  Sleeper in_turn(Sleeper::How::in_turn, &queue);
  first.wait_until_awake();
  Parker* const oldest = queue.oldest();
  ASSERT_NE(oldest, nullptr);
  oldest->nudge();
  in_turn.wait_until_awake();
  EXPECT_TRUE(queue.empty());
}

TEST_F(Disturbed, WhoWentOnByHimselfIsPassedOver) {
  WakeQueue queue;
  Sleeper gone;
  Sleeper asleep;
  wake_in_scope(queue, gone);
  gone.disturb();
  gone.wait_until_awake();
  EXPECT_EQ(queue.size(), 1U);  // its name is left behind
  EXPECT_EQ(queue.oldest(), nullptr);
  wake_in_scope(queue, asleep);
  EXPECT_TRUE(queue.wake_oldest());
  asleep.wait_until_awake();
  EXPECT_FALSE(queue.wake_oldest());
}

TEST_F(Disturbed, WhoWentOnByHimselfTakesHimselfOut) {
  WakeQueue queue;
  Sleeper gone(Sleeper::How::patient, &queue);
  wake_in_scope(queue, gone);
  gone.disturb();
  gone.wait_until_awake();
  EXPECT_TRUE(queue.empty());
}

TEST_F(Disturbed, WhoseNameIsInOneQueueIsNotPutOffInAnother) {
  WakeQueue before;
  WakeQueue now;
  Sleeper sleeper;
  sleeper.sleep_again();
  wake_in_scope(before, sleeper);
  sleeper.disturb();
  sleeper.wait_until_asleep_again();
  wake_in_scope(now, sleeper);  // wakes it
  sleeper.wait_until_awake();
  EXPECT_TRUE(now.empty());
}

TEST(WakeQueue, ItsEndWakesWhoIsLeft) {
  auto queue = std::make_unique<WakeQueue>();
  Sleeper a;
  Sleeper b;
  wake_in_scope(*queue, a);
  wake_in_scope(*queue, b);
  queue.reset();
  a.wait_until_awake();
  b.wait_until_awake();
}

// A baton goes round: whoever has it gives the permit to the next, mostly inside a scope, and then
// gives its core away by one of the four ways. Each permit must arrive; a lost one runs into the
// watchdog.
TEST(WakeQueueStress, EveryPermitArrives) {
  const uint64_t seed = test::stress_seed();
  constexpr unsigned kThreads = 12;
  struct alignas(kCacheLine) Seat {
    std::atomic<Parker*> parker{nullptr};
    std::atomic<uint64_t> balls{0};  ///< thrown to it
  };
  std::vector<Seat> seats(kThreads);
  WakeQueue queue;
  std::atomic<bool> over{false};
  std::atomic<uint64_t> caught{0};
  const test::StressClock clock;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::minstd_rand random(static_cast<unsigned>(seed) + t);
      Parker& mine = this_parker();
      seats[t].parker.store(&mine, std::memory_order_release);
      uint64_t had = 0;
      while (!over.load(std::memory_order_acquire)) {
        // acquire: pairs with the thrower's release.
        while (seats[t].balls.load(std::memory_order_acquire) == had &&
               !over.load(std::memory_order_acquire)) {
          queue.wake_oldest();  // pays, before it sleeps
          mine.park_patiently();
          if (random() % 4 != 0) queue.take_me_out();
        }
        if (seats[t].balls.load(std::memory_order_acquire) == had) break;
        ++had;
        caught.fetch_add(1, std::memory_order_relaxed);
        if (random() % 8 == 0) queue.wait_in_turn();
        Seat& next = seats[random() % kThreads];
        Parker* to = nullptr;
        while ((to = next.parker.load(std::memory_order_acquire)) == nullptr) sched_yield();
        {
          const Scope collecting(random() % 4 != 0 ? &queue : nullptr);
          next.balls.fetch_add(1, std::memory_order_release);
          to->unpark();
        }
        switch (random() % 4) {
          case 0:
            queue.wake_newest();
            break;
          case 1:
            queue.wake_oldest();
            break;
          case 2:
            if (Parker* const oldest = queue.oldest(); oldest != nullptr) {
              if (random() % 2 == 0) sched_yield();  // others may wake it first
              oldest->nudge();
            }
            break;
          default:
            break;
        }
      }
    });
  }
  // Three balls; and, as the watch does, whoever is left is woken now and then.
  for (unsigned t = 0; t < 3; ++t) {
    Parker* to = nullptr;
    while ((to = seats[t].parker.load(std::memory_order_acquire)) == nullptr) sched_yield();
    seats[t].balls.fetch_add(1, std::memory_order_release);
    to->unpark();
  }
  while (clock.running(caught.load(std::memory_order_relaxed))) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    queue.wake_stale();
  }
  over.store(true, std::memory_order_release);
  while (queue.wake_oldest()) {
  }
  for (Seat& seat : seats) seat.parker.load()->unpark();
  for (auto& thread : threads) thread.join();
  EXPECT_GT(caught.load(), 0U);
}

}  // namespace
}  // namespace weft::base
