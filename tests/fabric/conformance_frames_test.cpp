// Frames: sizes, order, hold, control, packets by reference, retry and recovery.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "fabric/conformance_ranks.hpp"

namespace weft::fabric::test {
namespace {

using Frames = Conformance;

TEST_P(Frames, EverySizeArrivesWhole) {
  Ranks ranks = make(2);
  const int to = ranks.at(1);
  Recorder sink;
  const uint32_t most = ranks.port(0).max_inline();
  ASSERT_GE(most, 56u);
  std::vector<std::string> sent;
  for (uint32_t n = 0; n <= most; ++n)
    for (const uint32_t head : {0u, n / 3, std::min(n, 24u), n}) {
      const std::string all = pattern(n, n * 7 + head);
      send_all(ranks.port(0), Rank{to}, 0, all.substr(0, head), all.substr(head), ranks.port(to),
               sink);
      sent.push_back(all);
    }
  ASSERT_TRUE(poll_until(ranks.port(to), sink, [&] { return sink.frames.size() == sent.size(); }));
  for (std::size_t i = 0; i < sent.size(); ++i) {
    ASSERT_EQ(sink.frames[i].head, sent[i]) << "frame " << i;
    ASSERT_EQ(sink.frames[i].source, Rank{0});
    ASSERT_FALSE(sink.frames[i].loan);
  }
}

TEST_P(Frames, PortsAreApartAndTakenModulo) {
  Ranks ranks = make(2);
  const int to = ranks.at(1);
  Recorder zero, one;
  ASSERT_EQ(ranks.port(0).try_send(Rank{to}, 3, bytes_of("a"), {}), Post::done);
  ASSERT_EQ(ranks.port(0).try_send(Rank{to}, 2, bytes_of("b"), {}), Post::done);
  ASSERT_TRUE(poll_until(ranks.port(to, 1), one, [&] { return one.frames.size() == 1; }));
  ASSERT_TRUE(poll_until(ranks.port(to, 0), zero, [&] { return zero.frames.size() == 1; }));
  EXPECT_EQ(one.frames[0].head, "a");
  EXPECT_EQ(zero.frames[0].head, "b");
}

TEST_P(Frames, AFullRingAnswersRetryAndRecovers) {
  Ranks ranks = make(2);
  const int to = ranks.at(1);
  Recorder sink;
  uint32_t next = 0;
  for (int round = 0; round < 40; ++round) {
    int refused = 0;
    while (refused < 3) {  // an interceptor refuses now and then, a full ring always
      const std::string text = std::to_string(next);
      if (ranks.port(0).try_send(Rank{to}, 0, bytes_of(text), {}) == Post::done)
        ++next, refused = 0;
      else
        ++refused;
      ASSERT_LT(next, 100000u) << "a ring that never fills";
    }
    ASSERT_TRUE(poll_until(ranks.port(to), sink, [&] { return sink.frames.size() == next; }));
  }
  for (uint32_t i = 0; i < next; ++i) ASSERT_EQ(sink.frames[i].head, std::to_string(i));
}

TEST_P(Frames, AHeldFrameKeepsItsLaneAndLetsControlPass) {
  Ranks ranks = make(3);
  const int to = ranks.at(2);
  Recorder sink;
  bool holding = true;
  sink.hold = [&](const Frame& f) { return holding && text_of(f.head) == "first"; };
  const auto send = [&](int from, std::string_view text) {
    while (ranks.port(from).try_send(Rank{to}, 0, bytes_of(text), {}) == Post::retry) {
    }
  };
  send(0, "first");
  send(0, "second");
  while (ranks.port(0).try_control(Rank{to}, 0, bytes_of("control")) == Post::retry) {
  }
  if (ranks.size() == 3) send(1, "other");
  const std::size_t others = ranks.size() == 3 ? 1 : 0;
  ASSERT_TRUE(poll_until(ranks.port(to), sink, [&] {
    return sink.held > 3 && sink.control.size() == 1 && sink.frames.size() == others;
  }));
  EXPECT_EQ(sink.control[0].head, "control");
  EXPECT_EQ(sink.control[0].source, Rank{0});
  if (others > 0) {
    EXPECT_EQ(sink.frames[0].head, "other");
  }
  for (int i = 0; i < 50; ++i) ranks.port(to).poll(sink, 64);
  EXPECT_EQ(sink.frames.size(), others);
  holding = false;
  ASSERT_TRUE(poll_until(ranks.port(to), sink, [&] { return sink.frames.size() == others + 2; }));
  EXPECT_EQ(sink.frames[others].head, "first");
  EXPECT_EQ(sink.frames[others + 1].head, "second");
}

TEST_P(Frames, ABudgetIsKept) {
  Ranks ranks = make(2);
  const int to = ranks.at(1);
  Recorder sink;
  for (int i = 0; i < 8; ++i)
    while (ranks.port(0).try_send(Rank{to}, 0, bytes_of("x"), {}) == Post::retry) {
    }
  while (sink.frames.size() < 8) {
    const std::size_t before = sink.frames.size();
    const uint32_t taken = ranks.port(to).poll(sink, 3);
    EXPECT_LE(taken, 3u);
    EXPECT_EQ(sink.frames.size(), before + taken);
  }
}

/// Gives back at once whatever comes in a packet.
class Returner final : public Sink {
 public:
  explicit Returner(Port& port) : port_(port) {}
  Taken on_frame(const Frame& frame) override {
    if (hold) return Taken::hold;
    ++frames[frame.source.value];
    if (frame.loan) port_.give_back(frame.loan);
    return Taken::yes;
  }
  void on_control(const Frame&) override { ++control; }
  void on_returned(std::span<const uint32_t> packets) override { returned += packets.size(); }
  void on_peer_down(Rank, std::string_view) override {}
  bool hold = false;
  bool take_none = false;  ///< of the short frames
  std::map<int, int> frames;
  int control = 0;
  std::size_t returned = 0;

