// The ofi transport among strangers: an endpoint that is of no rank sends to one, what it likes.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fabric/conformance_ranks.hpp"
#include "fabric/lane_setup.hpp"
#include "fabric/ofi/ofi_transport.hpp"
#include "fabric/ofi/probe.hpp"
#include "fabric/tcp_providers.hpp"
#include "weft/base/config.hpp"
#include "weft/fabric/config.hpp"

namespace weft::fabric::test {
namespace {

using ofi::Card;
using ofi::FrameKey;
using ofi::WireHeader;
using ofi::WireKind;

/// A job whose launcher is asked about rank 1 and does not answer while it is held.
class SlowJob : public Job {
 public:
  explicit SlowJob(Job& job) : job_(job) {}
  [[nodiscard]] Rank rank() const noexcept override { return job_.rank(); }
  [[nodiscard]] int size() const noexcept override { return job_.size(); }
  [[nodiscard]] const std::vector<Rank>& node_ranks() const noexcept override {
    return job_.node_ranks();
  }
  [[nodiscard]] int node_of(Rank rank) const noexcept override { return job_.node_of(rank); }
  [[nodiscard]] int node_count() const noexcept override { return job_.node_count(); }
  [[nodiscard]] const std::string& id() const noexcept override { return job_.id(); }
  [[nodiscard]] const std::string& key() const noexcept override { return job_.key(); }
  [[nodiscard]] std::string_view provider() const noexcept override { return job_.provider(); }
  void put(std::string_view key, std::string_view value) override { job_.put(key, value); }
  std::string get(Rank from, std::string_view key) override {
    if (from.value == 1) {
      was_asked = true;
      is_held.wait(true);
    }
    return job_.get(from, key);
  }
  void fence() override { job_.fence(); }
  [[noreturn]] void abort(int code, std::string_view why) override {
    job_.abort(code, why);
    std::terminate();  // GCC does not see that it is not reached
  }
  void on_peer_death(std::function<void(Rank, std::string)> told) override {
    job_.on_peer_death(std::move(told));
  }

  std::atomic<bool> is_held{false};
  std::atomic<bool> was_asked{false};

 private:
  Job& job_;
};

/// Rank 0 of a job of two, whose rank 1 is only pretended, by somebody who can send to it.
class OfiStrangers : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    register_fabric_config();
    base::set_config("fabric.ofi.provider", provider_);
    base::set_config("fabric.security", GetParam() ? "mac" : "plain");
    jobs_ = make_local_job(2);
    job_ = std::make_unique<SlowJob>(*jobs_[0]);
    start();
  }
  /// A transport of the job: the first, or the next.
  void start() {
    endpoint_.reset();
    std::thread rank([&] { victim_ = make_ofi_transport(*job_, small_geometry()); });
    // Rank 1's card: the truth, but nobody of ours listens there.
    info_ = ofi::choose_provider(true, false);
    fid_fabric* fabric = nullptr;
    ASSERT_EQ(ofi::libfabric().fabric(info_->fabric_attr, &fabric, nullptr), 0);
    fabric_.reset(fabric);
    endpoint_ = std::make_unique<ofi::Endpoint>(info_, *fabric, 256);
    Geometry geometry = small_geometry();
    geometry.packets = packets_;
    const uint32_t cells = configured_inline_cells(geometry);
    const uint32_t tag = GetParam() ? FrameKey::kTagBytes : 0;
    Card card{geometry, cells, tag, "nowhere", {}};
    for (uint32_t port = 0; port < geometry.ports; ++port)
      card.addresses.push_back(endpoint_->address());
    jobs_[1]->put("fabric.ofi", card.text());
    jobs_[1]->fence();
    rank.join();
    port_ = victim_->open_port(0);
    theirs_ = Card::parse(jobs_[1]->get(Rank{0}, "fabric.ofi"));
    to_ = endpoint_->insert(theirs_.addresses[0]);
    key_ = std::make_unique<FrameKey>(jobs_[1]->key());
    stamp_ = dynamic_cast<ofi::OfiTransport&>(*victim_).stamp();
  }
  void TearDown() override {
    port_.reset();
    victim_.reset();
    base::set_config("fabric.ofi.provider", "");
    base::set_config("fabric.security", "plain");
  }

