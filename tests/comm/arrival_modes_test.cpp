// Queue, handler and memory endpoints, completions of many operations, and endpoints made late.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/config_override.hpp"
#include "base/stress.hpp"
#include "comm/ranks.hpp"
#include "weft/comm/config.hpp"

namespace weft {
namespace {

// A handler may answer through its endpoint as soon as a message can reach it: while the endpoint's
// constructor has not returned yet.
TEST(Handler, AnswersThroughAnEndpointThatIsBeingMade) {
  struct Server {
    std::atomic<int> got{0};
    Endpoint endpoint;
    explicit Server(Runtime& rt)
        : endpoint(rt, {.arrival = Arrival::handler, .handler = &on, .handler_argument = this}) {}
    static void on(void* server, const Incoming& message) {
      auto& self = *static_cast<Server*>(server);
      EXPECT_EQ(message.data.size(), sizeof(int));
      if (message.tag == Tag{1}) (void)self.endpoint.send(message.source, Tag{2}, message.data);
      ++self.got;
    }
  };
  test::on_ranks(2,
                 [](Runtime& rt) {
                   for (int i = 0; i < 150; ++i) {
                     Server server(rt);
                     if (rt.rank() == Rank{1}) {
                       (void)until_posted(rt, [&] {
                         return server.endpoint.send(Rank{0}, Tag{1}, test::bytes_of(i));
                       });
                     }
                     while (server.got == 0) std::this_thread::yield();
                     rt.barrier();
                   }
                 },
                 {.devices = 1, .progress = Progress::server});
}

using test::bytes_of;
using test::on_ranks;
using test::on_threads;
using test::pattern;
using test::writable;

constexpr std::size_t kSizesOfModes[] = {0,    1,    8,    40,   41,   64,     232,    233,
                                         1000, 1001, 5000, 8192, 8193, 100000, 2 << 20};

// --- Queue ---------------------------------------------------------------------------------------

TEST(Queue, HandsOutMessagesOfEverySize) {
  on_ranks(2, [](Runtime& rt) {
    Endpoint ep(rt, {.arrival = Arrival::queue});
    if (rt.rank() == Rank{0}) {
      for (uint32_t i = 0; i < 10; ++i) {
        for (const std::size_t size : kSizesOfModes) {
          const auto out = pattern(size, i);
          EXPECT_EQ(ep.send_wait(Rank{1}, Tag{i}, out).error, Errc::ok);
        }
      }
      return;
    }
    for (uint32_t i = 0; i < 10; ++i) {
      for (const std::size_t size : kSizesOfModes) {
        const Message message = ep.dequeue_wait();
        ASSERT_EQ(message.bytes(), size);
        EXPECT_EQ(message.tag(), Tag{i});
        EXPECT_EQ(message.source(), Rank{0});
        const auto data = message.data();
        EXPECT_TRUE(std::vector<std::byte>(data.begin(), data.end()) == pattern(size, i));
      }
    }
  });
}

TEST(Queue, ManyThreadsTakeEachMessageOnce) {
  constexpr uint32_t kSenders = 8;
  constexpr uint32_t kEach = 2000;
  on_ranks(2, [](Runtime& rt) {
    Endpoint ep(rt, {.arrival = Arrival::queue, .queue_capacity = 64});
    if (rt.rank() == Rank{0}) {
      on_threads(kSenders, [&](int t) {
        for (uint32_t i = 0; i < kEach; ++i) {
          const uint32_t value = static_cast<uint32_t>(t) * kEach + i;
          ep.send_wait(Rank{1}, Tag{1}, bytes_of(value));
        }
      });
      for (int t = 0; t < 8; ++t) ep.send_wait(Rank{1}, Tag{0}, {});  // one end for each taker
      return;
    }
    std::vector<std::atomic<int>> seen(kSenders * kEach);
    on_threads(8, [&](int) {
      for (;;) {
        const Message message = ep.dequeue_wait();
        if (message.tag() == Tag{0}) return;
        uint32_t value = 0;
        std::memcpy(&value, message.data().data(), sizeof value);
        ++seen[value];
      }
    });
    for (const auto& count : seen) EXPECT_EQ(count, 1);
  });
}

TEST(Queue, FloodAgainstASleeperIsBoundedAndLosesNothing) {
  on_ranks(2, [](Runtime& rt) {
    Endpoint ep(rt, {.arrival = Arrival::queue, .queue_capacity = 128});
    constexpr uint32_t kMessages = 20000;
    if (rt.rank() == Rank{0}) {
      uint32_t refused = 0;
      for (uint32_t i = 0; i < kMessages; ++i) {
        const auto out = pattern(i % 2 == 0 ? 16 : 2000, i);
        while (ep.send(Rank{1}, Tag{i}, out) == Post::retry) {
          ++refused;
          rt.relax();
        }
      }
      EXPECT_GT(refused, 0U) << "a sender that runs ahead must be told retry";
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      for (uint32_t i = 0; i < kMessages; ++i) {
        const Message message = ep.dequeue_wait();
        ASSERT_EQ(message.tag(), Tag{i});
        ASSERT_EQ(message.bytes(), i % 2 == 0 ? 16U : 2000U);
      }
    }
  });
}

// --- Handler -------------------------------------------------------------------------------------

struct Seen {
  std::atomic<int> messages{0};
  std::atomic<bool> wrong{false};
};

TEST(HandlerArrival, RunsForEverySizeOnce) {
  on_ranks(2, [](Runtime& rt) {
    Seen seen;
    Endpoint ep(rt, {.arrival = Arrival::handler,
                     .handler =
                         [](void* argument, const Incoming& message) {
                           auto& mine = *static_cast<Seen*>(argument);
                           const auto want = pattern(message.data.size(), message.tag.value);
                           if (message.error != Errc::ok ||
                               !std::equal(want.begin(), want.end(), message.data.begin())) {
                             mine.wrong = true;
                           }
                           ++mine.messages;
                         },
                     .handler_argument = &seen});
    const Rank other{1 - rt.rank().value};
    uint32_t tag = 0;
    for (const std::size_t size : kSizesOfModes) {
      ++tag;
      EXPECT_EQ(ep.send_wait(other, Tag{tag}, pattern(size, tag)).error, Errc::ok);
    }
    rt.wait_until([&] { return seen.messages == static_cast<int>(std::size(kSizesOfModes)); });
    EXPECT_FALSE(seen.wrong);
  });
}

TEST(HandlerArrival, MayAnswerFromTheHandler) {
  struct Game {
    Endpoint* ep = nullptr;
    std::atomic<int> left{1000};
  };
  on_ranks(2, [](Runtime& rt) {
    Game game;
    Endpoint ep(rt, {.arrival = Arrival::handler,
                     .handler =
                         [](void* argument, const Incoming& message) {
                           auto& mine = *static_cast<Game*>(argument);
                           if (--mine.left > 0) {
                             EXPECT_EQ(mine.ep->send(message.source, message.tag, message.data),
                                       Post::done);
                           } else if (mine.left == 0 && message.source == Rank{0}) {
                             (void)mine.ep->send(message.source, message.tag, message.data);
                           }
                         },
                     .handler_argument = &game});
    game.ep = &ep;
    rt.barrier();
    if (rt.rank() == Rank{0}) ep.send_wait(Rank{1}, Tag{1}, bytes_of(7));
    rt.wait_until([&] { return game.left <= 0; });
    rt.barrier();
  });
}

// --- Completions -------------------------------------------------------------------------------

TEST(Completions, QueueTellsEachReceiveWithItsContext) {
  on_ranks(2, [](Runtime& rt) {
    constexpr uint32_t kCount = 500;
    CompletionQueue queue(16);  // far smaller than what completes: events wait, none is lost
    Endpoint ep(rt, {.at_target = &queue});
    std::vector<uint32_t> values(kCount);
    if (rt.rank() == Rank{0}) {
      for (uint32_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(
            until_posted(
                rt,
                [&] { return ep.recv(Rank{1}, Tag{i}, writable(values[i]), nullptr, &values[i]); }),
            Post::posted);
      }
      rt.barrier();
      rt.barrier();  // all are sent; some 480 events found no room yet
      uint32_t told = 0;
      Event event;
      rt.wait_until([&] {
        while (queue.pop(event)) {
          const auto index =
              static_cast<std::size_t>(static_cast<uint32_t*>(event.context) - values.data());
          EXPECT_EQ(event.tag, Tag{static_cast<uint32_t>(index)});
          EXPECT_EQ(values[index], index * 3);
          ++told;
        }
        return told == kCount;
      });
    } else {
      rt.barrier();
      for (uint32_t i = 0; i < kCount; ++i) ep.send_wait(Rank{0}, Tag{i}, bytes_of(i * 3));
      rt.barrier();
    }
  });
}

TEST(Completions, OneSynchronizerForManyReceives) {
  on_ranks(2, [](Runtime& rt) {
    Endpoint ep(rt, {});
    constexpr uint32_t kCount = 300;
    if (rt.rank() == Rank{0}) {
      std::vector<uint64_t> in(kCount);
      Synchronizer all(kCount);
      uint32_t at_once = 0;
      for (uint32_t i = 0; i < kCount; ++i) {
        if (until_posted(rt, [&] { return ep.recv(Rank{1}, Tag{i}, writable(in[i]), &all); }) ==
            Post::done) {
          ++at_once;
        }
      }
      all.arrive(at_once);
      rt.wait(all);
      for (uint64_t i = 0; i < kCount; ++i) EXPECT_EQ(in[i], i * i);
    } else {
      for (uint64_t i = kCount; i-- > 0;) {
        ep.send_wait(Rank{0}, Tag{static_cast<uint32_t>(i)}, bytes_of(i * i));
      }
    }
  });
}

// --- Memory ------------------------------------------------------------------------------------

class Memory : public ::testing::TestWithParam<bool> {};

TEST_P(Memory, PutsAndGetsAllSizes) {
  const bool shared = GetParam();
  on_ranks(2, [shared](Runtime& rt) {
    CompletionQueue signals;
    Endpoint ep(rt, {.arrival = Arrival::memory, .at_target = &signals});
    Endpoint talk(rt, {});
    constexpr std::size_t kBytes = 3 << 20;
    std::vector<std::byte> own(shared ? 0 : kBytes);
    const std::span<std::byte> memory = shared ? rt.allocate_shared(kBytes) : std::span(own);
    {
      Region region(rt, memory);
      fabric::MemoryKey theirs;
      const Rank other{1 - rt.rank().value};
      talk.send_wait(other, Tag{0}, bytes_of(region.key()));
      talk.recv_wait(other, Tag{0}, writable(theirs));
      for (const std::size_t size : kSizesOfModes) {
        const auto out = pattern(size, 11 + static_cast<uint32_t>(rt.rank().value));
        Synchronizer done;
        const Post answer =
            until_posted(rt, [&] { return ep.put_signal(theirs, 64, out, Tag{5}, &done); });
        if (answer == Post::posted) {
          rt.wait(done);
          EXPECT_EQ(done.event().error, Errc::ok);
        }
        Event signal;
        rt.wait_until([&] { return signals.pop(signal); });
        EXPECT_EQ(signal.peer, other);
        EXPECT_EQ(signal.tag, Tag{5});
        const auto want = pattern(size, 11 + static_cast<uint32_t>(other.value));
        EXPECT_TRUE(std::equal(want.begin(), want.end(), memory.begin() + 64)) << size;
        std::vector<std::byte> back(size);
        EXPECT_EQ(ep.get_wait(theirs, 64, back).error, Errc::ok);
        EXPECT_TRUE(back == out) << size;
        rt.barrier();
      }
      std::byte one{};
      EXPECT_THROW((void)ep.put(theirs, kBytes, {&one, 1}), Error);
      EXPECT_THROW((void)ep.get(theirs, kBytes + 1, {}), Error);
      rt.barrier();
    }
    if (shared) rt.release_shared(memory);
  });
}

TEST_P(Memory, RefusesNullBuffersWithALength) {
  const bool shared = GetParam();
  on_ranks(1, [shared](Runtime& rt) {
    CompletionQueue signals;
    Endpoint ep(rt, {.arrival = Arrival::memory, .at_target = &signals});
    std::vector<std::byte> own(shared ? 0 : 8000);
    const std::span<std::byte> memory = shared ? rt.allocate_shared(8000) : std::span(own);
    {
      const Region region(rt, memory);
      const fabric::MemoryKey& key = region.key();
      Counter told;
      const auto refused = [](auto call) {
        try {
          (void)call();
          ADD_FAILURE() << "taken";
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Errc::bad_argument);
          EXPECT_NE(std::string(error.what()).find("null buffer"), std::string::npos);
        }
      };
      for (const std::size_t size : {std::size_t{1}, std::size_t{8}, std::size_t{5000}}) {
        const std::span<std::byte> null(static_cast<std::byte*>(nullptr), size);
        refused([&] { return ep.put(key, 0, null, &told); });
        refused([&] { return ep.put_signal(key, 0, null, Tag{1}, &told); });
        refused([&] { return ep.get(key, 0, null, &told); });
        refused([&] { return ep.put_wait(key, 0, null).error; });
        refused([&] { return ep.get_wait(key, 0, null).error; });
      }
      // What was refused did nothing. Nothing at all may come from nowhere.
      EXPECT_EQ(ep.put_wait(key, 0, {}).error, Errc::ok);
      EXPECT_EQ(ep.get_wait(key, 0, {}).error, Errc::ok);
      Event signal;
      EXPECT_FALSE(signals.pop(signal));
      EXPECT_EQ(told.value(), 0U);
    }
    if (shared) rt.release_shared(memory);
  });
}

TEST_P(Memory, AWithdrawnKeyIsAnErrorAndTheJobGoesOn) {
  const bool shared = GetParam();
  on_ranks(2, [shared](Runtime& rt) {
    Endpoint ep(rt, {.arrival = Arrival::memory});
    Endpoint talk(rt, {});
    constexpr std::size_t kBytes = 1 << 20;
    std::vector<std::byte> own(shared ? 0 : kBytes);
    const std::span<std::byte> memory = shared ? rt.allocate_shared(kBytes) : std::span(own);
    if (rt.rank() == Rank{0}) {
      {
        Region region(rt, memory);
        talk.send_wait(Rank{1}, Tag{0}, bytes_of(region.key()));
        rt.barrier();
      }
      rt.barrier();
      rt.barrier();
    } else {
      fabric::MemoryKey key;
      talk.recv_wait(Rank{0}, Tag{0}, writable(key));
      const auto out = pattern(kBytes, 3);
      EXPECT_EQ(ep.put_wait(key, 0, out).error, Errc::ok);
      rt.barrier();
      rt.barrier();  // withdrawn now
      std::vector<std::byte> in(kBytes);
      for (const std::size_t size : {std::size_t{8}, std::size_t{4000}, kBytes}) {
        EXPECT_EQ(ep.put_wait(key, 0, std::span(out).first(size)).error, Errc::bad_key) << size;
        EXPECT_EQ(ep.get_wait(key, 0, std::span(in).first(size)).error, Errc::bad_key) << size;
      }
      rt.barrier();
    }
    if (shared) rt.release_shared(memory);
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, Memory, ::testing::Bool(), [](const auto& kind) {
  return std::string(kind.param ? "shared" : "ordinary");
});

// --- Endpoints and order -----------------------------------------------------------------------

TEST(Endpoints, MessagesForALaterEndpointWaitAndBlockNobody) {
  on_ranks(2, [](Runtime& rt) {
    std::vector<std::byte> in(5000);
    if (rt.rank() == Rank{0}) {
      Endpoint matched(rt, {});
      Endpoint queue(rt, {.arrival = Arrival::queue});
      for (uint32_t i = 0; i < 20; ++i) {
        queue.send_wait(Rank{1}, Tag{i}, pattern(i * 30, i));
        matched.send_wait(Rank{1}, Tag{1}, pattern(i * 200, i));
      }
      rt.barrier();  // goes through although rank 1 has made neither yet
      rt.barrier();
    } else {
      rt.barrier();
      Endpoint matched(rt, {});
      for (uint32_t i = 0; i < 20; ++i) {
        EXPECT_EQ(matched.recv_wait(Rank{0}, Tag{1}, in).bytes, i * 200);
      }
      Endpoint queue(rt, {.arrival = Arrival::queue, .queue_capacity = 4});
      for (uint32_t i = 0; i < 20; ++i) {
        const Message message = queue.dequeue_wait();
        EXPECT_EQ(message.tag(), Tag{i});
        EXPECT_EQ(message.bytes(), i * 30);
      }
      rt.barrier();
    }
  });
}

TEST(Endpoints, EndedWithThingsPendingGiveEverythingBack) {
  on_ranks(2, [](Runtime& rt) {
    {
      Endpoint matched(rt, {});
      Endpoint queue(rt, {.arrival = Arrival::queue});
      const Rank other{1 - rt.rank().value};
      for (const std::size_t size : {std::size_t{8}, std::size_t{100}, std::size_t{8000}}) {
        matched.send_wait(other, Tag{1}, pattern(size, 1));
        queue.send_wait(other, Tag{1}, pattern(size, 1));
      }
      int unmet = 0;
      Counter cancelled;
      EXPECT_EQ(matched.recv(other, Tag{99}, writable(unmet), &cancelled), Post::posted);
      rt.barrier();
      EXPECT_TRUE(matched.cancel(other, Tag{99}, nullptr));
      rt.wait_until([&] { return cancelled.errors() == 1; });
    }
    rt.barrier();
    // All packets are home again: as many large eager messages as there are packets go through.
    Endpoint again(rt, {});
    const Rank other{1 - rt.rank().value};
    std::vector<std::byte> in(8000);
    for (int i = 0; i < 3000; ++i) {
      if (rt.rank() == Rank{0}) {
        again.send_wait(other, Tag{1}, pattern(8000, 2));
      } else {
        EXPECT_EQ(again.recv_wait(other, Tag{1}, in).bytes, 8000U);
      }
    }
  });
}

TEST(RuntimeTest, ManyDevicesServeManyThreads) {
  for (const uint32_t devices : {1U, 2U, 7U, 63U}) {
    for (const Assignment assignment : {Assignment::dedicated, Assignment::round_robin}) {
      on_ranks(2,
               [](Runtime& rt) {
                 Endpoint ep(rt, {});
                 const Rank other{1 - rt.rank().value};
                 on_threads(32, [&](int t) {
                   const Tag tag{static_cast<uint32_t>(t)};
                   for (uint32_t i = 0; i < 30; ++i) {
                     uint32_t got = 0;
                     if (rt.rank() == Rank{0}) {
                       ep.send_wait(other, tag, bytes_of(i));
                       ep.recv_wait(other, tag, writable(got));
                     } else {
                       ep.recv_wait(other, tag, writable(got));
                       ep.send_wait(other, tag, bytes_of(i));
                     }
                     ASSERT_EQ(got, i);
                   }
                 });
               },
               {.devices = devices, .assignment = assignment});
    }
  }
}

TEST(RuntimeTest, ServesThousandsOfShortLivedThreads) {
  on_ranks(2, [](Runtime& rt) {
    Endpoint ep(rt, {});
    const Rank other{1 - rt.rank().value};
    for (uint32_t round = 0; round < 625 / test::kLess; ++round) {
      on_threads(8, [&](int t) {
        const Tag tag{round * 8 + static_cast<uint32_t>(t)};
        const auto out = pattern(3000, tag.value);
        if (rt.rank() == Rank{0}) {
          ep.send_wait(other, tag, out);
        } else {
          std::vector<std::byte> in(3000);
          EXPECT_EQ(ep.recv_wait(other, tag, in).error, Errc::ok);
          EXPECT_TRUE(in == out);
        }
      });
    }
  });
}

// Threads post receives and end; others, later, serve them. What an ended thread held (its number
// and with it a device, its records) is used again.
TEST(RuntimeTest, EndedThreadsLeaveTheirReceivesToOthers) {
  RuntimeOptions options;
  options.devices = 4;
  on_ranks(
      2,
      [](Runtime& rt) {
        constexpr int kThreads = 250;
        constexpr uint32_t kRounds = 4;
        Endpoint ep(rt, {});
        const Rank other{1 - rt.rank().value};
        for (uint32_t round = 0; round < kRounds; ++round) {
          std::vector<uint64_t> in(kThreads);
          std::vector<Counter> done(kThreads);
          for (int first = 0; first < kThreads; first += 10) {
            on_threads(10, [&](int t) {
              const auto i = static_cast<uint32_t>(first + t);
              const Post posted = ep.recv(other, Tag{i}, writable(in[i]), &done[i]);
              EXPECT_NE(posted, Post::retry);
              if (posted == Post::done) (void)done[i].try_complete({});
            });
          }
          for (int first = 0; first < kThreads; first += 10) {
            on_threads(10, [&](int t) {
              const auto tag = static_cast<uint32_t>(first + t);
              const uint64_t word = round * 1000 + tag;
              EXPECT_EQ(ep.send_wait(other, Tag{tag}, bytes_of(word)).error, Errc::ok);
            });
          }
          rt.wait_until([&] {
            return std::all_of(done.begin(), done.end(),
                               [](const Counter& each) { return each.value() == 1; });
          });
          for (std::size_t i = 0; i < kThreads; ++i) EXPECT_EQ(in[i], round * 1000 + i);
          rt.barrier();
        }
      },
      options);
}

// However many large transfers are under way, one poll copies one chunk before it looks at the
// rings again: counted in polls, not in time.
TEST(RuntimeTest, LargeTransfersLetSmallMessagesPass) {
  static constexpr std::size_t kLarge = 4 << 20;
  static constexpr uint32_t kTransfers = 16;
  // The receiver alone: it does not wait for a sender either, who might help.
  register_comm_config();
  const test::ConfigOverride config(test::ConfigOverride::List{{"comm.share_bytes", "1G"}});
  RuntimeOptions options;
  options.progress = Progress::explicit_;
  std::atomic<bool> polled{false};
  on_ranks(
      2,
      [&](Runtime& rt) {
        Endpoint ep(rt, {});
        const Tag go{kTransfers};
        int word = 0;
        Counter done;
        if (rt.rank() == Rank{0}) {
          const auto data = pattern(kLarge, 3);
          for (uint32_t i = 0; i < kTransfers; ++i) {
            EXPECT_EQ(ep.send(Rank{1}, Tag{i}, data, &done), Post::posted);
          }
          ep.send_wait(Rank{1}, go, bytes_of(word));
          polled.wait(false);  // a sender that is there would copy parts itself
          rt.wait_until([&] { return done.value() == kTransfers; });
          return;
        }
        ep.recv_wait(Rank{0}, go, writable(word));  // behind the announcements
        std::vector<std::byte> memory(kLarge * kTransfers);
        for (uint32_t i = 0; i < kTransfers; ++i) {
          const auto place = std::span(memory).subspan(i * kLarge, kLarge);
          EXPECT_EQ(ep.recv(Rank{0}, Tag{i}, place, &done), Post::posted);
        }
        // A transfer's share of as many polls is one chunk of its sixteen.
        for (uint32_t i = 0; i < kTransfers; ++i) EXPECT_NE(rt.progress(), 0U);
        EXPECT_EQ(done.value(), 0U);
        polled = true;
        polled.notify_one();
        rt.wait_until([&] { return done.value() == kTransfers; });
        EXPECT_EQ(done.errors(), 0U);
        const auto expected = pattern(kLarge, 3);
        for (uint32_t i = 0; i < kTransfers; ++i) {
          EXPECT_EQ(std::memcmp(memory.data() + i * kLarge, expected.data(), kLarge), 0);
        }
      },
      options);
}

TEST(RuntimeTest, EndsWithWorkPending) {
  ::testing::internal::CaptureStderr();
  static int never[2];
  Counter received;
  Counter sent;
  on_ranks(2, [&](Runtime& rt) {
    Endpoint ep(rt, {});
    if (rt.rank() == Rank{0}) {
      (void)until_posted(rt,
                         [&] { return ep.recv(Rank{1}, Tag{1}, writable(never[0]), &received); });
    } else {
      ep.send_wait(Rank{0}, Tag{2}, pattern(4000, 1));
      static const auto large = pattern(100'000, 2);
      Endpoint alone(rt, {});  // which rank 0 never makes
      (void)until_posted(rt, [&] { return alone.send(Rank{0}, Tag{3}, large, &sent); });
    }
    rt.barrier();
  });
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("ended with work pending: 1 operations under way"), std::string::npos)
      << said;
  EXPECT_EQ(received.value(), received.errors()) << "a receive that met nothing went well";
  EXPECT_EQ(sent.value(), 0U);
}

// Every combination either works or is refused with a sentence.
TEST(EndpointTest, TakesOrRefusesEveryCombination) {
  on_ranks(1, [](Runtime& rt) {
    int refused = 0;
    for (const Arrival arrival :
         {Arrival::matched, Arrival::queue, Arrival::handler, Arrival::memory}) {
      for (const Buffer buffer :
           {Buffer::bound, Buffer::inlined, Buffer::explicit_, Buffer::allocated}) {
        for (const MatchOn on : {MatchOn::rank_and_tag, MatchOn::rank, MatchOn::tag}) {
          const bool matched = arrival == Arrival::matched;
          const bool sense = (matched || on == MatchOn::rank_and_tag) &&
                             (buffer == Buffer::bound || matched ||
                              (arrival == Arrival::memory ? buffer == Buffer::explicit_
                                                          : buffer == Buffer::inlined));
          static std::atomic<int> handled;
          handled = 0;
          EndpointSpec spec{.arrival = arrival, .match_on = on, .buffer = buffer};
          spec.device = &rt.device(0);
          if (arrival == Arrival::handler) {
            spec.handler = [](void*, const Incoming&) { ++handled; };
          }
          if (!sense) {
            ++refused;
            try {
              Endpoint ep(rt, spec);
              ADD_FAILURE() << "taken";
            } catch (const Error& error) {
              EXPECT_EQ(error.code(), Errc::bad_argument);
              EXPECT_GT(std::string(error.what()).size(), 20U);
            }
            continue;
          }
          Endpoint ep(rt, spec);
          const auto data = pattern(24, 7);
          if (arrival == Arrival::memory) {
            std::vector<std::byte> target(24);
            const Region region(rt, target);
            EXPECT_EQ(ep.put_wait(region.key(), 0, data).error, Errc::ok);
            EXPECT_TRUE(target == data);
            continue;
          }
          EXPECT_EQ(ep.send_wait(Rank{0}, Tag{5}, data).error, Errc::ok);
          if (matched) {
            std::vector<std::byte> in(24);
            const Event event = ep.recv_wait(Rank{0}, Tag{5}, in);
            EXPECT_EQ(event.bytes, 24U);
            EXPECT_TRUE(in == data);
          } else if (arrival == Arrival::queue) {
            EXPECT_EQ(ep.dequeue_wait().bytes(), 24U);
          } else {
            rt.wait_until([&] { return handled == 1; });
          }
          if (buffer == Buffer::inlined) {
            EXPECT_THROW((void)ep.send(Rank{0}, Tag{5}, pattern(5000, 1)), Error);
          }
        }
      }
    }
    EXPECT_EQ(refused, 48 - 12 - 2 - 2 - 2) << "all of matched, and two of each other make sense";
  });
}

}  // namespace
}  // namespace weft
