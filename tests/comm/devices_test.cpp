// Devices: which are polled, and in which order; endpoints that name theirs.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/idle.hpp"
#include "comm/device.hpp"
#include "comm/keepers.hpp"
#include "comm/ranks.hpp"
#include "weft/base/clock.hpp"
#include "weft/comm/config.hpp"
#include "weft/fabric/job.hpp"

namespace weft {
namespace {

using test::bytes_of;
using test::on_ranks;
using test::pattern;

constexpr uint32_t kDevices = 4;

/// What each device of a rank has counted so far.
struct Counts {
  std::array<uint64_t, kDevices> frames{};
  std::array<uint64_t, kDevices> polls{};
  static Counts of(const Runtime& rt) {
    Counts now;
    for (uint32_t d = 0; d < kDevices; ++d) {
      Device& device = rt.device(d);
      // Under the lock: a poll counts what it delivered when it ends.
      device.with_lock([&] {
        now.frames[d] = device.counters().read(Device::frames_in);
        now.polls[d] = device.counters().read(Device::polls);
      });
    }
    return now;
  }
  Counts operator-(const Counts& earlier) const {
    Counts difference;
    for (uint32_t d = 0; d < kDevices; ++d) {
      difference.frames[d] = frames[d] - earlier.frames[d];
      difference.polls[d] = polls[d] - earlier.polls[d];
    }
    return difference;
  }
};

/// An endpoint on each device: what one rank sends by number d comes to the other's device d.
struct OnEach {
  explicit OnEach(Runtime& rt) {
    for (uint32_t d = 0; d < kDevices; ++d) {
      each[d] = std::make_unique<Endpoint>(
          rt, EndpointSpec{.arrival = Arrival::queue, .device = &rt.device(d)});
    }
  }
  std::array<std::unique_ptr<Endpoint>, kDevices> each;
};

/// The ranks are threads of one process: a step that no message, and so no progress, tells.
class Steps {
 public:
  void reach(int step) noexcept { step_.store(step, std::memory_order_release); }
  void await(int step) const noexcept {
    while (step_.load(std::memory_order_acquire) < step) std::this_thread::yield();
  }

