// Ranks out of operation records: what they owe each other goes on, whoever waits for whom. What
// fails here hangs until the watchdog comes.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/config_override.hpp"
#include "base/stress.hpp"
#include "comm/ranks.hpp"
#include "weft/base/clock.hpp"
#include "weft/comm/config.hpp"
#include "weft/fabric/config.hpp"
#include "weft/fabric/job.hpp"

namespace weft {
namespace {

using test::bytes_of;
using test::keys_of_all;
using test::on_ranks;
using test::on_threads;
using test::pattern;
using test::writable;

constexpr std::size_t kLarge = 100'000;

RuntimeOptions few_records(uint32_t devices = 1) {
  RuntimeOptions options;
  options.operations = 64;
  options.devices = devices;
  return options;
}

/// Where memory can be read, and where large ones come in packets, behind what may be held.
class Exhaustion : public ::testing::TestWithParam<const char*> {
 protected:
  static test::ConfigOverride config() {
    register_comm_config();
    fabric::register_fabric_config();
    return test::ConfigOverride(test::ConfigOverride::List{{"fabric.cma", GetParam()}});
  }
};
INSTANTIATE_TEST_SUITE_P(ReadsOrPackets, Exhaustion, ::testing::Values("auto", "off"),
                         [](const auto& way) { return std::string(way.param); });

/// Posts `count` times `call(i, done)` as soon as there is room, and waits for all.
template <class Call>
void post_all(Runtime& rt, uint64_t count, Call call) {
  Counter done;
  uint64_t posted = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (until_posted(rt, [&] { return call(i, done); }) == Post::posted) ++posted;
  }
  rt.wait_until([&] { return done.value() == posted; });
  EXPECT_EQ(done.errors(), 0U);
}

// A rank whose records are all receives answers a put that comes before their messages.
TEST_P(Exhaustion, PutsAndGetsAreServedWhereAllRecordsAreReceives) {
  const auto config = Exhaustion::config();
  on_ranks(
      2,
      [](Runtime& rt) {
        std::vector<std::byte> memory(kLarge);
        const Region region(rt, memory);
        const auto keys = keys_of_all(rt, region);
        Endpoint remote(rt, {.arrival = Arrival::memory});
        Endpoint letters(rt, {});
        if (rt.rank() == Rank{0}) {
          std::vector<int> in(1000);
          Counter got;
          uint64_t posted = 0;
          while (letters.recv(Rank{1}, Tag{0}, writable(in[posted]), &got) == Post::posted)
            ++posted;
          letters.send_wait(Rank{1}, Tag{1}, {});  // a barrier would need records
          rt.wait_until([&] { return got.value() == posted; });
          EXPECT_TRUE(memory == pattern(kLarge, 1));
          return;
        }
        letters.recv_wait(Rank{0}, Tag{1}, {});
        const auto out = pattern(kLarge, 1);
        std::vector<std::byte> in(kLarge);
        EXPECT_EQ(remote.put_wait(keys[0], 0, std::span(out).first(8)).error, Errc::ok);
        EXPECT_EQ(remote.put_wait(keys[0], 0, out).error, Errc::ok);
        EXPECT_EQ(remote.get_wait(keys[0], 0, in).error, Errc::ok);
        EXPECT_TRUE(in == out);
        for (int i = 0; i < 64; ++i) letters.send_wait(Rank{0}, Tag{0}, bytes_of(i));
      },
      few_records());
}

// What a receive waits for needs no record of those that keep what nobody waits for.
TEST_P(Exhaustion, LargeMessagesAreReceivedWhereAllRecordsAreUnexpected) {
  const auto config = Exhaustion::config();
  const test::ConfigOverride few(test::ConfigOverride::List{{"comm.unexpected", "64"}});
  on_ranks(2,
           [](Runtime& rt) {
             Endpoint letters(rt, {});
             const auto large = pattern(kLarge, 3);
             if (rt.rank() == Rank{1}) {
               for (int i = 0; i < 64; ++i) letters.send_wait(Rank{0}, Tag{0}, bytes_of(i));
               EXPECT_EQ(letters.send_wait(Rank{0}, Tag{1}, large).error, Errc::ok);
               return;
             }
             std::vector<std::byte> in(kLarge);
             EXPECT_EQ(letters.recv_wait(Rank{1}, Tag{1}, in).error, Errc::ok);
             EXPECT_TRUE(in == large);
             for (int i = 0, got = -1; i < 64; ++i) {
               letters.recv_wait(Rank{1}, Tag{0}, writable(got));
               EXPECT_EQ(got, i);
             }
           },
           {.devices = 1});
}

// Of ranks with unlike numbers of devices none asks for more than the other has records for.
TEST_P(Exhaustion, RanksWithUnlikeDevicesPutAsMuchAsTheyLike) {
  const auto config = Exhaustion::config();
  auto jobs = fabric::make_local_job(2);
  on_threads(2, [&](int rank) {
    const uint32_t devices = rank == 0 ? 8 : 1;
    Runtime rt({.devices = devices, .job = jobs[static_cast<std::size_t>(rank)].get()});
    std::vector<std::byte> memory(kLarge);
    const Region region(rt, memory);
    const auto keys = keys_of_all(rt, region);
    Endpoint remote(rt, {.arrival = Arrival::memory});
    rt.barrier();
    if (rank == 0) {
      const auto out = pattern(kLarge, 1);
      Counter done;
      uint64_t posted = 0;
      // As many over each device as go without a look at what came.
      for (uint32_t device = 0; device < devices; ++device) {
        rt.use_device(device);
        for (int i = 0, vain = 0; i < 1024 && vain < 1000;) {
          if (remote.put(keys[1], 0, out, &done) == Post::retry) {
            ++vain;
            std::this_thread::yield();
          } else {
            ++posted, ++i, vain = 0;
          }
        }
      }
      rt.wait_until([&] { return done.value() == posted; });
      EXPECT_EQ(done.errors(), 0U);
    }
    rt.barrier();
    if (rank == 1) {
      EXPECT_TRUE(memory == pattern(kLarge, 1));
    }
  });
}

// The same of a large message that waits in a queue, with the receives' messages behind it.
TEST_P(Exhaustion, QueuesAreTakenFromWhereAllRecordsAreReceives) {
  const auto config = Exhaustion::config();
  on_ranks(
      2,
      [](Runtime& rt) {
        Endpoint queue(rt, {.arrival = Arrival::queue});
        Endpoint letters(rt, {});
        if (rt.rank() == Rank{0}) {
          std::vector<int> in(1000);
          Counter got;
          uint64_t posted = 0;
          while (letters.recv(Rank{1}, Tag{0}, writable(in[posted]), &got) == Post::posted)
            ++posted;
          letters.send_wait(Rank{1}, Tag{1}, {});  // a barrier would need records
          EXPECT_EQ(queue.dequeue_wait().data().size(), kLarge);
          rt.wait_until([&] { return got.value() == posted; });
          return;
        }
        letters.recv_wait(Rank{0}, Tag{1}, {});
        EXPECT_EQ(queue.send_wait(Rank{0}, Tag{0}, pattern(kLarge, 1)).error, Errc::ok);
        for (int i = 0; i < 64; ++i) letters.send_wait(Rank{0}, Tag{0}, bytes_of(i));
      },
      few_records());
}

// A small message that is here already needs no record of those that wait: it is received in order.
TEST_P(Exhaustion, WhatIsHereIsReceivedWhereAllRecordsAreReceives) {
  const auto config = Exhaustion::config();
  on_ranks(
      2,
      [](Runtime& rt) {
        Endpoint letters(rt, {});
        if (rt.rank() == Rank{0}) {
          for (int i = 0; i < 3; ++i) letters.send_wait(Rank{1}, Tag{7}, bytes_of(i));
          const auto large = pattern(kLarge, 2);
          Synchronizer sent;
          ASSERT_EQ(until_posted(rt, [&] { return letters.send(Rank{1}, Tag{7}, large, &sent); }),
                    Post::posted);
          letters.send_wait(Rank{1}, Tag{8}, {});
          rt.wait(sent);
          EXPECT_EQ(sent.event().error, Errc::ok);
          letters.recv_wait(Rank{1}, Tag{9}, {});
          for (int i = 0; i < 64; ++i) letters.send_wait(Rank{1}, Tag{0}, bytes_of(i));
          return;
        }
        letters.recv_wait(Rank{0}, Tag{8}, {});  // what was sent before is here
        std::vector<int> in(1000);
        Counter got;
        uint64_t posted = 0;
        while (letters.recv(Rank{0}, Tag{0}, writable(in[posted]), &got) == Post::posted) ++posted;
        for (int i = 0; i < 3; ++i) {
          int came = -1;
          EXPECT_EQ(letters.recv(Rank{0}, Tag{7}, writable(came)), Post::done) << i;
          EXPECT_EQ(came, i);
        }
        std::vector<std::byte> large(kLarge);
        EXPECT_EQ(letters.recv_wait(Rank{0}, Tag{7}, large).error, Errc::ok);
        EXPECT_TRUE(large == pattern(kLarge, 2));
        int nothing = 0;
        EXPECT_EQ(letters.recv(Rank{0}, Tag{7}, writable(nothing)), Post::retry);
        letters.send_wait(Rank{0}, Tag{9}, {});
        rt.wait_until([&] { return got.value() == posted; });
      },
      few_records());
}

// Deferred work that is refused defers itself again, for 20 ms: there is progress in
// between, without which it would go on for ever, and nobody sleeps over it, though nothing else
// happens.
TEST_P(Exhaustion, DeferredWorkMayTryAgainAndAgain) {
  struct Again final : Deferred {
    Again(Runtime& runtime, Synchronizer& over, const std::atomic<int>& came)
        : rt(runtime), done(over), arrived(came) {}
    void run() noexcept override {
      if (base::now_ns() >= until && arrived.load() != 0)
        done.arrive();
      else
        rt.defer(*this);
    }
    Runtime& rt;
    Synchronizer& done;
    const std::atomic<int>& arrived;
    const uint64_t until = base::now_ns() + 20'000'000;  // longer than anybody polls
  };
  for (const Progress mode :
       {Progress::waiters, Progress::server, Progress::explicit_, Progress::workers}) {
    on_ranks(1,
             [](Runtime& rt) {
               std::atomic<int> arrived{0};
               Endpoint letters(rt, {.arrival = Arrival::handler,
                                     .handler =
                                         [](void* argument, const Incoming&) {
                                           ++*static_cast<std::atomic<int>*>(argument);
                                         },
                                     .handler_argument = &arrived});
               for (const bool slept : {false, true}) {
                 arrived = 0;
                 Synchronizer done;
                 Again again(rt, done, arrived);
                 // Others sleep already, or are about to.
                 if (slept) std::this_thread::sleep_for(std::chrono::milliseconds(5));
                 letters.send_wait(Rank{0}, Tag{0}, {});  // handled by whoever progresses
                 rt.defer(again);
                 rt.run_deferred();
                 rt.wait(done);
               }
             },
             {.progress = mode});
  }
}

// All ask each other for more than anybody has records, and answer out of the same table.
TEST_P(Exhaustion, AllPutToEachOther) {
  const auto config = Exhaustion::config();
  for (const std::size_t bytes : {std::size_t{8}, kLarge}) {
    for (const uint32_t devices : {1U, 2U}) {
      on_ranks(
          3,
          [&](Runtime& rt) {
            std::vector<std::byte> memory(3 * kLarge);  // a part for each that puts
            const Region region(rt, memory);
            const auto keys = keys_of_all(rt, region);
            const auto me = static_cast<uint64_t>(rt.rank().value);
            Counter told;
            Endpoint remote(rt, {.arrival = Arrival::memory, .at_target = &told});
            const auto out = pattern(bytes, 1);
            const uint64_t count = (bytes == kLarge ? 500 : 5000) / test::kLess;
            post_all(rt, count, [&](uint64_t i, Counter& done) {
              const auto& to = keys[(me + 1 + i % 2) % 3];
              return i % 3 == 0 ? remote.put_signal(to, me * kLarge, out, Tag{1}, &done)
                                : remote.put(to, me * kLarge, out, &done);
            });
            rt.barrier();
            rt.wait_until([&] { return told.value() == (count + 2) / 3; });
            for (const uint64_t from : {(me + 1) % 3, (me + 2) % 3})
              EXPECT_EQ(std::memcmp(memory.data() + from * kLarge, out.data(), bytes), 0);
          },
          few_records(devices));
    }
  }
}

TEST_P(Exhaustion, AllGetFromEachOther) {
  const auto config = Exhaustion::config();
  for (const std::size_t bytes : {std::size_t{8}, kLarge}) {
    on_ranks(
        3,
        [&](Runtime& rt) {
          auto memory = pattern(kLarge, 1);
          const Region region(rt, memory);
          const auto keys = keys_of_all(rt, region);
          Endpoint remote(rt, {.arrival = Arrival::memory});
          std::vector<std::byte> in[2];  // from each
          for (auto& each : in) each.resize(bytes);
          post_all(
              rt, (bytes == kLarge ? 500 : 5000) / test::kLess, [&](uint64_t i, Counter& done) {
                const auto& from = keys[(static_cast<uint64_t>(rt.rank().value) + 1 + i % 2) % 3];
                return remote.get(from, 0, in[i % 2], &done);
              });
          for (const auto& each : in) EXPECT_EQ(std::memcmp(memory.data(), each.data(), bytes), 0);
          rt.barrier();
        },
        few_records());
  }
}

TEST_P(Exhaustion, AllSendLargeMessagesToHandlers) {
  const auto config = Exhaustion::config();
  for (const uint32_t devices : {1U, 2U}) {
    on_ranks(
        3,
        [](Runtime& rt) {
          struct Seen {
            std::atomic<uint64_t> messages{0};
            std::atomic<uint64_t> wrong{0};
            std::vector<std::byte> expected = pattern(kLarge, 1);
          } seen;
          Endpoint handled(rt, {.arrival = Arrival::handler,
                                .handler =
                                    [](void* argument, const Incoming& message) {
                                      auto& my = *static_cast<Seen*>(argument);
                                      if (!std::ranges::equal(message.data, my.expected))
                                        ++my.wrong;
                                      ++my.messages;
                                    },
                                .handler_argument = &seen});
          post_all(rt, 600 / test::kLess, [&](uint64_t i, Counter& done) {
            const int to = (rt.rank().value + 1 + static_cast<int>(i % 2)) % 3;
            return handled.send(Rank{to}, Tag{0}, seen.expected, &done);
          });
          rt.wait_until([&] { return seen.messages == 600 / test::kLess; });
          EXPECT_EQ(seen.wrong, 0U);
          rt.barrier();
        },
        few_records(devices));
  }
}

// As many as a peer has records for, and again as many when these are over.
TEST(Requests, AreAllowedAgainWhenTheyAreOver) {
  on_ranks(2, [](Runtime& rt) {
    std::vector<std::byte> memory(64);
    const Region region(rt, memory);
    const auto keys = keys_of_all(rt, region);
    Endpoint remote(rt, {.arrival = Arrival::memory});
    if (rt.rank() == Rank{0}) {
      const auto out = pattern(64, 1);
      for (int round = 0; round < 3; ++round) {
        Counter done;
        uint64_t posted = 0;
        // Nothing ends meanwhile: this rank does not progress. A transport that stands still for a
        // while may refuse all of 4,000.
        const uint64_t late = base::now_ns() + 60'000'000'000;
        for (int i = 0; i < 4000 || (posted < 16 && base::now_ns() < late); ++i) {
          if (remote.put(keys[1], 0, out, &done) == Post::posted) ++posted;
        }
        EXPECT_GE(posted, 16U);
        EXPECT_LE(posted, 1024U);
        rt.wait_until([&] { return done.value() == posted; });
        EXPECT_EQ(done.errors(), 0U);
      }
    }
    rt.barrier();
  });
}

/// Rank 0 sends `count` puts with a signal; then rank 1 makes their endpoint, with a queue for
/// four, and has `take(runtime, queue)` see to all of them. With each way to progress.
template <class Take>
void with_early_signals(uint64_t count, Take take) {
  for (const Progress mode : {Progress::server, Progress::waiters, Progress::workers}) {
    RuntimeOptions options;
    options.progress = mode;
    std::atomic<bool> sent{false};
    on_ranks(
        2,
        [&](Runtime& rt) {
          std::vector<std::byte> memory(8);
          const Region region(rt, memory);
          const auto keys = keys_of_all(rt, region);
          if (rt.rank() == Rank{0}) {
            Endpoint remote(rt, {.arrival = Arrival::memory});
            const auto out = pattern(8, 1);
            post_all(rt, count, [&](uint64_t i, Counter& done) {
              const Post answer = remote.put_signal(keys[1], 0, out, Tag{1}, &done);
              if (i + 1 == count && answer != Post::retry) sent = true;
              return answer;
            });
            return;
          }
          while (!sent) std::this_thread::yield();
          for (int look = 0; look < 100; ++look) {
            if (mode != Progress::server) rt.progress();
            std::this_thread::sleep_for(std::chrono::microseconds(200));
          }
          CompletionQueue signals(4);
          const Endpoint remote(rt, {.arrival = Arrival::memory, .at_target = &signals});
          take(rt, signals);
        },
        options);
  }
}

// What came before its endpoint was made, and finds no room there, is not forgotten: as the
// program makes room it comes, whoever progresses.
TEST(Early, SignalsBeyondTheQueueComeAsItEmpties) {
  with_early_signals(10, [](Runtime& rt, CompletionQueue& signals) {
    std::atomic<int> popped{0};
    const std::jthread popper([&] {
      Event event;
      while (popped != 10) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (signals.pop(event)) ++popped;
      }
    });
    // What is served last, when there is room for the tenth, is told of when five are counted.
    rt.wait_until([&] { return popped.load() >= 5; });
    while (popped.load() != 10) rt.progress();
  });
}

