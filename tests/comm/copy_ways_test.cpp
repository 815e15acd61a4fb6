// The way in which a rank copies to each other one: the quicker is found, and found again when that
// changes.
#include "comm/copy_ways.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "comm/copy_trial.hpp"
#include "weft/base/copy.hpp"
#include "weft/fabric/job.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::comm {
namespace {

constexpr std::size_t kBytes = 16 << 10;

/// A receiver, the copies to which take as long as is said.
struct Receiver {
  double cached;  ///< ns a byte
  double nontemporal;
  std::atomic<uint8_t> word{CopyHabit{}.word()};
  uint32_t by[2] = {};  ///< copies by each way

  [[nodiscard]] CopyWay usual() const { return CopyHabit::of(word).usual; }
};

/// A thread of the sender's, and its clock.
struct Sender {
  CopyTrial trial{};
  double now = 0;
  uint32_t stop_at = 0;  ///< every so manieth copy loses its core
  uint32_t copies = 0;

  void copy(Receiver& to) {
    const auto by = [&](CopyWay way) {
      ++to.by[static_cast<int>(way)];
      now += (way == CopyWay::cached ? to.cached : to.nontemporal) * kBytes;
      if (stop_at != 0 && ++copies % stop_at == 0) now += 4e6;
    };
    if (!trial.run(to.word, kBytes, by, [&] { return now; })) by(to.usual());
  }
  void copy(Receiver& to, uint32_t times) {
    for (uint32_t i = 0; i < times; ++i) copy(to);
  }
};

// As measured on Zen 3: of cores that share a cache, and of such that do not.
constexpr double kNearCached = 1 / 20.0, kNearPast = 1 / 13.0;
constexpr double kFarCached = 1 / 5.0, kFarPast = 1 / 25.0;

TEST(CopyTrials, OfANearReceiverNothingIsTried) {
  Sender sender;
  Receiver near{kNearCached, kNearPast};
  sender.copy(near, 100'000);
  EXPECT_EQ(near.by[1], 0U);
}

TEST(CopyTrials, TheQuickerWayIsTaken) {
  Sender sender;
  Receiver far{kFarCached, kFarPast};
  sender.copy(far, 2'000);
  EXPECT_EQ(far.usual(), CopyWay::nontemporal);
  far.by[0] = far.by[1] = 0;
  sender.copy(far, 100'000);
  EXPECT_EQ(far.usual(), CopyWay::nontemporal);
  EXPECT_GT(far.by[0], 0U) << "it must be tried whether that is still so";
  EXPECT_LT(far.by[0], 2'000U);
}

TEST(CopyTrials, ThatItChangesIsFound) {
  Sender sender;
  // Near ones copy well, or just well enough.
  for (const double near : {kNearCached, 1 / 12.0}) {
    Receiver moving{kFarCached, kFarPast};
    for (int time = 0; time < 4; ++time) {
      sender.copy(moving, 50'000);
      EXPECT_EQ(moving.usual(), CopyWay::nontemporal);
      moving.cached = near;
      moving.nontemporal = kNearPast;
      sender.copy(moving, 50'000);
      EXPECT_EQ(moving.usual(), CopyWay::cached);
      moving.cached = kFarCached;
      moving.nontemporal = kFarPast;
    }
  }
}

TEST(CopyTrials, WhatIsSlowEitherWayIsTriedEverSeldomer) {
  Sender sender;
  Receiver cold{1 / 6.0, 1 / 8.0};  // the bytes come from memory
  sender.copy(cold, 100'000);
  EXPECT_EQ(cold.usual(), CopyWay::cached);
  EXPECT_GT(cold.by[1], 0U);
  EXPECT_LT(cold.by[1], 1'000U);
  EXPECT_EQ(CopyHabit::of(cold.word).pause, CopyTrial::kMostPause);
}

TEST(CopyTrials, NewPacketsDoNotCount) {
  // The pages of the first copies are found and cleared by the kernel; then the rest come at once.
  for (uint32_t fresh = 1; fresh < 30; ++fresh) {
    Sender sender;
    Receiver near{kNearCached, kNearPast};
    near.word = CopyHabit{.pause = 0}.word();
    for (uint32_t i = 0; i < 50'000; ++i) {
      near.cached = i < fresh ? 1.0 : kNearCached;
      near.nontemporal = i < fresh ? 0.9 : kNearPast;
      sender.copy(near);
      ASSERT_EQ(near.usual(), CopyWay::cached) << fresh << ", copy " << i;
    }
  }
}

TEST(CopyTrials, ASenderThatSeesNoReaderIsNotMisled) {
  // As measured on Zen 4, of cores that share a cache: past the caches a sender is quicker.
  Sender sender;
  Receiver near{1 / 20.0, 1 / 45.0};
  near.word = CopyHabit{CopyWay::nontemporal}.word();
  sender.copy(near, 50'000);
  EXPECT_EQ(near.usual(), CopyWay::cached);
}

TEST(CopyTrials, LostCoresDoNotCount) {
  for (const uint32_t every : {2U, 3U, 5U}) {
    Sender sender{.stop_at = every};
    Receiver near{kNearCached, kNearPast};
    sender.copy(near, 50'000);
    EXPECT_EQ(near.usual(), CopyWay::cached) << every;
    Receiver far{kFarCached, kFarPast};
    sender.copy(far, 50'000);
    EXPECT_EQ(far.usual(), CopyWay::nontemporal) << every;
  }
}

TEST(CopyTrials, EachReceiverHasItsOwnInWhateverTurns) {
  for (const int slices : {1, 4, 16}) {
    for (const std::size_t receivers : {2U, 3U, 4U, 6U, 8U, 64U}) {
      Sender sender;
      std::vector<std::unique_ptr<Receiver>> all;
      for (std::size_t i = 0; i < receivers; ++i) {
        all.push_back(i % 2 == 0 ? std::make_unique<Receiver>(kFarCached, kFarPast)
                                 : std::make_unique<Receiver>(kNearCached, kNearPast));
      }
      for (int round = 0; round < 16'000 / slices; ++round) {
        for (const auto& each : all) sender.copy(*each, static_cast<uint32_t>(slices));
      }
      for (std::size_t i = 0; i < receivers; ++i) {
        EXPECT_EQ(all[i]->usual(), i % 2 == 0 ? CopyWay::nontemporal : CopyWay::cached)
            << i << " of " << receivers << ", " << slices;
      }
    }
  }
}

TEST(CopyTrials, OneThatIsLeftAloneIsGivenUp) {
  Sender sender;
  Receiver silent{kFarCached, kFarPast};
  Receiver far{kFarCached, kFarPast};
  silent.word = CopyHabit{.pause = 0}.word();  // begins at once
  sender.copy(silent);
  sender.copy(far, 100'000);
  EXPECT_EQ(far.usual(), CopyWay::nontemporal);
  EXPECT_EQ(silent.by[0], 1U);

  // And an old one is not gone on with: its times are of other days.
  far.word = CopyHabit{.pause = 0}.word();
  sender.copy(far, 2);
  far.by[0] = far.by[1] = 0;
  sender.now += 1e9;
  far.word = CopyHabit{.pause = CopyTrial::kMostPause}.word();
  sender.copy(far, 50);
  EXPECT_EQ(far.by[1], 0U);
}

TEST(CopyTrials, WhatIsFixedStays) {
  Sender sender;
  Receiver far{kFarCached, kFarPast};
  far.word = CopyHabit{.is_fixed = true}.word();
  sender.copy(far, 50'000);
  EXPECT_EQ(far.by[1], 0U);
}

TEST(CopyTrials, WhatTheOtherWayLeftDoesNotCount) {
  // Past the caches is quick where the last copy went through them, and slow from then on.
  Sender sender;
  Receiver cold{1 / 8.0, kFarPast};
  for (uint32_t i = 0; i < 20'000; ++i) {
    const uint32_t before = cold.by[1];
    sender.copy(cold);
    cold.nontemporal = cold.by[1] != before ? 1 / 6.0 : kFarPast;
    ASSERT_EQ(cold.usual(), CopyWay::cached) << i;
  }
}

TEST(CopyWays, BothReadersDecide) {
  if (!base::has_nontemporal_copies()) GTEST_SKIP() << "there is one way on this processor";
  const auto job = fabric::make_local_job(1);
  const auto transport = fabric::make_local_transport(*job[0], {});
  CopyWays ways(*transport, 1, Nontemporal::automatic);
  const Rank near{0};
  const Rank far = Readers::kSeveral;  // stands for one
  ways.note(far, {.usual = CopyWay::nontemporal});
  EXPECT_EQ(ways.way({near, near}), CopyWay::cached);
  EXPECT_EQ(ways.way({far, near}), CopyWay::nontemporal);
  EXPECT_EQ(ways.way({near, far}), CopyWay::nontemporal);
  EXPECT_EQ(ways.way({far, far}), CopyWay::nontemporal);
  EXPECT_EQ(ways.way({Readers::kNobody, near}), CopyWay::cached);
  EXPECT_EQ(ways.way({Readers::kNobody, far}), CopyWay::nontemporal);
  ways.note(near, {.is_fixed = true});
  EXPECT_EQ(ways.way({far, near}), CopyWay::cached) << "behind a network";
}

TEST(CopyWays, CopyWhateverTheWayAndWhoeverReads) {
  if (!base::has_nontemporal_copies()) GTEST_SKIP() << "there is one way on this processor";
  const auto job = fabric::make_local_job(1);
  const auto transport = fabric::make_local_transport(*job[0], {});
  constexpr std::size_t kMost = 40'000;
  std::vector<std::byte> from(kMost + 64);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 251);
  std::vector<std::byte> into(from.size());
  for (const Nontemporal choice :
       {Nontemporal::automatic, Nontemporal::always, Nontemporal::never}) {
    CopyWays ways(*transport, 1, choice);
    for (std::size_t time = 0; time < 400; ++time) {
      const std::size_t bytes = time * 101 % kMost;
      const std::size_t at = time % 64;
      std::fill(into.begin(), into.end(), std::byte{0});
      constexpr Rank kLast[] = {Rank{0}, Readers::kNobody, Readers::kSeveral};
      constexpr Rank kNext[] = {Rank{0}, Readers::kSeveral};
      ways.copy({kLast[time % 3], kNext[time % 2]}, into.data() + at, from.data() + time % 3,
                bytes);
      ASSERT_EQ(std::memcmp(into.data() + at, from.data() + time % 3, bytes), 0) << bytes;
      ASSERT_TRUE(into[at + bytes] == std::byte{0} && (at == 0 || into[at - 1] == std::byte{0}));
    }
  }
}

}  // namespace
}  // namespace weft::comm
