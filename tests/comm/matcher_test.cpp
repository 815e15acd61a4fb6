// Arrival::matcher: envelopes arrive as they were sent, announced messages are fetched, what is
// refused comes again, and deferred work is done once.
#include "weft/comm/matcher.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include "comm/ranks.hpp"
#include "weft/base/config.hpp"
#include "weft/comm/runtime.hpp"

namespace weft {
namespace {

using test::on_ranks;
using test::pattern;

/// Writes down all that comes.
struct Recorder final : Matcher {
  struct Seen {
    Rank source;
    Envelope envelope;
    std::vector<std::byte> payload;
    Announcement announcement;
    bool is_announced = false;
  };
  bool arrive(const Delivery& message) noexcept override {
    const std::scoped_lock guard(lock);
    if (refusals > 0) {
      --refusals;
      return false;
    }
    Seen seen{.source = message.source, .envelope = message.envelope, .announcement = {}};
    seen.payload.resize(message.payload.size());
    EXPECT_EQ(message.payload.copy(seen.payload), Errc::ok);
    all.push_back(std::move(seen));
    return true;
  }
  bool announced(const Envelope& envelope, const Announcement& message,
                 std::span<const std::byte> brought) noexcept override {
    const std::scoped_lock guard(lock);
    if (refusals > 0) {
      --refusals;
      return false;
    }
    all.push_back({.source = message.source,
                   .envelope = envelope,
                   .payload = {brought.begin(), brought.end()},
                   .announcement = message,
                   .is_announced = true});
    return true;
  }
  Tried try_again() noexcept override {
    ++tries;
    return --tries_left <= 0 ? Tried::all : answer;
  }
  void peer_down(Rank /*peer*/) noexcept override {}
  std::size_t count() {
    const std::scoped_lock guard(lock);
    return all.size();
  }

  int refusals = 0;
  std::atomic<int> tries{0};
  std::atomic<int> tries_left{0};
  Tried answer = Tried::nothing;  // while some are left
  std::mutex lock;
  std::vector<Seen> all;
};

constexpr std::size_t kSizes[] = {0, 1, 8, 40, 41, 100, 500, 3000, 8000};

void send_and_see(int refusals) {
  on_ranks(2,
           [&](Runtime& runtime) {
             Recorder recorder;
             recorder.refusals = refusals;
             Endpoint endpoint(runtime, {.arrival = Arrival::matcher, .matcher = &recorder});
             runtime.barrier();
             const Rank other{1 - runtime.rank().value};
             int number = 0;
             for (const std::size_t bytes : kSizes) {
               const Envelope envelope{.tag = 0xfedc0000U + static_cast<uint32_t>(number),
                                       .sequence = 0xffffff00U + static_cast<uint32_t>(number),
                                       .context = static_cast<uint16_t>(0xfff0 + number),
                                       .kind = static_cast<uint8_t>(number)};
               const auto data = pattern(bytes, static_cast<uint32_t>(number));
               (void)until_posted(runtime, [&] { return endpoint.send(other, envelope, data); });
               ++number;
             }
             runtime.wait_until([&] { return recorder.count() == std::size(kSizes); });
             for (int i = 0; i < number; ++i) {
               auto& seen = recorder.all[static_cast<std::size_t>(i)];
               EXPECT_EQ(seen.source, other);
               EXPECT_EQ(seen.envelope.tag, 0xfedc0000U + static_cast<uint32_t>(i));
               EXPECT_EQ(seen.envelope.sequence, 0xffffff00U + static_cast<uint32_t>(i));
               EXPECT_EQ(seen.envelope.context, 0xfff0 + i);
               EXPECT_EQ(seen.envelope.kind, i);
               const auto wanted = pattern(kSizes[i], static_cast<uint32_t>(i));
               EXPECT_EQ(seen.payload, wanted);
             }
             runtime.barrier();
           },
           {.devices = 1});
}

TEST(Matcher, EnvelopesAndBytesArriveAsSent) { send_and_see(0); }
TEST(Matcher, RefusedMessagesComeAgainInOrder) { send_and_see(50); }

/// Refuses now and then, in the midst of runs too.
struct Numbers final : Matcher {
  bool arrive(const Delivery& message) noexcept override {
    if (++offered % 7 == 0) return false;
    uint32_t number = 0;
    EXPECT_EQ(message.payload.size(), sizeof number + message.envelope.context);
    EXPECT_EQ(message.payload.copy(std::as_writable_bytes(std::span(&number, 1))), Errc::ok);
    EXPECT_EQ(number, seen.load());
    EXPECT_EQ(message.envelope.sequence, number / 5);
    EXPECT_EQ(message.envelope.kind, number / 20 % 2);
    ++seen;
    return true;
  }
  uint32_t arrive_run(const DeliveryRun& run) noexcept override {
    EXPECT_LE(run.size(), DeliveryRun::kMost);
    longest = std::max(longest, run.size());
    return Matcher::arrive_run(run);
  }
  bool announced(const Envelope&, const Announcement&,
                 std::span<const std::byte>) noexcept override {
    return false;
  }
  Tried try_again() noexcept override { return Tried::all; }
  void peer_down(Rank /*peer*/) noexcept override {}