  [[nodiscard]] uint64_t strays() const {
    return dynamic_cast<ofi::OfiTransport&>(*victim_).strays();
  }
  [[nodiscard]] uint64_t repeats() const {
    return dynamic_cast<ofi::OfiTransport&>(*victim_).repeats();
  }
  /// A right frame of rank 1: with its tag where one is wanted.
  [[nodiscard]] std::vector<std::byte> frame(
      uint32_t sequence, std::string_view text,
      const std::function<void(WireHeader&)>& change = {}) const {
    WireHeader header{.stamp = stamp_,
                      .source = 1,
                      .sequence = sequence,
                      .ack = 0,
                      .length = static_cast<uint32_t>(text.size()),
                      .index = 0,
                      .bytes = 0,
                      .port = 0,
                      .kind = WireKind::message,
                      .flags = 0};
    if (change) change(header);
    const std::size_t head = sizeof header + text.size();
    std::vector<std::byte> bytes(head + (GetParam() ? FrameKey::kTagBytes : 0));
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, text.data(), text.size());
    if (!GetParam()) return bytes;
    const auto tag = key_->tag({0, 0, sequence, theirs_.salt}, std::span(bytes).first(head), {});
    std::memcpy(bytes.data() + head, tag.data(), tag.size());
    return bytes;
  }
  /// Sends it and goes on until it is in the kernel's hands.
  void send(const std::vector<std::byte>& bytes) {
    const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    fi_context2 context{};
    const auto step = [&] {
      port_->poll(sink_, 64);
      std::array<fi_cq_data_entry, 1> entry;
      return endpoint_->read(entry) == 1;
    };
    while (endpoint_->send(&piece, nullptr, 1, to_, ofi::Endpoint::kUntagged, context) != 0)
      (void)step();
    while (!step()) {
    }
  }
  void poll_until_strays(uint64_t count) {
    EXPECT_TRUE(poll_until(*port_, sink_, [&] { return strays() >= count; }));
  }

  const char* provider_ = kLayered;
  uint32_t packets_ = small_geometry().packets;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::unique_ptr<SlowJob> job_;  ///< rank 0's
  ofi::Info info_;
  ofi::Fid<fid_fabric> fabric_;
  // What the endpoint may have in its hands to its end.
  std::array<std::byte, 65536> buffer_;
  std::vector<std::byte> report_;
  fi_context2 in_{}, out_{};
  std::unique_ptr<ofi::Endpoint> endpoint_;
  Card theirs_;
  fi_addr_t to_ = 0;
  uint32_t stamp_ = 0;
  std::unique_ptr<FrameKey> key_;
  std::unique_ptr<Transport> victim_;
  std::unique_ptr<Port> port_;
  Recorder sink_;
};

TEST_P(OfiStrangers, WhatIsRightIsDeliveredOnceThoughItComesTwice) {
  const auto first = frame(0, "first");
  send(first);
  send(first);
  send(frame(1, "second"));
  send(first);
  EXPECT_TRUE(poll_until(*port_, sink_, [&] { return sink_.frames.size() == 2; }));
  for (int i = 0; i < 1000; ++i) port_->poll(sink_, 64);
  ASSERT_EQ(sink_.frames.size(), 2u);
  EXPECT_EQ(sink_.frames[0].head, "first");
  EXPECT_EQ(sink_.frames[1].head, "second");
  EXPECT_EQ(strays(), 0u);
  EXPECT_EQ(repeats(), 2u);
  EXPECT_TRUE(sink_.downs.empty());
}

