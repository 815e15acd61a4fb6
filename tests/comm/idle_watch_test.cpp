// The watch for an idle core: when it looks, when it does not, and how it ends. On a busy machine
// it may have to be called again: a call that is not heard for long is void.
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
using std::chrono::milliseconds;

/// Somebody to be woken, so many times. Wakes by count alone.
class Left final : public base::Parker {
 public:
  explicit Left(int many) : many_(many) {}
  static base::Parker* one(void* left) noexcept {
    auto& its = *static_cast<Left*>(left);
    ++its.looks;
    return its.woken < its.many_ ? &its : nullptr;
  }
  std::atomic<int> looks{0};
  std::atomic<int> woken{0};

  void nudge() noexcept override { ++woken; }
  void unpark() noexcept override { ADD_FAILURE(); }
  void park() noexcept override { ADD_FAILURE(); }
  bool park_until(uint64_t /*deadline_ns*/) noexcept override { return false; }

 private:
  const int many_;
};
constexpr int kEver = 1'000'000'000;

/// The calling thread leaves its processor, and calls the watch, until then.
template <class Condition>
void call_until(IdleWatch& watch, Condition condition) {
  while (!condition()) {
    (void)watch.call();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

class IdleWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_idle_class()) GTEST_SKIP() << "no idle class";
  }
  const test::Bound bound_;
  std::atomic<uint32_t> changes_{0};
};

TEST_F(IdleWatchTest, LooksOnlyWhenCalled) {
  Left left(3);
  IdleWatch watch(Left::one, &left, changes_);
  watch.note_change();
  std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(left.looks, 0);
  EXPECT_EQ(watch.duties(), 0U);
  EXPECT_FALSE(watch.is_on_duty());
  call_until(watch, [&] { return left.woken == 3 && left.looks > 3; });
  EXPECT_GE(watch.duties(), 1U);
  EXPECT_EQ(watch.woken(), 3U);
}

TEST(IdleWatch, IsNotToBeHadByWhoMayRunElsewhere) {
  cpu_set_t may;
  ASSERT_EQ(::sched_getaffinity(0, sizeof may, &may), 0);
  if (CPU_COUNT(&may) < 2) GTEST_SKIP() << "one processor";
  Left left(1);
  const std::atomic<uint32_t> changes{0};
  IdleWatch watch(Left::one, &left, changes);
  EXPECT_FALSE(watch.call());
  EXPECT_FALSE(watch.call());
  EXPECT_EQ(left.looks, 0);
}

TEST_F(IdleWatchTest, IsRefusedAfterADutyInVainAndThenGivenAgain) {
  Left nobody(0);
  IdleWatch watch(Left::one, &nobody, changes_);
  const auto end_a_duty = [&] {
    const uint32_t before = watch.duties();
    call_until(watch, [&] { return watch.duties() % 2 != 0; });
    while (watch.duties() % 2 != 0) {
      ++changes_;  // it would nap until then
      watch.note_change();
      std::this_thread::sleep_for(milliseconds(1));
    }
    return watch.duties() > before;
  };
  // Refused for 16 ms after the first, which this thread may be kept from seeing; then for longer.
  bool refused = false;
  for (int i = 0; i < 5 && !refused; ++i) {
    EXPECT_TRUE(end_a_duty());
    refused = !watch.call();
  }
  EXPECT_TRUE(refused);
  call_until(watch, [&] { return watch.is_on_duty(); });
}

TEST_F(IdleWatchTest, StaysOnDutyWhereThatServes) {
  Left left(kEver);
  IdleWatch watch(Left::one, &left, changes_);
  // Longer than a call asks for, once: where others keep the processor for so long, its duty ends.
  for (bool stayed = false; !stayed;) {
    call_until(watch, [&] { return watch.is_on_duty(); });
    const uint32_t duties = watch.duties();
    std::this_thread::sleep_for(milliseconds(40));
    const int woken = left.woken;
    std::this_thread::sleep_for(milliseconds(5));
    stayed = left.woken > woken && watch.duties() == duties;
  }
}

TEST_F(IdleWatchTest, NapsWhileNothingChanges) {
  Left left(1);
  IdleWatch watch(Left::one, &left, changes_);
  for (bool naps = false; !naps;) {
    call_until(watch, [&] { return watch.is_on_duty(); });
    const uint32_t duties = watch.duties();
    std::this_thread::sleep_for(milliseconds(5));
    const int looks = left.looks;
    std::this_thread::sleep_for(milliseconds(5));
    // Though its time may be over: who naps does not see that.
    naps = left.looks == looks && watch.duties() == duties;
  }
  const int looks = left.looks;
  ++changes_;
  watch.note_change();
  call_until(watch, [&] { return left.looks > looks; });
}

TEST_F(IdleWatchTest, EndsAtAnyMoment) {
  for (int i = 0; i < 200; ++i) {
    Left left(i % 3 == 0 ? kEver : 1);
    IdleWatch watch(Left::one, &left, changes_);
    if (i % 10 != 0) (void)watch.call();
    if (i % 10 != 0 && i % 2 == 0) call_until(watch, [&] { return left.woken > 0; });
    ++changes_;
    watch.note_change();
  }
}

// --- Its thread may be put aside for long --------------------------------------------------------

TEST_F(IdleWatchTest, WhoEndsItWaitsUntilNothingIsInUse) {
  struct Slow {
    std::atomic<bool> begun{false};
    std::atomic<bool> over{false};
  } slow;
  {
    IdleWatch watch(
        [](void* argument) noexcept -> base::Parker* {
          auto& its = *static_cast<Slow*>(argument);
          if (its.over) return nullptr;
          its.begun = true;
          std::this_thread::sleep_for(milliseconds(150));
          its.over = true;
          return nullptr;
        },
        &slow, changes_);
    call_until(watch, [&] { return slow.begun.load(); });
  }
  EXPECT_TRUE(slow.over);
}

/// Is woken for as long as the test has it.
class Slow final : public base::Parker {
 public:
  static base::Parker* one(void* slow) noexcept { return static_cast<Slow*>(slow); }
  void nudge() noexcept override {
    begun = true;
    while (!let_go) std::this_thread::sleep_for(milliseconds(1));
    over = true;
  }
  void unpark() noexcept override { ADD_FAILURE(); }
  void park() noexcept override { ADD_FAILURE(); }
  bool park_until(uint64_t /*deadline_ns*/) noexcept override { return false; }
  std::atomic<bool> begun{false};
  std::atomic<bool> let_go{false};
  std::atomic<bool> over{false};
};

TEST_F(IdleWatchTest, WhoEndsItDoesNotWaitForItsThread) {
  Slow slow;
  {
    IdleWatch watch(Slow::one, &slow, changes_);
    call_until(watch, [&] { return slow.begun.load(); });
  }
  EXPECT_FALSE(slow.over);
  slow.let_go = true;
  while (!slow.over) std::this_thread::yield();
}

}  // namespace
}  // namespace weft
