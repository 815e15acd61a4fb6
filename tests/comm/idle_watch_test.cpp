// The watch for an idle core: when it looks, when it does not, and how it ends.
#include "comm/idle_watch.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "comm/bound.hpp"

namespace weft {
namespace {

using comm::IdleWatch;

/// Threads to be woken: so many.
class Left {
 public:
  explicit Left(int many) : many_(many) {}
  static bool wake_one(void* left) noexcept {
    auto& its = *static_cast<Left*>(left);
    ++its.looks;
    if (its.many_ == 0) return false;
    --its.many_;
    ++its.woken;
    return true;
  }
  std::atomic<int> looks{0};
  std::atomic<int> woken{0};

 private:
  int many_;
};

/// The calling thread leaves its processor until then.
template <class Condition>
void sleep_until(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

TEST(IdleWatch, LooksOnlyWhenCalled) {
  const test::Bound bound;
  Left left(3);
  const std::atomic<uint32_t> changes{0};
  IdleWatch watch(Left::wake_one, &left, changes);
  watch.note_change();
  EXPECT_EQ(watch.duties(), 0U);
  EXPECT_FALSE(watch.is_on_duty());
  EXPECT_TRUE(watch.call());
  sleep_until([&] { return left.woken == 3; });
  sleep_until([&] { return left.looks > 3; });
  EXPECT_GE(watch.duties(), 1U);
}

TEST(IdleWatch, IsNotToBeHadByWhoMayRunElsewhere) {
  cpu_set_t may;
  ASSERT_EQ(::sched_getaffinity(0, sizeof may, &may), 0);
  if (CPU_COUNT(&may) < 2) GTEST_SKIP() << "one processor";
  Left left(1);
  const std::atomic<uint32_t> changes{0};
  IdleWatch watch(Left::wake_one, &left, changes);
  EXPECT_FALSE(watch.call());
  EXPECT_EQ(left.looks, 0);
}

TEST(IdleWatch, IsRefusedAfterADutyInVainAndThenGivenAgain) {
  const test::Bound bound;
  Left nobody(0);
  const std::atomic<uint32_t> changes{0};
  IdleWatch watch(Left::wake_one, &nobody, changes);
  EXPECT_TRUE(watch.call());
  // It naps before its duty is over: then that ends with the next change.
  sleep_until([&] {
    watch.note_change();
    return watch.duties() == 2;
  });
  sleep_until([&] { return watch.call(); });
  sleep_until([&] { return watch.is_on_duty(); });
}

TEST(IdleWatch, StaysOnDutyWhereThatServes) {
  const test::Bound bound;
  Left left(1'000'000);
  const std::atomic<uint32_t> changes{0};
  IdleWatch watch(Left::wake_one, &left, changes);
  // Longer than a call asks for, once: where others keep the processor for so long, its duty ends.
  for (bool stayed = false; !stayed;) {
    sleep_until([&] { return watch.is_on_duty() || watch.call(); });
    const uint32_t before = watch.duties();
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
    stayed = watch.is_on_duty() && watch.duties() == before;
  }
  EXPECT_GT(left.woken, 0);
}

TEST(IdleWatch, NapsWhileNothingChanges) {
  const test::Bound bound;
  Left left(1);
  std::atomic<uint32_t> changes{0};
  IdleWatch watch(Left::wake_one, &left, changes);
  EXPECT_TRUE(watch.call());
  sleep_until([&] { return left.woken == 1; });
  // Napping, or off duty already where the machine was busy for so long.
  for (int before = -1; before != left.looks;) {
    before = left.looks;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const int before = left.looks;
  ++changes;
  watch.note_change();
  EXPECT_TRUE(watch.call());  // its duty was not in vain
  sleep_until([&] { return left.looks > before; });
}

TEST(IdleWatch, EndsAtAnyMoment) {
  const test::Bound bound;
  for (int i = 0; i < 200; ++i) {
    Left left(i % 3 == 0 ? 1'000'000 : 1);
    std::atomic<uint32_t> changes{0};
    IdleWatch watch(Left::wake_one, &left, changes);
    if (i % 10 != 0) {
      EXPECT_TRUE(watch.call());
    }
    if (i % 2 == 0) sleep_until([&] { return i % 10 == 0 || left.woken > 0; });
    ++changes;
    watch.note_change();
  }
}

// Its thread runs only where nobody else wants to: who ends it does not wait for that.
TEST(IdleWatch, EndsWhereTheProcessorIsBusy) {
  const test::Bound bound;
  std::atomic<bool> over{false};
  std::thread busy([&] {
    while (!over) {
    }
  });
  for (int i = 0; i < 5; ++i) {
    Left left(1);
    const std::atomic<uint32_t> changes{0};
    IdleWatch watch(Left::wake_one, &left, changes);
    EXPECT_TRUE(watch.call());
  }
  over = true;
  busy.join();
}

}  // namespace
}  // namespace weft
