// Two sides as one transport: who is asked what, how polls are shared out, that packets, deaths and
// keys stay on their side. Over two scripted sides, and over real ones.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "fabric/by_node_port.hpp"
#include "fabric/by_node_transport.hpp"
#include "fabric/conformance_ranks.hpp"
#include "fabric/parts.hpp"
#include "weft/base/config.hpp"
#include "weft/fabric/config.hpp"

namespace weft::fabric::test {
namespace {

/// A side that does as it is told, and counts.
class ScriptedPort final : public Port {
 public:
  explicit ScriptedPort(Rank peer) : peer_(peer), bell_(::eventfd(0, EFD_NONBLOCK)) {}
  ~ScriptedPort() override { ::close(bell_); }

  uint32_t max_inline() const noexcept override { return most; }
  uint32_t max_control() const noexcept override { return most; }
  Post try_send(Rank, uint32_t, std::span<const std::byte>,
                std::span<const std::byte>) noexcept override {
    return ++sends, Post::done;
  }
  Post try_send_short(Address, ShortHeader, std::span<const std::byte>) noexcept override {
    return ++sends, Post::done;
  }
  Post try_send_packet(Rank, uint32_t, std::span<const std::byte>, PacketPart) noexcept override {
    return ++sends, Post::posted;
  }
  Post try_control(Rank, uint32_t, std::span<const std::byte>) noexcept override {
    return ++sends, Post::done;
  }
  uint32_t poll(Sink& sink, uint32_t budget) override {
    ++polls;
    uint32_t taken = 0;
    for (; taken < budget && waiting > 0; ++taken, --waiting)
      if (sink.on_frame({peer_, bytes_of("frame"), {}, loan}) == Taken::hold) break;
    for (; control > 0; --control) sink.on_control({peer_, bytes_of("control"), {}, {}}), ++taken;
    for (; deaths > 0; --deaths) sink.on_peer_down(peer_, "it ended");
    return taken;
  }
  uint32_t linger(Sink&, uint32_t) override { return ++lingers, 0; }
  ShortFrame take_short(ShortFilter, std::span<std::byte>) noexcept override {
    ++short_looks;
    if (short_ones == 0) return {.source = {}, .bytes = ShortFrame::kNone, .first_word = 0};
    --short_ones;
    return {.source = peer_, .bytes = 0, .first_word = 0};
  }
  void give_back(Loan) noexcept override { ++given_back; }
  ReadOffer offer(Rank, std::span<const std::byte>) noexcept override {
    return ++offers, ReadOffer{this, 0, 0};
  }
  void withdraw_offer(void* handle, bool cuts) noexcept override {
    offers -= handle == this && cuts ? 1 : 100;
  }
  Post try_read(Address, uint64_t, uint64_t, uint64_t, std::span<std::byte>,
                uint64_t) noexcept override {
    return ++reads, Post::posted;
  }
  void arm() noexcept override { ++arms; }
  void disarm() noexcept override {
    ++disarms;
    uint64_t rings;
    (void)!::read(bell_, &rings, sizeof rings);
  }
  int bell_fd() const noexcept override { return bell_; }
  void ring_self() noexcept override {
    const uint64_t one = 1;
    (void)!::write(bell_, &one, sizeof one);
  }

  uint32_t most = 200;
  uint32_t waiting = 0, control = 0, short_ones = 0, deaths = 0;
  Loan loan;
  int sends = 0, polls = 0, lingers = 0, short_looks = 0, given_back = 0, arms = 0, disarms = 0;
  int offers = 0, reads = 0;

 private:
  Rank peer_;
  int bell_;
};

/// Ranks 0 and 1 are near, 2 and 3 are far; near brings frames of rank 1, far those of `far_peer`.
class TwoSides : public ::testing::Test {
 protected:
  explicit TwoSides(Rank far_peer = Rank{2}) {
    auto one = std::make_unique<ScriptedPort>(Rank{1});
    auto other = std::make_unique<ScriptedPort>(far_peer);
    near = one.get();
    far = other.get();
    port = std::make_unique<ByNodePort>(is_near, std::move(one), std::move(other));
  }
  /// Until far has had so many looks in vain that it rests for longest.
  void let_far_rest() {
    for (int i = 0; i < 2000; ++i) port->poll(sink, 64);
  }
  bool is_rung() {
    pollfd ask{port->bell_fd(), POLLIN, 0};
    return ::poll(&ask, 1, 0) == 1;
  }

