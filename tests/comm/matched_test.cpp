// Matched endpoints: every size class, both orders of arrival, both progress modes.
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "base/config_override.hpp"
#include "comm/ranks.hpp"
#include "weft/base/config.hpp"
#include "weft/comm/config.hpp"
#include "weft/fabric/config.hpp"

namespace weft {
namespace {

using test::bytes_of;
using test::on_ranks;
using test::on_threads;
using test::pattern;
using test::writable;

constexpr std::size_t kMatchedSizes[] = {0,    1,    8,     40,      41,           64,
                                         200,  232,  233,   1000,    1001,         4096,
                                         8192, 8193, 65536, 1 << 20, (3 << 20) + 7};

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
        for (const std::size_t size : kMatchedSizes) {
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
            for (const std::size_t size : kMatchedSizes) {
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
            for (const std::size_t size : kMatchedSizes) {
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

// Many small messages of one tag behind each other meet their receives together: as many as there
// are; the rest are unexpected, and order holds whatever comes between.
TEST_P(Matched, RunsOfOneTagMeetTheirReceivesInOrder) {
  constexpr uint32_t kMessages = 60;
  on_ranks(
      2,
      [](Runtime& rt) {
        Endpoint ep(rt, {});
        std::vector<uint32_t> in(kMessages);
        for (uint32_t posted = 0; posted <= kMessages; posted += 5) {
          for (const uint32_t odd : {0U, 1U, 7U}) {  // 0: one tag; else now and then another
            const auto tag_of = [odd](uint32_t i) {
              return Tag{odd != 0 && i % (odd + 1) == odd ? 2U : 1U};
            };
            CompletionQueue done(16);  // with less room than a run may need
            uint32_t told = 0;
            const auto check = [&](const Event& event) {
              EXPECT_EQ(event.error, Errc::ok);
              EXPECT_EQ(event.bytes, sizeof(uint32_t));
              const auto i = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(event.context));
              EXPECT_EQ(event.tag, tag_of(i));
              EXPECT_EQ(in[i], i * 3 + posted);
              ++told;
            };
            const auto receive = [&](uint32_t i) {
              Event now;
              const Post answer = until_posted(rt, [&] {
                return ep.recv(Rank{0}, tag_of(i), writable(in[i]), &done,
                               reinterpret_cast<void*>(uintptr_t{i}), &now);
              });
              if (answer == Post::done) check(now);
            };
            if (rt.rank() == Rank{1}) {
              for (uint32_t i = 0; i < posted; ++i) receive(i);
            }
            rt.barrier();
            if (rt.rank() == Rank{0}) {
              for (uint32_t i = 0; i < kMessages; ++i) {
                const uint32_t value = i * 3 + posted;
                (void)until_posted(rt,
                                   [&] { return ep.send(Rank{1}, tag_of(i), bytes_of(value)); });
              }
            } else {
              for (uint32_t i = posted; i < kMessages; ++i) receive(i);
              rt.wait_until([&] {
                for (Event event; done.pop(event);) check(event);
                return told == kMessages;
              });
            }
          }
        }
      },
      options_);
}

// With fewer records for unexpected messages than come, the rest of a run stays in the ring, in
// order, until there is room.
TEST_P(Matched, ARunThatFindsNoRoomStaysInTheRing) {
  constexpr uint32_t kMessages = 500;
  register_comm_config();
  base::set_config("comm.unexpected", "64");
  on_ranks(
      2,
      [](Runtime& rt) {
        Endpoint ep(rt, {});
        rt.barrier();
        if (rt.rank() == Rank{0}) {
          for (uint32_t i = 0; i < kMessages; ++i)
            (void)until_posted(rt, [&] { return ep.send(Rank{1}, Tag{1}, bytes_of(i)); });
          return;
        }
        for (int i = 0; i < 1000; ++i) {
          rt.progress();  // as many as there are records are taken
          if (i % 100 == 0) sched_yield();
        }
        for (uint32_t i = 0; i < kMessages; ++i) {
          uint32_t value = 0;
          EXPECT_EQ(ep.recv_wait(Rank{0}, Tag{1}, writable(value)).error, Errc::ok);
          ASSERT_EQ(value, i);
        }
      },
      options_);
  base::set_config("comm.unexpected", "16384");
}

/// The message was there before its receive.
TEST_P(Matched, AReceiveThatFailsAtOnceIsToldByItsCompletion) {
  on_ranks(
      2,
      [](Runtime& rt) {
        Endpoint ep(rt, {});
        const Rank other{1 - rt.rank().value};
        const auto out = pattern(100, 1);
        for (uint32_t tag = 1; tag <= 3; ++tag) ep.send_wait(other, Tag{tag}, out);
        ep.send_wait(other, Tag{4}, {});
        std::byte none[1];
        ASSERT_EQ(ep.recv_wait(other, Tag{4}, none).error, Errc::ok);  // all four are here

        std::array<std::byte, 10> small{};
        Synchronizer done;
        const Post answer =
            until_posted(rt, [&] { return ep.recv(other, Tag{1}, small, &done, small.data()); });
        ASSERT_EQ(answer, Post::posted);
        rt.wait(done);
        EXPECT_EQ(done.event().error, Errc::truncated);
        EXPECT_EQ(done.event().bytes, out.size());
        EXPECT_EQ(done.event().peer, other);
        EXPECT_EQ(done.event().tag, Tag{1});
        EXPECT_EQ(done.event().context, small.data());
        EXPECT_EQ(ep.recv_wait(other, Tag{2}, small).error, Errc::truncated);
        // Without a completion it cannot be told otherwise.
        Event now;
        ASSERT_EQ(
            until_posted(rt, [&] { return ep.recv(other, Tag{3}, small, nullptr, nullptr, &now); }),
            Post::done);
        EXPECT_EQ(now.error, Errc::truncated);
      },
      options_);
}

// In a run, too, a receive that is too small fails alone, and each completion is told its own.
TEST_P(Matched, ATruncatedOneInARunFailsAlone) {
  on_ranks(
      2,
      [](Runtime& rt) {
        Endpoint ep(rt, {});
        constexpr std::size_t kMany = 24;
        std::vector<uint64_t> in(kMany);
        std::vector<Synchronizer> done(kMany);
        Counter counted;
        if (rt.rank() == Rank{1}) {
          for (std::size_t i = 0; i < kMany; ++i) {
            Completion* completion = i % 2 == 0 ? static_cast<Completion*>(&counted) : &done[i];
            const std::size_t room = i % 5 == 4 ? 4 : 8;
            ASSERT_EQ(until_posted(rt,
                                   [&] {
                                     return ep.recv(Rank{0}, Tag{1}, writable(in[i]).first(room),
                                                    completion);
                                   }),
                      Post::posted);
          }
        }
        rt.barrier();
        if (rt.rank() == Rank{0}) {
          for (uint64_t i = 0; i < kMany; ++i)
            (void)until_posted(rt, [&] { return ep.send(Rank{1}, Tag{1}, bytes_of(i)); });
          return;
        }
        rt.wait_until([&] { return counted.value() == kMany / 2; });
        uint64_t truncated = 0;
        for (std::size_t i = 0; i < kMany; ++i) {
          const bool small = i % 5 == 4;
          if (i % 2 == 0) {
            truncated += small ? 1 : 0;
          } else {
            rt.wait(done[i]);
            EXPECT_EQ(done[i].event().error, small ? Errc::truncated : Errc::ok) << i;
            EXPECT_EQ(done[i].event().bytes, 8U);
          }
          if (!small) {
            EXPECT_EQ(in[i], i);
          }
        }
        EXPECT_EQ(counted.errors(), truncated);
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
        for (const std::size_t size : kMatchedSizes) {
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

TEST_P(Matched, AGivenBufferThatIsTooSmallIsNoWantOfMemory) {
  on_ranks(
      2,
      [](Runtime& rt) {
        Endpoint ep(rt, {.buffer = Buffer::allocated});
        for (const std::size_t size : {std::size_t{100}, std::size_t{100'000}}) {
          if (rt.rank() == Rank{0}) {
            EXPECT_EQ(ep.send_wait(Rank{1}, Tag{1}, pattern(size, 9)).error, Errc::ok);
          } else {
            std::byte small[8];
            EXPECT_EQ(ep.recv_wait(Rank{0}, Tag{1}, small).error, Errc::truncated) << size;
          }
        }
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

/// Up to it a message is on its way at once, receive or no receive; beyond, it waits for that.
TEST_P(Matched, ConfigurationSaysWhatIsSentEagerly) {
  register_comm_config();
  fabric::register_fabric_config();
  constexpr std::size_t kPacket = 8192, kFar = 5000;
  for (const std::size_t asked :
       {std::size_t{256}, std::size_t{1000}, std::size_t{6000}, 2 * kPacket}) {
    const test::ConfigOverride config({{"comm.eager_bytes", std::to_string(asked)},
                                       {"comm.network_eager_bytes", std::to_string(kFar)},
                                       {"fabric.packet_bytes", std::to_string(kPacket)}});
    const std::size_t near = std::min(asked, kPacket), far = std::max(near, kFar);
    on_ranks(2,
             [&](Runtime& rt) {
               EXPECT_EQ(rt.eager_bytes(), near);
               EXPECT_EQ(rt.eager_bytes(rt.rank()), near);
               const std::size_t eager = rt.eager_bytes(Rank{1 - rt.rank().value});
               const bool is_far = std::getenv("COMM_TEST_NODES") != nullptr;
               EXPECT_EQ(eager, is_far ? far : near);
               Endpoint ep(rt, {});
               const auto fits = pattern(eager, 1), does_not = pattern(eager + 1, 2);
               rt.barrier();
               if (rt.rank() == Rank{0}) {
                 Synchronizer done;
                 EXPECT_EQ(until_posted(rt, [&] { return ep.send(Rank{1}, Tag{1}, fits, &done); }),
                           Post::done);
                 EXPECT_EQ(
                     until_posted(rt, [&] { return ep.send(Rank{1}, Tag{2}, does_not, &done); }),
                     Post::posted);
                 rt.barrier();
                 rt.wait(done);
               } else {
                 rt.barrier();
                 std::vector<std::byte> first(eager), second(eager + 1);
                 EXPECT_EQ(ep.recv_wait(Rank{0}, Tag{2}, second).error, Errc::ok);
                 EXPECT_EQ(ep.recv_wait(Rank{0}, Tag{1}, first).error, Errc::ok);
                 EXPECT_EQ(first, fits);
                 EXPECT_EQ(second, does_not);
               }
               rt.barrier();
             },
             {.devices = 1, .progress = GetParam()});
  }
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