 private:
  Port& port_;
};

/// As those do who take message after message: by the short way, and where that ends by a poll.
void take_one(Port& port, Returner& sink) {
  std::byte into[40];
  const ShortFilter all{0, sink.take_none ? uint64_t{1} : 0};
  if (const ShortFrame frame = port.take_short(all, into)) {
    ++sink.frames[frame.source.value];
  } else if (port.poll(sink, 1) == 0) {
    EXPECT_LE(port.linger(sink, 1), 1u + 64u);  // a message, and what control frames there are
  }
}

// One message a call, from a lane that never runs dry, while packets come back: the other lane and
// its control frames have their turn all the same.
TEST_P(Frames, TakenOneByOneNoLaneStarves) {
  Ranks ranks = make(3);
  if (ranks.size() < 3 || GetParam().wrap) GTEST_SKIP() << "needs two lanes and no delay";
  Port& mine = ranks.port(0);
  Port& busy = ranks.port(1);
  Returner sink(mine);
  Returner at_busy(busy), at_other(ranks.port(2));
  const auto header = bytes_of("sixteen bytes...");
  const auto send = [&](Port& from) {
    return from.try_send(Rank{0}, 0, header, bytes_of("8 bytes.")) != Post::retry;
  };
  for (const int from : {1, 2}) {  // a first frame may take its time
    ASSERT_TRUE(poll_until(mine, sink, [&] { return send(ranks.port(from)); }));
    ASSERT_TRUE(poll_until(mine, sink, [&] { return sink.frames[from] > 0; }));
  }
  uint32_t lent = 0;
  for (int round = 0; round < 20; ++round) {
    const int frames_before = sink.frames[2];
    const int control_before = sink.control;
    ASSERT_TRUE(poll_until(mine, sink, [&] { return send(ranks.port(2)); }));
    ASSERT_NE(ranks.port(2).try_control(Rank{0}, 0, header), Post::retry);
    ranks.port(2).poll(at_other, 64);  // a network gathers what is sent until then
    for (int i = 0; i < 400; ++i) {
      while (send(busy)) {
      }
      if (i % 20 == 0 && lent - sink.returned < 8 &&
          mine.try_send_packet(Rank{1}, 0, header, {lent % 8, 8}) != Post::retry) {
        ++lent;
      }
      busy.poll(at_busy, 64);
      take_one(mine, sink);
    }
    EXPECT_EQ(sink.frames[2], frames_before + 1) << "round " << round;
    EXPECT_EQ(sink.control, control_before + 1) << "round " << round;
  }
  EXPECT_GT(sink.returned, 0u);
}

TEST_P(Frames, TakenOneByOneAHeldFrameLetsControlPass) {
  Ranks ranks = make(2);
  Port& mine = ranks.port(0);
  Port& other = ranks.port(ranks.at(1));
  Returner sink(mine);
  const auto header = bytes_of("sixteen bytes...");
  for (int i = 0; i < 5; ++i) {
    send_all(other, Rank{0}, 0, "sixteen bytes...", "8 bytes.", mine, sink);
  }
  ASSERT_TRUE(
      poll_until(mine, sink, [&] { return !sink.frames.empty() || mine.poll(sink, 1) != 0; }));
  sink.hold = true;
  sink.take_none = true;
  int sent = 0;
  while (sent < 8 && other.try_control(Rank{0}, 0, header) != Post::retry) ++sent;
  // At once: not after what the lane's burst might still have been. (Delayed frames come later, and
  // what a network brings.)
  const int calls = !GetParam().reads_peers ? 1'000'000 : GetParam().wrap ? 200 : 4;
  for (int i = 0; i < calls && sink.control < sent; ++i) take_one(mine, sink);
  EXPECT_EQ(sink.control, sent);
}

// Whatever mixture of lengths and headers: by the short way come only those that the filter lets
// pass and that have room, and the order of the lane is kept.
TEST_P(Frames, TheShortWayTakesWhatTheFilterLetsPassInOrder) {
  Ranks ranks = make(2);
  Port& mine = ranks.port(0);
  Port& other = ranks.port(ranks.at(1));
  constexpr std::size_t kRoom = 24;
  Recorder sink;
  std::vector<std::string> sent;
  std::size_t next = 0;
  std::size_t short_ones = 0;
  std::size_t longer_ones = 0;
  const auto check_seen = [&] {
    for (; next < sent.size() && !sink.frames.empty();
         ++next, sink.frames.erase(sink.frames.begin()))
      ASSERT_EQ(sink.frames.front().head, sent[next]);
  };
  for (int round = 0; round < 2000; ++round) {
    // The first word says whether the filter lets it pass; the second counts.
    std::string frame = round % 7 == 3 ? "no way.." : "yes 0000";
    frame[7] = static_cast<char>('0' + round % 10);  // not in the mask
    frame += pattern(8, static_cast<uint64_t>(round));
    const int bytes = round / 50 % 3 == 2 ? 41 + round * 7 % 150 : round * 5 % 40;
    frame += pattern(static_cast<std::size_t>(bytes), static_cast<uint64_t>(round) + 1);
    if (round % 11 == 5) frame.resize(4);  // shorter than a short header
    sent.push_back(frame);
    send_all(other, Rank{0}, 0, frame, "", mine, sink);
    if (round % 3 != 0) continue;
    ShortFilter filter{};
    std::memcpy(&filter.first, "yes 000\0", sizeof filter.first);
    filter.mask = 0x00ffffffffffffff;
    for (int i = 0; i < 5; ++i) {
      check_seen();
      std::byte into[256];
      ShortFrame taken = mine.take_short(filter, std::span(into).first(kRoom));
      const bool longer = taken.bytes == ShortFrame::kLonger;
      if (longer) {  // and there it is
        taken = mine.take_short(filter, into);
        ASSERT_TRUE(taken);
        EXPECT_GT(taken.bytes, kRoom);
        ++longer_ones;
      }
      if (taken) {
        ++short_ones;
        ASSERT_LT(next, sent.size());
        const std::string first = text_of(std::as_bytes(std::span(&taken.first_word, 1)));
        const std::string& whole = sent[next++];
        ASSERT_EQ(first, whole.substr(0, 8));
        ASSERT_EQ(first.substr(0, 3), "yes");
        ASSERT_LE(taken.bytes, longer ? sizeof into : kRoom);
        ASSERT_EQ(text_of({into, taken.bytes}), whole.substr(sizeof(ShortHeader)));
        EXPECT_EQ(taken.source.value, ranks.at(1));
      } else {
        mine.poll(sink, 1);
      }
    }
  }
  ASSERT_TRUE(poll_until(mine, sink, [&] { return next + sink.frames.size() >= sent.size(); }));
  check_seen();
  EXPECT_EQ(next, sent.size());
  if (!GetParam().wrap && GetParam().reads_peers) {  // a network may bring all of it at the end
    EXPECT_GT(short_ones, 100u);
    EXPECT_EQ(longer_ones > 20, GetParam().makes_runs) << longer_ones;
  }
}

/// Writes runs down and takes so many of each.
class RunTaker final : public Sink {
 public:
  Taken on_frame(const Frame& frame) override {
    texts.push_back(text_of(frame.head));
    return Taken::yes;
  }
  uint32_t on_run(const ShortRun& run) override {
    EXPECT_GT(run.count, 0u);
    EXPECT_LE(run.count, ShortRun::kMost);
    ++runs;
    runs_of_longer += run.count > 1 && run.pieces[0].payload.size() > 40 ? 1 : 0;
    const uint32_t taken = std::min(run.count, most);
    for (uint32_t i = 0; i < taken; ++i)
      texts.push_back(text_of(run.header(i).bytes()) + text_of(run.pieces[i].payload));
    most = most * 5 % 7;  // 0 now and then
    if (most == 0) most = taken == 0 ? 3 : 0;
    return taken;
  }
  void on_control(const Frame&) override {}
  void on_returned(std::span<const uint32_t>) override {}
  void on_peer_down(Rank, std::string_view) override {}
  std::vector<std::string> texts;
  uint32_t most = 1;
  int runs = 0;
  int runs_of_longer = 0;  ///< than a cell
};

// Short frames of one first word may come together; a sink that takes some of them is offered the
// rest again. Nothing is lost or comes twice, whatever comes between.
TEST_P(Frames, RunsAreOfOneFirstWordAndWhatIsNotTakenComesAgain) {
  Ranks ranks = make(2);
  Port& mine = ranks.port(0);
  Port& other = ranks.port(ranks.at(1));
  RunTaker sink;
  std::vector<std::string> sent;
  const char* const words[] = {"aaaaaaaa", "aaaaaaaa", "aaaaaaaa", "bbbbbbbb", "cccccccc"};
  for (int i = 0; i < 3000; ++i) {
    std::string frame = words[i / 23 % 5];
    if (i % 500 < 100) frame = words[i % 5];
    frame += pattern(8 + static_cast<std::size_t>(i % 33), static_cast<uint64_t>(i));
    if (i % 97 == 96 || i / 300 % 3 == 2)  // of two cells mostly
      frame += pattern(60 + static_cast<std::size_t>(i / 11 % 40), static_cast<uint64_t>(i));
    if (i % 41 == 40) frame.resize(5);
    sent.push_back(frame);
    send_all(other, Rank{0}, 0, frame, "", mine, sink);
    if (i % 64 == 63) mine.poll(sink, 1 + static_cast<uint32_t>(i) % 50);
  }
  ASSERT_TRUE(poll_until(mine, sink, [&] { return sink.texts.size() >= sent.size(); }));
  EXPECT_TRUE(sink.texts == sent);
  if (!GetParam().wrap && GetParam().makes_runs) {
    EXPECT_GT(sink.runs, 100);
    EXPECT_GT(sink.runs_of_longer, 20);
  }
}

TEST_P(Frames, PacketsAreLentAndComeBack) {
  Ranks ranks = make(2);
  const int to = ranks.at(1);
  Recorder sink, sender;
  Port& from = ranks.port(0);
  Port& at = ranks.port(to);
  const auto area = ranks.transport(0).packet_area();
  const Geometry g = ranks.transport(0).geometry();
  ASSERT_EQ(area.size(), std::size_t{g.packets} * g.packet_bytes);
  std::set<uint32_t> free;
  for (uint32_t i = 0; i < g.packets; ++i) free.insert(i);
  uint64_t sent = 0, checked = 0;
  while (checked < 300) {
    if (!free.empty() && sent < 300) {
      const uint32_t index = *free.begin();
      const std::string text = pattern(1 + sent * 37 % g.packet_bytes, sent);
      const auto bytes = static_cast<uint32_t>(text.size());
      const auto offset =
          static_cast<uint32_t>(sent * 53 % ((g.packet_bytes - bytes) / 64 + 1) * 64);
      std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(),
                  area.data() + std::size_t{index} * g.packet_bytes + offset);
      const std::string header = std::to_string(sent);
      const Post answer =
          from.try_send_packet(Rank{to}, 0, bytes_of(header), {index, bytes, offset});
      ASSERT_NE(answer, Post::done);
      if (answer == Post::posted) {
        free.erase(index);
        ++sent;
      }
    }
    Recorder& there = to == 0 ? sender : sink;
    at.poll(there, 8);
    if (to != 0) from.poll(sender, 8);
    for (; checked < there.frames.size(); ++checked) {
      const Seen& seen = there.frames[checked];
      ASSERT_EQ(seen.head, std::to_string(checked));
      ASSERT_EQ(seen.packet, pattern(1 + checked * 37 % g.packet_bytes, checked));
      ASSERT_TRUE(seen.loan);
      ASSERT_EQ(seen.loan.owner, 0);
      at.give_back(seen.loan);
    }
    for (const uint32_t index : sender.returned) ASSERT_TRUE(free.insert(index).second);
    sender.returned.clear();
  }
  ASSERT_TRUE(
      poll_until(from, sender, [&] { return free.size() + sender.returned.size() == g.packets; }));
}

TEST_P(Frames, OpenPacketsAreLentBeforeTheyAreWritten) {
  Ranks ranks = make(2);
  const int to = ranks.at(1);
  const std::array<uint32_t, 3> indices{5, 2, 7};
  std::atomic<uint32_t>* const written = ranks.transport(0).written(Rank{to}, indices[0], true);
  // Over a network packets go whole, and within the rank nothing would be gained.
  const bool can =
      to != 0 && !ranks.transport(0).is_far(Rank{to}) && ranks.transport(0).can_read(Rank{to});
  ASSERT_EQ(written != nullptr, can);
  if (!can) return;
  const uint32_t each = ranks.transport(0).geometry().packet_bytes;
  uint32_t offset = 0;
  const auto write = [&](std::string_view text) {
    for (std::size_t i = 0; i * each < text.size(); ++i) {
      const std::string_view part = text.substr(i * each, each);
      std::memcpy(ranks.transport(0).packet_area().data() + std::size_t{indices[i]} * each + offset,
                  part.data(), part.size());
    }
    written->store(static_cast<uint32_t>(text.size()), std::memory_order_release);
  };
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{each} / 2, std::size_t{each}, std::size_t{3} * each - 5}) {
    offset = size <= each ? static_cast<uint32_t>(each - size) / 64 * 64 : 0;
    const std::string body = pattern(size, size);
    const auto count = (size + each - 1) / each;
    write("");
    const auto* const origin = reinterpret_cast<const std::byte*>(body.data());
    while (ranks.port(0).try_send_open(Rank{to}, 0, bytes_of("open"),
                                       {.indices = {indices.data(), count},
                                        .bytes = static_cast<uint32_t>(size),
                                        .origin = origin,
                                        .offset = offset}) == Post::retry) {
    }
    // It is offered, and held, before it is whole; control frames pass.
    Recorder sink;
    std::string got;
    std::vector<uint32_t> came;
    sink.hold = [&](const Frame& frame) {
      if (!frame.is_whole()) return true;
      came.assign(frame.indices().begin(), frame.indices().end());
      for (uint32_t i = 0; i < frame.open->count; ++i) got += text_of(frame.open->pieces[i]);
      return false;
    };
    while (ranks.port(0).try_control(Rank{to}, 0, bytes_of("control")) == Post::retry) {
    }
    ASSERT_TRUE(poll_until(ranks.port(to), sink,
                           [&] { return sink.held > 0 && sink.control.size() == 1; }));
    EXPECT_TRUE(sink.frames.empty());
    write(std::string_view(body).substr(0, size / 2));
    const int before = sink.held;
    ASSERT_TRUE(poll_until(ranks.port(to), sink, [&] { return sink.held > before; }));
    write(body);
    ASSERT_TRUE(poll_until(ranks.port(to), sink, [&] { return sink.frames.size() == 1; }));
    EXPECT_EQ(sink.frames[0].head, "open");
    EXPECT_EQ(got, body);
    EXPECT_EQ(came, std::vector<uint32_t>(&indices[0], &indices[0] + count));
    ranks.port(to).give_back_all(sink.frames[0].loan, came);
    ranks.port(to).give_back_all({}, {});  // nothing
    Recorder owner;
    ASSERT_TRUE(poll_until(ranks.port(0), owner, [&] { return owner.returned.size() == count; }));
    std::sort(came.begin(), came.end());
    std::sort(owner.returned.begin(), owner.returned.end());
    EXPECT_EQ(owner.returned, came);
  }
}

