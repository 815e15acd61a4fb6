// What the ofi transport receives into: sizes and their shares alone, receives that are posted and
// recalled, and each strategy under messages of all sizes, also while connections break.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "fabric/ofi/arrival_shares.hpp"
#include "fabric/ofi/receive_pool.hpp"
#include "fabric/ofi/receive_slots.hpp"
#include "fabric/ofi/size_classes.hpp"
#include "fabric/ofi_processes.hpp"
#include "fabric/parts.hpp"

namespace weft::fabric::test {
namespace {

using ofi::ArrivalShares;
using ofi::ReceiveSlots;
using ofi::SizeClasses;

constexpr uint32_t kFrame = 300, kBatch = 4096, kPacket = 64 << 10;

TEST(OfiSizeClasses, EachSizeIsInTheSmallestThatHoldsIt) {
  for (const uint32_t packet : {64u, 8192u, 10'000u, kPacket, 1u << 20}) {
    const SizeClasses classes(kBatch, kFrame, packet);
    const uint32_t largest = std::max(kFrame + packet, kBatch);
    EXPECT_EQ(classes.bytes_of(classes.count() - 1), largest);
    EXPECT_LE(classes.count(), ArrivalShares::kMostClasses);
    for (uint32_t bytes = 0; bytes <= largest; bytes += 7) {
      const uint32_t number = classes.class_of(bytes);
      ASSERT_LT(number, classes.count());
      ASSERT_LE(bytes, classes.bytes_of(number));
      if (number != 0) {
        ASSERT_GT(bytes, classes.bytes_of(number - 1));
      }
    }
    EXPECT_EQ(classes.class_of(largest), classes.count() - 1);
  }
  const SizeClasses one(kFrame + kPacket);
  EXPECT_EQ(one.count(), 1u);
  EXPECT_EQ(one.class_of(kFrame + kPacket), 0u);
}

uint64_t bytes_of_all(const SizeClasses& classes, const ArrivalShares::Counts& counts) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < classes.count(); ++i) bytes += uint64_t{counts[i]} * classes.bytes_of(i);
  return bytes;
}

ArrivalShares::Counts after(ArrivalShares& shares, std::initializer_list<uint32_t> pattern) {
  for (int times = 0; times < 10; ++times) {
    for (auto one = pattern.begin(); !shares.note(*one);)
      if (++one == pattern.end()) one = pattern.begin();
    (void)shares.shares();
  }
  for (const uint32_t one : pattern) (void)shares.note(one);
  return shares.shares();
}

TEST(OfiArrivalShares, FollowWhatCameWithinTheBudget) {
  constexpr uint64_t kBudget = 1 << 20;
  constexpr uint32_t kMost = 64, kTogether = 200, kLeast = ArrivalShares::kLeast;
  const SizeClasses classes(kBatch, kFrame, kPacket);
  const uint32_t large = classes.count() - 1;
  ArrivalShares shares(classes, kBudget, kMost, kTogether);
  auto counts = shares.equal_shares();
  for (uint32_t i = 0; i < classes.count(); ++i) EXPECT_GE(counts[i], kLeast);
  EXPECT_LE(bytes_of_all(classes, counts), kBudget);

  counts = after(shares, {0});  // short ones only: the most of those
  EXPECT_EQ(counts[0], kMost);
  EXPECT_EQ(counts[large], kLeast);

  counts = after(shares, {large});  // then large ones only: what memory there is
  EXPECT_EQ(counts[0], kLeast);
  EXPECT_GT(counts[large], 10u);
  EXPECT_LE(bytes_of_all(classes, counts), kBudget);
  EXPECT_GT(bytes_of_all(classes, counts), kBudget - 2 * (kPacket + kFrame));

  counts = after(shares, {0, 0, 0, large});  // both: in the proportion in which they come
  EXPECT_GE(counts[0], 2 * counts[large]);
  EXPECT_GT(counts[large], kLeast);
  EXPECT_LE(bytes_of_all(classes, counts), kBudget);

  // Where the budget is too small for even the least, there is the least.
  ArrivalShares poor(classes, 1000, kMost, kTogether);
  for (uint32_t i = 0; i < classes.count(); ++i) EXPECT_EQ(after(poor, {0, large})[i], kLeast);
  // And never more together than the provider takes.
  ArrivalShares narrow(classes, uint64_t{1} << 30, kMost, 20);
  counts = after(narrow, {0, 1, large});
  uint32_t together = 0;
  for (const uint32_t count : counts) together += count;
  EXPECT_LE(together, 20u);
  EXPECT_GT(together, 15u);
}

using Way = std::tuple<const char*, const char*>;  // strategy, provider
std::string name_of_way(const ::testing::TestParamInfo<Way>& info) {
  return std::string(std::get<0>(info.param)) +
         (std::string(std::get<1>(info.param)).empty() ? "" : "_rxm");
}
Configured::List settings_of(const Way& way) {
  return {{"fabric.ofi.receive", std::get<0>(way)}, {"fabric.ofi.provider", std::get<1>(way)}};
}

/// An endpoint that receives, and one that sends to it.
class OfiPosted : public ::testing::TestWithParam<const char*> {
 protected:
  void open(const char* strategy) {
    const Configured settings(
        Configured::List{{"fabric.ofi.receive", strategy}, {"fabric.ofi.provider", GetParam()}});
    info_ = ofi::choose_provider(true, false);
    fid_fabric* fabric = nullptr;
    ASSERT_EQ(ofi::libfabric().fabric(info_->fabric_attr, &fabric, nullptr), 0);
    fabric_.reset(fabric);
  }
  ofi::Info info_;
  ofi::Fid<fid_fabric> fabric_;
};

TEST_P(OfiPosted, WhatIsNotWantedIsGivenBackAndWhatIsComes) {
  constexpr uint64_t kTag = 3;
  open("sized");
  std::unique_ptr<ReceiveSlots> slots;  // outlives the endpoint that writes into them
  ofi::Endpoint sender(info_, *fabric_, 256);
  ofi::Endpoint receiver(info_, *fabric_, 256);
  slots = std::make_unique<ReceiveSlots>(receiver, 10'000, 16, kTag);
  std::vector<std::string> came;
  uint32_t recalled = 0;
  bool sent = true;
  const auto step = [&] {
    std::array<fi_cq_data_entry, 16> entries;
    const ssize_t count = receiver.read(entries);
    for (ssize_t i = 0; i < count; ++i) {
      auto& slot = *static_cast<ReceiveSlots::Slot*>(entries[i].op_context);
      ASSERT_TRUE(slots->owns(&slot));
      came.push_back(text_of(slots->landed(slot, entries[i].len)));
      slots->put_back(slot);
    }
    fi_cq_err_entry error;
    if (count == -FI_EAVAIL && receiver.read_error(error)) {
      ASSERT_TRUE(slots->owns(error.op_context));
      ASSERT_EQ(error.err, FI_ECANCELED);
      ++recalled;
      slots->put_back(*static_cast<ReceiveSlots::Slot*>(error.op_context));
    }
    sent |= sender.read(entries) > 0;
  };
  slots->want(12);
  EXPECT_FALSE(slots->has_waiting());
  slots->want(3);
  slots->want(3);  // not asked twice
  for (int i = 0; i < 1000; ++i) step();
  EXPECT_EQ(recalled, 9u);
  slots->want(5);
  EXPECT_FALSE(slots->has_waiting());
  const fi_addr_t to = sender.insert(receiver.address());
  fi_context2 context{};
  for (std::size_t i = 0; i < 40; ++i) {
    const std::string text = pattern(200 * i, i);
    const iovec piece{const_cast<char*>(text.data()), text.size()};
    sent = false;
    while (sender.send(&piece, nullptr, 1, to, kTag, context) != 0) step();
    while (!sent || came.size() <= i) step();
    EXPECT_EQ(came.back(), text);
  }
  EXPECT_EQ(recalled, 9u);
  slots->want(0);
  for (int i = 0; i < 1000; ++i) step();
  EXPECT_EQ(recalled, 14u);
}

/// Of receives that each take one message few are used until more messages come at once.
TEST_P(OfiPosted, FewAreUsedUntilMoreComeAtOnce) {
  constexpr uint32_t kMost = 8, kFew = 2;
  constexpr std::size_t kLength = 1500;
  open("single");
  std::unique_ptr<ofi::ReceivePool> pool;  // outlives the endpoint that writes into it
  ofi::Endpoint sender(info_, *fabric_, 256);
  ofi::Endpoint receiver(info_, *fabric_, 256);
  pool = ofi::make_receive_pool(receiver, {.strategy = ofi::ReceiveStrategy::single,
                                           .receives = kMost,
                                           .most_posted = 64,
                                           .classes = SizeClasses(4096),
                                           .at_first = kFew});
  pool->start();
  const fi_addr_t to = sender.insert(receiver.address());
  const std::string text = pattern(kLength, 1);
  const iovec piece{const_cast<char*>(text.data()), text.size()};
  std::array<fi_context2, 64> contexts{};
  std::size_t begun = 0, came = 0;
  std::set<const std::byte*> used;
  std::array<fi_cq_data_entry, 16> entries;
  const auto step = [&] {
    pool->post_waiting();
    for (ssize_t i = 0, count = receiver.read(entries); i < count; ++i) {
      const auto landed = pool->landed(entries[static_cast<std::size_t>(i)]);
      EXPECT_EQ(text_of(landed), text);
      used.insert(landed.data());
      ++came;
      pool->finish(entries[static_cast<std::size_t>(i)]);
    }
    (void)sender.read(entries);
  };
  const auto send = [&] {
    auto& context = contexts[begun++ % contexts.size()];
    while (sender.send(&piece, nullptr, 1, to, ofi::Endpoint::kUntagged, context) != 0) step();
  };
  for (int i = 0; i < 20; ++i) {
    send();
    while (came < begun) step();
  }
  EXPECT_LE(used.size(), kFew);
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 40; ++i) send();
    while (came < begun) step();
  }
  EXPECT_EQ(used.size(), kMost);
}

