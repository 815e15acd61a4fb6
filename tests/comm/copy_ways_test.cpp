// The way in which a rank copies to each other one: the quicker is found, and found again when that
// changes.
#include "comm/copy_ways.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "comm/copy_trial.hpp"
#include "weft/fabric/job.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::comm {
namespace {

constexpr std::size_t kBytes = 16 << 10;

/// A receiver whose copies take as long as is said.
struct Receiver {
  double cached;  ///< ns a byte
  double nontemporal;
  CopyTrial trial{};
  CopyWay usual = CopyWay::cached;
  uint32_t by[2] = {};   ///< copies by each way
  uint32_t stop_at = 0;  ///< every so manieth copy loses its core
  uint32_t copies = 0;

  void copy(uint32_t times) {
    for (uint32_t i = 0; i < times; ++i) {
      const auto [way, timed] = trial.next(usual);
      ++by[static_cast<int>(way)];
      double ns = (way == CopyWay::cached ? cached : nontemporal) * kBytes;
      if (stop_at != 0 && ++copies % stop_at == 0) ns += 4e6;
      if (timed) usual = trial.took(usual, kBytes, ns);
    }
  }
};

// As measured on Zen 3: of cores that share a cache, and of such that do not.
constexpr double kNearCached = 1 / 24.0, kNearPast = 1 / 13.0;
constexpr double kFarCached = 1 / 5.0, kFarPast = 1 / 25.0;

TEST(CopyTrials, OfANearReceiverNothingIsTried) {
  Receiver near{kNearCached, kNearPast};
  near.copy(100'000);
  EXPECT_EQ(near.by[1], 0U);
}

TEST(CopyTrials, TheQuickerWayIsTaken) {
  Receiver far{kFarCached, kFarPast};
  far.copy(200);
  EXPECT_EQ(far.usual, CopyWay::nontemporal);
  far.by[0] = far.by[1] = 0;
  far.copy(100'000);
  EXPECT_EQ(far.usual, CopyWay::nontemporal);
  EXPECT_GT(far.by[0], 0U) << "it must be tried whether that is still so";
  EXPECT_LT(far.by[0], 1'000U);
}

TEST(CopyTrials, ThatItChangesIsFound) {
  Receiver moving{kFarCached, kFarPast};
  for (int time = 0; time < 4; ++time) {
    moving.copy(20'000);
    EXPECT_EQ(moving.usual, CopyWay::nontemporal);
    moving.cached = kNearCached;
    moving.nontemporal = kNearPast;
    moving.copy(20'000);
    EXPECT_EQ(moving.usual, CopyWay::cached);
    moving.cached = kFarCached;
    moving.nontemporal = kFarPast;
  }
}

TEST(CopyTrials, WhatIsSlowEitherWayIsTriedEverSeldomer) {
  Receiver cold{1 / 6.0, 1 / 8.0};  // the bytes come from memory
  cold.copy(100'000);
  EXPECT_EQ(cold.usual, CopyWay::cached);
  EXPECT_LT(cold.by[1], 300U);
}

TEST(CopyTrials, LostCoresDoNotCount) {
  for (const uint32_t every : {2U, 3U, 5U}) {
    Receiver near{kNearCached, kNearPast};
    near.stop_at = every;
    near.copy(50'000);
    EXPECT_EQ(near.usual, CopyWay::cached) << every;
    Receiver far{kFarCached, kFarPast};
    far.stop_at = every;
    far.copy(50'000);
    EXPECT_EQ(far.usual, CopyWay::nontemporal) << every;
  }
}

TEST(CopyWays, CopyWhateverTheWay) {
  const auto job = fabric::make_local_job(1);
  const auto transport = fabric::make_local_transport(*job[0], {});
  constexpr std::size_t kMost = 40'000;
  std::vector<std::byte> from(kMost + 64);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 251);
  std::vector<std::byte> into(from.size());
  for (const Nontemporal choice :
       {Nontemporal::automatic, Nontemporal::always, Nontemporal::never}) {
    CopyWays ways(*transport, 1, choice);
    // More than a trial has.
    for (std::size_t time = 0; time < 400; ++time) {
      const std::size_t bytes = time * 101 % kMost;
      const std::size_t at = time % 64;
      std::fill(into.begin(), into.end(), std::byte{0});
      ways.copy(Rank{0}, into.data() + at, from.data() + time % 3, bytes);
      ASSERT_EQ(std::memcmp(into.data() + at, from.data() + time % 3, bytes), 0) << bytes;
      ASSERT_TRUE(into[at + bytes] == std::byte{0} && (at == 0 || into[at - 1] == std::byte{0}));
    }
  }
}

}  // namespace
}  // namespace weft::comm
