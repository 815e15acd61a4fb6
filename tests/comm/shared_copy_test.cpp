// Large copies that both ends do: chunks are claimed once, late claims meet nothing, messages of
// all sizes arrive whole whoever copies how much, and whatever becomes of the sender's fragments.
#include "comm/shared_copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/config_override.hpp"
#include "comm/device.hpp"
#include "comm/ranks.hpp"
#include "comm/wire.hpp"
#include "fabric/interceptor_base.hpp"
#include "weft/comm/config.hpp"
#include "weft/comm/runtime.hpp"
#include "weft/fabric/job.hpp"

namespace weft {
namespace {

using comm::CopyClaims;
using test::on_ranks;
using test::on_threads;
using test::pattern;

// --- Claims --------------------------------------------------------------------------------------

TEST(CopyClaims, EachChunkIsClaimedOnceByOneOfThem) {
  CopyClaims claims{};
  for (int use = 0; use < 200; ++use) {
    constexpr uint32_t kChunks = 300;
    const uint32_t generation = claims.begin();
    std::vector<std::atomic<int>> taken(kChunks);
    on_threads(2, [&](int who) {
      const bool sends = who == 1;
      for (int i = 1; const auto number = claims.claim(generation, kChunks, sends); ++i) {
        if (sends && i % 7 == 0) {
          claims.unclaim(generation);
        } else {
          taken[*number].fetch_add(1);
        }
      }
    });
    // What the sender gave up last the receiver may have missed.
    while (const auto number = claims.claim(generation, kChunks, false))
      taken[*number].fetch_add(1);
    for (const auto& each : taken) ASSERT_EQ(each.load(), 1);
    EXPECT_TRUE(claims.is_over(generation, kChunks));
  }
}

TEST(CopyClaims, OneEndGoesUpTheOtherDown) {
  CopyClaims claims{};
  const uint32_t generation = claims.begin();
  EXPECT_EQ(claims.claim(generation, 3, false), 0U);
  EXPECT_EQ(claims.claim(generation, 3, true), 2U);
  EXPECT_FALSE(claims.is_over(generation, 3));
  EXPECT_EQ(claims.claim(generation, 3, true), 1U);
  EXPECT_TRUE(claims.is_over(generation, 3));
  EXPECT_EQ(claims.claim(generation, 3, false), std::nullopt);
  claims.unclaim(generation);
  EXPECT_EQ(claims.claim(generation, 3, false), 1U);
  EXPECT_TRUE(claims.is_over(generation, 3));
}

// The sender claimed a chunk and had no room to send it, and the receiver read it meanwhile: then
// the sender's buffer is not its own any more.
TEST(CopyClaims, WhatIsGivenUpAfterTheEndOpensNothing) {
  CopyClaims claims{};
  const uint32_t generation = claims.begin();
  EXPECT_EQ(claims.claim(generation, 2, true), 1U);
  EXPECT_EQ(claims.claim(generation, 2, false), 0U);
  claims.close(generation);
  EXPECT_TRUE(claims.is_over(generation, 2));
  claims.unclaim(generation);
  EXPECT_TRUE(claims.is_over(generation, 2));
  EXPECT_EQ(claims.claim(generation, 2, true), std::nullopt);
  EXPECT_NE(claims.begin(), generation);
}

TEST(CopyClaims, LateClaimsMeetNothing) {
  CopyClaims claims{};
  const uint32_t first = claims.begin();
  claims.close(first);
  EXPECT_EQ(claims.claim(first, 2, true), std::nullopt);
  const uint32_t second = claims.begin();
  EXPECT_TRUE(claims.is_over(first, 2));
  EXPECT_EQ(claims.claim(first, 2, true), std::nullopt);
  EXPECT_EQ(claims.claim(second, 2, true), 1U);
  claims.unclaim(first);
  EXPECT_EQ(claims.claim(second, 2, true), 0U);
}

// --- Messages ------------------------------------------------------------------------------------

/// Counts who copies, may let reads wait for fragments, and meddles with these.
struct Meddling {
  enum class Fragments : uint8_t { pass, find_no_room, wait };
  std::atomic<uint64_t> read{0};
  std::atomic<uint64_t> sent{0};          ///< in fragments that were not refused
  std::atomic<uint64_t> most_at_once{0};  ///< bytes of the largest copy
  bool reads_wait = false;                ///< until the other end has sent something
  std::atomic<Fragments> fragments{Fragments::pass};