  const uint8_t is_near[4] = {1, 1, 0, 0};
  ScriptedPort *near, *far;
  std::unique_ptr<ByNodePort> port;
  Recorder sink;
};

TEST_F(TwoSides, SendsAndReturnsGoOnceToTheSideOfTheirRank) {
  for (const int to : {0, 1, 2, 3}) {
    ScriptedPort& side = to < 2 ? *near : *far;
    const int before = side.sends;
    const int all = near->sends + far->sends;
    EXPECT_EQ(port->try_send(Rank{to}, 0, bytes_of("h"), {}), Post::done);
    EXPECT_EQ(port->try_send_short({Rank{to}, 0}, {}, {}), Post::done);
    EXPECT_EQ(port->try_send_packet(Rank{to}, 0, bytes_of("h"), {0, 1}), Post::posted);
    EXPECT_EQ(port->try_control(Rank{to}, 0, bytes_of("h")), Post::done);
    EXPECT_EQ(side.sends, before + 4) << to;
    EXPECT_EQ(near->sends + far->sends, all + 4) << to;
    port->give_back({to, 0, 5});
  }
  EXPECT_EQ(near->given_back, 2);
  EXPECT_EQ(far->given_back, 2);
}

TEST_F(TwoSides, OnlyFarOffersAndReads) {
  const ReadOffer offer = port->offer(Rank{2}, {});
  EXPECT_EQ(far->offers, 1);
  port->withdraw_offer(offer.handle, true);
  EXPECT_EQ(far->offers, 0);
  EXPECT_EQ(port->try_read({Rank{2}, 0}, 0, 0, 0, {}, 0), Post::posted);
  EXPECT_EQ(far->reads, 1);
  EXPECT_EQ(near->offers + near->reads, 0);
}

TEST_F(TwoSides, WhatFitsFitsBoth) {
  auto small = std::make_unique<ScriptedPort>(Rank{2});
  small->most = 100;
  const ByNodePort both(is_near, std::make_unique<ScriptedPort>(Rank{1}), std::move(small));
  EXPECT_EQ(both.max_inline(), 100u);
  EXPECT_EQ(both.max_control(), 100u);
  EXPECT_EQ(both.max_inline_to(Rank{1}), ScriptedPort(Rank{1}).max_inline());
  EXPECT_EQ(both.max_inline_to(Rank{2}), 100u);
}

TEST_F(TwoSides, NearCostsOneCallEachAndFarRestsWhileItIsQuiet) {
  let_far_rest();
  const int near_polls = near->polls;
  const int far_polls = far->polls;
  for (int i = 0; i < 1280; ++i) port->poll(sink, 64);
  EXPECT_EQ(near->polls, near_polls + 1280);
  EXPECT_GE(far->polls, far_polls + 10);
  EXPECT_LT(far->polls, far_polls + 640)
      << "more than 10 only where this thread was kept from its core";
  far->waiting = 1;
  for (int i = 0; i < 128 && sink.frames.empty(); ++i) port->poll(sink, 64);
  ASSERT_EQ(sink.frames.size(), 1u);
  const int woken = far->polls;
  for (int i = 0; i < 16; ++i) port->poll(sink, 64);
  EXPECT_EQ(far->polls, woken + 16) << "it yielded: more may come";
  const int lingers = near->lingers;
  port->linger(sink, 64);
  EXPECT_EQ(near->lingers, lingers) << "who waits for far is kept from looking there";
  near->waiting = 1;
  port->poll(sink, 64);
  port->linger(sink, 64);
  EXPECT_EQ(near->lingers, lingers + 1);
  EXPECT_EQ(far->lingers, 0);
}

/// Where each poll is a turn of a shared core, 128 of them would be a long rest.
TEST_F(TwoSides, ARestEndsByTimeWherePollsAreRare) {
  let_far_rest();
  far->waiting = 1;
  for (int i = 0; i < 3 && far->waiting != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    port->poll(sink, 64);
  }
  EXPECT_EQ(sink.frames.size(), 1u);
}

/// What is sent there mostly is not answered, or it is: the first four looks, or the first 64.
TEST_F(TwoSides, FarIsLookedAtLongerWhereItAnswers) {
  const auto looks_after_a_send = [&] {
    let_far_rest();
    (void)port->try_send(Rank{2}, 0, bytes_of("h"), {});
    const int before = far->polls;
    for (int i = 0; i < 64; ++i) port->poll(sink, 64);
    return far->polls - before;
  };
  (void)looks_after_a_send();
  EXPECT_LT(looks_after_a_send(), 64);
  far->waiting = 1;
  for (int i = 0; i < 1000 && far->waiting != 0; ++i) port->poll(sink, 64);
  ASSERT_EQ(far->waiting, 0u);
  EXPECT_EQ(looks_after_a_send(), 64);
  EXPECT_LT(looks_after_a_send(), 64) << "that one was not answered";
}

TEST_F(TwoSides, WhoIsAboutToSleepLooksAtBothSides) {
  let_far_rest();
  arm(*port);
  for (int i = 0; i < 100; ++i) {
    const int before = far->polls;
    port->poll(sink, 64);
    ASSERT_EQ(far->polls, before + 1) << i;
  }
  port->disarm();
  const int before = far->polls;
  port->poll(sink, 64);
  EXPECT_EQ(far->polls, before + 1) << "far may be what rang";
  EXPECT_EQ(near->arms, 1);
  EXPECT_EQ(far->arms, 1);
  EXPECT_EQ(near->disarms, 1);
  EXPECT_EQ(far->disarms, 1);
}

TEST_F(TwoSides, AFrameThatFarHoldsIsOfferedAtEachPoll) {
  let_far_rest();
  far->waiting = 1;
  sink.hold = [](const Frame& frame) { return frame.source == Rank{2}; };
  for (int i = 0; i < 200; ++i) port->poll(sink, 64);
  const int held = sink.held;
  ASSERT_GT(held, 0);
  for (int i = 0; i < 50; ++i) port->poll(sink, 64);
  EXPECT_EQ(sink.held, held + 50);
}

TEST_F(TwoSides, NeitherSideKeepsTheOtherFromItsTurn) {
  for (const uint32_t budget : {1u, 7u, 64u}) {
    near->waiting = far->waiting = 1'000'000;
    const uint32_t before[] = {near->waiting, far->waiting};
    for (int i = 0; i < 1000; ++i) {
      EXPECT_LE(port->poll(sink, budget), budget);
      sink.frames.clear();
    }
    EXPECT_EQ(before[0] - near->waiting, 500 * budget);
    EXPECT_EQ(before[1] - far->waiting, 500 * budget);
  }
  // Far yields seldom, and near never runs dry: then a look at far comes after some polls.
  near->waiting = 0;
  far->waiting = 0;
  let_far_rest();
  for (int i = 0; i < 10; ++i) {
    near->waiting = 1'000'000;
    for (int polls = 0; polls < 200; ++polls) port->poll(sink, 4);
    far->waiting = 1;
    int polls = 0;
    for (; far->waiting > 0 && polls < 1000; ++polls) port->poll(sink, 4);
    EXPECT_LE(polls, 18) << "16 polls that yielded, and one to let far be first";
    sink.frames.clear();
  }
  // And near behind a far that never runs dry.
  near->waiting = 0;
  far->waiting = 1'000'000;
  for (int i = 0; i < 100; ++i) {
    port->poll(sink, 4);
    near->waiting = 1;
    port->poll(sink, 4);
    port->poll(sink, 4);
    EXPECT_EQ(near->waiting, 0u);
  }
}

TEST_F(TwoSides, TheBudgetIsShared) {
  near->waiting = 3;
  far->waiting = 100;
  EXPECT_EQ(port->poll(sink, 10), 10u);
  EXPECT_EQ(near->waiting, 0u);
  EXPECT_EQ(far->waiting, 93u);
}

TEST_F(TwoSides, TheShortWayAsksWhoeverYieldedLast) {
  std::byte into[8];
  (void)port->take_short({}, into);
  EXPECT_EQ(near->short_looks, 1) << "near, to begin with";
  far->waiting = 1;
  far->short_ones = 2;
  near->short_ones = 2;
  port->poll(sink, 1);
  ASSERT_EQ(sink.frames.size(), 1u);
  EXPECT_EQ(port->take_short({}, into).source, Rank{2});
  EXPECT_EQ(port->take_short({}, into).source, Rank{2});
  EXPECT_FALSE(port->take_short({}, into)) << "a poll is due";
  near->waiting = 1;
  port->poll(sink, 1);
  EXPECT_EQ(port->take_short({}, into).source, Rank{1});
  EXPECT_EQ(far->short_looks, 3);
}

TEST_F(TwoSides, EitherBellRings) {
  EXPECT_FALSE(is_rung());
  for (ScriptedPort* const side : {near, far}) {
    arm(*port);
    EXPECT_FALSE(is_rung());
    side->ring_self();
    EXPECT_TRUE(is_rung());
    port->disarm();
    EXPECT_FALSE(is_rung());
  }
  port->ring_self();
  EXPECT_TRUE(is_rung());
  port->disarm();
  EXPECT_FALSE(is_rung());
}

TEST_F(TwoSides, EachSideTellsItsOwnDeaths) {
  near->deaths = far->deaths = 1;
  for (int i = 0; i < 300; ++i) port->poll(sink, 64);
  ASSERT_EQ(sink.downs.size(), 2u);
  EXPECT_EQ(sink.downs[0].first, Rank{1});
  EXPECT_EQ(sink.downs[1].first, Rank{2});
}

/// A neighbour that speaks over the network: configured otherwise than the rest.
class Stray : public TwoSides {
 protected:
  Stray() : TwoSides(Rank{1}) {}
};

TEST_F(Stray, ANeighbourIsNotListenedToOverTheNetwork) {
  far->waiting = 1;
  far->loan = {1, 0, 3};
  far->control = 1;
  far->deaths = 1;
  port->poll(sink, 64);
  EXPECT_TRUE(sink.frames.empty());
  EXPECT_TRUE(sink.control.empty());
  EXPECT_TRUE(sink.downs.empty());
  EXPECT_EQ(far->given_back, 1) << "to the side that brought it";
  EXPECT_EQ(near->given_back, 0);
  far->short_ones = 1;
  std::byte into[8];
  EXPECT_FALSE(port->take_short({}, into));
}

// ---- which one a job gets ----

TEST(Choice, FollowsTheConfigurationAndTheNodes) {
  register_fabric_config();
  const auto chosen = [](const char* wanted, int ranks, int nodes) {
    base::set_config("fabric.transport", wanted);
    const auto jobs = make_local_job(ranks, nodes);
    const TransportChoice first = choose_transport(*jobs.front());
    for (const auto& job : jobs) EXPECT_EQ(choose_transport(*job), first) << "all ranks the same";
    base::set_config("fabric.transport", "automatic");
    return first;
  };
  EXPECT_EQ(chosen("automatic", 4, 1), TransportChoice::local);
  EXPECT_EQ(chosen("automatic", 4, 2), TransportChoice::local) << "the nodes are pretended";
  EXPECT_EQ(chosen("by_node", 4, 2), TransportChoice::by_node);
  EXPECT_EQ(chosen("by_node", 4, 4), TransportChoice::by_node);
  EXPECT_EQ(chosen("by_node", 4, 1), TransportChoice::local);
  EXPECT_EQ(chosen("shm", 4, 2), TransportChoice::shm);
  EXPECT_EQ(chosen("ofi", 4, 1), TransportChoice::ofi);
}

TEST(Choice, NearAreThoseWhoShareMemoryAndANode) {
  const auto jobs = make_local_job(5, 2);
  EXPECT_EQ(near_ranks(*jobs[1]), (std::vector<Rank>{Rank{0}, Rank{1}, Rank{2}}));
  EXPECT_EQ(near_ranks(*jobs[4]), (std::vector<Rank>{Rank{3}, Rank{4}}));
}

TEST(Lanes, ARankThatTheyDoNotConnectIsRefusedWithTheReason) {
  const auto jobs = make_local_job(2, 2);
  for (const auto make : {make_shm_part, make_local_part}) {
    const auto transport = make(*jobs[0], small_geometry(), {Rank{0}});
    EXPECT_TRUE(transport->reaches(Rank{0}));
    EXPECT_FALSE(transport->reaches(Rank{1}));
    EXPECT_FALSE(transport->can_read(Rank{1}));
    const auto port = transport->open_port(0);
    Recorder sink;
    EXPECT_EQ(port->try_send(Rank{1}, 0, bytes_of("x"), {}), Post::done) << "goes nowhere";
    EXPECT_EQ(port->try_send_packet(Rank{1}, 0, bytes_of("x"), {4, 1}), Post::posted);
    ASSERT_TRUE(poll_until(*port, sink, [&] { return !sink.downs.empty(); }));
    EXPECT_EQ(sink.downs[0].first, Rank{1});
    EXPECT_NE(sink.downs[0].second.find("not on this node"), std::string::npos)
        << sink.downs[0].second;
    ASSERT_TRUE(poll_until(*port, sink, [&] { return !sink.returned.empty(); }));
    EXPECT_EQ(sink.returned, std::vector<uint32_t>{4});
  }
}

TEST(Lanes, APeerWithLanesForOthersIsNotAttached) {
  const auto jobs = make_local_job(2);
  for (const auto make : {make_shm_part, make_local_part}) {
    const auto one = make(*jobs[0], small_geometry(), {Rank{0}, Rank{1}});
    const auto other = make(*jobs[1], small_geometry(), {Rank{1}});
    jobs[0]->put("", "");
    std::thread fence([&] { jobs[1]->fence(); });
    jobs[0]->fence();
    fence.join();
    const auto port = one->open_port(0);
    Recorder sink;
    EXPECT_EQ(port->try_send(Rank{1}, 0, bytes_of("x"), {}), Post::done);
    ASSERT_TRUE(poll_until(*port, sink, [&] { return !sink.downs.empty(); }));
    EXPECT_NE(sink.downs[0].second.find("fabric.transport"), std::string::npos)
        << sink.downs[0].second;
  }
}

#if WEFT_HAS_OFI

TEST(ByNode, AJobOfOneNodeOpensNoNetwork) {
  register_fabric_config();
  base::set_config("fabric.ofi.provider", "nonsense");
  const auto one = make_local_job(1);
  EXPECT_EQ(make_by_node_transport(*one.front(), small_geometry())->name(), "self");
  const auto two = make_local_job(2, 2);
  try {
    (void)make_by_node_transport(*two.front(), small_geometry());
    ADD_FAILURE() << "without a network";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::bad_config);
  }
  base::set_config("fabric.ofi.provider", "");
}

/// Ranks 0 and 1 on one node, 2 and 3 on another.
const Provider& four_on_two() {
  static const Provider provider = {.name = "by_node", .make = make_by_node_transport, .nodes = 2};
  return provider;
}

TEST(ByNode, ReachesAllAndReadsItsNeighbours) {
  Ranks ranks(four_on_two(), 4, small_geometry());
  Transport& mine = ranks.transport(0);
  EXPECT_EQ(mine.name(), "by_node");
  for (int r = 0; r < 4; ++r) {
    EXPECT_TRUE(mine.reaches(Rank{r}));
    EXPECT_EQ(mine.is_far(Rank{r}), r >= 2);
  }
  EXPECT_FALSE(mine.reaches(Rank{4}));
  EXPECT_FALSE(mine.reaches(Rank{-1}));
  EXPECT_TRUE(mine.can_read(Rank{0}));
  EXPECT_TRUE(mine.can_read(Rank{1}));
  EXPECT_FALSE(mine.can_read(Rank{2}));
  EXPECT_FALSE(mine.can_read(Rank{4}));
  EXPECT_NE(mine.why_not_read(Rank{2}), "");
}

TEST(ByNode, AKeyOfSharedMemoryIsMappedByNeighboursAndResolvedByItsOwner) {
  Ranks ranks(four_on_two(), 4, small_geometry());
  Transport& owner = ranks.transport(1);
  const auto memory = owner.allocate_shared(8192);
  const MemoryKey key = owner.expose(memory);
  ASSERT_NE(key.segment, 0u);
  EXPECT_TRUE(ranks.transport(0).map_peer(key));
  EXPECT_TRUE(owner.map_peer(key));
  // Theirs is another node: they have nothing to map, and have exposed nothing under its number.
  for (const int far : {2, 3}) {
    EXPECT_FALSE(ranks.transport(far).map_peer(key));
    EXPECT_FALSE(ranks.transport(far).resolve(key));
  }
  const auto range = owner.resolve(key);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->data(), memory.data());
  owner.release_shared(memory);
  EXPECT_FALSE(owner.resolve(key));
  EXPECT_FALSE(ranks.transport(0).map_peer(key));
}