// One more than there is room for, of which nothing else reminds the server: it sleeps.
TEST(Early, TheFirstSignalBeyondTheQueueIsNotForgotten) {
  with_early_signals(5, [](Runtime& rt, CompletionQueue& signals) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (int taken = 0; taken < 5; ++taken) (void)rt.pop_wait(signals);
  });
}

/// What waits for a queue that is not made yet and for receives that are not posted, of bytes that
/// fit neither a record nor a queue's entry: a few times as many as there are packets.
constexpr uint32_t kFewPackets = 16;
constexpr int kShort = 3 * kFewPackets;
constexpr std::size_t kShortBytes = 100;

test::ConfigOverride few_packets() {
  fabric::register_fabric_config();
  return test::ConfigOverride(
      test::ConfigOverride::List{{"fabric.packets", std::to_string(kFewPackets)}});
}

// Taken once it is made; from a queue one by one, by receives in the other order.
TEST(KeptMessages, WhatCameBeforeItsEndpointIsDeliveredHoweverFewPacketsThereAre) {
  const auto config = few_packets();
  on_ranks(2, [](Runtime& rt) {
    Endpoint letters(rt, {});
    std::unique_ptr<Endpoint> queue, matched;
    const auto make = [&] {
      queue = std::make_unique<Endpoint>(rt, EndpointSpec{.arrival = Arrival::queue});
      matched = std::make_unique<Endpoint>(rt, EndpointSpec{});
    };
    const auto tag_of = [](int i) { return Tag{static_cast<uint32_t>(i)}; };
    if (rt.rank() == Rank{1}) {
      make();
      for (int i = 0; i < kShort; ++i) {
        queue->send_wait(Rank{0}, tag_of(i), pattern(kShortBytes, static_cast<uint32_t>(i)));
        matched->send_wait(Rank{0}, tag_of(i), pattern(kShortBytes, static_cast<uint32_t>(i)));
      }
    }
    // Behind them: all have come by then.
    if (rt.rank() == Rank{1}) letters.send_wait(Rank{0}, Tag{1}, {});
    if (rt.rank() == Rank{0}) {
      letters.recv_wait(Rank{1}, Tag{1}, {});
      make();
      for (int i = 0; i < kShort; ++i) {
        const Message message = queue->dequeue_wait();
        EXPECT_EQ(message.tag(), tag_of(i));
        EXPECT_TRUE(
            std::ranges::equal(message.data(), pattern(kShortBytes, static_cast<uint32_t>(i))));
      }
      for (int i = kShort; i-- > 0;) {
        std::vector<std::byte> in(kShortBytes);
        EXPECT_EQ(matched->recv_wait(Rank{1}, tag_of(i), in).error, Errc::ok);
        EXPECT_TRUE(in == pattern(kShortBytes, static_cast<uint32_t>(i)));
      }
    }
    rt.barrier();
  });
}