TEST_P(Frames, TicketsComeBackInPlaceOfTheirPackets) {
  Ranks ranks = make(2);
  const int to = ranks.at(1);
  const std::array<uint32_t, 2> indices{6, 1};
  std::atomic<uint32_t>* const written = ranks.transport(0).written(Rank{to}, indices[0], false);
  const bool can = to != 0 && !ranks.transport(0).is_far(Rank{to});
  ASSERT_EQ(written != nullptr, can);
  if (!can) return;
  const Geometry& g = ranks.transport(0).geometry();
  const std::string body = pattern(g.packet_bytes + 5, 3);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::string_view part = std::string_view(body).substr(i * g.packet_bytes, g.packet_bytes);
    std::memcpy(ranks.transport(0).packet_area().data() + std::size_t{indices[i]} * g.packet_bytes,
                part.data(), part.size());
  }
  written->store(static_cast<uint32_t>(body.size()), std::memory_order_release);
  const auto* const origin = reinterpret_cast<const std::byte*>(body.data());
  // Twice to the same, first and last numbers.
  const std::vector<uint32_t> tickets{g.packets, g.packets + kTickets - 1};
  Recorder sink;
  std::vector<uint32_t> came;
  sink.hold = [&](const Frame& frame) {
    EXPECT_TRUE(frame.is_whole());
    EXPECT_EQ(frame.indices().size(), 1U);
    came.push_back(frame.indices()[0]);
    std::string got;
    for (uint32_t i = 0; i < frame.open->count; ++i) got += text_of(frame.open->pieces[i]);
    EXPECT_EQ(got, body);
    return false;
  };
  for (const uint32_t ticket : tickets) {
    while (ranks.port(0).try_send_open(
               Rank{to}, 0, bytes_of("open"),
               {indices, static_cast<uint32_t>(body.size()), origin, ticket}) == Post::retry) {
    }
  }
  ASSERT_TRUE(poll_until(ranks.port(to), sink, [&] { return sink.frames.size() == 2; }));
  EXPECT_EQ(came, tickets);
  for (const Seen& seen : sink.frames) ranks.port(to).give_back(seen.loan);
  Recorder owner;
  ASSERT_TRUE(poll_until(ranks.port(0), owner, [&] { return owner.returned.size() == 2; }));
  std::sort(owner.returned.begin(), owner.returned.end());
  EXPECT_EQ(owner.returned, tickets);
}