  uint32_t offered = 0;
  std::size_t longest = 0;  ///< run
  std::atomic<uint32_t> seen{0};
};

TEST(Matcher, ShortOnesThatComeTogetherStayInOrder) {
  constexpr uint32_t kMessages = 20'000;
  constexpr uint32_t kBefore = 40;  // that lie in the ring when the first is looked at
  std::atomic<bool> lie_there{false};
  on_ranks(2,
           [&](Runtime& runtime) {
             Numbers matcher;
             Endpoint endpoint(runtime, {.arrival = Arrival::matcher, .matcher = &matcher});
             runtime.barrier();
             if (runtime.rank() == Rank{0}) {
               std::array<std::byte, 100> data{};
               for (uint32_t i = 0; i < kMessages; ++i) {
                 // Of one length for long, and of one envelope for a few.
                 const uint16_t more = i / 100 % 3 == 2 ? 60 : 4;
                 std::memcpy(data.data(), &i, sizeof i);
                 const Envelope envelope{.tag = 7,
                                         .sequence = i / 5,
                                         .context = more,
                                         .kind = static_cast<uint8_t>(i / 20 % 2)};
                 (void)until_posted(runtime, [&] {
                   return endpoint.send(Rank{1}, envelope,
                                        std::span<const std::byte>(data).first(sizeof i + more));
                 });
                 if (i + 1 == kBefore) lie_there = true;
               }
             } else {
               while (!lie_there) std::this_thread::yield();
               runtime.wait_until([&] { return matcher.seen >= kMessages; });
               // Transports in trouble hand on one at a time.
               if (!base::environment("COMM_TEST_UNDER").found &&
                   !base::environment("COMM_TEST_NODES").found) {
                 EXPECT_GT(matcher.longest, 1U);
               }
             }
             runtime.barrier();
             EXPECT_EQ(matcher.seen, runtime.rank() == Rank{0} ? 0 : kMessages);
           },
           {.devices = 1});
}

TEST(Matcher, AnnouncedMessagesAreFetchedWheneverItSuits) {
  on_ranks(2, [&](Runtime& runtime) {
    Recorder recorder;
    Endpoint endpoint(runtime, {.arrival = Arrival::matcher, .matcher = &recorder});
    runtime.barrier();
    const Rank other{1 - runtime.rank().value};
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{9}, std::size_t{300'000}}) {
      const auto data = pattern(bytes, 3);
      Synchronizer gone;
      const Envelope envelope{.tag = 5, .sequence = 6, .context = 7, .kind = 8};
      ASSERT_EQ(
          until_posted(runtime,
                       [&] { return endpoint.announce(other, envelope, data, &gone, nullptr); }),
          Post::posted);
      runtime.wait_until([&] { return recorder.count() == 1; });
      EXPECT_TRUE(recorder.all[0].is_announced);
      EXPECT_EQ(recorder.all[0].announcement.bytes, bytes);
      std::vector<std::byte> into(bytes);
      Synchronizer here;
      ASSERT_EQ(
          until_posted(
              runtime,
              [&] { return endpoint.fetch(recorder.all[0].announcement, into, &here, nullptr); }),
          Post::posted);
      runtime.wait(here);
      runtime.wait(gone);
      EXPECT_EQ(here.event().error, Errc::ok);
      EXPECT_EQ(gone.event().error, Errc::ok);
      EXPECT_EQ(into, data);
      recorder.all.clear();
      runtime.barrier();
    }
  });
}

// Whether their bytes are taken, fetched all the same, or not wanted: the sender is told.
TEST(Matcher, AnnouncedMessagesMayBringTheirBytes) {
  enum class End { taken, fetched, refused };
  on_ranks(2, [&](Runtime& runtime) {
    Recorder recorder;
    Endpoint endpoint(runtime, {.arrival = Arrival::matcher, .matcher = &recorder});
    runtime.barrier();
    const Rank other{1 - runtime.rank().value};
    const std::size_t most = runtime.eager_bytes(other);
    const std::size_t sizes[] = {0, 1, 40, 41, 100, 232, 233, 600, 3000, most, most + 1, 100'000};
    for (const std::size_t bytes : sizes) {
      for (const End end : {End::taken, End::fetched, End::refused}) {
        const bool along = bytes > 0 && bytes <= most;
        if (end == End::taken && !along) continue;
        const auto data = pattern(bytes, static_cast<uint32_t>(bytes));
        Synchronizer gone;
        const Envelope envelope{.tag = 5, .sequence = 6, .context = 7, .kind = 8};
        recorder.refusals = 2;
        ASSERT_EQ(until_posted(runtime,
                               [&] {
                                 return endpoint.announce(other, envelope, data, &gone, nullptr,
                                                          nullptr, nullptr, true);
                               }),
                  Post::posted);
        runtime.wait_until([&] { return recorder.count() == 1; });
        const Announcement message = recorder.all[0].announcement;
        EXPECT_TRUE(recorder.all[0].is_announced);
        EXPECT_EQ(message.bytes, bytes);
        EXPECT_EQ(recorder.all[0].payload, along ? data : pattern(0, 0)) << bytes;
        if (end == End::fetched) {
          std::vector<std::byte> into(bytes);
          Synchronizer here;
          const auto fetch = [&] { return endpoint.fetch(message, into, &here, nullptr); };
          ASSERT_EQ(until_posted(runtime, fetch), Post::posted);
          runtime.wait(here);
          EXPECT_EQ(here.event().error, Errc::ok);
          EXPECT_EQ(into, data);
        } else {
          const auto tell = [&] {
            return end == End::taken ? endpoint.took(message) : endpoint.refuse(message);
          };
          ASSERT_EQ(until_posted(runtime, tell), end == End::taken ? Post::done : Post::posted);
        }
        runtime.wait(gone);
        EXPECT_EQ(gone.event().error, end == End::refused ? Errc::cancelled : Errc::ok) << bytes;
        recorder.all.clear();
        runtime.barrier();
      }
    }
  });
}

TEST(Matcher, TriesAgainUntilNothingIsLeft) {
  on_ranks(1, [&](Runtime& runtime) {
    Recorder recorder;
    Endpoint endpoint(runtime, {.arrival = Arrival::matcher, .matcher = &recorder});
    recorder.tries_left = 5;
    endpoint.try_again_later();
    runtime.wait_until([&] { return recorder.tries >= 5; });
    for (int i = 0; i < 10; ++i) runtime.progress();
    EXPECT_EQ(recorder.tries, 5);
    // And once more: the note can be used again.
    endpoint.try_again_later();
    runtime.wait_until([&] { return recorder.tries == 6; });
  });
}

// Who waits for a condition is parked, as another thread serves, to which nothing comes.
TEST(Matcher, WhatATryEndsIsSeenByThoseWhoWait) {
  on_ranks(1,
           [](Runtime& runtime) {
             Recorder recorder;
             recorder.answer = Tried::some;
             recorder.tries_left = 1 << 30;
             Endpoint endpoint(runtime, {.arrival = Arrival::matcher, .matcher = &recorder});
             Endpoint letters(runtime, {});
             std::thread serves([&] { letters.recv_wait(Rank{0}, Tag{1}, {}); });
             std::this_thread::sleep_for(std::chrono::milliseconds(10));
             std::atomic<bool> over{false};
             std::thread waits([&] {
               runtime.wait_until([&] { return recorder.tries > 1000; });
               over = true;
             });
             std::this_thread::sleep_for(std::chrono::milliseconds(10));
             endpoint.try_again_later();
             while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
             recorder.tries_left = 0;
             waits.join();
             letters.send_wait(Rank{0}, Tag{1}, {});
             serves.join();
           },
           {.devices = 1, .progress = Progress::waiters});
}

TEST(Deferred, IsDoneOnceAndMayDeferMore) {
  struct Work final : Deferred {
    explicit Work(Runtime& the_runtime) : runtime(the_runtime) {}
    void run() noexcept override {
      if (++runs < 10) runtime.defer(*this);
    }
    Runtime& runtime;
    std::atomic<int> runs{0};
  };
  on_ranks(1, [&](Runtime& runtime) {
    Work work(runtime);
    runtime.defer(work);
    EXPECT_EQ(work.runs, 0);
    runtime.progress();
    EXPECT_EQ(work.runs, 10);
    runtime.run_deferred();
    EXPECT_EQ(work.runs, 10);
  });
}

TEST(Matcher, EndpointsAndMatchersBelongTogether) {
  on_ranks(1, [&](Runtime& runtime) {
    Recorder recorder;
    EXPECT_THROW(Endpoint(runtime, {.arrival = Arrival::matcher}), Error);
    EXPECT_THROW(Endpoint(runtime, {.matcher = &recorder}), Error);
  });
}

TEST(Matcher, WhatCouldNotGoIsRefused) {
  on_ranks(2, [&](Runtime& runtime) {
    Recorder recorder;
    Endpoint endpoint(runtime, {.arrival = Arrival::matcher, .matcher = &recorder});
    Endpoint letters(runtime, {});
    const Rank other{1 - runtime.rank().value};
    const Envelope envelope{};
    const auto data = pattern(8, 1);
    for (const Rank none : {kAnyRank, Rank{2}, Rank{1'000'000'000}}) {
      EXPECT_THROW((void)endpoint.send(none, envelope, data), Error) << none.value;
      EXPECT_THROW((void)endpoint.send_wide(none, envelope, data), Error) << none.value;
      EXPECT_THROW((void)endpoint.send_written(none, envelope, data), Error) << none.value;
      EXPECT_THROW((void)endpoint.announce(none, envelope, data, nullptr, nullptr), Error);
    }
    const auto large = pattern(runtime.eager_bytes(other) + 1, 1);
    EXPECT_THROW((void)endpoint.send(other, envelope, large), Error);
    EXPECT_THROW((void)endpoint.send_written(other, envelope, large), Error);
    const std::span<const std::byte> nothing(static_cast<const std::byte*>(nullptr), 5);
    EXPECT_THROW((void)endpoint.send(other, envelope, nothing), Error);
    EXPECT_THROW((void)endpoint.announce(other, envelope, nothing, nullptr, nullptr), Error);
    EXPECT_THROW((void)letters.send(other, envelope, data), Error);
    EXPECT_THROW((void)letters.announce(other, envelope, data, nullptr, nullptr), Error);
    runtime.barrier();
    EXPECT_EQ(recorder.count(), 0U);
  });
}

/// Takes its time, so that whoever was woken by the message has looked in vain.
struct LateWork final : Deferred {
  std::atomic<bool> over{false};
  void run() noexcept override {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    over = true;
  }
};

TEST(Deferred, WhatItMakesTrueEndsWaits) {
  for (const Progress progress : {Progress::server, Progress::waiters}) {
    RuntimeOptions options;
    options.progress = progress;
    on_ranks(
        2,
        [](Runtime& runtime) {
          struct Here {
            Runtime& runtime;
            LateWork work;
          } here{runtime, {}};
          Endpoint calls(runtime, {.arrival = Arrival::handler,
                                   .handler =
                                       [](void* argument, const Incoming&) {
                                         auto& mine = *static_cast<Here*>(argument);
                                         mine.runtime.defer(mine.work);
                                       },
                                   .handler_argument = &here});
          Endpoint letters(runtime, {});
          if (runtime.rank() == Rank{1}) {
            calls.send_wait(Rank{0}, Tag{1}, {});
            letters.recv_wait(Rank{0}, Tag{1}, {});  // sends nothing meanwhile
          } else {
            runtime.wait_until([&] { return here.work.over.load(); });
            letters.send_wait(Rank{1}, Tag{1}, {});
          }
          runtime.barrier();
        },
        options);
  }
}

}  // namespace
}  // namespace weft