TEST_P(OfiStrangers, WhatIsOfNobodyIsCountedAndDropped) {
  uint64_t count = 0;
  const auto stray = [&](const std::vector<std::byte>& bytes) {
    send(bytes);
    poll_until_strays(++count);
  };
  stray(std::vector<std::byte>(1));
  stray(std::vector<std::byte>(200));
  stray(frame(0, "x", [](WireHeader& h) { h.stamp ^= 1; }));
  stray(frame(0, "x", [](WireHeader& h) { h.source = 0; }));
  stray(frame(0, "x", [](WireHeader& h) { h.source = 2; }));
  stray(frame(0, "x", [](WireHeader& h) { h.port = 2; }));
  stray(frame(0, "x", [](WireHeader& h) { h.length = 2; }));
  stray(frame(0, "x", [](WireHeader& h) { h.kind = static_cast<WireKind>(9); }));
  send(frame(0, "good"));
  EXPECT_TRUE(poll_until(*port_, sink_, [&] { return sink_.frames.size() == 1; }));
  EXPECT_EQ(sink_.frames[0].head, "good");
  EXPECT_EQ(strays(), count);
  EXPECT_TRUE(sink_.downs.empty());
}

TEST_P(OfiStrangers, NoChangedBitIsBelievedWhereFramesAreTagged) {
  if (!GetParam()) GTEST_SKIP() << "frames have no tags";
  const auto good = frame(0, "good");
  uint64_t count = 0;
  for (std::size_t bit = 0; bit < 8 * good.size(); bit += 3) {
    auto bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    send(bad);
    ++count;
  }
  poll_until_strays(count);
  EXPECT_TRUE(sink_.frames.empty() && sink_.downs.empty());
  EXPECT_FALSE(job_->was_asked) << "strangers have the launcher asked";
  // Nor what was meant for somebody else.
  auto other = frame(0, "good");
  const auto tag = key_->tag({0, 1, 0, theirs_.salt},
                             std::span(other).first(other.size() - FrameKey::kTagBytes), {});
  std::copy(tag.begin(), tag.end(), other.end() - FrameKey::kTagBytes);
  send(other);
  poll_until_strays(count + 1);
  send(good);
  EXPECT_TRUE(poll_until(*port_, sink_, [&] { return sink_.frames.size() == 1; }));
}

TEST_P(OfiStrangers, WhatWasSentToAnEarlierTransportOfTheJobIsNotBelievedByTheNext) {
  if (!GetParam()) GTEST_SKIP() << "frames have no tags";
  const auto recorded = frame(0, "recorded");
  send(recorded);
  EXPECT_TRUE(poll_until(*port_, sink_, [&] { return sink_.frames.size() == 1; }));
  sink_ = Recorder();
  port_.reset();
  victim_.reset();
  start();
  send(recorded);
  poll_until_strays(1);
  EXPECT_TRUE(sink_.frames.empty() && sink_.downs.empty());
  send(frame(0, "new"));
  EXPECT_TRUE(poll_until(*port_, sink_, [&] { return sink_.frames.size() == 1; }));
  EXPECT_EQ(sink_.frames[0].head, "new");
}

// Else its heartbeats would stop, and others would take this rank for dead.
TEST_P(OfiStrangers, WhoKeepsTheTransportDoesNotWaitForTheLauncher) {
  job_->is_held = true;
  const auto& transport = dynamic_cast<ofi::OfiTransport&>(*victim_);
  // Nobody polls, and a frame of a rank comes that was not met.
  const auto bytes = frame(0, "hello");
  const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  fi_context2 context{};
  const auto progress = [&] {
    std::array<fi_cq_data_entry, 1> entry;
    return endpoint_->read(entry) == 1;
  };
  while (endpoint_->send(&piece, nullptr, 1, to_, ofi::Endpoint::kUntagged, context) != 0)
    (void)progress();
  while (!job_->was_asked) (void)progress();
  const uint64_t then = transport.awake_ns();
  while (transport.awake_ns() < then + 100'000'000)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  job_->is_held = false;
  job_->is_held.notify_all();
  EXPECT_TRUE(poll_until(*port_, sink_, [&] { return sink_.frames.size() == 1; }));
  EXPECT_EQ(sink_.frames[0].head, "hello");
}

