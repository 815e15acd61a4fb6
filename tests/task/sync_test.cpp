// Mutex, condition variable, latch, barrier, semaphore, once: between tasks and plain threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "task/workers.hpp"
#include "weft/base/arbitrated_locks.hpp"
#include "weft/base/clock.hpp"
#include "weft/task/barrier.hpp"
#include "weft/task/condition_variable.hpp"
#include "weft/task/latch.hpp"
#include "weft/task/mutex.hpp"
#include "weft/task/once.hpp"
#include "weft/task/semaphore.hpp"

namespace weft::task {
namespace {

using namespace std::chrono_literals;

class Sync : public test::WithWorkers {
 protected:
  Scheduler& scheduler() {
    if (!scheduler_) scheduler_.emplace(options());
    return *scheduler_;
  }
  /// Runs `body(i)` for i < tasks + threads: that many tasks, on all workers, and threads.
  void together(int tasks, int threads, const std::function<void(int)>& body) {
    std::vector<Handle<void>> all;
    std::vector<std::thread> others;
    for (int i = 0; i < tasks; ++i) {
      all.push_back(scheduler().spawn([&body, i] { body(i); }, {.worker = i % GetParam()}));
    }
    for (int i = tasks; i < tasks + threads; ++i) others.emplace_back([&body, i] { body(i); });
    for (auto& each : all) each.join();
    for (auto& each : others) each.join();
  }

