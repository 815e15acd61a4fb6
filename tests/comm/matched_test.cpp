// Matched endpoints: every size class, both orders of arrival, both progress modes.
#include "comm/ranks.hpp"

namespace weft {
namespace {

using test::bytes_of;
using test::on_ranks;
using test::on_threads;
using test::pattern;
using test::writable;

constexpr std::size_t kSizes[] = {0,   1,    8,    40,   41,   64,    200,     232,
                                  233, 1000, 4096, 8192, 8193, 65536, 1 << 20, (3 << 20) + 7};

class Matched : public ::testing::TestWithParam<Progress> {
 protected:
  RuntimeOptions options_{.progress = GetParam()};
};

TEST_P(Matched, CarriesEverySizeBothWays) {
  on_ranks(
      2,
      [](Runtime& rt) {
        Endpoint ep(rt, {.arrival = Arrival::matched});
        const Rank other{1 - rt.rank().value};
        for (const std::size_t size : kSizes) {
          const auto out = pattern(size, static_cast<uint32_t>(size));
          std::vector<std::byte> in(size);
          Synchronizer sent;
          Synchronizer received;
          Event now;
          const Post r = until_posted(
              rt, [&] { return ep.recv(other, Tag{7}, in, &received, nullptr, &now); });
          const Post s = until_posted(rt, [&] { return ep.send(other, Tag{7}, out, &sent); });
          if (s == Post::posted) rt.wait(sent);
          if (r == Post::posted) {
            rt.wait(received);
            now = received.event();
          }
          EXPECT_EQ(now.error, Errc::ok) << size;
          EXPECT_EQ(now.bytes, size);
          EXPECT_EQ(now.peer, other);
          EXPECT_EQ(now.tag, Tag{7});
          EXPECT_TRUE(in == out) << size;
        }
      },
      options_);
}

TEST_P(Matched, KeepsUnexpectedMessagesInOrder) {
  on_ranks(
      2,
      [](Runtime& rt) {
        Endpoint ep(rt, {.arrival = Arrival::matched});
        if (rt.rank() == Rank{0}) {
          Counter sent;
          uint64_t posted = 0;
          std::vector<std::vector<std::byte>> lent;
          for (uint32_t i = 0; i < 3; ++i) {
            for (const std::size_t size : kSizes) {
              lent.push_back(pattern(size, i));
              if (until_posted(rt, [&] { return ep.send(Rank{1}, Tag{1}, lent.back(), &sent); }) ==
                  Post::posted) {
                ++posted;
              }
            }
          }
          rt.barrier();  // rank 1 has received nothing yet
          rt.wait_until([&] { return sent.value() == posted; });
          EXPECT_EQ(sent.errors(), 0U);
        } else {
          rt.barrier();
          for (uint32_t i = 0; i < 3; ++i) {
            for (const std::size_t size : kSizes) {
              std::vector<std::byte> in(size);
              const Event event = ep.recv_wait(Rank{0}, Tag{1}, in);
              EXPECT_EQ(event.bytes, size);
              EXPECT_TRUE(in == pattern(size, i));
            }
          }
        }
      },
      options_);
}

TEST_P(Matched, ReceivesByRankOnlyAndByTagOnly) {
  on_ranks(
      3,
      [](Runtime& rt) {
        Endpoint by_rank(rt, {.match_on = MatchOn::rank});
        Endpoint by_tag(rt, {.match_on = MatchOn::tag});
        const int me = rt.rank().value;
        if (me != 0) {
          by_rank.send_wait(Rank{0}, Tag{static_cast<uint32_t>(me * 10)}, bytes_of(me));
          by_tag.send_wait(Rank{0}, Tag{static_cast<uint32_t>(me * 10)}, bytes_of(me));
          return;
        }
        for (const int r : {2, 1}) {
          int value = 0;
          const Event event = by_rank.recv_wait(Rank{r}, Tag{999}, writable(value));
          EXPECT_EQ(value, r);
          EXPECT_EQ(event.tag, Tag{static_cast<uint32_t>(r * 10)});
        }
        for (const int r : {2, 1}) {
          int value = 0;
          const Event event =
              by_tag.recv_wait(kAnyRank, Tag{static_cast<uint32_t>(r * 10)}, writable(value));
          EXPECT_EQ(value, r);
          EXPECT_EQ(event.peer, Rank{r});
        }
      },
      options_);
}

TEST_P(Matched, TruncationIsTheReceiversErrorAndTheJobGoesOn) {
  on_ranks(
      2,
      [](Runtime& rt) {
        Endpoint ep(rt, {});
        const Rank other{1 - rt.rank().value};
        for (const std::size_t size : {std::size_t{100}, std::size_t{5000}, std::size_t{100000}}) {
          if (rt.rank() == Rank{0}) {
            const auto out = pattern(size, 1);
            EXPECT_EQ(ep.send_wait(other, Tag{1}, out).error, Errc::ok);
            EXPECT_EQ(ep.send_wait(other, Tag{2}, out).error, Errc::ok);
          } else {
            std::vector<std::byte> small(size - 1);
            const Event event = ep.recv_wait(other, Tag{1}, small);
            EXPECT_EQ(event.error, Errc::truncated);
            EXPECT_EQ(event.bytes, size);
            EXPECT_TRUE(small == std::vector<std::byte>(size - 1)) << "not silently cut";
            std::vector<std::byte> enough(size);
            EXPECT_EQ(ep.recv_wait(other, Tag{2}, enough).error, Errc::ok);
            EXPECT_TRUE(enough == pattern(size, 1));
          }
        }
      },
      options_);
}

TEST_P(Matched, GatheredPiecesArriveAsOneMessage) {
  on_ranks(
      2,
      [](Runtime& rt) {
        Endpoint ep(rt, {});
        for (const std::size_t size : {std::size_t{30}, std::size_t{3000}, std::size_t{300000}}) {
          const auto whole = pattern(size, 5);
          const std::span<const std::byte> all(whole);
          const std::span<const std::byte> pieces[] = {
              all.first(size / 3), {}, all.subspan(size / 3)};
          if (rt.rank() == Rank{0}) {
            Synchronizer sent;
            if (until_posted(rt, [&] {
                  return ep.send_gathered(Rank{1}, Tag{1}, pieces, &sent);
                }) == Post::posted) {
              rt.wait(sent);
            }
          } else {
            std::vector<std::byte> in(size);
            EXPECT_EQ(ep.recv_wait(Rank{0}, Tag{1}, in).error, Errc::ok);
            EXPECT_TRUE(in == whole);
          }
        }
      },
      options_);
}

TEST_P(Matched, CancelTakesBackAPostedReceiveOnly) {
  on_ranks(
      2,
      [](Runtime& rt) {
        Endpoint ep(rt, {});
        if (rt.rank() != Rank{0}) return;
        int first = 0;
        int second = 0;
        Synchronizer done(1);
        Synchronizer other(1);
        ASSERT_EQ(ep.recv(Rank{1}, Tag{1}, writable(first), &done, &first), Post::posted);
        ASSERT_EQ(ep.recv(Rank{1}, Tag{1}, writable(second), &other, &second), Post::posted);
        EXPECT_FALSE(ep.cancel(Rank{1}, Tag{2}, &first));
        EXPECT_TRUE(ep.cancel(Rank{1}, Tag{1}, &second));
        EXPECT_FALSE(ep.cancel(Rank{1}, Tag{1}, &second));
        rt.wait(other);
        EXPECT_EQ(other.event().error, Errc::cancelled);
        EXPECT_FALSE(done.ready());
        EXPECT_TRUE(ep.cancel(Rank{1}, Tag{1}, &first));
        rt.wait(done);
      },
      options_);
}

struct CountingAllocator final : Allocator {
  std::atomic<int> live{0};
  std::byte* allocate(std::size_t bytes) noexcept override {
    ++live;
    return heap_allocator().allocate(bytes);
  }
  void release(std::byte* memory, std::size_t bytes) noexcept override {
    --live;
    heap_allocator().release(memory, bytes);
  }
};

TEST_P(Matched, AllocatesOnArrivalAndTellsTheSize) {
  on_ranks(
      2,
      [](Runtime& rt) {
        CountingAllocator memory;
        Endpoint ep(rt, {.buffer = Buffer::allocated, .allocator = &memory});
        for (const std::size_t size : kSizes) {
          if (rt.rank() == Rank{0}) {
            EXPECT_EQ(ep.send_wait(Rank{1}, Tag{1}, pattern(size, 9)).error, Errc::ok);
          } else {
            const Event event = ep.recv_wait(Rank{0}, Tag{1}, {});
            ASSERT_EQ(event.error, Errc::ok);
            ASSERT_EQ(event.bytes, size);
            EXPECT_TRUE(std::vector<std::byte>(event.data, event.data + size) == pattern(size, 9));
            memory.release(event.data, size);
          }
        }
        EXPECT_EQ(memory.live, 0);
      },
      options_);
}

TEST_P(Matched, ManyThreadPairsTalkAtOnce) {
  constexpr int kThreads = 16;
  constexpr uint32_t kRounds = 200;
  on_ranks(
      2,
      [](Runtime& rt) {
        Endpoint ep(rt, {});
        const Rank other{1 - rt.rank().value};
        on_threads(kThreads, [&](int t) {
          const Tag tag{static_cast<uint32_t>(t)};
          for (uint32_t i = 0; i < kRounds; ++i) {
            const uint32_t value = i * 1000 + tag.value;
            uint32_t got = 0;
            if (rt.rank() == Rank{0}) {
              ep.send_wait(other, tag, bytes_of(value));
              ep.recv_wait(other, tag, writable(got));
            } else {
              ep.recv_wait(other, tag, writable(got));
              ep.send_wait(other, tag, bytes_of(value));
            }
            ASSERT_EQ(got, value);
          }
        });
      },
      options_);
}

TEST_P(Matched, RefusesBadArguments) {
  on_ranks(
      1,
      [](Runtime& rt) {
        Endpoint ep(rt, {});
        std::byte one{};
        EXPECT_THROW((void)ep.send(Rank{1}, Tag{0}, {&one, 1}), Error);
        EXPECT_THROW((void)ep.send(Rank{-1}, Tag{0}, {&one, 1}), Error);
        EXPECT_THROW((void)ep.recv(Rank{2}, Tag{0}, {&one, 1}), Error);
        EXPECT_THROW((void)ep.send(Rank{0}, Tag{0}, {static_cast<std::byte*>(nullptr), 5}), Error);
        EXPECT_THROW((void)ep.send(Rank{0}, Tag{0}, {static_cast<std::byte*>(nullptr), 5000}),
                     Error);
        EXPECT_THROW((void)ep.recv(Rank{0}, Tag{0}, {static_cast<std::byte*>(nullptr), 5}), Error);
        const std::span<const std::byte> pieces[] = {{&one, 1},
                                                     {static_cast<std::byte*>(nullptr), 5}};
        EXPECT_THROW((void)ep.send_gathered(Rank{0}, Tag{0}, pieces), Error);
        EXPECT_THROW(Region(rt, {static_cast<std::byte*>(nullptr), 5}), Error);
        Message message;
        EXPECT_THROW((void)ep.dequeue(message), Error);
        EXPECT_THROW(Endpoint(rt, {.arrival = Arrival::handler}), Error);
        EXPECT_THROW(Endpoint(rt, {.arrival = Arrival::queue, .match_on = MatchOn::tag}), Error);
        EXPECT_THROW(Endpoint(rt, {.arrival = Arrival::queue, .buffer = Buffer::explicit_}), Error);
        EXPECT_THROW(Endpoint(rt, {.arrival = Arrival::memory, .buffer = Buffer::allocated}),
                     Error);
        // What was refused left no trace: the endpoint still works, to this rank itself too.
        // Any 32 bits are a tag.
        for (const Tag tag : {Tag{0}, Tag{3}, Tag{~uint32_t{0}}}) {
          EXPECT_EQ(ep.send_wait(Rank{0}, tag, {&one, 1}).error, Errc::ok);
          EXPECT_EQ(ep.recv_wait(Rank{0}, tag, {&one, 1}).bytes, 1U);
        }
      },
      options_);
}

INSTANTIATE_TEST_SUITE_P(Modes, Matched,
                         ::testing::Values(Progress::waiters, Progress::server,
                                           Progress::explicit_),
                         [](const auto& mode) {
                           return std::string(mode.param == Progress::waiters  ? "waiters"
                                              : mode.param == Progress::server ? "server"
                                                                               : "explicit");
                         });

}  // namespace
}  // namespace weft