TEST_P(Frames, AFullRingKeepsThePacketWithItsOwner) {
  Ranks ranks = make(2);
  const int to = ranks.at(1);
  Recorder sink;
  int refused = 0;
  while (refused < 3)
    refused =
        ranks.port(0).try_send(Rank{to}, 0, bytes_of("x"), {}) == Post::done ? 0 : refused + 1;
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(ranks.port(0).try_send_packet(Rank{to}, 0, bytes_of("p"), {5, 10}), Post::retry);
  ASSERT_TRUE(poll_until(ranks.port(to), sink, [&] { return sink.frames.size() >= 4; }));
  EXPECT_TRUE(sink.returned.empty());
  Post answer;
  while ((answer = ranks.port(0).try_send_packet(Rank{to}, 0, bytes_of("p"), {5, 10})) ==
         Post::retry)
    ranks.port(to).poll(sink, 64);
  EXPECT_EQ(answer, Post::posted);
  ASSERT_TRUE(poll_until(ranks.port(to), sink, [&] { return bool(sink.frames.back().loan); }));
  EXPECT_EQ(sink.frames.back().loan.index, 5u);
  ranks.port(to).give_back(sink.frames.back().loan);
  Recorder owner;
  ASSERT_TRUE(poll_until(ranks.port(0), owner, [&] { return owner.returned.size() == 1; }));
  EXPECT_EQ(owner.returned[0], 5u);
}