 private:
  std::optional<Scheduler> scheduler_;
};
WEFT_WITH_WORKERS(Sync);

/// Waits until others have come so far, without suspending for good.
template <class Condition>
void until(Condition condition) {
  while (!condition()) yield();
}

// ---- Mutex -------------------------------------------------------------------------------------

TEST_P(Sync, AMutexExcludes) {
  Mutex mutex;
  long plain = 0;
  std::atomic<int> inside{0};
  together(30, 3, [&](int who) {
    for (int i = 0; i < 100; ++i) {
      const std::lock_guard hold(mutex);
      EXPECT_EQ(inside.fetch_add(1), 0);
      ++plain;
      if ((i + who) % 16 == 0) yield();  // suspended inside
      EXPECT_EQ(inside.fetch_sub(1), 1);
    }
  });
  EXPECT_EQ(plain, 33 * 100);
}

/// As AMutexExcludes; who waits sleeps alone, and its worker runs the others: also the holder,
/// which yields inside the section.
template <class L>
void expect_one_at_a_time(Scheduler& scheduler, int workers) {
  L lock;
  uint64_t entered = 0;  // plain: lost if two are inside
  constexpr uint64_t kTurns = 50;
  const auto body = [&](int i, bool is_task) {
    for (uint64_t turn = 0; turn < kTurns; ++turn) {
      typename L::Place place;
      (turn + static_cast<uint64_t>(i)) % 4 == 0 ? lock.acquire_low(place) : lock.acquire(place);
      const uint64_t before = entered;
      if (is_task && turn % 8 == 0) yield();
      entered = before + 1;
      lock.release(place);
    }
  };
  constexpr int kTasks = 24;
  std::vector<Handle<void>> tasks;
  for (int i = 0; i < kTasks; ++i)
    tasks.push_back(scheduler.spawn([&body, i] { body(i, true); }, {.worker = i % workers}));
  std::thread thread([&] { body(0, false); });
  for (auto& task : tasks) task.join();
  thread.join();
  EXPECT_EQ(entered, (kTasks + 1) * kTurns);
}

TEST_P(Sync, LocksOfThreadsExcludeTasksToo) {
  expect_one_at_a_time<base::WithoutPriorityMcs>(scheduler(), GetParam());
  expect_one_at_a_time<base::ClhLock>(scheduler(), GetParam());
  expect_one_at_a_time<base::PriorityClhLock>(scheduler(), GetParam());
  expect_one_at_a_time<base::CohortLock>(scheduler(), GetParam());
  expect_one_at_a_time<base::ClhubLock>(scheduler(), GetParam());
  expect_one_at_a_time<base::HierarchicalClhubLock>(scheduler(), GetParam());
}

TEST_P(Sync, AMutexFitsTheStandardLocks) {
  Mutex one;
  Mutex two;
  together(1, 0, [&](int) {
    {
      const std::scoped_lock both(one, two);
      EXPECT_FALSE(spawn([&] { return one.try_lock(); }).join());
      std::unique_lock<Mutex> lock(one, std::defer_lock);
      EXPECT_FALSE(lock.try_lock_for(100us));
      EXPECT_FALSE(lock.try_lock_until(std::chrono::steady_clock::now() + 100us));
      EXPECT_FALSE(one.try_lock_until(base::now_ns() + 100'000));
    }
    EXPECT_TRUE(std::unique_lock<Mutex>(one, 1ms).owns_lock());
    EXPECT_TRUE(one.try_lock());
    one.unlock();
  });
}

TEST_P(Sync, AMutexThatIsHeldWhileItsHolderSleeps) {
  Mutex mutex;
  int turns = 0;
  together(8, 1, [&](int) {
    const std::lock_guard hold(mutex);
    sleep_for(200us);
    ++turns;
  });
  EXPECT_EQ(turns, 9);
}

TEST_P(Sync, WhoTimesOutLeavesTheQueueWhole) {
  Mutex mutex;
  std::atomic<int> timed_out{0};
  std::atomic<int> got{0};
  mutex.lock();  // by this thread
  std::thread unlocks([&] {
    while (timed_out < 8) std::this_thread::yield();
    EXPECT_EQ(got, 0);
    mutex.unlock();
  });
  together(10, 2, [&](int who) {
    if (who % 3 != 0) {
      EXPECT_FALSE(mutex.try_lock_for(std::chrono::microseconds(50 * who)));
      ++timed_out;
    } else {
      const std::lock_guard hold(mutex);
      ++got;
    }
  });
  unlocks.join();
  EXPECT_EQ(got, 4);
  EXPECT_TRUE(mutex.try_lock());
}

// One takes it again as soon as it has given it back, until all others have had it.
TEST_P(Sync, NobodyStarvesForAMutex) {
  for (const int hog : {0, 3}) {  // a task, a thread
    for (int round = 0; round < 5; ++round) {
      Mutex mutex;
      std::atomic<int> had{0};
      together(3, 1, [&](int who) {
        if (who != hog) {
          const std::lock_guard hold(mutex);
          ++had;
          return;
        }
        while (had < 3) {
          mutex.lock();
          base::cpu_relax();
          mutex.unlock();
          if (GetParam() == 1 && hog == 0) yield();  // or the others never begin
        }
      });
    }
  }
}

// On one worker, so that nothing is left to chance: woken, it finds the mutex taken again for
// longer than it tries; then it gets it before anybody else.
TEST(SyncTest, AMutexIsHandedToWhoTriedInVain) {
  Options options;
  options.workers = 1;
  Scheduler scheduler(options);
  scheduler.run([] {
    Mutex mutex;
    bool had = false;
    mutex.lock();
    auto waits = spawn([&] {
      const std::lock_guard hold(mutex);
      had = true;
    });
    yield();  // it queues
    mutex.unlock();
    ASSERT_TRUE(mutex.try_lock());  // it is woken, but cannot run yet
    const uint64_t before = base::now_ns();
    while (base::now_ns() < before + 300'000) yield();
    for (int turn = 0; turn < 3; ++turn) yield();
    mutex.unlock();
    EXPECT_FALSE(had);
    EXPECT_FALSE(mutex.try_lock());
    waits.join();
    EXPECT_TRUE(had);
    EXPECT_TRUE(mutex.try_lock());
  });
}

// Whoever has it last ends it, while the `unlock` before may still be on its way out.
TEST_P(Sync, AMutexMayBeDestroyedByTheNextOwner) {
  struct Shared {
    Mutex mutex;
    int left = 4;
  };
  for (int round = 0; round < 50; ++round) {
    auto* shared = new Shared;
    together(3, 1, [&](int) {
      shared->mutex.lock();
      const bool last = --shared->left == 0;
      shared->mutex.unlock();
      if (last) delete shared;
    });
  }
}

TEST_P(Sync, DeadlinesOfAllKinds) {
  Mutex mutex;
  mutex.lock();
  const auto fails = [&](auto... when) {
    if constexpr (requires { mutex.try_lock_for(when...); }) {
      EXPECT_FALSE(mutex.try_lock_for(when...));
    } else {
      EXPECT_FALSE(mutex.try_lock_until(when...));
    }
  };
  together(1, 1, [&](int) {
    fails(0s);
    fails(-1h);
    fails(std::chrono::nanoseconds::min());
    fails(std::chrono::duration<double>(1e-6));
    fails(std::chrono::duration<int, std::pico>(1));
    fails(std::chrono::system_clock::now() + 10us);
    fails(std::chrono::steady_clock::time_point::min());
    fails(std::chrono::time_point<std::chrono::steady_clock, std::chrono::hours>::min());
    fails(std::chrono::system_clock::time_point());
    fails(uint64_t{0});
  });
  std::atomic<int> got{0};
  std::thread unlocks([&] { mutex.unlock(); });
  using std::chrono::steady_clock;
  together(3, 1, [&](int who) {
    EXPECT_TRUE(who == 0   ? mutex.try_lock_for(std::chrono::hours::max())
                : who == 1 ? mutex.try_lock_until(steady_clock::time_point::max())
                : who == 2 ? mutex.try_lock_until(
                                 std::chrono::time_point<steady_clock, std::chrono::seconds>::max())
                           : mutex.try_lock_until(~uint64_t{0}));
    ++got;
    mutex.unlock();
  });
  unlocks.join();
  EXPECT_EQ(got, 4);
}

// ---- ConditionVariable -------------------------------------------------------------------------

TEST_P(Sync, AConditionBetweenProducersAndConsumers) {
  Mutex mutex;
  ConditionVariable changed;
  std::vector<int> items;
  long sum = 0;
  constexpr int kEach = 200;
  together(8, 2, [&](int who) {
    for (int i = 0; i < kEach; ++i) {
      std::unique_lock lock(mutex);
      if (who % 2 == 0) {
        changed.wait(lock, [&] { return items.size() < 3; });
        items.push_back(i);
      } else {
        changed.wait(lock, [&] { return !items.empty(); });
        sum += items.back();
        items.pop_back();
      }
      lock.unlock();
      changed.notify_all();
    }
  });
  EXPECT_EQ(sum, 5L * kEach * (kEach - 1) / 2);
}

TEST_P(Sync, NotifyOneWakesOneAfterTheOther) {
  Mutex mutex;
  ConditionVariable changed;
  int waiting = 0;
  int woken = 0;
  changed.notify_one();  // nobody
  together(6, 1, [&](int who) {
    std::unique_lock lock(mutex);
    if (who != 6) {
      ++waiting;
      changed.wait(lock);
      ++woken;
      return;
    }
    for (int expected = 0; expected <= 6; ++expected) {
      while (waiting < 6 || woken < expected) {
        lock.unlock();
        yield();
        lock.lock();
      }
      EXPECT_EQ(woken, expected);
      if (expected < 6) changed.notify_one();
    }
  });
}

TEST_P(Sync, AConditionThatDoesNotComeTimesOut) {
  Mutex mutex;
  ConditionVariable changed;
  together(3, 1, [&](int) {
    std::unique_lock lock(mutex);
    const uint64_t before = base::now_ns();
    EXPECT_EQ(changed.wait_for(lock, 300us), std::cv_status::timeout);
    EXPECT_GE(base::now_ns() - before, 300'000U);
    EXPECT_TRUE(lock.owns_lock());
    EXPECT_FALSE(changed.wait_for(lock, 100us, [] { return false; }));
    EXPECT_EQ(changed.wait_until(lock, base::now_ns()), std::cv_status::timeout);
    EXPECT_TRUE(changed.wait_until(lock, uint64_t{0}, [] { return true; }));
  });
}

TEST_P(Sync, AConditionVariableMayBeDestroyedOnceAllAreNotified) {
  for (int round = 0; round < 20; ++round) {
    Mutex mutex;
    auto changed = std::make_unique<ConditionVariable>();
    int waiting = 0;
    together(4, 1, [&](int who) {
      std::unique_lock lock(mutex);
      if (who != 0) {
        ++waiting;
        changed->wait(lock);
        return;
      }
      while (waiting < 4) {
        lock.unlock();
        yield();
        lock.lock();
      }
      changed->notify_all();
      changed.reset();
    });
  }
}

// ---- Latch -------------------------------------------------------------------------------------

TEST_P(Sync, ALatchOpensWithTheLast) {
  Latch latch(10);
  int plain[10] = {};
  std::atomic<int> through{0};
  EXPECT_FALSE(latch.try_wait());
  together(12, 2, [&](int who) {
    if (who < 10) {
      plain[who] = who;
      if (who % 2 == 0) {
        latch.count_down();
      } else {
        latch.arrive_and_wait();
      }
    }
    latch.wait();
    EXPECT_TRUE(latch.try_wait());
    EXPECT_TRUE(std::all_of(plain, plain + 10, [&](int& at) { return at == &at - plain; }));
    ++through;
  });
  EXPECT_EQ(through, 14);
  Latch open(0);
  open.count_down(0);
  open.wait();
  Latch three(3);
  three.count_down(2);
  EXPECT_FALSE(three.try_wait());
  three.count_down(0);
  three.arrive_and_wait();
}

TEST_P(Sync, ALatchMayBeDestroyedByWhoFindsItOpen) {
  for (int round = 0; round < 50; ++round) {
    std::atomic<Latch*> shared{nullptr};
    together(1, 1, [&](int who) {
      const bool waits = (who + round) % 2 == 0;
      if (waits) {
        Latch latch(1);
        shared = &latch;
        if (round % 4 < 2) {
          latch.wait();
        } else {
          until([&] { return latch.try_wait(); });
        }
      } else {
        until([&] { return shared != nullptr; });
        shared.load()->count_down();
      }
    });
  }
}

// ---- Barrier -----------------------------------------------------------------------------------

TEST_P(Sync, ABarrierKeepsPhasesApart) {
  constexpr int kAll = 13;
  constexpr int kPhases = 100;
  int plain[kAll] = {};
  int completed = 0;
  const auto complete = [&]() noexcept { ++completed; };
  Barrier<decltype(complete)> barrier(kAll, complete);
  together(kAll - 2, 2, [&](int who) {
    for (int phase = 1; phase <= kPhases; ++phase) {
      plain[who] = phase;
      barrier.arrive_and_wait();
      EXPECT_EQ(completed, 2 * phase - 1);
      EXPECT_TRUE(std::all_of(plain, plain + kAll, [&](int at) { return at == phase; }));
      barrier.arrive_and_wait();
    }
  });
  EXPECT_EQ(completed, 2 * kPhases);
}

TEST_P(Sync, SomeArriveFirstAndWaitLater) {
  constexpr int kAll = 9;
  int plain[kAll] = {};
  Barrier<> barrier(kAll);
  together(kAll - 1, 1, [&](int who) {
    for (int phase = 1; phase <= 100; ++phase) {
      plain[who] = phase;
      if ((who + phase) % 3 == 0) {
        barrier.arrive_and_wait();
      } else {
        auto token = barrier.arrive();
        if (phase % 2 == 0) yield();
        barrier.wait(std::move(token));
      }
      EXPECT_TRUE(std::all_of(plain, plain + kAll, [&](int at) { return at == phase; }));
      barrier.arrive_and_wait();
    }
  });
}

TEST_P(Sync, WhoDropsIsExpectedNoMore) {
  constexpr int kAll = 10;
  std::atomic<int> left{kAll};
  Barrier<> barrier(kAll);
  together(kAll, 0, [&](int who) {
    for (int phase = 0; phase < who; ++phase) {
      barrier.arrive_and_wait();
      EXPECT_LE(left, kAll - phase - 1);
    }
    --left;
    barrier.arrive_and_drop();
  });
  EXPECT_EQ(left, 0);
  Barrier<> two(2);
  auto token = two.arrive(2);
  two.wait(std::move(token));
  Barrier<> nobody(0);
}

TEST_P(Sync, ACompletionMaySuspend) {
  std::atomic<int> completed{0};
  const auto complete = [&]() noexcept {
    sleep_for(50us);
    ++completed;
  };
  Barrier<decltype(complete)> barrier(5, complete);
  together(5, 0, [&](int) {
    for (int phase = 1; phase <= 10; ++phase) {
      barrier.arrive_and_wait();
      EXPECT_GE(completed, phase);
    }
  });
  EXPECT_EQ(completed, 10);
}

TEST_P(Sync, ABarrierMayBeDestroyedAfterItsLastPhase) {
  for (int round = 0; round < 50; ++round) {
    std::atomic<Barrier<>*> shared{nullptr};
    together(1, 1, [&](int who) {
      if ((who + round) % 2 == 0) {
        Barrier<> barrier(2);
        shared = &barrier;
        if (round % 4 < 2) {
          barrier.arrive_and_wait();
        } else {
          auto token = barrier.arrive();
          barrier.wait(std::move(token));
        }
      } else {
        until([&] { return shared != nullptr; });
        (void)shared.load()->arrive();
      }
    });
  }
}

// ---- CountingSemaphore -------------------------------------------------------------------------

TEST_P(Sync, ASemaphoreLetsSoManyIn) {
  CountingSemaphore<> permits(3);
  std::atomic<int> inside{0};
  std::atomic<int> entered{0};
  together(20, 2, [&](int) {
    for (int i = 0; i < 50; ++i) {
      permits.acquire();
      EXPECT_LT(inside.fetch_add(1), 3);
      if (i % 8 == 0) yield();
      --inside;
      permits.release();
      ++entered;
    }
  });
  EXPECT_EQ(entered, 22 * 50);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(permits.try_acquire());
  EXPECT_FALSE(permits.try_acquire());
}

TEST_P(Sync, PermitsGoToThoseWhoWait) {
  CountingSemaphore<> permits(0);
  std::atomic<int> got{0};
  std::atomic<int> begun{0};
  int plain = 0;
  together(9, 1, [&](int who) {
    if (who != 0) {
      ++begun;
      permits.acquire();
      EXPECT_EQ(plain, 7);
      ++got;
      return;
    }
    until([&] { return begun == 9; });
    plain = 7;
    permits.release(4);
    until([&] { return got == 4; });
    EXPECT_FALSE(permits.try_acquire());
    permits.release(6);  // one more than there are
    until([&] { return got == 9; });
    EXPECT_TRUE(permits.try_acquire());
    EXPECT_FALSE(permits.try_acquire());
  });
}

TEST_P(Sync, APermitThatDoesNotComeTimesOut) {
  BinarySemaphore permit(0);
  static_assert(BinarySemaphore::max() == 1);
  std::atomic<int> timed_out{0};
  together(6, 2, [&](int who) {
    const uint64_t before = base::now_ns();
    EXPECT_FALSE(permit.try_acquire_for(std::chrono::microseconds(100 * who)));
    EXPECT_GE(base::now_ns() - before, 100'000U * static_cast<unsigned>(who));
    EXPECT_FALSE(permit.try_acquire_until(std::chrono::steady_clock::now()));
    EXPECT_FALSE(permit.try_acquire_until(uint64_t{5}));
    ++timed_out;
  });
  permit.release();
  EXPECT_TRUE(permit.try_acquire_for(1h));
  EXPECT_FALSE(permit.try_acquire());
}

TEST_P(Sync, ASemaphoreMayBeDestroyedByWhoAcquiredLast) {
  for (int round = 0; round < 50; ++round) {
    std::atomic<BinarySemaphore*> shared{nullptr};
    together(1, 1, [&](int who) {
      if ((who + round) % 2 == 0) {
        BinarySemaphore done(0);
        shared = &done;
        if (round % 4 < 2) {
          done.acquire();
        } else {
          until([&] { return done.try_acquire(); });
        }
      } else {
        until([&] { return shared != nullptr; });
        shared.load()->release();
      }
    });
  }
}

// ---- call_once ---------------------------------------------------------------------------------

TEST_P(Sync, CalledOnce) {
  OnceFlag flag;
  int plain = 0;
  std::atomic<int> calls{0};
  together(20, 3, [&](int) {
    call_once(
        flag,
        [&](int by) {
          ++calls;
          yield();
          plain += by;
        },
        7);
    EXPECT_EQ(plain, 7);
  });
  EXPECT_EQ(calls, 1);
}

TEST_P(Sync, AfterAnExceptionTheNextOneTries) {
  OnceFlag flag;
  int calls = 0;
  int plain = 0;
  std::atomic<int> threw{0};
  together(10, 2, [&](int) {
    try {
      call_once(flag, [&] {
        yield();
        if (++calls < 4) throw std::runtime_error("not yet");
        plain = 9;
      });
      EXPECT_EQ(plain, 9);
    } catch (const std::runtime_error&) {
      ++threw;
    }
  });
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(threw, 3);
}

#if !defined(__SANITIZE_THREAD__)
TEST(SyncMisuse, IsNoticed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Latch latch(1);
        latch.count_down(5);
      },
      "a latch is counted down by no more than it expects");
  EXPECT_DEATH(Mutex().unlock(), "a mutex is unlocked by who has locked it");
}
#endif

}  // namespace
}  // namespace weft::task
