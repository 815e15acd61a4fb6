// When the signal of a put is told: once that put, and those before it, are answered; and what
// becomes of those for which there is no room. What fails here hangs until the watchdog comes.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/config_override.hpp"
#include "comm/ranks.hpp"
#include "weft/comm/config.hpp"
#include "weft/fabric/config.hpp"

namespace weft {
namespace {

using test::bytes_of;
using test::keys_of_all;
using test::on_ranks;
using test::pattern;

constexpr std::size_t kLargePut = 100'000;

/// Where memory can be read, and where large puts come in packets.
class SignalsByReadsOrPackets : public ::testing::TestWithParam<const char*> {
 protected:
  static test::ConfigOverride config() {
    register_comm_config();
    fabric::register_fabric_config();
    return test::ConfigOverride(test::ConfigOverride::List{{"fabric.cma", GetParam()}});
  }
};
INSTANTIATE_TEST_SUITE_P(Signals, SignalsByReadsOrPackets, ::testing::Values("auto", "off"),
                         [](const auto& way) { return std::string(way.param); });

// Whoever is told of a put may leave for good: its sender has the answers, or will find them, to
// that one and to all before it, though the ring for them is small.
TEST(Signals, ComeOnceTheirSenderIsAnswered) {
  register_comm_config();
  fabric::register_fabric_config();
  const test::ConfigOverride small(test::ConfigOverride::List{{"fabric.control_cells", "8"}});
  constexpr uint64_t kPuts = 300;
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{4000}}) {
    for (const uint64_t signal_each : {uint64_t{1}, uint64_t{7}, kPuts}) {
      SCOPED_TRACE(std::to_string(bytes) + " bytes, one signal for " + std::to_string(signal_each));
      std::atomic<bool> left{false};
      std::atomic<bool> over{false};
      on_ranks(2, [&](Runtime& rt) {
        std::vector<std::byte> memory(kLargePut);
        const Region region(rt, memory);
        const auto keys = keys_of_all(rt, region);
        Counter told;
        Endpoint remote(rt, {.arrival = Arrival::memory, .at_target = &told});
        rt.barrier();
        if (rt.rank() == Rank{1}) {
          rt.wait_until([&] { return told.value() == (kPuts + signal_each - 1) / signal_each; });
          left = true;
          while (!over) std::this_thread::yield();  // and does not progress
          return;
        }
        const auto out = pattern(bytes, 1);
        Counter done;
        uint64_t posted = 0;
        for (uint64_t i = 0; i < kPuts;) {
          const bool tells = (i + 1) % signal_each == 0 || i + 1 == kPuts;
          const Post answer = tells ? remote.put_signal(keys[1], 0, out, Tag{1}, &done)
                                    : remote.put(keys[1], 0, out, &done);
          if (answer == Post::posted) ++posted;
          if (answer != Post::retry) ++i;
          // Now and then there is room for a few answers, while more puts come.
          if (answer == Post::retry || i % 32 == 31) rt.progress();
        }
        // Answers fill their ring meanwhile.
        for (int look = 0; look < 50 && !left; ++look)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        rt.wait_until([&] { return done.value() == posted; });
        EXPECT_EQ(done.errors(), 0U);
        over = true;
      });
    }
  }
}

// Where there is room for an answer as the put with the signal comes, those before it have it.
TEST(Signals, WaitForAnswersThatWereOwedBefore) {
  register_comm_config();
  fabric::register_fabric_config();
  const test::ConfigOverride small(test::ConfigOverride::List{{"fabric.control_cells", "8"}});
  constexpr uint64_t kPuts = 100;
  std::atomic<bool> posted{false}, came{false}, signalled{false}, looked{false}, over{false};
  on_ranks(2, [&](Runtime& rt) {
    uint64_t word = 0;
    const Region region(rt, std::as_writable_bytes(std::span(&word, 1)));
    const auto keys = keys_of_all(rt, region);
    Counter told;
    Endpoint remote(rt, {.arrival = Arrival::memory, .at_target = &told});
    rt.barrier();
    if (rt.rank() == Rank{1}) {
      while (!posted) std::this_thread::yield();
      while (word != kPuts) rt.progress();
      came = true;
      while (!signalled) std::this_thread::yield();
      rt.progress();
      EXPECT_EQ(told.value(), 0U);
      looked = true;
      while (told.value() == 0) rt.progress();
      while (!over) std::this_thread::yield();
      return;
    }
    Counter done;
    for (uint64_t i = 1; i <= kPuts; ++i)
      EXPECT_EQ(remote.put(keys[1], 0, bytes_of(i), &done), Post::posted);
    posted = true;
    while (!came) std::this_thread::yield();
    while (done.value() == 0) rt.progress();
    EXPECT_LT(done.value(), kPuts);
    EXPECT_EQ(remote.put_signal(keys[1], 0, bytes_of(word), Tag{1}, &done), Post::posted);
    signalled = true;
    while (!looked) std::this_thread::yield();
    rt.wait_until([&] { return done.value() == kPuts + 1; });
    over = true;
  });
}