/// Takes what `from` was sent, without giving it back.
std::vector<Loan> take_loans(Ranks& ranks, int at, std::size_t count) {
  Recorder there;
  EXPECT_TRUE(poll_until(ranks.port(at), there, [&] { return there.frames.size() == count; }));
  std::vector<Loan> loans;
  for (const Seen& seen : there.frames) {
    EXPECT_EQ(seen.packet, pattern(100, seen.loan.index)) << "packet " << seen.loan.index;
    loans.push_back(seen.loan);
  }
  return loans;
}

TEST(ByNode, PacketsLentBothWaysComeBackToTheirSide) {
  Ranks ranks(four_on_two(), 4, small_geometry());
  Port& mine = ranks.port(0);
  const auto area = ranks.transport(0).packet_area();
  constexpr uint32_t kPackets = 12;
  Recorder sink;
  for (int round = 0; round < 20; ++round) {
    for (uint32_t i = 0; i < kPackets; ++i) {
      const std::string text = pattern(100, i);
      std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(),
                  area.data() + std::size_t{i} * small_geometry().packet_bytes);
      // The same number goes now this way, now that.
      const int to = (static_cast<int>(i) + round) % 2 == 0 ? 1 : 2;
      while (mine.try_send_packet(Rank{to}, 0, bytes_of("p"), {i, 100}) == Post::retry)
        mine.poll(sink, 64);
    }
    for (const int at : {1, 2}) {
      for (const Loan& loan : take_loans(ranks, at, kPackets / 2)) {
        EXPECT_EQ(loan.owner, 0);
        ranks.port(at).give_back(loan);
      }
    }
    Recorder far;
    ASSERT_TRUE(poll_until(mine, sink, [&] {
      ranks.port(2).poll(far, 64);
      return sink.returned.size() >= kPackets;
    }));
    std::sort(sink.returned.begin(), sink.returned.end());
    for (uint32_t i = 0; i < kPackets; ++i) ASSERT_EQ(sink.returned.at(i), i) << "round " << round;
    sink.returned.clear();
  }
}