// Nor if it takes all the room that there is for it.
TEST(KeptMessages, WhatCameBeforeItsEndpointIsDeliveredFromAFullTable) {
  register_comm_config();
  constexpr int kRoom = 64;
  const test::ConfigOverride config(
      test::ConfigOverride::List{{"comm.unexpected", std::to_string(kRoom)}});
  for (const Arrival arrival : {Arrival::queue, Arrival::matched}) {
    on_ranks(2,
             [arrival](Runtime& rt) {
               Endpoint letters(rt, {});
               std::unique_ptr<Endpoint> late;
               const auto tag_of = [](int i) { return Tag{static_cast<uint32_t>(i)}; };
               if (rt.rank() == Rank{1}) {
                 late = std::make_unique<Endpoint>(rt, EndpointSpec{.arrival = arrival});
                 for (int i = 0; i < kRoom; ++i)
                   late->send_wait(Rank{0}, tag_of(i), pattern(kShortBytes, 1));
                 letters.send_wait(Rank{0}, Tag{1}, {});
               } else {
                 letters.recv_wait(Rank{1}, Tag{1}, {});
                 late = std::make_unique<Endpoint>(rt, EndpointSpec{.arrival = arrival});
                 std::vector<std::byte> in(kShortBytes);
                 for (int i = kRoom; i-- > 0;) {
                   if (arrival == Arrival::queue) {
                     EXPECT_EQ(late->dequeue_wait().tag(), tag_of(kRoom - 1 - i));
                   } else {
                     EXPECT_EQ(late->recv_wait(Rank{1}, tag_of(i), in).error, Errc::ok);
                   }
                 }
               }
               rt.barrier();
             },
             {.devices = 1});
  }
}

