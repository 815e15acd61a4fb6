// Arguments of the runtime that nothing could make right.
#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/captured_stderr.hpp"
#include "base/config_override.hpp"
#include "comm/ranks.hpp"
#include "fabric/job_local.hpp"
#include "weft/fabric/config.hpp"
#include "weft/fabric/job.hpp"

namespace weft {
namespace {

using test::on_ranks;

// The test's own process as a job of one: not a rank of a local job.
TEST(RuntimeArguments, ARuntimeThatCouldNotBeMadeLeavesRoomForTheNext) {
  EXPECT_THROW(Runtime(RuntimeOptions{.devices = 5000}), Error);
  const Runtime next;
  EXPECT_EQ(next.size(), 1);
  EXPECT_THROW(Runtime(), Error);  // now there is one
}

TEST(RuntimeArguments, RanksAndDevicesThatAreNoneAreRefused) {
  on_ranks(2,
           [](Runtime& rt) {
             EXPECT_FALSE(rt.is_dead(Rank{1}));
             for (const Rank none : {kAnyRank, Rank{2}, Rank{1'000'000'000}}) {
               EXPECT_THROW((void)rt.is_dead(none), Error) << none.value;
               EXPECT_EQ(rt.cause_of_death(none), "");
             }
             (void)rt.device(0);
             (void)rt.device_counts(0);
             EXPECT_THROW((void)rt.device(1), Error);
             EXPECT_THROW((void)rt.device_counts(4000), Error);
           },
           {.devices = 1});
}

TEST(EndpointArguments, RemoteMemoryNeedsFramesThatHoldItsRequests) {
  fabric::register_fabric_config();
  const test::ConfigOverride one_cell(test::ConfigOverride::List{{"fabric.inline_cells", "1"}});
  on_ranks(1, [](Runtime& rt) {
    EXPECT_THROW(Endpoint(rt, {.arrival = Arrival::memory}), Error);
    const Endpoint letters(rt, {});
  });
}

TEST(EndpointArguments, WhatTakesNoMessagesSendsNone) {
  on_ranks(2, [](Runtime& rt) {
    Endpoint memory(rt, {.arrival = Arrival::memory});
    const std::vector<std::byte> small(8);
    const std::vector<std::byte> large(1'000'000);
    const std::span<const std::byte> pieces[] = {small, large};
    EXPECT_THROW((void)memory.send(Rank{0}, Tag{1}, small), Error);
    EXPECT_THROW((void)memory.send(Rank{0}, Tag{1}, {}), Error);
    EXPECT_THROW((void)memory.send(Rank{0}, Tag{1}, large), Error);
    EXPECT_THROW((void)memory.send_gathered(Rank{0}, Tag{1}, pieces), Error);
    EXPECT_THROW((void)memory.send_wait(Rank{0}, Tag{1}, small), Error);
  });
}

TEST(EndpointArguments, WhatIsLeftOfAnEndedEndpointIsTold) {
  test::CapturedStderr told;
  on_ranks(2, [](Runtime& rt) {
    {
      Endpoint letters(rt, {});
      Endpoint queue(rt, {.arrival = Arrival::queue});
      if (rt.rank() == Rank{0}) {
        for (int i = 0; i < 3; ++i) letters.send_wait(Rank{1}, Tag{1}, test::bytes_of(i));
        for (int i = 0; i < 2; ++i) queue.send_wait(Rank{1}, Tag{1}, test::bytes_of(i));
        letters.send_wait(Rank{1}, Tag{2}, {});
      } else {
        letters.recv_wait(Rank{0}, Tag{2}, {});
      }
    }
    rt.barrier();
  });
  told.wait_for("ended with 3 messages that were never received");
  told.wait_for("ended with 2 messages that were never received");
}

/// Puts with a signal to ranks whose endpoint cannot tell anybody of it.
class SignalsToNobody : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Kinds, SignalsToNobody, testing::Bool(), [](const auto& kind) {
  return std::string(kind.param ? "shared" : "ordinary");
});

TEST_P(SignalsToNobody, AreRefusedOrTold) {
  const bool shared = GetParam();
  test::CapturedStderr told;
  constexpr std::size_t kBytes = 1 << 20;
  constexpr std::size_t kSizes[] = {0, 8, 5000, kBytes};
  on_ranks(
      2,
      [&](Runtime& rt) {
        CompletionQueue signals;
        const bool owns = rt.rank() == Rank{1};
        Endpoint letters(rt, {});
        std::vector<std::byte> own(shared ? 0 : kBytes);
        const auto memory = shared ? rt.allocate_shared(kBytes) : std::span(own);
        {
          // Who is never signalled itself needs none: that is no error.
          Endpoint good(rt, {.arrival = Arrival::memory, .at_target = owns ? &signals : nullptr});
          Endpoint bad(rt, {.arrival = Arrival::memory});
          const Region region(rt, memory);
          if (owns) {
            letters.send_wait(Rank{0}, Tag{1}, test::bytes_of(region.key()));
            Event event;
            for ([[maybe_unused]] const std::size_t size : kSizes) {
              rt.wait_until([&] { return signals.pop(event); });
              EXPECT_EQ(event.tag, Tag{9});
            }
            rt.barrier();
            EXPECT_FALSE(signals.pop(event));
            // Puts to memory that is not written by their sender wrote nothing.
            EXPECT_EQ(memory[0], shared ? std::byte{7} : std::byte{1});
            try {
              (void)bad.put_signal(region.key(), 0, {}, Tag{9});
              ADD_FAILURE() << "taken";
            } catch (const Error& error) {
              EXPECT_EQ(error.code(), Errc::bad_argument);
              EXPECT_NE(std::string(error.what()).find("made without at_target"),
                        std::string::npos);
            }
          } else {
            fabric::MemoryKey key;
            letters.recv_wait(Rank{1}, Tag{1}, test::writable(key));
            const auto put = [&](Endpoint& through, std::size_t size, std::byte value) {
              const std::vector<std::byte> data(size, value);
              Synchronizer done;
              const auto call = [&] { return through.put_signal(key, 0, data, Tag{9}, &done); };
              if (until_posted(rt, call) == Post::done) return Errc::ok;
              rt.wait(done);
              return done.event().error;
            };
            for (const std::size_t size : kSizes)
              EXPECT_EQ(put(good, size, std::byte{1}), Errc::ok);
            for (const std::size_t size : kSizes) {
              // Into weft's memory this rank wrote itself, and only the owner knows.
              EXPECT_EQ(put(bad, size, std::byte{7}), shared ? Errc::ok : Errc::bad_argument)
                  << size;
            }
            rt.barrier();
          }
          rt.barrier();
        }
        if (shared) rt.release_shared(memory);
      },
      {.devices = 1});
  told.wait_for("made without at_target, dropped the signals of 4 puts");
  EXPECT_EQ(told.count("dropped the signal of a put from rank 0 to endpoint "), 1);
}

TEST(SharedMemoryArguments, OnlyWeftsOwnIsExposedAndReleased) {
  on_ranks(2, [](Runtime& rt) {
    const auto refused = [](std::span<std::byte> memory, auto call) {
      try {
        call(memory);
        ADD_FAILURE() << "taken";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::bad_argument);
        const std::string text = error.what();
        EXPECT_NE(text.find("allocate_shared"), std::string::npos) << text;
        EXPECT_NE(text.find(fmt::format("{}", static_cast<void*>(memory.data()))),
                  std::string::npos)
            << text;
      }
    };
    const auto expose = [&rt](std::span<std::byte> memory) { (void)rt.expose_shared(memory); };
    const auto release = [&rt](std::span<std::byte> memory) { rt.release_shared(memory); };
    std::vector<std::byte> own(10'000);
    const auto shared = rt.allocate_shared(10'000);
    EXPECT_NE(rt.expose_shared(shared.subspan(8, 8)).segment, 0U);
    refused(own, expose);
    refused({shared.data() + 8, 1 << 20}, expose);  // beyond its end
    // More often than there are names: what is refused keeps none.
    for (int i = 0; i < 3000; ++i) EXPECT_THROW(expose(own), Error);
    refused(own, release);
    refused(shared.subspan(8), release);  // not its beginning
    release(shared);
    refused(shared, release);  // again
    refused(shared, expose);
    release({});
  });
}

TEST(EndpointArguments, WhoOutlivesItsRuntimeIsNamed) {
  test::CapturedStderr told;
  on_ranks(1, [](Runtime&) {});
  auto job = fabric::make_local_job(1);
  std::optional<Runtime> runtime(RuntimeOptions{.job = job[0].get()});
  static Endpoint* volatile left = new Endpoint(*runtime, {});  // cannot be ended any more
  runtime.reset();
  told.wait_for("the runtime ends before endpoint 1");
  EXPECT_NE(left, nullptr);
}

TEST(SynchronizerDeathTest, MoreThanItExpectsIsTold) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto arrive = [](uint32_t expected, uint32_t first, uint32_t second) {
    Synchronizer done(expected);
    done.arrive(first);
    done.arrive(second);
  };
  arrive(3, 1, 2);
  EXPECT_DEATH(arrive(1, 2, 0), "broken contract.*more events");
  EXPECT_DEATH(arrive(3, 2, 2), "broken contract.*more events");
  EXPECT_DEATH(arrive(1, 1, 1), "broken contract.*more operations");
}

}  // namespace
}  // namespace weft
