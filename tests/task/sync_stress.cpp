// Deadlines racing with wake-ups, and objects that end as soon as they may.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/stress.hpp"
#include "task/workers.hpp"
#include "weft/base/clock.hpp"
#include "weft/task/barrier.hpp"
#include "weft/task/condition_variable.hpp"
#include "weft/task/latch.hpp"
#include "weft/task/mutex.hpp"
#include "weft/task/once.hpp"
#include "weft/task/semaphore.hpp"

namespace weft::task {
namespace {

using Random = std::mt19937_64;

class SyncStress : public test::WithWorkers {
 protected:
  /// Rounds of `body(i, random)` for i < tasks + threads, on one scheduler, until the time is over.
  void rounds(int tasks, int threads, const std::function<void()>& before,
              const std::function<void(int, Random&)>& body, const std::function<void()>& after) {
    const uint64_t seed = test::stress_seed();
    Scheduler scheduler(options());
    const test::StressClock clock(0.05);
    for (uint64_t round = 0; clock.running(round); ++round) {
      before();
      const auto run = [&](int i) {
        Random random(seed + round * 1000 + static_cast<uint64_t>(i));
        body(i, random);
      };
      std::vector<Handle<void>> all;
      std::vector<std::thread> others;
      for (int i = 0; i < tasks; ++i) {
        all.push_back(scheduler.spawn([&run, i] { run(i); }, {.worker = i % GetParam()}));
      }
      for (int i = tasks; i < tasks + threads; ++i) others.emplace_back([&run, i] { run(i); });
      for (auto& each : all) each.join();
      for (auto& each : others) each.join();
      after();
    }
  }
};
WEFT_WITH_WORKERS(SyncStress);

std::chrono::nanoseconds soon(Random& random) {
  // Mostly about as long as a wake-up takes.
  return std::chrono::nanoseconds(random() % (random() % 4 == 0 ? 200'000 : 5'000));
}

// The mutex's own fields are all that keeps `plain` whole; a lost wake-up is a hang.
TEST_P(SyncStress, AMutexWithAndWithoutDeadlines) {
  Mutex mutex;
  long plain = 0;
  std::atomic<long> locked{0};
  rounds(
      24, 2, [] {},
      [&](int, Random& random) {
        for (int i = 0; i < 40; ++i) {
          const bool got = random() % 2 == 0   ? (mutex.lock(), true)
                           : random() % 8 == 0 ? mutex.try_lock()
                                               : mutex.try_lock_for(soon(random));
          if (!got) continue;
          ++plain;
          locked.fetch_add(1, std::memory_order_relaxed);
          const auto turn = random() % 32;
          if (turn == 0) sleep_for(soon(random));
          if (turn < 4) yield();
          mutex.unlock();
        }
      },
      [&] {
        ASSERT_TRUE(mutex.try_lock());
        mutex.unlock();
        ASSERT_EQ(plain, locked);
      });
}

// As many permits as were released, none lost to a deadline.
TEST_P(SyncStress, PermitsAreConserved) {
  CountingSemaphore<> permits(0);
  std::atomic<long> acquired{0};
  constexpr int kAll = 20;
  constexpr int kEach = 40;
  rounds(
      kAll - 2, 2, [&] { acquired = 0; },
      [&](int who, Random& random) {
        for (int i = 0; i < kEach; ++i) {
          if (who % 2 == 0) {
            // Two for each of the other half.
            permits.release();
            if (random() % 4 == 0) yield();
            permits.release();
          } else {
            permits.acquire();
            if (permits.try_acquire_for(soon(random))) acquired.fetch_add(1);
          }
        }
      },
      [&] {
        long left = 0;
        while (permits.try_acquire()) ++left;
        ASSERT_EQ(acquired + left, kAll / 2 * kEach);
      });
}

// One notification, and many who wait with a deadline: each that gets it passes it on, until it
// comes to the one that waits without. Lost to one that says that it timed out, it is a hang.
TEST_P(SyncStress, NotificationsAreNotLostToDeadlines) {
  Mutex mutex;
  ConditionVariable changed;
  int waiting = 0;
  constexpr int kAll = 8;
  rounds(
      kAll - 1, 1, [&] { waiting = 0; },
      [&](int who, Random& random) {
        std::unique_lock lock(mutex);
        if (who == kAll / 2) {
          while (waiting != kAll - 1) {
            lock.unlock();
            yield();
            lock.lock();
          }
          lock.unlock();
          const uint64_t until = base::now_ns() + random() % 5000;
          while (base::now_ns() < until) {
          }
          changed.notify_one();
          return;
        }
        ++waiting;
        if (who == 1) {
          changed.wait(lock);
        } else if (changed.wait_for(lock, soon(random)) == std::cv_status::no_timeout) {
          changed.notify_one();
        }
      },
      [] {});
}

// Items go through in spite of deadlines.
TEST_P(SyncStress, ProducersAndConsumersWithDeadlines) {
  Mutex mutex;
  ConditionVariable changed;
  int tokens = 0;
  int wanted = 0;
  constexpr int kAll = 22;
  constexpr int kEach = 20;
  rounds(
      kAll - 2, 2,
      [&] {
        tokens = 0;
        wanted = kAll / 2 * kEach;
      },
      [&](int who, Random& random) {
        if (who % 2 == 0) {
          for (int i = 0; i < kEach; ++i) {
            {
              const std::lock_guard hold(mutex);
              ++tokens;
            }
            changed.notify_one();
            if (random() % 4 == 0) yield();
          }
          return;
        }
        for (;;) {
          std::unique_lock lock(mutex);
          if (wanted == 0) return;
          bool timed_out = false;
          // One of them waits for ever, unless nothing is to come.
          while (tokens == 0 && wanted != 0 && !timed_out) {
            if (who == 1) {
              changed.wait(lock);
            } else {
              timed_out = changed.wait_for(lock, soon(random)) == std::cv_status::timeout;
            }
          }
          if (timed_out || tokens == 0) continue;
          --tokens;
          if (--wanted == 0) changed.notify_all();
        }
      },
      [&] { ASSERT_EQ(tokens, 0); });
}

// The last to be let through ends the object, at once.
TEST_P(SyncStress, ObjectsEndAsSoonAsTheyMay) {
  struct Shared {
    explicit Shared(int all) : left(all), latch(all), barrier(all), permits(0) {}
    std::atomic<int> left;
    Latch latch;
    Barrier<> barrier;
    CountingSemaphore<> permits;
    Mutex mutex;
    int plain = 0;
  };
  constexpr int kAll = 12;
  Shared* shared = nullptr;
  rounds(
      kAll - 1, 1, [&] { shared = new Shared(kAll); },
      [&](int who, Random& random) {
        Shared& mine = *shared;
        mine.latch.arrive_and_wait();
        if (random() % 2 == 0) {
          mine.barrier.wait(mine.barrier.arrive());
        } else {
          mine.barrier.arrive_and_wait();
        }
        // A ring of permits, then the mutex: whoever is through both may be the last.
        if (who == 0) mine.permits.release();
        mine.permits.acquire();
        mine.permits.release();
        mine.mutex.lock();
        const bool last = ++mine.plain == kAll;
        mine.mutex.unlock();
        if (last) delete &mine;
      },
      [] {});
}

// Each object alone: one waits and ends it, the other lets it go.
TEST_P(SyncStress, TheWaiterEndsWhatItWaitedFor) {
  std::atomic<Latch*> latch{nullptr};
  std::atomic<Barrier<>*> barrier{nullptr};
  std::atomic<BinarySemaphore*> permit{nullptr};
  const auto take = [](auto& from) {
    auto* object = from.exchange(nullptr);
    while (object == nullptr) {
      yield();
      object = from.exchange(nullptr);
    }
    return object;
  };
  for (const int threads : {0, 1}) {
    rounds(
        2 - threads, threads, [] {},
        [&](int who, Random& random) {
          for (int i = 0; i < 5; ++i) {
            if (who == 0) {
              const Latch mine(1);
              latch = const_cast<Latch*>(&mine);
              if (random() % 2 == 0) yield();
              mine.wait();
            } else {
              take(latch)->count_down();
            }
            if (who == 1) {
              Barrier<> mine(2);
              barrier = &mine;
              if (random() % 2 == 0) {
                mine.arrive_and_wait();
              } else {
                mine.wait(mine.arrive());
              }
            } else {
              (void)take(barrier)->arrive();
            }
            if (who == 0) {
              BinarySemaphore mine(0);
              permit = &mine;
              if (!mine.try_acquire_for(soon(random))) mine.acquire();
            } else {
              take(permit)->release();
            }
          }
        },
        [] {});
  }
}

TEST_P(SyncStress, PhasesOfABarrierThatShrinks) {
  std::unique_ptr<Barrier<>> barrier;
  constexpr int kAll = 16;
  std::vector<int> phases(kAll);
  rounds(
      kAll - 2, 2, [&] { barrier = std::make_unique<Barrier<>>(kAll); },
      [&](int who, Random& random) {
        const auto me = static_cast<std::size_t>(who);
        const int mine = 10 + who * 3;
        for (int phase = 1; phase <= mine; ++phase) {
          phases[me] = phase;
          if (random() % 3 == 0) {
            auto token = barrier->arrive();
            if (random() % 2 == 0) yield();
            barrier->wait(std::move(token));
          } else {
            barrier->arrive_and_wait();
          }
          // Those who go on at least as long are in this phase, too; none is two ahead.
          for (std::size_t other = me; other < kAll; ++other) {
            EXPECT_EQ(phases[other], phase);
          }
          barrier->arrive_and_wait();
        }
        barrier->arrive_and_drop();
      },
      [] {});
}

TEST_P(SyncStress, OnceInTheEnd) {
  std::unique_ptr<OnceFlag> flag;
  int done = 0;
  rounds(
      20, 2,
      [&] {
        flag = std::make_unique<OnceFlag>();
        done = 0;
      },
      [&](int, Random& random) {
        while (true) {
          try {
            call_once(*flag, [&] {
              if (random() % 2 == 0) yield();
              if (random() % 2 == 0) throw std::runtime_error("again");
              ++done;
            });
            ASSERT_EQ(done, 1);
            return;
          } catch (const std::runtime_error&) {
          }
        }
      },
      [&] { ASSERT_EQ(done, 1); });
}

// Whoever notified all ends the condition variable at once, deadlines or not.
TEST_P(SyncStress, AConditionVariableEndsOnceAllAreNotified) {
  Scheduler scheduler(options());
  const int rounds = 100 / static_cast<int>(test::kLess);
  for (int round = 0; round < rounds; ++round) {
    Mutex mutex;
    auto condition = std::make_unique<ConditionVariable>();
    bool over = false;
    int waiting = 0;
    std::vector<Handle<void>> waiters;
    for (int i = 0; i < 3; ++i) {
      waiters.push_back(scheduler.spawn([&, i] {
        std::unique_lock lock(mutex);
        ++waiting;
        while (!over) {
          if (condition->wait_for(lock, std::chrono::nanoseconds(500 * (i + round % 5))) ==
              std::cv_status::timeout)
            yield();
        }
      }));
    }
    scheduler.run([&] {
      for (bool all = false; !all;) {
        yield();
        const std::lock_guard lock(mutex);
        all = waiting == 3;
      }
      // From here on nobody waits again: `over` is seen under the mutex.
      const std::lock_guard lock(mutex);
      over = true;
      condition->notify_all();
      condition.reset();
    });
    for (auto& each : waiters) each.join();
  }
}

}  // namespace
}  // namespace weft::task
