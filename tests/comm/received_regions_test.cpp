// Large messages go past the caches into memory that is more than these hold, and through them into
// memory that was received into lately.
#include "comm/received_regions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::comm {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kPart = 64 << 10;  // of a message

/// Receivers of a rank with 12 MiB of the cache: 48 regions of 256 KiB.
class ReceivedRegionsTest : public ::testing::Test {
 protected:
  /// Receives a message from the back, as shared copies are. Bytes that went past the caches.
  uint64_t receive(uint64_t address, uint64_t bytes) {
    uint64_t past = 0;
    for (uint64_t left = bytes; left != 0;) {
      const uint64_t size = std::min(left, kPart);
      left -= size;
      if (regions.way_into(address + left, size) == CopyWay::nontemporal) past += size;
    }
    return past;
  }
  ReceivedRegions regions{12 * kMiB, Nontemporal::automatic};
};

TEST_F(ReceivedRegionsTest, WhatTheCacheHoldsGoesThroughIt) {
  ASSERT_EQ(regions.regions() * regions.region_bytes(), 12 * kMiB);
  for (int round = 0; round < 5; ++round) {
    for (uint64_t buffer = 1; buffer <= 12; ++buffer) {
      EXPECT_EQ(receive(buffer * 16 * kMiB, kMiB), 0U) << round << ' ' << buffer;
    }
  }
}

TEST_F(ReceivedRegionsTest, OneBufferAgainAndAgainGoesThroughIt) {
  for (int round = 0; round < 200; ++round) EXPECT_EQ(receive(kMiB, 4 * kMiB), 0U) << round;
}

TEST_F(ReceivedRegionsTest, MoreGoesPast) {
  for (int round = 0; round < 3; ++round) {
    for (uint64_t buffer = 1; buffer <= 16; ++buffer) {
      const uint64_t past = receive(buffer * 4 * kMiB, 4 * kMiB);
      EXPECT_EQ(past, round == 0 && buffer <= 3 ? 0U : 4 * kMiB) << round << ' ' << buffer;
    }
  }
}

TEST_F(ReceivedRegionsTest, ASingleLargeOneGoesPastFromWhereTheCacheIsFull) {
  EXPECT_EQ(receive(kMiB, 64 * kMiB), 52 * kMiB);
}

TEST_F(ReceivedRegionsTest, WhoeverStaysInOneBufferIsBackInTheCacheAtOnce) {
  receive(kMiB, 64 * kMiB);
  EXPECT_EQ(receive(128 * kMiB, kMiB), kMiB);
  for (int round = 0; round < 5; ++round) EXPECT_EQ(receive(128 * kMiB, kMiB), 0U) << round;
}

// A message that does not fill its region, or lies across two.
TEST_F(ReceivedRegionsTest, WhoeverBeginsAgainWhereItBeganIsInTheCache) {
  receive(kMiB, 64 * kMiB);
  for (const uint64_t bytes : {kPart, 3 * kPart}) {
    const uint64_t buffer = 128 * kMiB + bytes * 1000 + 16;
    EXPECT_EQ(receive(buffer, bytes), bytes);
    for (int round = 0; round < 5; ++round) EXPECT_EQ(receive(buffer, bytes), 0U) << round;
  }
}

// Of two messages that come at once each keeps its way.
TEST_F(ReceivedRegionsTest, TwoAtOnceKeepTheirWays) {
  receive(kMiB, 64 * kMiB);
  receive(256 * kMiB, kMiB);  // takes its place
  for (uint64_t at = 0; at < kMiB; at += kPart) {
    EXPECT_EQ(regions.way_into(256 * kMiB + at, kPart), CopyWay::cached) << at;
    EXPECT_EQ(regions.way_into(512 * kMiB + at, kPart), CopyWay::nontemporal) << at;
  }
}

TEST_F(ReceivedRegionsTest, SettingsSayAlwaysOrNever) {
  ReceivedRegions always{12 * kMiB, Nontemporal::always};
  ReceivedRegions never{12 * kMiB, Nontemporal::never};
  EXPECT_EQ(always.way_into(kMiB, kPart), CopyWay::nontemporal);
  for (int round = 0; round < 2; ++round) {
    for (uint64_t at = kMiB; at < 64 * kMiB; at += kPart) {
      EXPECT_EQ(never.way_into(at, kPart), CopyWay::cached);
    }
  }
}

TEST(ReceivedRegionsSizesTest, AreThoseOfTheCacheShared) {
  EXPECT_EQ(receiver_cache_bytes(32 * kMiB, 32 * kMiB, 1), 12 * kMiB);
  EXPECT_EQ(receiver_cache_bytes(32 * kMiB, 32 * kMiB, 2), 12 * kMiB);
  EXPECT_EQ(receiver_cache_bytes(32 * kMiB, 32 * kMiB, 8), 3 * kMiB);
  EXPECT_EQ(receiver_cache_bytes(32 * kMiB, 256 * kMiB, 64), 3 * kMiB);
  EXPECT_EQ(go_around_bytes(kMiB, 12 * kMiB), 2 * kMiB) << "twice a second-level cache";
  EXPECT_EQ(go_around_bytes(2 * kMiB, 3 * kMiB), 2 * kMiB) << "or what the last level has for it";
  EXPECT_EQ(go_around_bytes(kMiB, kMiB), 768U << 10) << "but something";
  for (const uint64_t bytes : {uint64_t{0}, kMiB, 3 * kMiB, 5 * kMiB, 12 * kMiB, 192 * kMiB}) {
    const ReceivedRegions regions{bytes, Nontemporal::automatic};
    const uint64_t held = regions.regions() * regions.region_bytes();
    EXPECT_LE(held, std::max(bytes, kMiB)) << bytes;
    EXPECT_GT(held + regions.region_bytes(), bytes) << bytes;
  }
}

TEST(ReceivedRegionsSizesTest, CopiesBytesByEitherWay) {
  constexpr std::size_t kLength = 3 * kMiB;
  std::vector<std::byte> from(kLength);
  for (std::size_t i = 0; i < kLength; ++i) from[i] = static_cast<std::byte>(i * 7 + i / 4096);
  ReceivedRegions regions{kMiB, Nontemporal::automatic};
  for (int round = 0; round < 2; ++round) {
    std::vector<std::byte> to(kLength);
    for (std::size_t at = 0; at < kLength; at += kPart)
      regions.copy(to.data() + at, from.data() + at, kPart);
    EXPECT_EQ(to, from) << round;
  }
}

}  // namespace
}  // namespace weft::comm