// Who holds as many messages of a queue as there is room for gets the others, in order, when some
// of these have ended: whether they come from the ring, or are handed over, or were queued.
TEST(KeptMessages, OfAQueueWaitForPlaces) {
  register_comm_config();
  constexpr std::size_t kRoom = 64;
  const test::ConfigOverride config(
      test::ConfigOverride::List{{"comm.unexpected", std::to_string(kRoom)}});
  on_ranks(2, [](Runtime& rt) {
    constexpr uint32_t kMessages = 600;
    Endpoint queue(rt, {.arrival = Arrival::queue, .queue_capacity = 1024});
    const auto text_of = [](uint32_t i) {
      return pattern(i % 7 == 0 ? i % 40 : 41 + i * 11 % 160, i);
    };
    if (rt.rank() == Rank{1}) {
      for (uint32_t i = 0; i < kMessages; ++i) queue.send_wait(Rank{0}, Tag{i}, text_of(i));
    } else {
      std::vector<Message> held;
      int stood_still = 0;
      for (uint32_t next = 0, in_vain = 0; next < kMessages;) {
        Message message;
        if (queue.dequeue(message)) {
          in_vain = 0;
          EXPECT_EQ(message.tag(), Tag{next});
          const auto want = text_of(next++);
          EXPECT_TRUE(std::ranges::equal(message.data(), want));
          held.push_back(std::move(message));
        } else if (++in_vain > 300 && held.size() >= kRoom / 2) {
          ++stood_still;
          held.erase(held.begin(), held.begin() + kRoom / 4);
          in_vain = 0;
        } else {
          rt.relax();
        }
      }
      EXPECT_GT(stood_still, 2);
    }
    rt.barrier();
  });
}

// Nor does what is not received yet keep a rank from sending what takes packets.
TEST(KeptMessages, WhatIsNotReceivedLeavesPacketsToSendWith) {
  const auto config = few_packets();
  on_ranks(2, [](Runtime& rt) {
    Endpoint letters(rt, {});
    const Rank other{1 - rt.rank().value};
    for (int i = 0; i < kShort; ++i) letters.send_wait(other, Tag{1}, pattern(kShortBytes, 1));
    letters.send_wait(other, Tag{2}, {});
    letters.recv_wait(other, Tag{2}, {});
    const auto out = pattern(4000, 7);
    letters.send_wait(other, Tag{3}, out);
    std::vector<std::byte> in(4000);
    EXPECT_EQ(letters.recv_wait(other, Tag{3}, in).error, Errc::ok);
    EXPECT_TRUE(in == out);
    for (int i = 0; i < kShort; ++i)
      EXPECT_EQ(letters.recv_wait(other, Tag{1}, std::span(in).first(kShortBytes)).error, Errc::ok);
    rt.barrier();
  });
}

}  // namespace
}  // namespace weft
