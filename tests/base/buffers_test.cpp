// Buffers that are kept: room, reuse, the bound, and that each has one owner.
#include "weft/base/buffers.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace weft::base {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kKeeps = false;
#else
constexpr bool kKeeps = true;
#endif

struct Buffers : testing::Test {
  void SetUp() override { drop_kept_buffers(); }
  void TearDown() override { drop_kept_buffers(); }
};

TEST_F(Buffers, HaveRoomAndAlignment) {
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{8191}, std::size_t{8192}, std::size_t{8193},
        std::size_t{100000}, 8 * kMiB, 8 * kMiB + 1, 40 * kMiB}) {
    std::byte* const buffer = take_buffer(bytes);
    ASSERT_NE(buffer, nullptr) << bytes;
    const bool large = bytes >= 8192 && bytes <= 8 * kMiB;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer) % (large ? 64 : 16), 0u) << bytes;
    std::memset(buffer, 1, bytes);
    give_back_buffer(buffer);
  }
  give_back_buffer(nullptr);
}

TEST_F(Buffers, RefuseWhatThereIsNot) {
  EXPECT_EQ(take_buffer(SIZE_MAX), nullptr);
  EXPECT_EQ(take_buffer(SIZE_MAX - 15), nullptr);
}

TEST_F(Buffers, AreTheNextOnesOfTheirSize) {
  std::byte* const first = take_buffer(20000);
  give_back_buffer(first);
  EXPECT_EQ(kept_buffer_bytes(), kKeeps ? 32768u : 0u);
  std::byte* const smaller = take_buffer(16000);
  EXPECT_NE(smaller, first);
  std::byte* const again = take_buffer(32768);
  EXPECT_TRUE(again == first || !kKeeps);
  EXPECT_EQ(kept_buffer_bytes(), 0u);
  give_back_buffer(smaller);
  give_back_buffer(again);
}

TEST_F(Buffers, AreKeptUpToABound) {
  std::vector<std::byte*> taken;
  for (int i = 0; i < 24; ++i) taken.push_back(take_buffer(kMiB));
  for (std::byte* const each : taken) give_back_buffer(each);
  EXPECT_EQ(kept_buffer_bytes(), kKeeps ? 16 * kMiB : 0);
  drop_kept_buffers();
  EXPECT_EQ(kept_buffer_bytes(), 0u);
}

TEST_F(Buffers, GiveWayToThoseOfOtherSizes) {
  std::vector<std::byte*> taken;
  for (int i = 0; i < 2; ++i) taken.push_back(take_buffer(8 * kMiB));
  for (std::byte* const each : taken) give_back_buffer(each);
  EXPECT_EQ(kept_buffer_bytes(), kKeeps ? 16 * kMiB : 0);
  std::byte* const small = take_buffer(8192);
  give_back_buffer(small);
  EXPECT_EQ(kept_buffer_bytes(), kKeeps ? 8 * kMiB + 8192 : 0);
  std::byte* const again = take_buffer(8192);
  EXPECT_TRUE(again == small || !kKeeps);
  give_back_buffer(again);
}

/// Nobody gets what another has, whoever gives it back.
TEST_F(Buffers, HaveOneOwnerEach) {
  constexpr int kThreads = 4;
  constexpr int kTurns = 3000;
  std::vector<std::atomic<std::byte*>> handed(kThreads);
  const auto work = [&](unsigned number) {
    std::mt19937 random(number);
    for (int turn = 0; turn < kTurns; ++turn) {
      const std::size_t bytes = 8192 + random() % 60000;
      std::byte* const mine = take_buffer(bytes);
      ASSERT_NE(mine, nullptr);
      const auto mark = static_cast<std::byte>(number + 1);
      mine[0] = mine[bytes / 2] = mine[bytes - 1] = mark;
      // Another one's, to give back.
      std::byte* const other = handed[random() % kThreads].exchange(nullptr);
      ASSERT_TRUE(mine[0] == mark && mine[bytes / 2] == mark && mine[bytes - 1] == mark);
      give_back_buffer(other);
      give_back_buffer(handed[number].exchange(mine));
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  }
  for (auto& each : handed) give_back_buffer(each.load());
  EXPECT_LE(kept_buffer_bytes(), 17 * kMiB);  // a little more, of those at the same time
}

}  // namespace
}  // namespace weft::base