/// Each makes sense by itself, and none with what went before: the peer is given up, by name.
TEST_P(OfiStrangers, APeerThatSendsNonsenseIsDown) {
  using Bytes = std::vector<std::byte>;
  const std::vector<std::pair<const char*, std::function<Bytes()>>> nonsense = {
      {"a number", [&] { return frame(100'000, "x"); }},
      {"acknowledges", [&] { return frame(0, "x", [](WireHeader& h) { h.ack = 1; }); }},
      {"more than",
       [&] {
         return frame(0, std::string(4, '\1'), [](WireHeader& h) { h.kind = WireKind::returns; });
       }},
      {"more than",  // a message with which packets come back that were not lent
       [&] { return frame(0, std::string(12, '\1'), [](WireHeader& h) { h.flags = 2; }); }},
      {"a report",
       [&] {
         return frame(0, std::string(sizeof(ofi::ReportBody), '\1'),
                      [](WireHeader& h) { h.kind = WireKind::report; });
       }},
  };
  for (const auto& [what, make] : nonsense) {
    if (victim_ == nullptr) SetUp();
    send(make());
    EXPECT_TRUE(poll_until(*port_, sink_, [&] { return !sink_.downs.empty(); })) << what;
    ASSERT_EQ(sink_.downs.size(), 1u) << what;
    EXPECT_EQ(sink_.downs[0].first, Rank{1});
    EXPECT_NE(sink_.downs[0].second.find("sent nonsense"), std::string::npos) << what;
    EXPECT_NE(sink_.downs[0].second.find("rank 1 (on nowhere"), std::string::npos) << what;
    EXPECT_NE(sink_.downs[0].second.find(what), std::string::npos) << sink_.downs[0].second;
    send(frame(0, "late"));
    send(frame(0, "on another lane", [](WireHeader& h) { h.port = 1; }));
    for (int i = 0; i < 1000; ++i) port_->poll(sink_, 64);
    EXPECT_TRUE(sink_.frames.empty());
    sink_ = Recorder();
    TearDown();
  }
}

/// Asks for what is not there, and for more than anybody waits for.
TEST_P(OfiStrangers, NobodyReadsWhatHeWasNotOfferedNorWithoutEnd) {
  if (GetParam()) GTEST_SKIP() << "nothing is read where frames have tags";
  TearDown();
  provider_ = kUnlayered;
  SetUp();
  const std::vector<std::byte> memory(16 << 20);  // more than lies in sockets
  ReadOffer offer = port_->offer(Rank{1}, memory);
  ASSERT_NE(offer.handle, nullptr);
  uint32_t count = 0;
  const auto ask = [&](uint64_t key, uint64_t offset, uint64_t bytes) {
    const ofi::ReadBody asked{key, offset, bytes, ++count};
    const std::string body(reinterpret_cast<const char*>(&asked), sizeof asked);
    send(frame(count - 1, body, [](WireHeader& h) { h.kind = WireKind::read; }));
  };
  /// The next word about reads that comes from there: of which it is.
  const auto unread = [&] {
    for (;;) {
      EXPECT_EQ(endpoint_->receive(buffer_, nullptr, ofi::Endpoint::kUntagged, in_), 0);
      std::array<fi_cq_data_entry, 1> entry{};
      if (!poll_until(*port_, sink_, [&] { return endpoint_->read(entry) == 1; }))
        return uint64_t{0};
      WireHeader header;
      std::memcpy(&header, buffer_.data(), sizeof header);
      uint64_t tag = 0;
      std::memcpy(&tag, buffer_.data() + sizeof header, sizeof tag);
      if (header.kind == WireKind::unread) return tag;
    }
  };
  ask(offer.key ^ 1, offer.address, 8);
  EXPECT_EQ(unread(), count) << "another key";
  ask(offer.key, memory.size(), 1);
  EXPECT_EQ(unread(), count) << "behind it";
  ask(offer.key, 8, ~uint64_t{0} - 4);
  EXPECT_EQ(unread(), count) << "more than there is";
  ask(offer.key, ~uint64_t{0} - 4, 8);
  EXPECT_EQ(unread(), count) << "far behind it";
  ask(ReadOffer::kNone, 0, 8);
  EXPECT_EQ(unread(), count) << "no key";
  port_->withdraw_offer(offer.handle, false);
  ask(offer.key, 0, 8);
  EXPECT_EQ(unread(), count) << "not any more";
  EXPECT_TRUE(sink_.downs.empty());

  offer = port_->offer(Rank{1}, memory);
  const uint32_t before = count;
  for (int i = 0; i < 40 && sink_.downs.empty(); ++i) ask(offer.key, 0, memory.size());
  EXPECT_TRUE(poll_until(*port_, sink_, [&] { return !sink_.downs.empty(); }));
  EXPECT_NE(sink_.downs.at(0).second.find("more than it may"), std::string::npos);
  EXPECT_GT(count, before + 32);
  port_->withdraw_offer(offer.handle, true);
}

/// He is told, time after time, if he says that he heard it. If not, then not for ever.
TEST_P(OfiStrangers, WhoAsksForWhatIsNotThereIsToldWhileHeListens) {
  if (GetParam()) GTEST_SKIP() << "who listens is one of those without tags";
  TearDown();
  provider_ = kUnlayered;
  SetUp();
  constexpr uint32_t kTimes = 100, kMost = 32;
  const auto ask = [&](uint32_t number, uint32_t heard) {
    const ofi::ReadBody asked{1, 2, 3, number};
    const std::string body(reinterpret_cast<const char*>(&asked), sizeof asked);
    send(frame(number, body, [&](WireHeader& h) {
      h.kind = WireKind::read;
      h.ack = heard;
    }));
  };
  uint32_t told = 0;
  const auto listen = [&] {
    std::array<fi_cq_data_entry, 1> entry{};
    if (!poll_until(*port_, sink_, [&] { return endpoint_->read(entry) == 1; })) return false;
    std::span<const std::byte> bytes = std::span(buffer_).first(entry[0].len);
    constexpr std::size_t kOne = sizeof(WireHeader) + sizeof(uint64_t);
    for (; bytes.size() >= kOne; bytes = bytes.subspan(kOne)) ++told;  // together, perhaps
    return true;
  };
  for (uint32_t number = 0; number < kTimes; ++number) {
    EXPECT_EQ(endpoint_->receive(buffer_, nullptr, ofi::Endpoint::kUntagged, in_), 0);
    ask(number, told);
    while (told <= number) ASSERT_TRUE(listen());
  }
  EXPECT_EQ(told, kTimes);
  for (uint32_t number = kTimes; number < 2 * kTimes; ++number) ask(number, kTimes);
  EXPECT_TRUE(sink_.downs.empty());
  // What it was not told it asks again.
  ask(kTimes + kMost, kTimes + 1);
  EXPECT_TRUE(sink_.downs.empty());
}

/// What rank 1 lends comes back with what is sent to it, or by itself when nothing is.
TEST_P(OfiStrangers, PacketsComeBackWithWhatIsSentAnyway) {
  if (GetParam()) GTEST_SKIP() << "who listens is one of those without tags";
  TearDown();
  provider_ = kUnlayered;
  packets_ = 64;  // of few each comes back at once
  SetUp();
  constexpr uint32_t kLentOne = 3, kLentBytes = 8;
  uint32_t lent = 0, heard = 0;
  const auto lend = [&] {
    const std::size_t had = sink_.frames.size();
    send(frame(lent++, "head and packet", [&](WireHeader& h) {
      h.kind = WireKind::packet;
      h.index = kLentOne;
      h.bytes = kLentBytes;
      h.length -= kLentBytes;
      h.ack = heard;
    }));
    EXPECT_TRUE(poll_until(*port_, sink_, [&] { return sink_.frames.size() > had; }));
    port_->give_back(sink_.frames.back().loan);
  };
  // The next frame that is no report: its kind, and how many packets come back with it.
  const auto hear = [&](bool polls) {
    EXPECT_EQ(endpoint_->receive(buffer_, nullptr, ofi::Endpoint::kUntagged, in_), 0);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < end) {
      std::array<fi_cq_data_entry, 1> entry{};
      if (polls) port_->poll(sink_, 64);
      if (endpoint_->read(entry) != 1 || (entry[0].flags & FI_RECV) == 0) {
        if (!polls) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the keeper's time
        continue;
      }
      const auto bytes = std::span<const std::byte>(buffer_).first(entry[0].len);
      const auto got = ofi::decode(bytes, {.stamp = stamp_,
                                           .ranks = 2,
                                           .self = 1,
                                           .most_length = 1024,
                                           .most_packet = 0,
                                           .packet_words = 0,
                                           .tag_bytes = 0});
      EXPECT_TRUE(got.has_value());
      if (!got) break;
      if (got->header.kind == WireKind::report) {
        EXPECT_EQ(endpoint_->receive(buffer_, nullptr, ofi::Endpoint::kUntagged, in_), 0);
        continue;
      }
      ++heard;
      EXPECT_EQ(got->bytes, bytes.size()) << "nothing else";
      for (std::size_t which = 0; which < got->return_count(); ++which)
        EXPECT_EQ(got->returned(which), kLentOne);
      if (got->header.kind == WireKind::message) {
        EXPECT_TRUE(std::ranges::equal(got->body, bytes_of("an answer")));
      }
      return std::pair(got->header.kind, got->return_count());
    }
    ADD_FAILURE() << "nothing comes";
    return std::pair(WireKind::leave, std::size_t{0});
  };
  using Heard = std::pair<WireKind, std::size_t>;
  const Heard with_answer{WireKind::message, 1}, alone{WireKind::returns, 1};
  bool came_along = false;
  for (int time = 0; time < 10 && !came_along; ++time) {
    lend();
    EXPECT_EQ(port_->try_send(Rank{1}, 0, bytes_of("an answer"), {}), Post::done);
    const Heard first = hear(false);
    came_along = first == with_answer;
    if (came_along) break;
    EXPECT_EQ(first, alone) << "the keeper was quicker";
    EXPECT_EQ(hear(false), Heard(WireKind::message, 0));
  }
  EXPECT_TRUE(came_along);
  lend();
  EXPECT_EQ(hear(true), alone) << "while it is polled";
  lend();
  EXPECT_EQ(hear(false), alone) << "by the keeper";
  lend();
  arm(*port_);
  EXPECT_EQ(hear(false), alone) << "before a sleep, or soon after by the keeper";
  port_->disarm();
  EXPECT_TRUE(sink_.downs.empty());
}

TEST_P(OfiStrangers, ADeathThatIsToldBeforeThePeerIsMetIsReportedWhenItIs) {
  victim_->peer_died(Rank{1}, "rank 1 was killed");
  port_->poll(sink_, 64);
  EXPECT_TRUE(sink_.downs.empty());
  EXPECT_EQ(port_->try_send(Rank{1}, 0, bytes_of("there?"), {}), Post::done);
  EXPECT_TRUE(poll_until(*port_, sink_, [&] { return !sink_.downs.empty(); }));
  EXPECT_EQ(sink_.downs[0].second, "rank 1 was killed");
}

/// More than the lane holds, though nothing was reported as consumed.
TEST_P(OfiStrangers, CreditIsNotExceeded) {
  sink_.hold = [](const Frame&) { return true; };
  const uint32_t cells = small_geometry().lane_cells;
  for (uint32_t i = 0; i <= cells; ++i) send(frame(i, "x"));
  EXPECT_TRUE(poll_until(*port_, sink_, [&] {
    sink_.hold = nullptr;
    return !sink_.downs.empty();
  }));
  EXPECT_EQ(sink_.frames.size(), cells);
}

/// At its end: rank 1's first message of it got lost, and each answer takes longer than the victim
/// waits at first.
TEST_P(OfiStrangers, WhatGotLostIsSentAgainAtTheEndOverALongWay) {
  constexpr auto kWay = std::chrono::milliseconds(50);
  ASSERT_EQ(port_->try_send(Rank{1}, 0, bytes_of("lost"), {}), Post::done);
  std::atomic<bool> is_over{false};
  std::thread end([&] {
    port_.reset();
    victim_.reset();
    is_over = true;
  });
  struct Answer {
    std::chrono::steady_clock::time_point due;
    ofi::ReportBody body;
    uint32_t ack;
  };
  std::deque<Answer> answers;
  uint32_t times = 0, ack = 0, reports = 0;
  const auto take = [&](std::span<const std::byte> bytes) {
    WireHeader header;
    while (bytes.size() >= sizeof header) {
      std::memcpy(&header, bytes.data(), sizeof header);
      const auto body = bytes.subspan(sizeof header, header.length);
      if (header.kind == WireKind::report && (header.flags & ofi::kAsks) != 0) {
        ofi::ReportBody asked;
        std::memcpy(&asked, body.data(), sizeof asked);
        answers.push_back(
            {std::chrono::steady_clock::now() + kWay, {0, 0, 0, asked.question}, ack});
      } else if (header.kind != WireKind::report) {
        times += header.sequence == 0 ? 1 : 0;
        if (times > 1 && header.sequence == ack) ++ack;
      }
      const std::size_t size =
          sizeof header + header.length + (GetParam() ? FrameKey::kTagBytes : 0) + header.bytes;
      bytes = bytes.subspan(std::min(size, bytes.size()));
    }
  };
  bool receives = false, sends = false;
  while (!is_over) {
    if (!receives)
      receives = endpoint_->receive(buffer_, nullptr, ofi::Endpoint::kUntagged, in_) == 0;
    if (!sends && !answers.empty() && std::chrono::steady_clock::now() >= answers.front().due) {
      const auto& [due, body, arrived] = answers.front();
      const auto text = std::as_bytes(std::span(&body, 1));
      report_ = frame(reports, text_of(text), [&, arrived = arrived](WireHeader& header) {
        header.kind = WireKind::report;
        header.flags = ofi::kAnswers;
        header.ack = arrived;
      });
      const iovec piece{report_.data(), report_.size()};
      sends = endpoint_->send(&piece, nullptr, 1, to_, ofi::Endpoint::kUntagged, out_) == 0;
      if (sends) {
        answers.pop_front();
        ++reports;
      }
    }
    std::array<fi_cq_data_entry, 1> entry;
    if (endpoint_->read(entry) != 1) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    } else if (entry[0].op_context == &out_) {
      sends = false;
    } else {
      receives = false;
      take(std::span(buffer_).first(entry[0].len));
    }
  }
  end.join();
  EXPECT_GT(times, 1u);
}

/// Of a port of this machine.
class Listener {
 public:
  Listener() {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    open();
    socklen_t size = sizeof address_;
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address_), &size);
  }
  ~Listener() { close(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  void open() {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int yes = 1;
    ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    ASSERT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&address_), sizeof address_), 0);
    ASSERT_EQ(::listen(socket_, 8), 0);
  }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  [[nodiscard]] std::span<const std::byte> address() const {
    return std::as_bytes(std::span(&address_, 1));
  }

 private:
  sockaddr_in address_{};
  int socket_ = -1;
};

TEST(ConnectProbe, SeveralRefusalsInARowAreADeathAndOneIsNot) {
  Listener listener;
  ofi::ConnectProbe probe;
  uint64_t now_ns = 1;
  // One knock, and until it is answered: nothing on this machine takes long.
  const auto knock = [&] {
    now_ns += 200'000'000;
    bool is_refused = probe.is_refused(listener.address(), now_ns);
    for (int look = 0; look < 20 && !is_refused; ++look) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      is_refused = probe.is_refused(listener.address(), now_ns);
    }
    return is_refused;
  };
  EXPECT_FALSE(knock());
  listener.close();
  EXPECT_FALSE(knock() || knock());
  listener.open();  // a firewall that was told anew, say
  EXPECT_FALSE(knock());
  listener.close();
  EXPECT_FALSE(knock() || knock());
  EXPECT_TRUE(knock());
  probe.forget();
  EXPECT_FALSE(knock() || knock());
  EXPECT_TRUE(knock());
}

INSTANTIATE_TEST_SUITE_P(Security, OfiStrangers, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "mac" : "plain"; });

}  // namespace
}  // namespace weft::fabric::test