/// Several threads of several ranks send to one port at once; each thread's frames stay in order.
TEST_P(Frames, ManyThreadsKeepTheirOrder) {
  Ranks ranks = make(3);
  const uint64_t seed = stress_seed("ManyThreadsKeepTheirOrder");
  const int to = ranks.at(2);
  constexpr int kThreads = 4;
  constexpr uint32_t kEach = 4000;
  std::vector<std::thread> senders;
  for (int t = 0; t < kThreads; ++t)
    senders.emplace_back([&, t] {
      std::minstd_rand random(static_cast<unsigned>(seed) + static_cast<unsigned>(t));
      const int from = ranks.at(t % 2);
      for (uint32_t i = 0; i < kEach;) {
        const std::string head = std::to_string(t) + " " + std::to_string(i) + " ";
        const std::string body = pattern(random() % 150, i);
        // The two ports of a rank share the lane to one port of a peer.
        if (ranks.port(from, static_cast<uint32_t>(t) / 2)
                .try_send(Rank{to}, 0, bytes_of(head), bytes_of(body)) == Post::done)
          ++i;
        else
          std::this_thread::yield();
      }
    });
  std::map<int, uint32_t> next;
  Recorder sink;
  uint32_t total = 0;
  const bool complete = poll_until(
      ranks.port(to), sink,
      [&] {
        for (const Seen& seen : sink.frames) {
          const std::size_t blank = seen.head.find(' ');
          const std::size_t second = seen.head.find(' ', blank + 1);
          const int thread = std::stoi(seen.head);
          const uint32_t number = static_cast<uint32_t>(std::stoul(seen.head.substr(blank)));
          EXPECT_EQ(number, next[thread]++);
          EXPECT_EQ(seen.head.substr(second + 1), pattern(seen.head.size() - second - 1, number));
          ++total;
        }
        sink.frames.clear();
        return total == kThreads * kEach;
      },
      120);
  for (auto& sender : senders) sender.join();
  EXPECT_TRUE(complete);
}

INSTANTIATE_TEST_SUITE_P(All, Frames, ::testing::ValuesIn(providers()), provider_name);

}  // namespace
}  // namespace weft::fabric::test
