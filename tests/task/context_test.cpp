// The switch between two flows: what it hands over, and what it keeps for each.
#include "task/context.hpp"

#include <gtest/gtest.h>

#include <cfenv>
#include <cstdint>
#include <vector>

#include "task/workers.hpp"
#include "weft/task/task.hpp"

namespace weft::task {
namespace {

class Contexts : public test::WithWorkers {};
WEFT_WITH_WORKERS(Contexts);

/// Rounding is in the control words of both floating point units.
TEST_P(Contexts, EachTaskRoundsItsOwnWay) {
  Scheduler scheduler(options());
  scheduler.run([] {
    const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    std::vector<Handle<void>> all;
    for (int i = 0; i < 32; ++i) {
      all.push_back(spawn([mode = modes[i % 4]] {
        std::fesetround(mode);
        const volatile double one = 1, three = 3;
        const double third = one / three;
        const volatile long double long_one = 1, long_three = 3;
        const long double long_third = long_one / long_three;
        for (int turn = 0; turn < 50; ++turn) {
          yield();
          EXPECT_EQ(std::fegetround(), mode);
          EXPECT_EQ(one / three, third);
          EXPECT_EQ(long_one / long_three, long_third);
        }
        std::fesetround(FE_TONEAREST);  // who ends on a stack leaves it to the next task
      }));
    }
    for (auto& each : all) each.join();
    EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  });
}

#if defined(__x86_64__)
/// In the SSE unit: the older one's are everybody's. Other tasks raise none, others, or clear
/// theirs.
TEST_P(Contexts, ExceptionsThatATaskRaisedStayRaised) {
  Scheduler scheduler(options());
  scheduler.run([] {
    struct Division {
      double by, of;
      int raises;
    };
    constexpr Division kDivisions[] = {
        {2, 4, 0}, {3, 1, FE_INEXACT}, {0, 1, FE_DIVBYZERO}, {0, 0, FE_INVALID}};
    std::vector<Handle<void>> all;
    for (int i = 0; i < 32; ++i) {
      all.push_back(spawn([division = kDivisions[i % 4], clears = i % 8 >= 4, mode = i % 3] {
        std::fesetround(mode == 0 ? FE_TONEAREST : FE_UPWARD);
        for (int turn = 0; turn < 50; ++turn) {
          if (clears) std::feclearexcept(FE_ALL_EXCEPT);
          const volatile double of = division.of, by = division.by;
          const volatile double quotient = of / by;
          (void)quotient;
          yield();
          EXPECT_EQ(std::fetestexcept(division.raises), division.raises);
          EXPECT_EQ(std::fegetround(), mode == 0 ? FE_TONEAREST : FE_UPWARD);
        }
        std::fesetround(FE_TONEAREST);
      }));
    }
    for (auto& each : all) each.join();
  });
}
#endif

// Sanitizers must be told of switches (switch.hpp), which these are without.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

constexpr std::size_t kStackBytes = 64 << 10;

struct Call {
  Context back = nullptr;
  uintptr_t frame = 0;
  std::vector<uint64_t> came;
};

/// Answers each number with its square.
void square(Arrival arrival) {
  auto& call = *static_cast<Call*>(arrival.data);
  call.frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  for (;;) {
    arrival = switch_context(arrival.left, &call);
    const uint64_t number = *static_cast<const uint64_t*>(arrival.data);
    call.came.push_back(number * number);
  }
}

TEST(Context, HandsOverWhatItIsGiven) {
  std::vector<char> stack(kStackBytes);
  Call call;
  Arrival there =
      switch_context(make_context(stack.data() + stack.size(), stack.size(), square), &call);
  EXPECT_EQ(there.data, &call);
  for (uint64_t number = 1; number <= 10; ++number) {
    there = switch_context(there.left, &number);
    EXPECT_EQ(there.data, &call);
  }
  EXPECT_EQ(call.came, (std::vector<uint64_t>{1, 4, 9, 16, 25, 36, 49, 64, 81, 100}));
}

/// As the ABI asks of a call, wherever the stack ends.
TEST(Context, BeginsOnAnAlignedStack) {
  for (std::size_t off = 0; off < 16; ++off) {
    std::vector<char> stack(kStackBytes);
    Call call;
    (void)switch_context(
        make_context(stack.data() + stack.size() - off, stack.size() - off, square), &call);
    EXPECT_EQ(call.frame % 16, 0U) << off;
  }
}

/// More values than a call may change, all of them needed afterwards.
[[gnu::noinline]] uint64_t busy(Context& to, uint64_t seed) {
  uint64_t a = seed * 3, b = seed * 5, c = seed * 7, d = seed * 11, e = seed * 13, f = seed * 17;
  for (int turn = 0; turn < 100; ++turn) {
    to = switch_context(to, nullptr).left;
    a += b ^ 1, b += c ^ 2, c += d ^ 3, d += e ^ 4, e += f ^ 5, f += a ^ 6;
  }
  return a ^ b ^ c ^ d ^ e ^ f;
}

/// The same without a switch.
uint64_t quiet(uint64_t seed) {
  uint64_t a = seed * 3, b = seed * 5, c = seed * 7, d = seed * 11, e = seed * 13, f = seed * 17;
  for (int turn = 0; turn < 100; ++turn)
    a += b ^ 1, b += c ^ 2, c += d ^ 3, d += e ^ 4, e += f ^ 5, f += a ^ 6;
  return a ^ b ^ c ^ d ^ e ^ f;
}

uint64_t others_result = 0;

void busy_other(Arrival arrival) {
  others_result = busy(arrival.left, 12345);
  for (;;) arrival = switch_context(arrival.left, nullptr);
}

TEST(Context, KeepsTheRegistersOfBoth) {
  std::vector<char> stack(kStackBytes);
  Context other = make_context(stack.data() + stack.size(), stack.size(), busy_other);
  EXPECT_EQ(busy(other, 678), quiet(678));
  (void)switch_context(other, nullptr);
  EXPECT_EQ(others_result, quiet(12345));
}

#endif

}  // namespace
}  // namespace weft::task