 private:
  std::atomic<int> step_{0};
};

// 002 Alg. 2. Nobody else progresses here: mode explicit, one thread a rank.
TEST(Devices, ProgressServesTheOwnFirstAndStopsAtTheFirstThatYields) {
  Steps steps;
  on_ranks(2,
           [&steps](Runtime& rt) {
             OnEach endpoints(rt);
             const uint32_t own = rt.this_device().number();
             rt.barrier();
             if (rt.rank() == Rank{1}) {
               const auto send = [&](uint32_t device) {
                 EXPECT_EQ(endpoints.each[device]->send(Rank{0}, Tag{device}, bytes_of(device)),
                           Post::done);
               };
               // To all devices; rank 0's own is known by its policy: told through the steps'
               // number.
               steps.await(1);
               for (uint32_t d = 0; d < kDevices; ++d) {
                 for (int i = 0; i < 3; ++i) send(d);
               }
               steps.reach(2);
               steps.await(3);
               return;
             }
             while (rt.progress() != 0) {
             }
             steps.reach(1);
             steps.await(2);

             // After an empty look a lane yields one frame, and then what there is.
             for (const uint32_t frames : {1U, 2U}) {
               const Counts before = Counts::of(rt);
               EXPECT_EQ(rt.progress(), frames) << "what its own device has, and nothing else";
               const Counts first = Counts::of(rt) - before;
               for (uint32_t d = 0; d < kDevices; ++d) {
                 EXPECT_EQ(first.frames[d], d == own ? frames : 0U) << d;
                 EXPECT_EQ(first.polls[d], d == own ? 1U : 0U) << d;
               }
             }

             // Its own has nothing more: it is asked, then one other, which yields, and no third.
             for (const uint32_t frames : {1U, 2U}) {
               std::array<bool, kDevices> served{};
               served[own] = true;
               for (uint32_t turn = 1; turn < kDevices; ++turn) {
                 const Counts earlier = Counts::of(rt);
                 EXPECT_EQ(rt.progress(), frames);
                 const Counts now = Counts::of(rt) - earlier;
                 EXPECT_EQ(now.polls[own], 1U) << "the own first";
                 uint32_t others = 0;
                 for (uint32_t d = 0; d < kDevices; ++d) {
                   if (now.frames[d] == 0) continue;
                   ++others;
                   EXPECT_FALSE(served[d]) << d;
                   served[d] = true;
                   EXPECT_EQ(now.frames[d], frames);
                 }
                 EXPECT_EQ(others, 1U);
               }
             }

             // Nothing anywhere: each is asked once.
             const Counts last = Counts::of(rt);
             EXPECT_EQ(rt.progress(), 0U);
             const Counts empty = Counts::of(rt) - last;
             for (uint32_t d = 0; d < kDevices; ++d) EXPECT_EQ(empty.polls[d], 1U) << d;
             for (auto& endpoint : endpoints.each) {
               for (int i = 0; i < 3; ++i) (void)endpoint->dequeue_wait();
             }
             steps.reach(3);
           },
           {.devices = kDevices, .progress = Progress::explicit_});
}

// What a look costs does not grow with the devices, and no device is left out.
TEST(Devices, ALookInVainTakesAFewOthersAndTheNextGoesOnBehindThem) {
  constexpr uint32_t kMany = 40;
  on_ranks(
      1,
      [](Runtime& rt) {
        const auto polls_of = [&] {
          std::array<uint64_t, kMany> polls{};
          for (uint32_t d = 0; d < kMany; ++d)
            rt.device(d).with_lock([&] { polls[d] = rt.device(d).counters().read(Device::polls); });
          return polls;
        };
        const uint32_t own = rt.this_device().number();
        std::array<uint32_t, kMany> looked{};
        constexpr uint32_t kLooks = 5;  // 39 others, eight at once
        for (uint32_t look = 0; look < kLooks; ++look) {
          const auto before = polls_of();
          EXPECT_EQ(rt.progress(), 0U);
          const auto after = polls_of();
          uint32_t others = 0;
          for (uint32_t d = 0; d < kMany; ++d) {
            looked[d] += after[d] != before[d] ? 1 : 0;
            others += d != own && after[d] != before[d] ? 1 : 0;
          }
          EXPECT_EQ(others, 8U);
        }
        for (uint32_t d = 0; d < kMany; ++d) {
          EXPECT_GE(looked[d], 1U) << d;
          EXPECT_LE(looked[d], d == own ? kLooks : 2U) << d;
        }
      },
      {.devices = kMany, .progress = Progress::explicit_});
}

/// One queue, filled by all devices: who takes from it has much on its own, and each other has its
/// turn before that is over.
TEST(Devices, AStreamOnTheOwnOneLeavesTheOthersTheirTurn) {
  constexpr int kStream = 250, kFew = 3;
  Steps steps;
  std::atomic<uint32_t> receiver{0};
  on_ranks(2,
           [&](Runtime& rt) {
             Endpoint queue(rt, {.arrival = Arrival::queue});
             rt.barrier();
             if (rt.rank() == Rank{1}) {
               steps.await(1);
               // Threads that are there together have different devices.
               std::array<std::atomic<bool>, kDevices> used{};
               std::latch sent(2 * kDevices);
               std::vector<std::jthread> threads;
               for (uint32_t i = 0; i < 2 * kDevices; ++i)
                 threads.emplace_back([&] {
                   const uint16_t device = rt.this_device().number();
                   const int count = used[device].exchange(true) ? 0
                                     : device == receiver        ? kStream
                                                                 : kFew;
                   for (int n = 0; n < count; ++n)
                     EXPECT_EQ(queue.send(Rank{0}, Tag{device}, bytes_of(n)), Post::done);
                   sent.arrive_and_wait();
                 });
               sent.wait();
               EXPECT_TRUE(std::ranges::all_of(used, [](const auto& one) { return one.load(); }));
               steps.reach(2);
               steps.await(3);
               return;
             }
             receiver = rt.this_device().number();
             steps.reach(1);
             steps.await(2);
             int taken = 0, of_others = 0;
             for (; of_others < kFew * static_cast<int>(kDevices - 1); ++taken)
               of_others += queue.dequeue_wait().tag().value != receiver ? 1 : 0;
             EXPECT_LT(taken, kStream);
             for (; taken < kStream + of_others; ++taken) (void)queue.dequeue_wait();
             steps.reach(3);
           },
           {.devices = kDevices, .progress = Progress::explicit_});
}

/// Who finds something on its own device each time it polls comes to the others, too.
TEST(Devices, AStreamOnOnesOwnKeepsNobodyWaiting) {
  on_ranks(1,
           [](Runtime& rt) {
             Endpoint queue(rt, {.arrival = Arrival::queue});
             rt.use_device(1);
             queue.send_wait(Rank{0}, Tag{1}, bytes_of(1));
             rt.use_device(0);
             constexpr int kMost = 200;
             const Counts before = Counts::of(rt);
             int sent = 0;
             while (sent < kMost && (Counts::of(rt) - before).frames[1] == 0) {
               queue.send_wait(Rank{0}, Tag{0}, bytes_of(0));
               ++sent;
               (void)rt.progress();
             }
             EXPECT_LT(sent, kMost);
             for (int taken = 0; taken < sent + 1; ++taken) (void)queue.dequeue_wait();
             rt.use_device({});
           },
           {.devices = kDevices, .progress = Progress::explicit_});
}

// --- Who polls what, where each thread has a core ------------------------------------------------

constexpr uint64_t kTicksPerUs = 1000;  // or so: times of a test that has none to keep

TEST(Keepers, NobodyKeepsWhatNobodyPolled) {
  const comm::Keepers keepers(9, kTicksPerUs);
  for (uint32_t d = 0; d < 9; ++d) EXPECT_FALSE(keepers.is_anothers(d)) << d;
}

TEST(Keepers, WhoPollsADeviceTimeAndAgainKeepsIt) {
  comm::Keepers keepers(9, kTicksPerUs);
  comm::Keepers::Polls polls;
  const auto poll = [&] {
    for (int i = 0; i < 100; ++i) keepers.note(8, polls);
    EXPECT_FALSE(keepers.is_anothers(0));
  };
  const auto poll_in_another_thread = [&](auto meanwhile) {
    std::latch polled(1), over(1);
    const std::jthread other([&] {
      poll();
      polled.count_down();
      over.wait();
    });
    polled.wait();
    meanwhile();
    over.count_down();
  };
  // A thread may be off its core for longer than anybody keeps a device.
  for (bool seen = false; !seen;) poll_in_another_thread([&] { seen = keepers.is_anothers(8); });
  while (keepers.is_anothers(8)) std::this_thread::yield();
  // Another takes it over at once, however soon after.
  for (bool taken = false; !taken;) {
    poll_in_another_thread([&] {
      const bool was_its = keepers.is_anothers(8);
      poll();
      taken = was_its && !keepers.is_anothers(8);
    });
  }
}

TEST(Keepers, WhoComesByNowAndThenKeepsNothing) {
  comm::Keepers keepers(1, kTicksPerUs);
  comm::Keepers::Polls polls;
  std::atomic<bool> over{false};
  const std::jthread other([&] {
    for (int i = 0; i < 10'000; ++i) {
      keepers.note(0, polls);
      const uint64_t noted = base::ticks();
      while (base::ticks() - noted < 2 * comm::Keepers::kNoteUs * kTicksPerUs) {
      }
    }
    over = true;
  });
  // Looked at all the while: a note would be stale soon.
  bool kept = false;
  while (!over) kept = kept || keepers.is_anothers(0);
  EXPECT_FALSE(kept);
}

/// The thread that polled a device all the time computes, or waits for something else.
TEST(Devices, WhatItsThreadNoLongerPollsOthersDo) {
  on_ranks(1,
           [](Runtime& rt) {
             Endpoint queue(rt, {.arrival = Arrival::queue});
             std::latch polled(1), over(1);
             std::jthread keeper([&] {
               rt.use_device(1);
               for (int i = 0; i < 100'000; ++i) (void)rt.progress();
               queue.send_wait(Rank{0}, Tag{1}, bytes_of(1));
               polled.count_down();
               over.wait();
             });
             rt.use_device(0);
             polled.wait();
             Message message;
             while (!queue.dequeue(message)) (void)rt.progress();
             EXPECT_EQ(message.tag(), Tag{1});
             over.count_down();
             rt.use_device({});
           },
           {.devices = kDevices, .progress = Progress::explicit_});
}

/// Two threads on one device, and none on the policy's.
TEST(Devices, AThreadUsesTheOneItAsksFor) {
  on_ranks(1,
           [](Runtime& rt) {
             EXPECT_THROW(rt.use_device(kDevices), Error);
             Endpoint queue(rt, {.arrival = Arrival::queue});
             const uint32_t others = (rt.this_device().number() + 1) % kDevices;
             rt.use_device(others);
             EXPECT_EQ(rt.this_device().number(), others);
             const Counts before = Counts::of(rt);
             std::jthread([&] {
               rt.use_device(others);
               EXPECT_EQ(rt.this_device().number(), others);
               queue.send_wait(Rank{0}, Tag{1}, bytes_of(1));
             }).join();
             queue.send_wait(Rank{0}, Tag{2}, bytes_of(2));
             EXPECT_EQ(queue.dequeue_wait().tag(), Tag{1});
             EXPECT_EQ(queue.dequeue_wait().tag(), Tag{2});
             const Counts now = Counts::of(rt) - before;
             for (uint32_t d = 0; d < kDevices; ++d)
               EXPECT_EQ(now.frames[d], d == others ? 2U : 0U) << d;
             rt.use_device({});
             EXPECT_NE(rt.this_device().number(), others);
             rt.prefer_device(&rt.device(others));
             EXPECT_EQ(rt.this_device().number(), others);
             rt.prefer_device(nullptr);
             EXPECT_NE(rt.this_device().number(), others);
           },
           {.devices = kDevices, .progress = Progress::explicit_});
}

TEST(Devices, WhatAThreadAsksForIsOfOneRuntime) {
  const auto jobs = fabric::make_local_job(1);
  const auto more = fabric::make_local_job(1);
  const RuntimeOptions options{.devices = kDevices, .progress = Progress::explicit_};
  RuntimeOptions first = options, second = options;
  first.job = jobs.front().get();
  second.job = more.front().get();
  Runtime other(second);
  const uint32_t by_policy = other.this_device().number();
  {
    Runtime rt(first);
    rt.use_device((by_policy + 1) % kDevices);
    EXPECT_EQ(rt.this_device().number(), (by_policy + 1) % kDevices);
    EXPECT_EQ(other.this_device().number(), by_policy);
  }
  EXPECT_EQ(other.this_device().number(), by_policy);
}

/// A thread for each, of which one sleeps on all doorbells, and the others park.
TEST(Devices, ThreadsThatWaitUseNoProcessorTime) {
  on_ranks(1,
           [&](Runtime& rt) {
             Endpoint queue(rt, {.arrival = Arrival::queue});
             std::vector<std::jthread> waiting;
             for (uint32_t i = 0; i < kDevices; ++i)
               waiting.emplace_back([&] { (void)queue.dequeue_wait(); });
             EXPECT_LT(test::processors_while_idle(), test::kAlmostNone);
             for (uint32_t i = 0; i < kDevices; ++i) queue.send_wait(Rank{0}, Tag{i}, bytes_of(i));
           },
           {.devices = kDevices, .progress = Progress::waiters});
}

TEST(Devices, CountWhatTheyServeAndWhoFindsThemServed) {
  on_ranks(
      1,
      [](Runtime& rt) {
        Device& device = rt.device(0);
        const DeviceCounts before = rt.device_counts(0);
        EXPECT_EQ(rt.progress(), 0U);
        DeviceCounts now = rt.device_counts(0);
        EXPECT_EQ(now.polls, before.polls + 1);
        EXPECT_EQ(now.empty_polls, before.empty_polls + 1);
        EXPECT_EQ(now.refusals, before.refusals);
        device.with_lock([&rt] { std::jthread([&rt] { EXPECT_EQ(rt.progress(), 0U); }).join(); });
        now = rt.device_counts(0);
        EXPECT_EQ(now.refusals, before.refusals + 1);
        EXPECT_EQ(now.polls, before.polls + 1);
        EXPECT_EQ(now.frames, before.frames);
      },
      {.devices = 1, .progress = Progress::explicit_});
}

// Whoever waits parks, since others serve; the message comes when that was seen.
TEST(Devices, CountParks) {
  std::atomic<Runtime*> waiter{nullptr};
  on_ranks(2,
           [&waiter](Runtime& rt) {
             Endpoint ep(rt, {});
             uint64_t word = 0;
             const auto into = std::as_writable_bytes(std::span(&word, 1));
             rt.barrier();
             if (rt.rank() == Rank{0}) {
               waiter.store(&rt, std::memory_order_release);
               EXPECT_EQ(ep.recv_wait(Rank{1}, Tag{7}, into).error, Errc::ok);
             } else {
               Runtime* other = nullptr;
               while ((other = waiter.load(std::memory_order_acquire)) == nullptr) {
                 std::this_thread::yield();
               }
               while (other->device_counts(0).parks == 0) std::this_thread::yield();
               EXPECT_EQ(ep.send_wait(Rank{0}, Tag{7}, into).error, Errc::ok);
             }
             rt.barrier();
           },
           {.devices = 1, .progress = Progress::server});
}

// Four threads poll devices that bring them calls of a handler, which takes its time: with serial
// progress there is one at a time.
TEST(Devices, ProgressOneAtATimeWhereAskedTo) {
  constexpr uint32_t kMessages = 100;
  struct Seen {
    std::atomic<int> inside{0};
    std::atomic<uint32_t> calls{0};
  } seen;
  const auto handler = [](void* argument, const Incoming&) {
    auto& mine = *static_cast<Seen*>(argument);
    EXPECT_EQ(mine.inside.fetch_add(1), 0);
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    mine.inside.fetch_sub(1);
    mine.calls.fetch_add(1);
  };
  on_ranks(2,
           [&](Runtime& rt) {
             std::array<std::unique_ptr<Endpoint>, kDevices> endpoints;
             for (uint32_t d = 0; d < kDevices; ++d) {
               endpoints[d] =
                   std::make_unique<Endpoint>(rt, EndpointSpec{.arrival = Arrival::handler,
                                                               .handler = handler,
                                                               .handler_argument = &seen,
                                                               .device = &rt.device(d)});
             }
             rt.barrier();
             test::on_threads(kDevices, [&](int t) {
               if (rt.rank() == Rank{1}) {
                 for (uint32_t i = 0; i < kMessages; ++i) {
                   endpoints[static_cast<uint32_t>(t)]->send_wait(Rank{0}, Tag{i}, bytes_of(i));
                 }
               } else {
                 rt.wait_until([&] { return seen.calls == kDevices * kMessages; });
               }
             });
           },
           {.devices = kDevices, .progress = Progress::waiters, .serial_progress = true});
  EXPECT_EQ(seen.calls, kDevices * kMessages);
}

class NamedDevices : public testing::TestWithParam<Progress> {};
INSTANTIATE_TEST_SUITE_P(Modes, NamedDevices,
                         testing::Values(Progress::explicit_, Progress::waiters, Progress::server));

// The threads' own devices are others, by policy; all that an endpoint sends goes by the one it
// names, whatever its size, and comes to the device of that number.
TEST_P(NamedDevices, CarryAllThatTheirEndpointSends) {
  std::atomic<int> here{0};
  const auto meet = [&here](int all) {  // without messages
    here.fetch_add(1);
    while (here.load() < all) std::this_thread::yield();
  };
  on_ranks(
      2,
      [&meet](Runtime& rt) {
        constexpr uint32_t kMessages = 50;
        const Rank other{1 - rt.rank().value};
        // Not the same at both ends: rank 0's is 1, rank 1's is 3.
        const uint32_t mine = rt.rank() == Rank{0} ? 1 : 3;
        const uint32_t theirs = 4 - mine;
        Endpoint ep(rt, {.device = &rt.device(mine)});
        rt.barrier();
        meet(2);
        while (rt.progress() != 0) {
        }
        meet(4);
        const Counts before = Counts::of(rt);
        meet(6);
        for (const std::size_t size : {std::size_t{8}, std::size_t{5000}, std::size_t{100'000}}) {
          for (uint32_t i = 0; i < kMessages; ++i) {
            const auto out = pattern(size, i);
            std::vector<std::byte> in(size);
            if (rt.rank() == Rank{0}) {
              EXPECT_EQ(ep.send_wait(other, Tag{i}, out).error, Errc::ok);
              EXPECT_EQ(ep.recv_wait(other, Tag{i}, in).error, Errc::ok);
            } else {
              EXPECT_EQ(ep.recv_wait(other, Tag{i}, in).error, Errc::ok);
              EXPECT_EQ(ep.send_wait(other, Tag{i}, out).error, Errc::ok);
            }
            EXPECT_TRUE(in == out) << size;
          }
        }
        const Counts now = Counts::of(rt) - before;
        EXPECT_GE(now.frames[theirs], 3 * kMessages);
        // Answers to what this rank sent come to the device that sent it, and fragments of what it
        // receives to the one that asked for them, which is its endpoint's; to the rest nothing.
        constexpr uint32_t kMostFragments = 3;  // of 100,000 bytes
        EXPECT_LE(now.frames[mine], (2 + kMostFragments) * kMessages);
        EXPECT_EQ(now.frames[0] + now.frames[2], 0U);
        meet(8);
      },
      {.devices = kDevices, .progress = GetParam(), .assignment = Assignment::dedicated});
}

}  // namespace
}  // namespace weft