TEST(ByNode, ADeathBringsBackWhatThatPeerHadAndIsToldOnceToEachPort) {
  for (const int victim : {1, 2}) {  // near, far
    Ranks ranks(four_on_two(), 4, small_geometry());
    const int other = 3 - victim;
    Port& mine = ranks.port(0);
    const auto area = ranks.transport(0).packet_area();
    Recorder sink, second;
    for (uint32_t i = 0; i < 8; ++i) {
      const std::string text = pattern(100, i);
      std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(),
                  area.data() + std::size_t{i} * small_geometry().packet_bytes);
      const int to = i % 2 == 0 ? victim : other;
      while (mine.try_send_packet(Rank{to}, 0, bytes_of("p"), {i, 100}) == Post::retry)
        mine.poll(sink, 64);
    }
    (void)take_loans(ranks, victim, 4);
    const auto kept = take_loans(ranks, other, 4);
    ranks.end(victim);
    ASSERT_TRUE(poll_until(mine, sink, [&] { return !sink.downs.empty(); }));
    ASSERT_TRUE(poll_until(ranks.port(0, 1), second, [&] { return !second.downs.empty(); }));
    for (int i = 0; i < 3000; ++i) {
      mine.poll(sink, 64);
      ranks.port(0, 1).poll(second, 64);
    }
    ASSERT_EQ(sink.downs.size(), 1u);
    EXPECT_EQ(sink.downs[0].first, Rank{victim});
    ASSERT_EQ(second.downs.size(), 1u);
    EXPECT_EQ(second.downs[0].first, Rank{victim});
    std::sort(sink.returned.begin(), sink.returned.end());
    EXPECT_EQ(sink.returned, (std::vector<uint32_t>{0, 2, 4, 6})) << "the other side's stay lent";
    sink.returned.clear();
    for (const Loan& loan : kept) ranks.port(other).give_back(loan);
    Recorder there;
    ASSERT_TRUE(poll_until(mine, sink, [&] {
      ranks.port(other).poll(there, 64);
      return sink.returned.size() == 4;
    }));
    std::sort(sink.returned.begin(), sink.returned.end());
    EXPECT_EQ(sink.returned, (std::vector<uint32_t>{1, 3, 5, 7}));
    EXPECT_TRUE(second.returned.empty()) << "they are of the other port";
  }
}