/// A message that is still on its way when the provider has let go of its buffer, for others began
/// behind it: here, one whose completion is left lying meanwhile.
TEST_P(OfiPosted, ABufferForSeveralWaitsForTheLastOfThem) {
  constexpr uint32_t kLargest = 4096;
  constexpr std::size_t kMessages = 200, kBytes = 1500;
  open("multi");
  std::unique_ptr<ofi::ReceivePool> pool;  // outlives the endpoint that writes into it
  ofi::Endpoint sender(info_, *fabric_, 256);
  ofi::Endpoint receiver(info_, *fabric_, 256, kLargest);
  pool = ofi::make_receive_pool(receiver, {.strategy = ofi::ReceiveStrategy::multi,
                                           .memory = 4 * kLargest,
                                           .most_posted = 64,
                                           .classes = SizeClasses(kLargest)});
  pool->start();
  fi_cq_data_entry first{};
  std::size_t came = 0;
  bool sent = true;
  const auto step = [&] {
    std::array<fi_cq_data_entry, 16> entries;
    for (ssize_t i = 0, count = receiver.read(entries); i < count; ++i) {
      if ((entries[i].flags & FI_RECV) != 0) {
        EXPECT_EQ(text_of(pool->landed(entries[i])), pattern(kBytes, came));
        if (came++ == 0) {
          first = entries[i];
          continue;
        }
      }
      pool->finish(entries[i]);
    }
    EXPECT_FALSE(pool->has_waiting());
    sent |= sender.read(entries) > 0;
  };
  const fi_addr_t to = sender.insert(receiver.address());
  fi_context2 context{};
  for (std::size_t i = 0; i < kMessages; ++i) {
    const std::string text = pattern(kBytes, i);
    const iovec piece{const_cast<char*>(text.data()), text.size()};
    sent = false;
    while (sender.send(&piece, nullptr, 1, to, ofi::Endpoint::kUntagged, context) != 0) step();
    while (!sent || came <= i) step();
  }
  EXPECT_EQ(text_of(pool->landed(first)), pattern(kBytes, 0)) << "used again too early";
  pool->finish(first);
  for (int i = 0; i < 100; ++i) step();
}