// Answers to a stream of small puts, more than their ring takes at a time, do not keep that to a
// large one back.
TEST_P(SignalsByReadsOrPackets, LargePutsAreAnsweredBesideAStreamOfSmallOnes) {
  const auto config = SignalsByReadsOrPackets::config();
  const test::ConfigOverride small(test::ConfigOverride::List{{"fabric.control_cells", "8"}});
  std::atomic<bool> over{false};
  on_ranks(2, [&](Runtime& rt) {
    std::vector<std::byte> memory(kLargePut);
    const Region region(rt, memory);
    const auto keys = keys_of_all(rt, region);
    Endpoint remote(rt, {.arrival = Arrival::memory});
    rt.barrier();
    if (rt.rank() == Rank{1}) {
      while (!over) rt.progress();
      return;
    }
    constexpr uint64_t kMost = 100'000;
    const auto out = pattern(kLargePut, 1);
    Counter large;
    Counter done;
    uint64_t posted = 0;
    const auto put = [&] { return remote.put(keys[1], 0, std::span(out).first(8), &done); };
    while (posted < 100)
      if (until_posted(rt, put) == Post::posted) ++posted;
    EXPECT_EQ(until_posted(rt, [&] { return remote.put(keys[1], 0, out, &large); }), Post::posted);
    while (large.value() == 0 && posted < kMost) {
      if (posted - done.value() < 200 && put() == Post::posted)
        ++posted;
      else
        rt.progress();
    }
    EXPECT_LT(posted, kMost);
    rt.wait_until([&] { return large.value() == 1 && done.value() == posted; });
    over = true;
  });
}

// While signals find no room, further ones come to a stop, and leave the records that others' puts
// need.
TEST_P(SignalsByReadsOrPackets, SignalsThatNobodyTakesLeaveOthersTheirRecords) {
  const auto config = SignalsByReadsOrPackets::config();
  for (const std::size_t bytes : {std::size_t{8}, kLargePut}) {
    std::atomic<bool> is_full{false};
    std::atomic<bool> over{false};
    std::atomic<uint64_t> sent{0};
    on_ranks(3, [&](Runtime& rt) {
      std::vector<std::byte> memory(kLargePut);
      const Region region(rt, memory);
      const auto keys = keys_of_all(rt, region);
      CompletionQueue signals(2);
      Endpoint told(rt, {.arrival = Arrival::memory, .at_target = &signals});
      Endpoint quiet(rt, {.arrival = Arrival::memory});
      rt.barrier();
      const auto out = pattern(bytes, 1);
      if (rt.rank() == Rank{0}) {
        Counter done;
        const uint64_t least = 64;  // completed, or under way
        for (uint64_t in_vain = 0; in_vain < 200 || sent < least;) {
          const Post answer = told.put_signal(keys[1], 0, out, Tag{1}, &done);
          if (answer == Post::posted) ++sent;
          if (answer != Post::retry) continue;
          rt.progress();
          std::this_thread::sleep_for(std::chrono::microseconds(100));
          if (++in_vain > 5'000) break;
        }
        EXPECT_GE(sent.load(), least);
        EXPECT_LT(sent.load(), 1500U);  // 1,024 under way, and what its lane holds
        is_full = true;
        rt.wait_until([&] { return done.value() == sent.load(); });
        EXPECT_EQ(done.errors(), 0U);
      } else if (rt.rank() == Rank{2}) {
        while (!is_full) std::this_thread::yield();
        for (int i = 0; i < 20; ++i) EXPECT_EQ(quiet.put_wait(keys[1], 0, out).error, Errc::ok);
        over = true;
      } else {
        while (!over) rt.progress();
        Event event;
        for (uint64_t taken = 0; taken != sent;) {
          if (signals.pop(event))
            ++taken;
          else
            rt.progress();
        }
      }
      rt.barrier();
    });
  }
}

}  // namespace
}  // namespace weft