/// In an engine's epoll set there are sets in sets; the kernel limits how deep. The bell must be
/// quiet there while nothing comes, and ring for either side.
TEST(ByNode, TheBellIsQuietInAnEpollSetUntilEitherSideRings) {
  for (const bool shm : {false, true}) {
    Ranks ranks(shm ? *std::find_if(plain_providers().begin(), plain_providers().end(),
                                    [](const auto& one) { return one.name == "by_node_shm"; })
                    : four_on_two(),
                4, small_geometry());
    Port& mine = ranks.port(0);
    Recorder sink;
    const int set = ::epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{};
    event.events = EPOLLIN;
    ASSERT_EQ(::epoll_ctl(set, EPOLL_CTL_ADD, mine.bell_fd(), &event), 0);
    std::size_t sent = 0;
    for (int round = 0; round < 5; ++round) {
      for (const int from : {1, 2}) {
        // What the first meeting, or a late ring, left to be done is done in a few turns.
        int quiet = 1;
        for (int turn = 0; turn < 100 && quiet != 0; ++turn) {
          arm(mine);
          mine.poll(sink, 64);
          quiet = ::epoll_wait(set, &event, 1, 20);
          if (quiet != 0) mine.disarm();
        }
        ASSERT_EQ(quiet, 0) << "it rings for nothing, as if it could not join";
        while (ranks.port(from).try_send(Rank{0}, 0, bytes_of("x"), {}) == Post::retry) {
        }
        EXPECT_EQ(::epoll_wait(set, &event, 1, 60'000), 1) << from;
        mine.disarm();
        ++sent;
        ASSERT_TRUE(poll_until(mine, sink, [&] { return sink.frames.size() == sent; }));
      }
    }
    ::close(set);
  }
}

/// Short frames of both sides, taken message after message: each lane's order is kept, and all
/// come.
TEST(ByNode, TakenOneByOneFromBothSides) {
  Ranks ranks(four_on_two(), 4, small_geometry());
  Port& mine = ranks.port(0);
  constexpr uint64_t kEach = 3000;
  uint64_t sent[2] = {0, 0}, got[2] = {0, 0};
  int by_the_short_way[2] = {0, 0};
  class Counter final : public Sink {
   public:
    explicit Counter(uint64_t (&got)[2]) : got_(got) {}
    Taken on_frame(const Frame& frame) override {
      uint64_t number = 0;
      std::memcpy(&number, frame.head.data() + sizeof(ShortHeader), sizeof number);
      EXPECT_EQ(number, got_[frame.source.value - 1]++);
      return Taken::yes;
    }
    void on_control(const Frame&) override {}
    void on_returned(std::span<const uint32_t>) override {}
    void on_peer_down(Rank, std::string_view) override {}

   private:
    uint64_t (&got_)[2];
  } sink(got);
  Recorder at_sender;
  ASSERT_TRUE(poll_until(mine, sink, [&] {
    for (const int side : {0, 1}) {
      Port& from = ranks.port(side + 1);
      while (sent[side] < kEach &&
             from.try_send_short({Rank{0}, 0}, {{7, sent[side]}},
                                 std::as_bytes(std::span(&sent[side], 1))) == Post::done)
        ++sent[side];
      from.poll(at_sender, 1);
    }
    for (int i = 0; i < 200; ++i) {
      uint64_t number = 0;
      const ShortFrame frame =
          mine.take_short({~uint64_t{0}, 7}, std::as_writable_bytes(std::span(&number, 1)));
      if (!frame) {
        mine.poll(sink, 1);
        continue;
      }
      EXPECT_EQ(number, got[frame.source.value - 1]++);
      ++by_the_short_way[frame.source.value - 1];
    }
    return got[0] == kEach && got[1] == kEach;
  }));
  EXPECT_GT(by_the_short_way[0], 0);
  EXPECT_GT(by_the_short_way[1], 0);
}

#endif

}  // namespace
}  // namespace weft::fabric::test
