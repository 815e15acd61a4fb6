// The ofi transport's decoder and its outbox: pure parts, by themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <random>
#include <vector>

#include "fabric/ofi/frame_key.hpp"
#include "fabric/ofi/outbox.hpp"
#include "fabric/ofi/wire.hpp"

namespace weft::fabric::ofi {
namespace {

constexpr WireLimits kLimits{.stamp = 0x5eed,
                             .ranks = 4,
                             .self = 1,
                             .most_length = 248,
                             .most_packet = 1024,
                             .packet_words = 8,
                             .tag_bytes = 0};

struct Made {
  WireHeader header{.stamp = kLimits.stamp,
                    .source = 2,
                    .sequence = 7,
                    .ack = 3,
                    .length = 0,
                    .index = 0,
                    .bytes = 0,
                    .port = 1,
                    .kind = WireKind::message,
                    .flags = 0};
  std::size_t rest = 0;  ///< bytes that really follow

  static Made of(WireKind kind, uint32_t length, uint32_t packet = 0) {
    Made made;
    made.header.kind = kind;
    made.header.length = length;
    made.header.bytes = packet;
    made.rest = std::size_t{length} + packet;
    return made;
  }
  /// The last of its bytes are numbers of packets that come back.
  [[nodiscard]] Made with(uint8_t numbers) const {
    Made made = *this;
    made.header.flags = numbers;
    return made;
  }
  [[nodiscard]] std::size_t numbers_bytes() const {
    if (header.kind == WireKind::returns) return header.length;
    return header.kind == WireKind::report ? 0 : header.flags * sizeof(uint32_t);
  }
  [[nodiscard]] std::size_t body_bytes() const {
    return header.kind == WireKind::returns ? header.length : header.length - numbers_bytes();
  }
  [[nodiscard]] std::vector<std::byte> bytes() const {
    std::vector<std::byte> all(sizeof header + rest);
    std::memcpy(all.data(), &header, sizeof header);
    for (std::size_t i = 0; i < rest; ++i) all[sizeof header + i] = static_cast<std::byte>(i);
    return all;
  }
  [[nodiscard]] bool passes() const { return decode(bytes(), kLimits).has_value(); }
};

std::vector<Made> good_ones() {
  return {Made::of(WireKind::message, 0),
          Made::of(WireKind::message, 248),
          Made::of(WireKind::control, 16),
          Made::of(WireKind::packet, 16, 1024),
          Made::of(WireKind::packet, 240, 0),
          Made::of(WireKind::message, 20).with(1),
          Made::of(WireKind::control, 32).with(8),
          Made::of(WireKind::packet, 24, 512).with(2),
          Made::of(WireKind::returns, 4),
          Made::of(WireKind::returns, 248),
          Made::of(WireKind::read, sizeof(ReadBody)),
          Made::of(WireKind::unread, sizeof(uint64_t)),
          Made::of(WireKind::leave, 0),
          Made::of(WireKind::report, sizeof(ReportBody))};
}

TEST(OfiWire, WhatIsRightPassesWithItsParts) {
  for (const Made& one : good_ones()) {
    const auto bytes = one.bytes();
    const auto frame = decode(bytes, kLimits);
    ASSERT_TRUE(frame.has_value()) << static_cast<int>(one.header.kind);
    EXPECT_EQ(frame->body.size(), one.body_bytes());
    EXPECT_EQ(frame->packet.size(), one.header.bytes);
    EXPECT_EQ(frame->body.data(), bytes.data() + sizeof(WireHeader));
    ASSERT_EQ(frame->returns.size(), one.numbers_bytes());
    EXPECT_EQ(frame->returns.data() + frame->returns.size(),
              bytes.data() + sizeof(WireHeader) + one.header.length);
    EXPECT_EQ(frame->header.ack, 3u);
  }
}

TEST(OfiWire, WhatIsOfAnotherJobOrRankIsNot) {
  for (const Made& one : good_ones()) {
    Made other = one;
    other.header.stamp ^= 1;
    EXPECT_FALSE(other.passes());
    other = one;
    other.header.source = kLimits.ranks;
    EXPECT_FALSE(other.passes());
    other.header.source = kLimits.self;
    EXPECT_FALSE(other.passes());
  }
}

TEST(OfiWire, EveryLengthIsChecked) {
  for (const Made& one : good_ones()) {
    const auto whole = one.bytes();
    for (std::size_t less = 0; less < whole.size(); ++less)
      EXPECT_FALSE(decode(std::span(whole).first(less), kLimits)) << less;
    auto longer = whole;
    longer.push_back({});  // of the next one
    ASSERT_TRUE(decode(longer, kLimits).has_value());
    EXPECT_EQ(decode(longer, kLimits)->bytes, whole.size());
  }
  EXPECT_FALSE(Made::of(WireKind::message, 249).passes());
  EXPECT_FALSE(Made::of(WireKind::control, 249).passes());
  EXPECT_FALSE(Made::of(WireKind::packet, 241, 8).passes());  // its words do not fit any more
  EXPECT_FALSE(Made::of(WireKind::packet, 16, 1025).passes());
  EXPECT_FALSE(Made::of(WireKind::returns, 0).passes());
  EXPECT_FALSE(Made::of(WireKind::returns, 6).passes());
  EXPECT_FALSE(Made::of(WireKind::returns, 252).passes());
  EXPECT_FALSE(Made::of(WireKind::read, sizeof(ReadBody) - 1).passes());
  EXPECT_FALSE(Made::of(WireKind::unread, 16).passes());
  EXPECT_FALSE(Made::of(WireKind::leave, 4).passes());
  EXPECT_FALSE(Made::of(WireKind::report, 16).passes());
  // Lengths whose sum wraps.
  Made one = Made::of(WireKind::packet, 16, 0);
  one.header.length = 0xffffffff;
  one.header.bytes = 17;
  EXPECT_FALSE(one.passes());
}

TEST(OfiWire, FieldsThatAKindDoesNotHaveAreNothing) {
  Made one = Made::of(WireKind::message, 16, 8);
  EXPECT_FALSE(one.passes());
  one = Made::of(WireKind::message, 16);
  one.header.index = 1;
  EXPECT_FALSE(one.passes());
  EXPECT_FALSE(Made::of(WireKind::message, 16).with(5).passes());
  EXPECT_FALSE(Made::of(WireKind::packet, 16, 32).with(5).passes());
  EXPECT_FALSE(Made::of(WireKind::message, 248).with(kMostAlong + 1).passes());
  EXPECT_FALSE(Made::of(WireKind::returns, 16).with(1).passes());
  EXPECT_FALSE(Made::of(WireKind::read, sizeof(ReadBody)).with(1).passes());
  EXPECT_FALSE(Made::of(WireKind::leave, 0).with(1).passes());
  one = Made::of(WireKind::report, sizeof(ReportBody));
  one.header.flags = kAsks | kAnswers;
  EXPECT_TRUE(one.passes());
  one.header.flags = 4;
  EXPECT_FALSE(one.passes());
  for (int kind : {0, 9, 255}) {
    one = Made::of(static_cast<WireKind>(kind), 0);
    EXPECT_FALSE(one.passes());
  }
}

TEST(OfiWire, ATagLiesBetweenBodyAndPacket) {
  WireLimits limits = kLimits;
  limits.tag_bytes = FrameKey::kTagBytes;
  const FrameKey key("a secret"), other("another");
  for (const Made& one : good_ones()) {
    auto bytes = one.bytes();
    EXPECT_FALSE(decode(bytes, limits));
    const std::size_t head = sizeof(WireHeader) + one.header.length;
    const auto whole = std::span<const std::byte>(bytes);
    const auto tag = key.tag({1, 0, 7, {}}, whole.first(head), whole.subspan(head));
    bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(head), tag.begin(), tag.end());
    const auto frame = decode(bytes, limits);
    ASSERT_TRUE(frame.has_value());
    EXPECT_EQ(frame->body.size(), one.body_bytes());
    EXPECT_EQ(frame->packet.size(), one.header.bytes);
    EXPECT_TRUE(FrameKey::is_same(key.tag({1, 0, 7, {}}, frame->head, frame->packet), frame->tag));
    EXPECT_FALSE(
        FrameKey::is_same(other.tag({1, 0, 7, {}}, frame->head, frame->packet), frame->tag));
    EXPECT_FALSE(FrameKey::is_same(key.tag({2, 0, 7, {}}, frame->head, frame->packet), frame->tag));
    EXPECT_FALSE(FrameKey::is_same(key.tag({1, 1, 7, {}}, frame->head, frame->packet), frame->tag));
    EXPECT_FALSE(FrameKey::is_same(
        key.tag({1, 0, 7 + (uint64_t{1} << 32)}, frame->head, frame->packet), frame->tag));
    EXPECT_FALSE(FrameKey::is_same(
        key.tag({1, 0, 7, FrameKey::fresh_salt()}, frame->head, frame->packet), frame->tag));
    EXPECT_FALSE(FrameKey::is_same(tag, frame->tag.first(8)));
    EXPECT_FALSE(decode(std::span(bytes).first(bytes.size() - 1), limits));
  }
}

TEST(OfiWire, NoiseNeverReachesBeyondItsBytes) {
  std::minstd_rand random(1);
  const auto good = good_ones();
  for (int round = 0; round < 200'000; ++round) {
    auto bytes = good[random() % good.size()].bytes();
    for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips)
      bytes[random() % std::min<std::size_t>(bytes.size(), 48)] ^=
          static_cast<std::byte>(1u << random() % 8);
    const auto frame = decode(bytes, kLimits);
    if (!frame) continue;
    ASSERT_LE(frame->body.size(), kLimits.most_length);
    ASSERT_LE(frame->packet.size(), kLimits.most_packet);
    const std::size_t numbers = frame->header.kind == WireKind::returns ? 0 : frame->returns.size();
    ASSERT_EQ(sizeof(WireHeader) + frame->body.size() + numbers + frame->packet.size(),
              frame->bytes);
    ASSERT_LE(frame->bytes, bytes.size());
  }
}