INSTANTIATE_TEST_SUITE_P(Providers, OfiPosted, ::testing::Values("", "tcp;ofi_rxm"),
                         [](const auto& one) { return *one.param == '\0' ? "usual" : "rxm"; });

/// Takes numbered messages in order, with packets that hold what their number says.
struct Checking final : Sink {
  Port* port = nullptr;
  uint32_t next = 0, wrong = 0;
  std::vector<uint32_t> free;

  Taken on_frame(const Frame& frame) override {
    uint32_t number = 0;
    std::memcpy(&number, frame.head.data(), sizeof number);
    wrong += number != next++;
    if (frame.loan) {
      const auto expected = static_cast<std::byte>(number);
      wrong += std::any_of(frame.packet.begin(), frame.packet.end(),
                           [&](std::byte one) { return one != expected; });
      port->give_back(frame.loan);
    }
    return Taken::yes;
  }
  void on_control(const Frame&) override { ++wrong; }
  void on_returned(std::span<const uint32_t> packets) override {
    free.insert(free.end(), packets.begin(), packets.end());
  }
  void on_peer_down(Rank, std::string_view) override { ++wrong; }
};

class OfiReceives : public ::testing::TestWithParam<Way> {
 protected:
  /// `ranks` - 1 ranks send to rank 0, each `messages`, of sizes that change with time.
  void exchange(int ranks, uint32_t messages, uint32_t largest, uint32_t between_breaks) {
    constexpr uint32_t kPackets = 32;
    Provider provider{"ofi", 2, make_ofi_transport, settings_of(GetParam())};
    const Geometry geometry{1, 256, 64, kPacket, kPackets};
    Ranks all(provider, ranks, geometry);
    std::vector<std::unique_ptr<Checking>> sinks;
    for (int r = 0; r < ranks; ++r) {
      sinks.push_back(std::make_unique<Checking>());
      sinks.back()->port = &all.port(r);
      for (uint32_t i = 0; i < kPackets; ++i) sinks.back()->free.push_back(i);
    }
    std::map<int32_t, Checking> from;  // what rank 0 took of each
    struct ByRank final : Sink {
      std::map<int32_t, Checking>& from;
      uint32_t wrong = 0;
      explicit ByRank(std::map<int32_t, Checking>& map) : from(map) {}
      Taken on_frame(const Frame& frame) override {
        return from[frame.source.value].on_frame(frame);
      }
      void on_control(const Frame&) override { ++wrong; }
      void on_returned(std::span<const uint32_t>) override { ++wrong; }
      void on_peer_down(Rank, std::string_view) override { ++wrong; }
    } sink(from);
    for (int r = 1; r < ranks; ++r) from[r].port = &all.port(0);

    std::vector<uint32_t> sent(static_cast<std::size_t>(ranks), 0);
    std::mt19937 random(7);
    const auto send_one = [&](int r) {
      Checking& mine = *sinks[static_cast<std::size_t>(r)];
      const uint32_t number = sent[static_cast<std::size_t>(r)];
      const auto header = std::as_bytes(std::span(&number, 1));
      // A third short ones, a third large ones, a third anything.
      const uint32_t phase = 3 * number / messages;
      const bool is_short = phase == 0 || (phase == 2 && random() % 2 == 0);
      if (is_short) return all.port(r).try_send(Rank{0}, 0, header, {}) == Post::done;
      if (mine.free.empty()) return false;
      const uint32_t index = mine.free.back();
      const uint32_t bytes = phase == 1 ? largest : static_cast<uint32_t>(random() % (largest + 1));
      const auto packet =
          all.transport(r).packet_area().subspan(std::size_t{index} * kPacket, bytes);
      std::memset(packet.data(), static_cast<int>(number & 0xff), packet.size());
      if (all.port(r).try_send_packet(Rank{0}, 0, header, {index, bytes}) != Post::posted)
        return false;
      mine.free.pop_back();
      return true;
    };
    uint32_t breaks_at = between_breaks;
    int broken = 0;
    const bool whole = poll_until(
        all.port(0), sink,
        [&] {
          bool done = true;
          uint32_t came = 0;
          for (int r = 1; r < ranks; ++r) {
            auto& count = sent[static_cast<std::size_t>(r)];
            while (count < messages && send_one(r)) ++count;
            all.port(r).poll(*sinks[static_cast<std::size_t>(r)], 64);
            done &= from[r].next == messages &&
                    sinks[static_cast<std::size_t>(r)]->free.size() == kPackets;
            came += from[r].next;
          }
          if (between_breaks != 0 && came >= breaks_at) {
            broken += break_connections();
            breaks_at = came + between_breaks;
          }
          return done;
        },
        120);
    EXPECT_TRUE(whole);
    EXPECT_EQ(sink.wrong, 0u);
    for (int r = 1; r < ranks; ++r) {
      EXPECT_EQ(from[r].next, messages);
      EXPECT_EQ(from[r].wrong, 0u);
      EXPECT_EQ(sinks[static_cast<std::size_t>(r)]->wrong, 0u);
    }
    EXPECT_EQ(broken != 0, between_breaks != 0);
  }
};

