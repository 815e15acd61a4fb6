// Large messages, puts and gets that nobody can take: their senders are told instead of waiting.
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/ranks.hpp"

namespace weft {
namespace {

using test::on_ranks;
using test::pattern;

constexpr std::size_t kLarge = 100'000;

fabric::MemoryKey key_of(Runtime& rt, const Region& mine, Rank whose) {
  return test::keys_of_all(rt, mine)[static_cast<std::size_t>(whose.value)];
}

/// How rank 0's puts and gets of every way end.
std::vector<Errc> errors_of_accesses(Endpoint& remote, const fabric::MemoryKey& key) {
  const auto out = pattern(kLarge, 1);
  std::vector<std::byte> in(kLarge);
  const auto all = std::span(out);
  return {remote.put_wait(key, 0, all.first(8)).error,
          remote.put_wait(key, 0, all.first(5000)).error, remote.put_wait(key, 0, all).error,
          remote.get_wait(key, 0, in).error};
}

TEST(Unreceived, LargeSendsAreCancelledWhereTheEndpointHasEnded) {
  for (const Arrival arrival : {Arrival::matched, Arrival::queue, Arrival::handler}) {
    on_ranks(2, [&](Runtime& rt) {
      EndpointSpec spec{.arrival = arrival};
      if (arrival == Arrival::handler) spec.handler = [](void*, const Incoming&) {};
      auto ep = std::make_unique<Endpoint>(rt, spec);
      if (rt.rank() == Rank{1}) ep.reset();
      rt.barrier();
      if (rt.rank() == Rank{0}) {
        EXPECT_EQ(ep->send_wait(Rank{1}, Tag{1}, pattern(8, 1)).error, Errc::ok);
        EXPECT_EQ(ep->send_wait(Rank{1}, Tag{1}, pattern(kLarge, 1)).error, Errc::cancelled);
      }
      rt.barrier();
    });
  }
}

TEST(Unreceived, AccessesAreCancelledWhereTheEndpointHasEnded) {
  on_ranks(2, [](Runtime& rt) {
    std::vector<std::byte> memory(kLarge);
    const Region region(rt, memory);
    const auto key = key_of(rt, region, Rank{1});
    auto ep = std::make_unique<Endpoint>(rt, EndpointSpec{.arrival = Arrival::memory});
    if (rt.rank() == Rank{1}) ep.reset();
    rt.barrier();
    if (rt.rank() == Rank{0}) {
      for (const Errc error : errors_of_accesses(*ep, key)) EXPECT_EQ(error, Errc::cancelled);
    }
    rt.barrier();
  });
}

// More than there are records for refusals, and those that an endpoint has no room for.
TEST(Unreceived, LargeSendsAreCancelledWhenTheEndpointEnds) {
  constexpr uint64_t kMessages = 500;
  for (const Arrival arrival : {Arrival::matched, Arrival::queue}) {
    for (const bool early : {false, true}) {
      on_ranks(2, [&](Runtime& rt) {
        Endpoint letters(rt, {});
        std::unique_ptr<Endpoint> ep;
        const auto make = [&] {
          ep = std::make_unique<Endpoint>(
              rt, EndpointSpec{.arrival = arrival, .queue_capacity = early ? 4U : 1024U});
        };
        if (rt.rank() == Rank{0} || !early) make();
        rt.barrier();
        if (rt.rank() == Rank{0}) {
          const auto out = pattern(kLarge, 1);
          // What waits for an endpoint that is not made takes a packet each.
          const uint64_t count = early ? 20 : kMessages;
          Counter done;
          for (uint64_t i = 0; i < count; ++i) {
            EXPECT_EQ(until_posted(rt, [&] { return ep->send(Rank{1}, Tag{1}, out, &done); }),
                      Post::posted);
          }
          letters.send_wait(Rank{1}, Tag{2}, {});
          rt.wait_until([&] { return done.value() == count; });
          EXPECT_EQ(done.errors(), count);
        } else {
          letters.recv_wait(Rank{0}, Tag{2}, {});  // behind them
          if (early) make();
          ep.reset();
        }
        rt.barrier();
      });
    }
  }
}

TEST(Unreceived, WhatIsForAnotherKindOfEndpointIsABadArgument) {
  ::testing::internal::CaptureStderr();
  on_ranks(2,
           [](Runtime& rt) {
             std::vector<std::byte> memory(kLarge);
             const Region region(rt, memory);
             const auto key = key_of(rt, region, Rank{1});
             const bool here = rt.rank() == Rank{0};
             Endpoint letters(rt, {.arrival = here ? Arrival::matched : Arrival::memory});
             Endpoint remote(rt, {.arrival = here ? Arrival::memory : Arrival::matched});
             if (here) {
               EXPECT_EQ(letters.send_wait(Rank{1}, Tag{1}, pattern(8, 1)).error, Errc::ok);
               EXPECT_EQ(letters.send_wait(Rank{1}, Tag{1}, pattern(5000, 1)).error, Errc::ok);
               EXPECT_EQ(letters.send_wait(Rank{1}, Tag{1}, pattern(kLarge, 1)).error,
                         Errc::bad_argument);
               for (const Errc error : errors_of_accesses(remote, key)) {
                 EXPECT_EQ(error, Errc::bad_argument);
               }
             }
             rt.barrier();
           },
           {.devices = 1});
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("from rank 0 for endpoint "), std::string::npos) << said;
  EXPECT_EQ(said.find("dropped"), said.rfind("dropped")) << "once a device: " << said;
}

}  // namespace
}  // namespace weft
