// Large copies that both ends do: chunks are claimed once, late claims meet nothing, messages of
// all sizes arrive whole whoever copies how much, and a sender that may not write is done without.
#include "comm/shared_copy.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/config_override.hpp"
#include "comm/ranks.hpp"
#include "fabric/interceptor_base.hpp"
#include "weft/comm/config.hpp"
#include "weft/comm/runtime.hpp"

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
      while (const auto number = claims.claim(generation, kChunks, who == 1)) {
        taken[*number].fetch_add(1);
        if (who == 1) claims.tell_done(true);
      }
    });
    for (const auto& each : taken) ASSERT_EQ(each.load(), 1);
    EXPECT_TRUE(claims.all_claimed(kChunks));
    EXPECT_TRUE(claims.is_done());
  }
}

TEST(CopyClaims, OneEndGoesUpTheOtherDown) {
  CopyClaims claims{};
  const uint32_t generation = claims.begin();
  EXPECT_EQ(claims.claim(generation, 3, false), 0U);
  EXPECT_EQ(claims.claim(generation, 3, true), 2U);
  EXPECT_FALSE(claims.is_done());
  EXPECT_EQ(claims.claim(generation, 3, true), 1U);
  EXPECT_EQ(claims.claim(generation, 3, false), std::nullopt);
  claims.tell_done(true);
  EXPECT_FALSE(claims.is_done());
  claims.tell_done(true);
  EXPECT_TRUE(claims.is_done());
}

TEST(CopyClaims, LateClaimsMeetNothing) {
  CopyClaims claims{};
  const uint32_t first = claims.begin();
  claims.close(first, 2);
  EXPECT_EQ(claims.claim(first, 2, true), std::nullopt);
  const uint32_t second = claims.begin();
  EXPECT_EQ(claims.claim(first, 2, true), std::nullopt);
  EXPECT_EQ(claims.claim(second, 2, true), 1U);
}

// --- Messages ------------------------------------------------------------------------------------

/// Counts who copies, may let reads wait for writes, and may forbid writes.
struct Meddling {
  std::atomic<uint64_t> read{0};
  std::atomic<uint64_t> written{0};
  std::atomic<uint64_t> most_at_once{0};  ///< bytes of the largest copy
  bool reads_wait = false;                ///< until the other end has written something
  bool writes_fail = false;
  bool writes_wait = false;  ///< until they may go on
  std::atomic<bool> writing{false};
  std::atomic<bool> may_go_on{false};
};

using PlainPorts = decltype([](std::unique_ptr<fabric::Port> port, uint32_t /*number*/) {
  return port;
});

class Meddled final : public fabric::WrappedTransport<PlainPorts> {
 public:
  Meddled(std::unique_ptr<fabric::Transport> inner, Meddling& how)
      : WrappedTransport(std::move(inner), PlainPorts{}), how_(how) {}
  Errc read_memory(Rank peer, uint64_t address, std::span<std::byte> local) noexcept override {
    how_.read += local.size();
    note(local.size());
    while (how_.reads_wait && how_.written == 0) std::this_thread::yield();
    return WrappedTransport::read_memory(peer, address, local);
  }
  Errc write_memory(Rank peer, uint64_t address,
                    std::span<const std::byte> local) noexcept override {
    if (how_.writes_fail) return Errc::no_permission;
    how_.written += local.size();
    note(local.size());
    how_.writing = true;
    while (how_.writes_wait && !how_.may_go_on) std::this_thread::yield();
    const Errc error = WrappedTransport::write_memory(peer, address, local);
    how_.writing = false;
    return error;
  }

 private:
  void note(uint64_t size) {
    uint64_t most = how_.most_at_once;
    while (size > most && !how_.most_at_once.compare_exchange_weak(most, size)) {
    }
  }
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
  EXPECT_EQ(how.read + how.written, 20U * 400000U);
}

TEST(SharedCopy, ConfigurationSaysFromWhichSizeOn) {
  register_comm_config();
  const test::ConfigOverride config(test::ConfigOverride::List{{"comm.share_bytes", "300000"}});
  Meddling below;
  send_all(std::vector<std::size_t>(20, 299999), options_of(below));
  EXPECT_EQ(below.written, 0U);
  EXPECT_EQ(below.read, 20U * 299999U);
  Meddling from{.reads_wait = true};
  send_all(std::vector<std::size_t>(20, 300000), options_of(from));
  EXPECT_GT(from.written, 0U);
  EXPECT_EQ(from.read + from.written, 20U * 300000U);
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

// Its buffer may go after it: the sender must not be writing there any more.
TEST(SharedCopy, AReceiverThatEndsInAFailureWaitsForTheSendersChunk) {
  struct Failure {};
  Meddling how{.reads_wait = true, .writes_wait = true};
  const auto jobs = fabric::make_local_job(2, 1);
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
  std::jthread sender([&] {
    fail_in(0, [&](Runtime& runtime, Endpoint& endpoint) {
      const auto data = pattern(4 << 20, 1);
      Counter done;
      (void)until_posted(runtime, [&] { return endpoint.send(Rank{1}, Tag{1}, data, &done); });
      while (!how.may_go_on) runtime.progress();
      while (!over) std::this_thread::yield();  // the other's memory goes
    });
  });
  std::jthread timer;
  std::vector<std::byte> into(4 << 20);
  Counter received;
  fail_in(1, [&](Runtime& runtime, Endpoint& endpoint) {
    (void)until_posted(runtime, [&] { return endpoint.recv(Rank{0}, Tag{1}, into, &received); });
    while (!how.writing) runtime.progress();
    timer = std::jthread([&how] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      how.may_go_on = true;
    });
  });
  EXPECT_FALSE(how.writing);
  over = true;
  sender.join();
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("ended with work pending"),
            std::string::npos);
}

TEST(SharedCopy, ASenderThatMayNotWriteIsDoneWithout) {
  Meddling how{.writes_fail = true};
  send_all(kSizes, options_of(how));
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
