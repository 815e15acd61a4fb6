// Peers that leave, and wrappers that stop them.
#include <algorithm>
#include <mutex>
#include <thread>

#include "base/config_override.hpp"
#include "fabric/conformance_ranks.hpp"
#include "fabric/parts.hpp"
#include "weft/fabric/interceptors.hpp"

namespace weft::fabric::test {
namespace {

class Trouble : public Conformance {
 protected:
  void SetUp() override {
    if (GetParam().ranks == 1) GTEST_SKIP() << "needs two ranks";
  }
};

TEST_P(Trouble, WhatAPeerSentBeforeItLeftIsOfferedFirst) {
  Ranks ranks = make(2);
  Recorder sink;
  int sent = 0;
  for (int i = 0; i < 6; ++i)
    while (ranks.port(1).try_send(Rank{0}, 0, bytes_of(std::to_string(sent)), {}) == Post::retry) {
    }
  while (ranks.port(1).try_control(Rank{0}, 0, bytes_of("c")) == Post::retry) {
  }
  ranks.end(1);
  std::size_t at_down = 0;
  ASSERT_TRUE(poll_until(ranks.port(0), sink, [&] {
    if (sink.downs.empty()) at_down = sink.frames.size() + sink.control.size();
    return !sink.downs.empty();
  }));
  EXPECT_EQ(sink.frames.size(), 6u);
  EXPECT_EQ(sink.control.size(), 1u);
  EXPECT_EQ(sink.downs[0].first, Rank{1});
  EXPECT_NE(sink.downs[0].second.find("rank 1"), std::string::npos) << sink.downs[0].second;
  for (int i = 0; i < 2000; ++i) ranks.port(0).poll(sink, 64);
  EXPECT_EQ(sink.downs.size(), 1u) << "once per peer and port";
  Recorder other;
  ASSERT_TRUE(poll_until(ranks.port(0, 1), other, [&] { return other.downs.size() == 1; }));
}

// A poll that finds a death looks for new lanes at its end: what the short way remembers of the
// lanes must not be from before.
TEST_P(Trouble, LanesThatMoveDuringAPollAreNotTakenFromByTheShortWay) {
  Ranks ranks = make(4);
  Port& mine = ranks.port(0);
  const auto send = [&](int from, int number) {
    const std::string frame = "sixteen bytes..." + pattern(8, static_cast<uint64_t>(number));
    while (ranks.port(from).try_send(Rank{0}, 0, bytes_of(frame), {}) == Post::retry) {
    }
  };
  bool opened = false;
  Recorder sink;
  sink.hold = [&](const Frame& frame) {
    if (frame.source == Rank{1} && frame.head.size() == 24 && sink.frames.size() > 1 && !opened) {
      opened = true;
      send(3, 0);  // its lane opens while rank 1's is served
    }
    return frame.source == Rank{2};
  };
  int sent = 0;
  send(1, sent++);
  send(2, 0);
  ASSERT_TRUE(poll_until(mine, sink, [&] { return sink.held > 0 && !sink.frames.empty(); }));
  ranks.end(2);  // held, its frame delays the news: each poll ends with a look
  for (int i = 0; i < 2000; ++i) mine.poll(sink, 64);
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  for (int i = 0; i < 2000; ++i) mine.poll(sink, 64);
  for (int i = 0; i < 6; ++i) send(1, sent++);
  std::size_t got = 0;
  ASSERT_TRUE(poll_until(mine, sink, [&] {
    std::byte into[40];
    while (const ShortFrame frame = mine.take_short({0, 0}, into)) {
      EXPECT_EQ(frame.bytes, 8u);
      ++got;
    }
    mine.poll(sink, 1);
    return got + sink.frames.size() >= static_cast<std::size_t>(sent) + 1;
  }));
  EXPECT_EQ(got + sink.frames.size(), static_cast<std::size_t>(sent) + 1) << "nothing twice";
  EXPECT_TRUE(opened);
}

TEST_P(Trouble, LoansOfADeadPeerComeBackAndItsOwnStayReadable) {
  Ranks ranks = make(2);
  Recorder mine, theirs;
  const auto area = ranks.transport(1).packet_area();
  std::fill_n(area.data(), 100, std::byte{42});
  while (ranks.port(1).try_send_packet(Rank{0}, 0, bytes_of("p"), {0, 100}) == Post::retry) {
  }
  ASSERT_TRUE(poll_until(ranks.port(0), mine, [&] { return mine.frames.size() == 1; }));
  for (uint32_t i = 2; i < 6; ++i)
    while (ranks.port(0).try_send_packet(Rank{1}, 0, bytes_of("q"), {i, 10}) == Post::retry) {
    }
  ASSERT_TRUE(poll_until(ranks.port(1), theirs, [&] { return theirs.frames.size() == 4; }));
  ranks.port(1).give_back(theirs.frames[0].loan);  // one in order, three go down with it
  ranks.end(1);
  ASSERT_TRUE(poll_until(ranks.port(0), mine, [&] { return !mine.downs.empty(); }));
  // It said so, with a loan just given back: it was not found dead by silence.
  EXPECT_NE(mine.downs[0].second.find("left the job"), std::string::npos) << mine.downs[0].second;
  std::sort(mine.returned.begin(), mine.returned.end());
  EXPECT_EQ(mine.returned, (std::vector<uint32_t>{2, 3, 4, 5}));
  EXPECT_EQ(mine.frames[0].packet, std::string(100, 42));
  ranks.port(0).give_back(mine.frames[0].loan);  // to a dead owner: harmless
}

TEST_P(Trouble, SendsToADeadPeerGoNowhere) {
  Ranks ranks = make(2);
  Recorder mine, theirs;
  while (ranks.port(0).try_send(Rank{1}, 0, bytes_of("x"), {}) == Post::retry) {
  }
  ASSERT_TRUE(poll_until(ranks.port(1), theirs, [&] { return theirs.frames.size() == 1; }));
  ranks.end(1);
  ASSERT_TRUE(poll_until(ranks.port(0), mine, [&] { return !mine.downs.empty(); }));
  const auto eventually = [](auto send) {
    Post answer;
    while ((answer = send()) == Post::retry) {
    }
    return answer;
  };
  Port& port = ranks.port(0);
  for (int i = 0; i < 100; ++i) {  // more than its rings hold
    EXPECT_EQ(eventually([&] { return port.try_send(Rank{1}, 0, bytes_of("y"), {}); }), Post::done);
    EXPECT_EQ(eventually([&] { return port.try_send(Rank{1}, 1, bytes_of("y"), {}); }), Post::done);
    EXPECT_EQ(eventually([&] { return port.try_control(Rank{1}, 0, bytes_of("y")); }), Post::done);
  }
  EXPECT_EQ(eventually([&] {
              return port.try_send_packet(Rank{1}, 0, bytes_of("y"), {7, 1});
            }),
            Post::posted);
  ASSERT_TRUE(poll_until(port, mine, [&] { return mine.returned.size() == 1; }));
  EXPECT_EQ(mine.returned[0], 7u);
}

TEST_P(Trouble, APeerThatLeftUnmetIsReportedWhenItIsMet) {
  Ranks ranks = make(3);
  ranks.end(2);
  Recorder sink;
  Post answer;
  while ((answer = ranks.port(0).try_send(Rank{2}, 0, bytes_of("x"), {})) == Post::retry &&
         sink.downs.empty())
    ranks.port(0).poll(sink, 1);
  ASSERT_TRUE(poll_until(ranks.port(0), sink, [&] { return !sink.downs.empty(); }));
  EXPECT_EQ(sink.downs[0].first, Rank{2});
  // And the others go on.
  while (ranks.port(0).try_send(Rank{1}, 0, bytes_of("x"), {}) == Post::retry) {
  }
  Recorder one;
  ASSERT_TRUE(poll_until(ranks.port(1), one, [&] { return one.frames.size() == 1; }));
}

TEST_P(Trouble, PortsOpenOnce) {
  Ranks ranks = make(2);
  EXPECT_THROW((void)ranks.transport(0).open_port(0), Error) << "twice";
  EXPECT_THROW((void)ranks.transport(0).open_port(2), Error) << "beyond the geometry";
}

INSTANTIATE_TEST_SUITE_P(All, Trouble, ::testing::ValuesIn(providers()), provider_name);

TEST(Interceptors, AStoppedRankTakesAndGivesNothingUntilItGoesOn) {
  const auto stops = std::make_shared<StopSwitch>();
  int next = 0;
  Provider provider = plain_providers()[1];
  provider.wrap = [&](std::unique_ptr<Transport> t) {
    return stoppable(std::move(t), Rank{next++}, stops);
  };
  Ranks ranks(provider, 2, small_geometry());
  Recorder zero, one;
  ASSERT_EQ(ranks.port(1).try_send(Rank{0}, 0, bytes_of("before"), {}), Post::done);
  ASSERT_EQ(ranks.port(1).try_control(Rank{0}, 0, bytes_of("control")), Post::done);
  stops->stop(Rank{1});
  EXPECT_EQ(ranks.port(1).try_send(Rank{0}, 0, bytes_of("no"), {}), Post::retry);
  int accepted = 0;
  while (ranks.port(0).try_send(Rank{1}, 0, bytes_of("m"), {}) == Post::done) ++accepted;
  EXPECT_GT(accepted, 0);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(ranks.port(1).poll(one, 64), 0u);
    ranks.port(0).poll(zero, 64);
  }
  EXPECT_TRUE(zero.frames.empty());
  EXPECT_TRUE(zero.control.empty());
  stops->resume(Rank{1});
  ASSERT_TRUE(poll_until(ranks.port(0), zero, [&] { return zero.frames.size() == 1; }));
  EXPECT_EQ(zero.control.size(), 1u);
  ASSERT_TRUE(poll_until(ranks.port(1), one,
                         [&] { return one.frames.size() == static_cast<std::size_t>(accepted); }));
}

TEST(Interceptors, RefusingRefusesItsShareAndIsSeeded) {
  const auto answers = [](uint64_t seed) {
    Provider provider = plain_providers()[1];
    provider.wrap = [seed](std::unique_ptr<Transport> t) {
      return refuse(std::move(t), 0.5, seed);
    };
    Ranks ranks(provider, 2, small_geometry());
    Recorder sink;
    std::string said;
    for (int i = 0; i < 400; ++i) {
      said += ranks.port(0).try_send(Rank{1}, 0, bytes_of("x"), {}) == Post::done ? 'd' : 'r';
      ranks.port(1).poll(sink, 64);
    }
    return said;
  };
  const std::string first = answers(9);
  EXPECT_EQ(first, answers(9));
  EXPECT_NE(first, answers(10));
  const auto refused = std::count(first.begin(), first.end(), 'r');
  EXPECT_GT(refused, 100);
  EXPECT_LT(refused, 300);
}

TEST(Interceptors, ReorderingLetsPortsOvertake) {
  Provider provider = plain_providers()[1];
  provider.wrap = [](std::unique_ptr<Transport> t) { return reorder_ports(std::move(t), 8, 3); };
  Ranks ranks(provider, 2, small_geometry());
  int overtaken = 0;
  for (int i = 0; i < 200; ++i) {
    Recorder zero, one;
    ASSERT_EQ(ranks.port(0).try_send(Rank{1}, 0, bytes_of("first"), {}), Post::done);
    ASSERT_EQ(ranks.port(0).try_send(Rank{1}, 1, bytes_of("second"), {}), Post::done);
    while (zero.frames.empty() || one.frames.empty()) {
      ranks.port(1, 0).poll(zero, 8);
      ranks.port(1, 1).poll(one, 8);
      if (zero.frames.empty() && !one.frames.empty()) {
        ++overtaken;
        while (zero.frames.empty()) ranks.port(1, 0).poll(zero, 8);
      }
    }
  }
  EXPECT_GT(overtaken, 20);
}

// A frame that a peer's rings could never take would be refused for ever.
TEST(UnlikeRings, TooShortForThisRanksFramesAreRefused) {
  for (const auto& [name, make] :
       {std::pair{"local", &make_local_transport}, std::pair{"shm", &make_shm_transport}}) {
    const Provider provider{name, 2, [make = make](Job& job, const Geometry& geometry) {
                              Geometry mine = geometry;
                              if (job.rank() == Rank{1}) mine.lane_cells = 16;
                              return make(job, mine);
                            }};
    Geometry long_rings = small_geometry();
    long_rings.lane_cells = 256;
    long_rings.control_cells = 64;
    Ranks ranks(provider, 2, long_rings);
    EXPECT_GT(ranks.port(0).max_inline(), ranks.port(1).max_inline());
    (void)ranks.port(0).try_send(Rank{1}, 0, bytes_of("x"), {});
    Recorder sink;
    ASSERT_TRUE(poll_until(ranks.port(0), sink, [&] { return !sink.downs.empty(); })) << name;
    EXPECT_NE(sink.downs[0].second.find("fabric.lane_cells"), std::string::npos)
        << sink.downs[0].second;
    // The other way there is room, but the answers could not come.
    (void)ranks.port(1).try_send(Rank{0}, 0, bytes_of("y"), {});
    Recorder other;
    ASSERT_TRUE(poll_until(ranks.port(1), other, [&] { return !other.downs.empty(); })) << name;
    EXPECT_NE(other.downs[0].second.find("fabric.inline_cells"), std::string::npos);
  }
}

// Whoever takes a peer's frames has room for those that it could send itself. Both are told.
TEST(UnlikeRings, FramesLongerThanAPeersOwnAreRefused) {
  std::mutex one_at_a_time;  // with its configuration
  const Provider provider{
      "shm", 2, [&](Job& job, const Geometry& geometry) {
        std::unique_ptr<Transport> made;
        {
          const std::scoped_lock hold(one_at_a_time);
          const weft::test::ConfigOverride mine(weft::test::ConfigOverride::List{
              {"fabric.inline_cells", job.rank() == Rank{0} ? "16" : "4"}});
          made = make_shm_part(job, geometry, job.node_ranks());
        }
        job.fence();
        return made;
      }};
  Geometry long_rings = small_geometry();
  long_rings.lane_cells = 256;
  long_rings.control_cells = 64;
  Ranks ranks(provider, 2, long_rings);
  for (const int me : {0, 1}) {
    (void)ranks.port(me).try_send(Rank{1 - me}, 0, bytes_of("x"), {});
    Recorder sink;
    ASSERT_TRUE(poll_until(ranks.port(me), sink, [&] { return !sink.downs.empty(); }));
    EXPECT_NE(sink.downs[0].second.find("fabric.inline_cells"), std::string::npos)
        << sink.downs[0].second;
  }
}

}  // namespace
}  // namespace weft::fabric::test