  void note(uint64_t size) {
    uint64_t most = most_at_once;
    while (size > most && !most_at_once.compare_exchange_weak(most, size)) {
    }
  }
};

class MeddledPort final : public fabric::PassingPort {
 public:
  MeddledPort(std::unique_ptr<fabric::Port> inner, Meddling& how)
      : PassingPort(std::move(inner)), how_(how) {}
  Post try_send_packet(Rank to, uint32_t to_port, std::span<const std::byte> header,
                       fabric::PacketPart part) noexcept override {
    using Fragments = Meddling::Fragments;
    if (comm::unpack(header.data()).type != comm::PacketType::data)
      return PassingPort::try_send_packet(to, to_port, header, part);
    if (how_.fragments == Fragments::find_no_room) return Post::retry;
    how_.note(part.bytes);
    how_.sent += part.bytes;
    if (how_.fragments == Fragments::pass)
      return PassingPort::try_send_packet(to, to_port, header, part);
    waiting_.push_back({to, to_port, {header.begin(), header.end()}, part});
    return Post::posted;
  }
  uint32_t poll(fabric::Sink& sink, uint32_t budget) override {
    while (how_.fragments == Meddling::Fragments::pass && !waiting_.empty()) {
      const Waiting& last = waiting_.back();
      if (PassingPort::try_send_packet(last.to, last.to_port, last.header, last.part) ==
          Post::retry) {
        break;
      }
      waiting_.pop_back();
    }
    return PassingPort::poll(sink, budget);
  }

 private:
  struct Waiting {
    Rank to;
    uint32_t to_port;
    std::vector<std::byte> header;
    fabric::PacketPart part;
  };
  Meddling& how_;
  std::vector<Waiting> waiting_;
};

struct MeddlingPorts {
  Meddling& how;
  std::unique_ptr<fabric::Port> operator()(std::unique_ptr<fabric::Port> port,
                                           uint32_t /*number*/) const {
    return std::make_unique<MeddledPort>(std::move(port), how);
  }
};

class Meddled final : public fabric::WrappedTransport<MeddlingPorts> {
 public:
  Meddled(std::unique_ptr<fabric::Transport> inner, Meddling& how)
      : WrappedTransport(std::move(inner), MeddlingPorts{how}), how_(how) {}
  Errc read_memory(Rank peer, uint64_t address, std::span<std::byte> local) noexcept override {
    how_.read += local.size();
    how_.note(local.size());
    while (how_.reads_wait && how_.sent == 0) std::this_thread::yield();
    return WrappedTransport::read_memory(peer, address, local);
  }