TEST_P(OfiReceives, MessagesOfAllSizesFromSeveralComeWhole) { exchange(3, 3000, kPacket, 0); }

TEST_P(OfiReceives, NothingIsLostWhenConnectionsBreakInTheMiddle) {
  // ofi_rxm fetches large messages from their sender's memory, and does not get over a connection
  // that breaks meanwhile.
  const bool fetches = *std::get<1>(GetParam()) != '\0';
  exchange(3, 1500, fetches ? 8192 : kPacket, 400);
}

INSTANTIATE_TEST_SUITE_P(Ways, OfiReceives,
                         ::testing::Combine(::testing::Values("single", "multi", "sized"),
                                            ::testing::Values("", "tcp;ofi_rxm")),
                         name_of_way);

/// What making a transport says with these settings; empty: it was made.
std::string said(const Configured::List& list) {
  const auto job = make_local_job(1);
  std::string text;
  try {
    const Configured settings(list);
    (void)make_ofi_transport(*job.front(), small_geometry());
  } catch (const Error& error) {
    text = error.code() == Errc::bad_config ? error.what() : "";
  }
  return text;
}

TEST(OfiReceiveErrors, AStrategyThatTheProviderLacksIsRefusedWithTheReason) {
  const std::string refused =
      said({{"fabric.ofi.receive", "multi"}, {"fabric.ofi.provider", "sockets"}});
  EXPECT_NE(refused.find("fabric.ofi.receive is 'multi'"), std::string::npos) << refused;
  EXPECT_NE(refused.find("'sockets' is not"), std::string::npos) << refused;
  EXPECT_NE(said({{"fabric.ofi.receive", "some"}}).find("single|multi|sized"), std::string::npos);
  EXPECT_NE(said({{"fabric.ofi.receive_memory", "1"}}).find("fabric.ofi.receive_memory"),
            std::string::npos);
}

TEST(OfiReceiveErrors, RanksThatSortBySizeAndSuchThatDoNotSaySo) {
  auto jobs = make_local_job(2);
  std::vector<std::unique_ptr<Transport>> transports(2);
  for (std::size_t r = 0; r < 2; ++r) {
    const Configured settings(
        Configured::List{{"fabric.ofi.receive", r == 0 ? "single" : "sized"}});
    transports[r] = make_ofi_part(*jobs[r], small_geometry(), {});
  }
  std::thread other([&] { jobs[1]->fence(); });
  jobs[0]->fence();
  other.join();
  const auto port = transports[0]->open_port(0);
  Recorder sink;
  (void)port->try_send(Rank{1}, 0, bytes_of("hello"), {});
  EXPECT_TRUE(poll_until(*port, sink, [&] { return !sink.downs.empty(); }));
  ASSERT_FALSE(sink.downs.empty());
  EXPECT_NE(sink.downs[0].second.find("fabric.ofi.receive"), std::string::npos)
      << sink.downs[0].second;
}

}  // namespace
}  // namespace weft::fabric::test