/// The outbox against a list: what a connection does, at random.
TEST(OfiOutbox, EveryFrameIsThereUntilItHasArrivedAndNoLonger) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    std::minstd_rand random(seed);
    const auto below = [&](uint32_t most) { return static_cast<uint32_t>(random() % most); };
    FramePool pool(64);
    Outbox outbox;
    std::deque<OutFrame*> kept;       // model: numbers acknowledged … appended
    std::vector<OutFrame*> provider;  // in its hands
    uint32_t appended = 0, arrived = 0, freed = 0, given = 0, next_given = 0, copies = 0;
    const auto free = [&](OutFrame& frame) {
      ASSERT_FALSE(frame.under_way);
      ++freed;
      pool.give(frame);
    };
    for (int i = 0; i < 2000; ++i) switch (random() % 7) {
        case 0: {
          OutFrame* const frame = pool.take();
          ASSERT_NE(frame, nullptr);
          frame->under_way = frame->kept = false;
          outbox.append(*frame);
          ASSERT_EQ(frame->header().sequence, appended++);
          kept.push_back(frame);
          break;
        }
        case 1:
        case 2:
          if (OutFrame* const next = outbox.next()) {
            ASSERT_FALSE(next->under_way);
            ASSERT_EQ(next->header().sequence, next_given);
            ASSERT_EQ(outbox.first_unsent(), next_given++);
            next->under_way = true;
            provider.push_back(next);
            outbox.advance(1);
            given = std::max(given, next_given);
          }
          break;
        case 6: {  // others stand for those that the provider does not let go of
          ASSERT_EQ(outbox.is_held(),
                    next_given < appended && kept[next_given - arrived]->under_way);
          uint32_t expected = 0;
          for (uint32_t n = next_given; n < appended; ++n)
            expected += kept[n - arrived]->under_way ? 1 : 0;
          const uint32_t before = copies;
          outbox.replace_held([&](OutFrame& held) {
            OutFrame* const copy = pool.take();
            copy->under_way = false;
            copy->header() = held.header();
            kept[held.number - arrived] = copy;
            ++copies;
            return copy;
          });
          ASSERT_EQ(copies - before, expected);
          break;
        }
        case 3:
          if (!provider.empty()) {  // one ends, in any order
            std::swap(provider[random() % provider.size()], provider.back());
            OutFrame& ended = *provider.back();
            provider.pop_back();
            ended.under_way = false;
            if (!ended.kept) free(ended);
          }
          break;
        case 4: {
          const uint32_t number = arrived + below(given - arrived + 1);
          ASSERT_TRUE(outbox.may_acknowledge(number));
          outbox.acknowledge(number, free);
          for (; arrived < number; ++arrived) kept.pop_front();
          next_given = std::max(next_given, arrived);
          outbox.acknowledge(arrived - below(3), free);  // a late one
          break;
        }
        default:
          if (random() % 8 == 0) {
            outbox.rewind();
            next_given = arrived;
          }
      }
    ASSERT_EQ(outbox.acknowledged(), arrived);
    ASSERT_EQ(outbox.is_empty(), kept.empty());
    ASSERT_FALSE(outbox.may_acknowledge(appended + 1));
    std::size_t at = 0;
    outbox.for_each([&](OutFrame& frame) { ASSERT_EQ(&frame, kept[at++]); });
    ASSERT_EQ(at, kept.size());
    outbox.clear(free);
    EXPECT_TRUE(outbox.is_empty() && !outbox.has_unsent());
    for (OutFrame* const one : provider) {
      one->under_way = false;
      if (!one->kept) free(*one);
    }
    EXPECT_EQ(freed, appended + copies);
  }
}

}  // namespace
}  // namespace weft::fabric::ofi