 private:
  Meddling& how_;
};

RuntimeOptions options_of(Meddling& how) {
  RuntimeOptions options{.devices = 1};
  options.wrap = [&how](std::unique_ptr<fabric::Transport> inner) {
    return std::make_unique<Meddled>(std::move(inner), how);
  };
  return options;
}

/// Rank 0 sends to rank 1, which looks at every byte.
void send_all(const std::vector<std::size_t>& sizes, const RuntimeOptions& options) {
  on_ranks(
      2,
      [&](Runtime& runtime) {
        Endpoint endpoint(runtime, {.arrival = Arrival::matched});
        const bool sends = runtime.rank() == Rank{0};
        std::vector<std::vector<std::byte>> data;
        for (uint32_t i = 0; i < sizes.size(); ++i) {
          data.push_back(sends ? pattern(sizes[i], i) : std::vector<std::byte>(sizes[i]));
        }
        runtime.barrier();
        Synchronizer done(static_cast<uint32_t>(sizes.size()));
        for (uint32_t i = 0; i < sizes.size(); ++i) {
          const Post answer = until_posted(runtime, [&] {
            return sends ? endpoint.send(Rank{1}, Tag{i}, data[i], &done)
                         : endpoint.recv(Rank{0}, Tag{i}, data[i], &done);
          });
          if (answer == Post::done) done.arrive();
        }
        runtime.wait(done);
        EXPECT_EQ(done.event().error, Errc::ok);
        for (uint32_t i = 0; i < sizes.size() && !sends; ++i) {
          EXPECT_EQ(data[i], pattern(sizes[i], i)) << sizes[i] << " bytes";
        }
        runtime.barrier();
      },
      options);
}

const std::vector<std::size_t> kSizes{32767,  32768,  32769,   65535,   65536,     65537,
                                      100000, 262144, 1000000, 1048577, 3 * 524288};

TEST(SharedCopy, MessagesOfAllSizesArriveWhole) {
  send_all(kSizes, {});
  send_all(std::vector<std::size_t>(150, 70000), {});  // more than there are claims
}

TEST(SharedCopy, ASenderThatWaitsCopiesItsPart) {
  Meddling how{.reads_wait = true};
  send_all(std::vector<std::size_t>(20, 400000), options_of(how));
  EXPECT_GT(how.sent, 0U);
  EXPECT_GE(how.read + how.sent, 20U * 400000U);  // what seemed lost was read, too
}

TEST(SharedCopy, ConfigurationSaysFromWhichSizeOn) {
  register_comm_config();
  const test::ConfigOverride config(test::ConfigOverride::List{{"comm.share_bytes", "300000"}});
  Meddling below;
  send_all(std::vector<std::size_t>(20, 299999), options_of(below));
  EXPECT_EQ(below.sent, 0U);
  EXPECT_EQ(below.read, 20U * 299999U);
  Meddling from{.reads_wait = true};
  send_all(std::vector<std::size_t>(20, 300000), options_of(from));
  EXPECT_GT(from.sent, 0U);
  EXPECT_GE(from.read + from.sent, 20U * 300000U);
}

TEST(SharedCopy, ConfigurationSaysHowMuchIsCopiedAtOnce) {
  register_comm_config();
  for (const char* share : {"4096", "1G"}) {  // by both ends, and by the receiver alone
    for (const uint64_t chunk : {uint64_t{20'000}, uint64_t{100'000}}) {
      const test::ConfigOverride config(
          {{"comm.share_bytes", share}, {"comm.copy_chunk_bytes", std::to_string(chunk)}});
      Meddling how;
      send_all(kSizes, options_of(how));
      EXPECT_LE(how.most_at_once, chunk) << share;
      EXPECT_GT(how.most_at_once, 4096U) << share;
    }
  }
}

TEST(SharedCopy, ASenderWhoseFragmentsFindNoRoomIsDoneWithout) {
  Meddling how{.fragments = Meddling::Fragments::find_no_room};
  send_all(kSizes, options_of(how));
}

/// What was claimed and does not come is read; when it comes after all, the buffer is the
/// program's.
TEST(SharedCopy, FragmentsThatComeLateAreDropped) {
  constexpr uint32_t kMessages = 40;
  Meddling how{.reads_wait = true, .fragments = Meddling::Fragments::wait};
  on_ranks(
      2,
      [&](Runtime& runtime) {
        const bool sends = runtime.rank() == Rank{0};
        const auto data = pattern(500000, 1);
        std::vector<std::byte> into(data.size());
        {
          Endpoint endpoint(runtime, {.arrival = Arrival::matched});
          runtime.barrier();
          for (uint32_t i = 0; i < kMessages; ++i) {
            Synchronizer done(1);
            const Post answer = until_posted(runtime, [&] {
              return sends ? endpoint.send(Rank{1}, Tag{i}, data, &done)
                           : endpoint.recv(Rank{0}, Tag{i}, into, &done);
            });
            if (answer != Post::done) runtime.wait(done);
            EXPECT_TRUE(sends || into == data) << i;
          }
          std::fill(into.begin(), into.end(), std::byte{0xEE});
          runtime.barrier();
        }
        // Its endpoint is gone, too.
        how.fragments = Meddling::Fragments::pass;
        for (int i = 0; i < 5; ++i) runtime.barrier();
        EXPECT_EQ(into, std::vector<std::byte>(into.size(), std::byte{0xEE}));
      },
      options_of(how));
  EXPECT_GT(how.sent, 0U);
}

/// A sender that is far enough ahead of a receiver that computes sleeps.
TEST(SharedCopy, ASenderThatIsAheadSleeps) {
  Meddling how{.reads_wait = true};
  std::atomic<Device*> sender{nullptr};
  RuntimeOptions options = options_of(how);
  options.progress = Progress::waiters;
  on_ranks(
      2,
      [&](Runtime& runtime) {
        Endpoint endpoint(runtime, {.arrival = Arrival::matched});
        const auto data = pattern(4 << 20, 1);
        std::vector<std::byte> into(data.size());
        runtime.barrier();
        Synchronizer done(1);
        if (runtime.rank() == Rank{0}) {
          sender = &runtime.device(0);
          (void)until_posted(runtime, [&] { return endpoint.send(Rank{1}, Tag{1}, data, &done); });
          runtime.wait(done);
        } else {
          (void)until_posted(runtime, [&] { return endpoint.recv(Rank{0}, Tag{1}, into, &done); });
          while (how.sent == 0) runtime.progress();
          const auto polls = [&] { return sender.load()->counters().read(Device::polls); };
          for (uint64_t before = polls() - 1; before != polls();) {
            before = polls();
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
          }
          runtime.wait(done);
          EXPECT_TRUE(into == data);
        }
        runtime.barrier();
      },
      options);
}

/// In a failure, while fragments are on their way to it. It waits for none of them.
TEST(SharedCopy, AReceiverMayEndMeanwhile) {
  struct Failure {};
  Meddling how{.reads_wait = true};
  const auto jobs = fabric::make_local_job(2, 1);
  std::atomic<bool> ends{false};
  std::atomic<bool> stopped{false};
  std::atomic<bool> over{false};
  const auto fail_in = [&](int rank, const auto& body) {
    RuntimeOptions options = options_of(how);
    options.job = jobs[static_cast<std::size_t>(rank)].get();
    try {
      Runtime runtime(options);
      Endpoint endpoint(runtime, {});
      body(runtime, endpoint);
      throw Failure{};
    } catch (const Failure&) {
    }
  };
  ::testing::internal::CaptureStderr();
  const auto data = pattern(64 << 20, 1);
  Counter done;
  std::jthread sender([&] {
    fail_in(0, [&](Runtime& runtime, Endpoint& endpoint) {
      (void)until_posted(runtime, [&] { return endpoint.send(Rank{1}, Tag{1}, data, &done); });
      while (!ends) runtime.progress();
      stopped = true;
      while (!over) std::this_thread::yield();  // the other's memory goes
    });
  });
  std::vector<std::byte> into(data.size());
  Counter received;
  fail_in(1, [&](Runtime& runtime, Endpoint& endpoint) {
    (void)until_posted(runtime, [&] { return endpoint.recv(Rank{0}, Tag{1}, into, &received); });
    while (how.sent == 0) runtime.progress();
    ends = true;
    while (!stopped) std::this_thread::yield();
  });
  over = true;
  sender.join();
  EXPECT_EQ(received.value(), 0U);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("ended with work pending"),
            std::string::npos);
}

/// Its answers wait until it progresses; the receives do not, as many as they are: offers that
/// nobody looks at leave them room.
TEST(SharedCopy, ASenderThatDoesSomethingElseIsNotWaitedFor) {
  constexpr uint32_t kMessages = 40;
  std::atomic<bool> received{false};
  on_ranks(2,
           [&](Runtime& runtime) {
             Endpoint endpoint(runtime, {.arrival = Arrival::matched});
             runtime.barrier();
             Synchronizer done(kMessages);
             const auto sent = pattern(500000, 1);
             if (runtime.rank().value == 0) {
               for (uint32_t i = 0; i < kMessages; ++i) {
                 (void)until_posted(runtime,
                                    [&] { return endpoint.send(Rank{1}, Tag{i}, sent, &done); });
               }
               while (!received) std::this_thread::sleep_for(std::chrono::milliseconds(1));
               runtime.wait(done);
             } else {
               std::vector<std::vector<std::byte>> into(kMessages);
               for (uint32_t i = 0; i < kMessages; ++i) {
                 into[i].resize(sent.size());
                 (void)until_posted(runtime,
                                    [&] { return endpoint.recv(Rank{0}, Tag{i}, into[i], &done); });
               }
               runtime.wait(done);
               for (const auto& each : into) EXPECT_EQ(each, sent);
               received = true;
             }
             runtime.barrier();
           },
           {.devices = 1, .progress = Progress::waiters});
}

}  // namespace
}  // namespace weft
