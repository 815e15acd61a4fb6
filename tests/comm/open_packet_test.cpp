// Open packets: read while they are written, whatever becomes of their writer, and free only when
// both ends are done with them.
#include "comm/open_packet.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "base/config_override.hpp"
#include "comm/copy_ways.hpp"
#include "comm/ranks.hpp"
#include "comm/runtime_impl.hpp"
#include "fabric/interceptor_base.hpp"
#include "weft/base/config.hpp"
#include "weft/comm/config.hpp"
#include "weft/comm/runtime.hpp"
#include "weft/fabric/config.hpp"
#include "weft/fabric/job.hpp"

namespace weft {
namespace {

using comm::OpenPacket;
using comm::PacketStates;
using test::on_ranks;
using test::on_threads;
using test::pattern;

// --- Whose it is ---------------------------------------------------------------------------------

TEST(PacketStates, APacketIsFreeWhenItIsBackAndWritten) {
  PacketStates states(2);
  states.begins(0);
  EXPECT_EQ(states.open(), 1U);
  EXPECT_FALSE(states.came_back(0).is_free);
  EXPECT_TRUE(states.ends(0));
  EXPECT_EQ(states.open(), 0U);

  states.streams(1);
  states.begins(1);
  EXPECT_FALSE(states.ends(1));
  EXPECT_EQ(states.open(), 1U) << "its receiver may be reading it still";
  const auto [streamed, is_free] = states.came_back(1);
  EXPECT_TRUE(streamed && is_free);
  EXPECT_EQ(states.open(), 0U);

  EXPECT_TRUE(states.came_back(1).is_free) << "lent whole, and not for a large transfer";
  EXPECT_FALSE(states.came_back(1).streamed);

  states.begins(0);
  states.reset(0);
  EXPECT_EQ(states.open(), 0U) << "not lent after all";
}

TEST(PacketStates, WhatIsWrittenNextIsBehindWhatWasWrittenLast) {
  constexpr uint32_t kSize = 1024;
  PacketStates states(2);
  EXPECT_EQ(states.place(0, 100, kSize), 0U);
  EXPECT_EQ(states.place(0, 300, kSize), 128U) << "where a line begins";
  EXPECT_EQ(states.place(1, 1, kSize), 0U) << "of each packet by itself";
  EXPECT_EQ(states.place(0, 576, kSize), 448U) << "up to the end";
  EXPECT_EQ(states.place(0, 1, kSize), 0U);
  EXPECT_EQ(states.place(0, kSize - 63, kSize), 0U) << "no room for it behind";
  EXPECT_EQ(states.place(0, 64, kSize), 0U) << "nor there";
  EXPECT_EQ(states.place(0, kSize, kSize), 0U);
  EXPECT_EQ(states.place(0, kSize, kSize), 0U);
}

TEST(PacketStates, WhoReadItLastIsKnownOfEach) {
  constexpr uint32_t kSize = 1024;
  PacketStates states(2);
  const auto last = [&](uint32_t index, uint32_t offset, uint32_t bytes, Rank next) {
    return states.exchange_reader({index, bytes, offset}, kSize, next);
  };
  EXPECT_EQ(last(0, 0, kSize, Rank{3}), comm::Readers::kNobody);
  EXPECT_EQ(last(1, 0, kSize, comm::Readers::kSeveral), comm::Readers::kNobody);
  EXPECT_EQ(last(0, 0, kSize, Rank{0}), Rank{3});
  EXPECT_EQ(last(1, 0, kSize, Rank{1}), comm::Readers::kSeveral);
  EXPECT_EQ(last(0, 256, 256, Rank{5}), Rank{0}) << "a quarter of it";
  EXPECT_EQ(last(0, 512, 512, Rank{6}), Rank{0});
  EXPECT_EQ(last(0, 256, 257, Rank{7}), comm::Readers::kNobody) << "of two unlike ones";
  EXPECT_EQ(last(0, 300, 300, Rank{8}), Rank{7});
  EXPECT_EQ(last(0, 0, 0, Rank{9}), Rank{0});
  EXPECT_EQ(last(0, 1000, 24, Rank{9}), Rank{6});
  states.not_read(0);
  EXPECT_EQ(last(0, 0, kSize, Rank{1}), comm::Readers::kNobody);
}

TEST(PacketStates, OneOfBothFreesIt) {
  constexpr int kTimes = 3'000;
  PacketStates states(1);
  std::atomic<int> round{0}, freed{0}, done{0};
  on_threads(2, [&](int who) {
    for (int i = 1; i <= kTimes; ++i) {
      if (who == 0) {
        states.begins(0);
        round = i;
        freed += states.ends(0) ? 1 : 0;
      } else {
        while (round != i) std::this_thread::yield();
        freed += states.came_back(0).is_free ? 1 : 0;
      }
      ++done;
      while (done < 2 * i) std::this_thread::yield();
      ASSERT_EQ(freed, i);
    }
  });
  EXPECT_EQ(states.open(), 0U);
}

// --- Reading what is being written ---------------------------------------------------------------

/// What reads of a peer's memory get.
struct Origin {
  std::vector<std::byte> bytes;
  Errc answer = Errc::ok;
  std::function<void()> meanwhile = [] {};  ///< before a read ends
  std::vector<std::pair<uint64_t, std::size_t>> reads{};
};

/// The rest of it is a rank alone.
struct AsTheyAre {
  std::unique_ptr<fabric::Port> operator()(std::unique_ptr<fabric::Port> port,
                                           uint32_t /*number*/) const {
    return port;
  }
};
class ReadOrigin final : public fabric::WrappedTransport<AsTheyAre> {
 public:
  ReadOrigin(std::unique_ptr<fabric::Transport> inner, Origin& origin)
      : WrappedTransport(std::move(inner), {}), origin_(origin) {}
  Errc read_memory(Rank /*peer*/, uint64_t address, std::span<std::byte> local) noexcept override {
    origin_.reads.emplace_back(address, local.size());
    std::memcpy(local.data(), origin_.bytes.data() + (address - kAt), local.size());
    origin_.meanwhile();
    return origin_.answer;
  }
  static constexpr uint64_t kAt = 4096;

 private:
  Origin& origin_;
};

/// Keeps what it is handed.
struct Taken final : PieceTaker {
  void take(std::span<const std::byte> piece) noexcept override {
    EXPECT_EQ(bytes.size() % kPieceUnit, 0U);
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  }
  std::vector<std::byte> bytes;
};

class PacketsWrittenMeanwhile : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 40'000;

  /// As its owner does, who may begin again.
  void write(std::size_t upto) {
    for (std::size_t at = upto < written ? 0 : written.load(); at < upto; ++at)
      packets[at / kEach][at % kEach] = origin.bytes[at];
    written.store(static_cast<uint32_t>(upto), std::memory_order_release);
  }
  [[nodiscard]] OpenPacket open(uint64_t from = ReadOrigin::kAt) {
    loan = {.written = &written,
            .origin = from,
            .bytes = kBytes,
            .count = static_cast<uint32_t>(packets.size()),
            .pieces = {},
            .return_count = 0,
            .returns = {}};
    std::copy(packets.begin(), packets.end(), loan.pieces);
    frame = {.source = Rank{0}, .head = {}, .packet = packets[0], .loan = {}, .open = &loan};
    return {transport, frame};
  }
  [[nodiscard]] bool got(std::size_t bytes) const {
    return std::equal(into.begin(), into.begin() + static_cast<std::ptrdiff_t>(bytes),
                      origin.bytes.begin());
  }

  /// Calls `read` while another thread writes, time after time, either way.
  template <class Read>
  void while_written(Read read) {
    for (const uint64_t from : {uint64_t{0}, ReadOrigin::kAt}) {
      for (int time = 0; time < 50 && !HasFatalFailure(); ++time) {
        comm::MessagePackets places;
        for (auto& packet : packets) {
          std::fill(packet.begin(), packet.end(), std::byte{0});
          places.places[places.count++] = packet.data();
        }
        written = 0;
        comm::CopyWays& ways = time % 2 == 0 ? cached : past_caches;
        std::jthread writer([&] {
          comm::write_open(
              places, kEach, origin.bytes, written,
              [&](std::size_t, std::byte* to, const std::byte* data, std::size_t bytes) {
                ways.copy({Rank{0}, Rank{0}}, to, data, bytes);
              });
        });
        read(open(from));
      }
    }
  }

  Origin origin{.bytes = pattern(kBytes, 7)};
  static constexpr std::size_t kEach = 16'384;
  std::vector<std::vector<std::byte>> packets{std::vector<std::byte>(kEach),
                                              std::vector<std::byte>(kEach),
                                              std::vector<std::byte>(kBytes - 2 * kEach)};
  fabric::OpenLoan loan{};
  fabric::Frame frame{};
  std::vector<std::byte> into = std::vector<std::byte>(kBytes);
  std::atomic<uint32_t> written{0};
  std::vector<std::unique_ptr<fabric::Job>> job = fabric::make_local_job(1);
  ReadOrigin transport{fabric::make_local_transport(*job[0], {}), origin};
  comm::CopyWays cached{transport, 1, comm::Nontemporal::never};
  comm::CopyWays past_caches{transport, 1, comm::Nontemporal::always};
};

TEST_F(PacketsWrittenMeanwhile, AreReadAsTheyAreWritten) {
  while_written([&](OpenPacket packet) {
    ASSERT_EQ(packet.copy(into), Errc::ok);
    ASSERT_TRUE(got(kBytes));
  });
}

TEST_F(PacketsWrittenMeanwhile, AreHandedOutAsTheyAreWritten) {
  while_written([&](OpenPacket packet) {
    Taken taken;
    ASSERT_EQ(packet.hand_out(kBytes - 1, taken), Errc::ok);
    ASSERT_TRUE(std::equal(taken.bytes.begin(), taken.bytes.end(), origin.bytes.begin(),
                           origin.bytes.end() - 1));
  });
}

TEST_F(PacketsWrittenMeanwhile, OfAWriterThatStandsStillTheRestIsHandedOutOnce) {
  // All is written meanwhile, and its buffer is something else's.
  const auto sent = origin.bytes;
  for (const bool ends : {false, true}) {
    if (ends) {
      origin.meanwhile = [&] {
        write(kBytes);
        origin.bytes.assign(kBytes, std::byte{1});
      };
    }
    write(9'984);
    Taken taken;
    EXPECT_EQ(open().hand_out(kBytes, taken), Errc::ok);
    EXPECT_EQ(taken.bytes, sent) << ends;
    // A stretch after the other; or only the first, in vain.
    ASSERT_EQ(origin.reads.size(), ends ? 9U : 8U);
    EXPECT_EQ(origin.reads[0], std::pair(ReadOrigin::kAt + 9'984, std::size_t{4'096}));
    EXPECT_EQ(origin.reads[7],
              std::pair(ReadOrigin::kAt + 9'984 + 7 * 4'096, kBytes - 9'984 - 7 * 4'096));
  }
}

TEST_F(PacketsWrittenMeanwhile, OfAWriterThatStandsStillTheRestIsReadWhereItComesFrom) {
  write(10'000);
  EXPECT_EQ(open().copy(into), Errc::ok);
  EXPECT_TRUE(got(kBytes));
  ASSERT_EQ(origin.reads.size(), 1U);
  EXPECT_EQ(origin.reads[0], std::pair(ReadOrigin::kAt + 10'000, kBytes - 10'000));

  Errc error = Errc::ok;
  OpenPacket packet_again = open();
  const auto whole = packet_again.whole(error);
  EXPECT_EQ(error, Errc::ok);
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), origin.bytes.begin(), origin.bytes.end()));
}

TEST_F(PacketsWrittenMeanwhile, NoMoreIsAwaitedThanIsWanted) {
  write(10'000);
  EXPECT_EQ(open().copy(std::span(into).first(9'999)), Errc::ok);
  EXPECT_TRUE(got(9'999));
  EXPECT_TRUE(origin.reads.empty());
}

TEST_F(PacketsWrittenMeanwhile, WhatWasReadCountsOnlyIfItWasNotAllWritten) {
  // The writer is done meanwhile, and its buffer is something else's.
  origin.meanwhile = [&] {
    write(kBytes);
    origin.bytes.assign(kBytes, std::byte{1});
  };
  const auto sent = origin.bytes;
  for (const Errc answer : {Errc::ok, Errc::peer_died}) {
    origin.bytes = sent;
    origin.answer = answer;
    write(10'000);
    EXPECT_EQ(open().copy(into), Errc::ok);
    EXPECT_EQ(into, sent);
    origin.bytes = sent;
    write(10'000);
    Errc error = Errc::ok;
    OpenPacket again = open();
    const auto whole = again.whole(error);
    EXPECT_EQ(error, Errc::ok);
    EXPECT_TRUE(std::equal(whole.begin(), whole.end(), sent.begin(), sent.end()));
  }
}

TEST_F(PacketsWrittenMeanwhile, AWriterThatDiedIsTold) {
  origin.answer = Errc::peer_died;
  write(10'000);
  EXPECT_EQ(open().copy(into), Errc::peer_died);
  Taken taken;
  EXPECT_EQ(open().hand_out(kBytes, taken), Errc::peer_died);
  EXPECT_EQ(taken.bytes.size(), 10'000U);
  Errc error = Errc::ok;
  OpenPacket again = open();
  (void)again.whole(error);
  EXPECT_EQ(error, Errc::peer_died);
}

TEST_F(PacketsWrittenMeanwhile, AWriterThatLivesAndCannotBeReadIsWaitedFor) {
  origin.answer = Errc::no_permission;
  origin.meanwhile = [&] {
    if (origin.reads.size() == 3) write(20'000);
    if (origin.reads.size() == 6) write(kBytes);
  };
  write(10'000);
  EXPECT_EQ(open().copy(into), Errc::ok);
  EXPECT_TRUE(got(kBytes));
  EXPECT_EQ(origin.reads.size(), 6U);
}

TEST_F(PacketsWrittenMeanwhile, WithinAProcessTheWriterIsWaitedFor) {
  write(10'000);
  std::jthread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    write(20'000);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    write(kBytes);
  });
  EXPECT_EQ(open(0).copy(into), Errc::ok);
  EXPECT_TRUE(got(kBytes));
  EXPECT_TRUE(origin.reads.empty());
}

TEST_F(PacketsWrittenMeanwhile, WhatIsToldIsNotBelieved) {
  write(kBytes);
  written = ~0U;
  EXPECT_EQ(open().copy(into), Errc::ok);
  EXPECT_TRUE(got(kBytes));
}

// --- Messages ------------------------------------------------------------------------------------

class CountingPort final : public fabric::PassingPort {
 public:
  CountingPort(std::unique_ptr<fabric::Port> inner, std::atomic<int>& opened)
      : PassingPort(std::move(inner)), opened_(opened) {}
  Post try_send_open(Rank to, uint32_t to_port, std::span<const std::byte> header,
                     const fabric::OpenSend& packets) noexcept override {
    const Post answer = PassingPort::try_send_open(to, to_port, header, packets);
    if (answer != Post::retry) ++opened_;
    return answer;
  }

 private:
  std::atomic<int>& opened_;
};

RuntimeOptions counting(std::atomic<int>& opened) {
  RuntimeOptions options;
  options.wrap = [&opened](std::unique_ptr<fabric::Transport> inner) {
    return fabric::wrap_ports(std::move(inner), [&opened](auto port, uint32_t /*number*/) {
      return std::make_unique<CountingPort>(std::move(port), opened);
    });
  };
  return options;
}

const std::vector<std::size_t> kOpenSizes{24'575, 24'576, 24'577, 32'768, 50'001, 65'535, 65'536};

/// How many of them were lent open; in trouble nobody counts.
int send_all_sizes(bool counted) {
  register_comm_config();
  const test::ConfigOverride all(test::ConfigOverride::List{{"comm.open_packets", "always"}});
  std::atomic<int> opened{0};
  const RuntimeOptions how = counted ? counting(opened) : RuntimeOptions{};
  on_ranks(
      2,
      [&](Runtime& runtime) {
        Endpoint matched(runtime, {.arrival = Arrival::matched});
        Endpoint queued(runtime, {.arrival = Arrival::queue});
        for (int time = 0; time < 20; ++time) {
          for (const std::size_t size : kOpenSizes) {
            const auto data = pattern(size, static_cast<uint32_t>(size));
            if (runtime.rank() == Rank{0}) {
              matched.send_wait(Rank{1}, Tag{1}, data);
              queued.send_wait(Rank{1}, Tag{2}, data);
              std::byte answer{};
              matched.recv_wait(Rank{1}, Tag{3}, {&answer, 1});
            } else {
              std::vector<std::byte> into(size);
              const Event event = matched.recv_wait(Rank{0}, Tag{1}, into);
              ASSERT_EQ(event.error, Errc::ok);
              ASSERT_EQ(event.bytes, size);
              ASSERT_EQ(into, data);
              const Message message = queued.dequeue_wait();
              const auto bytes = message.data();
              ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), data.begin(), data.end()));
              const std::byte answer{};
              matched.send_wait(Rank{0}, Tag{3}, {&answer, 1});
            }
          }
        }
      },
      how);
  return opened;
}

TEST(OpenMessages, OfAllSizesArriveWhole) { send_all_sizes(false); }

TEST(OpenMessages, AreLentFromASizeOn) {
  EXPECT_EQ(send_all_sizes(true), 20 * static_cast<int>(kOpenSizes.size() - 1));
}

/// Keeps what came, each message read in a way of its own.
class Keeping final : public Matcher {
 public:
  bool arrive(const Delivery& message) noexcept override {
    if (refusals > 0) {
      --refusals;
      return false;
    }
    std::vector<std::byte> bytes(message.payload.size());
    Errc error = Errc::ok;
    if (message.envelope.tag % 2 == 0) {
      error = message.payload.copy(bytes);
    } else {
      const auto whole = message.payload.whole(error);
      std::copy(whole.begin(), whole.end(), bytes.begin());
    }
    if (error != Errc::ok) bytes.clear();
    all.push_back(std::move(bytes));
    return true;
  }
  bool announced(const Envelope&, const Announcement&,
                 std::span<const std::byte>) noexcept override {
    return true;
  }
  Tried try_again() noexcept override { return Tried::all; }
  void peer_down(Rank) noexcept override {}

  std::vector<std::vector<std::byte>> all;
  int refusals = 5;
};

TEST(OpenMessages, WideOnesArriveWhole) {
  register_comm_config();
  const test::ConfigOverride all(test::ConfigOverride::List{{"comm.open_packets", "always"}});
  const std::vector<std::size_t> sizes{65'537, 131'072, 200'001, 262'143, 262'144};
  on_ranks(2, [&](Runtime& runtime) {
    Keeping matcher;
    Endpoint endpoint(runtime, {.arrival = Arrival::matcher, .matcher = &matcher});
    runtime.barrier();
    for (uint32_t i = 0; i < 4 * sizes.size(); ++i) {
      const auto data = pattern(sizes[i / 4], i);
      if (runtime.rank() == Rank{0}) {
        // Refused are more than a few packets, and what finds none.
        EXPECT_EQ(endpoint.send_wide(Rank{1}, {.tag = i}, std::vector<std::byte>(262'145)),
                  Post::retry);
        while (endpoint.send_wide(Rank{1}, {.tag = i}, data) != Post::done) runtime.relax();
      } else {
        while (matcher.all.size() <= i) runtime.relax();
        EXPECT_EQ(matcher.all[i], data);
      }
    }
    runtime.barrier();
  });
}

TEST(OpenMessages, WhatIsExchangedIsWrittenFirst) {
  register_comm_config();
  const test::ConfigOverride all(test::ConfigOverride::List{{"comm.open_packets", "always"}});
  std::atomic<int> opened{0};
  on_ranks(
      2,
      [&](Runtime& runtime) {
        Keeping kept;
        Endpoint endpoint(runtime, {.arrival = Arrival::matcher, .matcher = &kept});
        runtime.barrier();
        std::size_t due = 0;
        for (const std::size_t size : kOpenSizes) {
          const auto data = pattern(size, static_cast<uint32_t>(size));
          ++due;
          const Rank other{1 - runtime.rank().value};
          while (endpoint.send_written(other, {.tag = 2}, data) != Post::done) runtime.relax();
          while (kept.all.size() < due) runtime.relax();
          EXPECT_EQ(kept.all.back(), data) << size;
          runtime.barrier();
        }
      },
      counting(opened));
  EXPECT_EQ(opened, 0);
}

TEST(OpenMessages, WideOnesWaitForTheirEndpointAndAreDroppedAfterIt) {
  register_comm_config();
  const test::ConfigOverride all(test::ConfigOverride::List{{"comm.open_packets", "always"}});
  const auto data = pattern(200'000, 9);
  on_ranks(2, [&](Runtime& runtime) {
    const bool sends = runtime.rank() == Rank{0};
    // Behind more than there are packets: none is lost.
    for (int time = 0; time < 40; ++time) {
      const auto send = [&](Endpoint& endpoint) {
        while (endpoint.send_wide(Rank{1}, {}, data) != Post::done) runtime.relax();
      };
      Keeping matcher;
      matcher.refusals = 0;
      const EndpointSpec spec{.arrival = Arrival::matcher, .matcher = &matcher};
      {
        std::optional<Endpoint> endpoint;
        if (sends) send(endpoint.emplace(runtime, spec));
        runtime.barrier();
        if (!sends) {
          endpoint.emplace(runtime, spec);
          while (matcher.all.empty()) runtime.relax();
          ASSERT_EQ(matcher.all[0], data);
        }
        runtime.barrier();
        if (!sends) endpoint.reset();
        runtime.barrier();
        if (sends) send(*endpoint);
        runtime.barrier();
      }
    }
  });
}

TEST(OpenMessages, ReceiversThatAreTooSmallAreTold) {
  std::atomic<int> opened{0};
  on_ranks(
      2,
      [&](Runtime& runtime) {
        Endpoint endpoint(runtime, {.arrival = Arrival::matched});
        std::vector<std::byte> data = pattern(60'000, 3);
        if (runtime.rank() == Rank{0}) {
          runtime.barrier();
          endpoint.send_wait(Rank{1}, Tag{1}, data);
          endpoint.send_wait(Rank{1}, Tag{2}, data);
        } else {
          std::vector<std::byte> small(100), large(60'000);
          Synchronizer done;
          const Post posted =
              until_posted(runtime, [&] { return endpoint.recv(Rank{0}, Tag{1}, small, &done); });
          runtime.barrier();
          if (posted == Post::posted) runtime.wait(done);
          EXPECT_EQ(done.event().error, Errc::truncated);
          EXPECT_EQ(endpoint.recv_wait(Rank{0}, Tag{2}, large).error, Errc::ok);
          EXPECT_EQ(large, data);
        }
      },
      counting(opened));
}

TEST(OpenMessages, ConfigurationSaysThatThereAreNone) {
  register_comm_config();
  const test::ConfigOverride none(test::ConfigOverride::List{{"comm.open_packets", "never"}});
  std::atomic<int> opened{0};
  on_ranks(
      2,
      [&](Runtime& runtime) {
        Endpoint endpoint(runtime, {.arrival = Arrival::matched});
        std::vector<std::byte> data(60'000);
        for (int time = 0; time < 50; ++time) {
          const bool sends = (runtime.rank() == Rank{0}) == (time % 2 == 0);
          const Rank other{1 - runtime.rank().value};
          if (sends) endpoint.send_wait(other, Tag{1}, data);
          if (!sends) endpoint.recv_wait(other, Tag{1}, data);
        }
      },
      counting(opened));
  EXPECT_EQ(opened, 0);
}

TEST(OpenMessages, WhileOneIsOutTheNextGoWhole) {
  std::atomic<int> opened{0};
  on_ranks(
      2,
      [&](Runtime& runtime) {
        Endpoint endpoint(runtime, {.arrival = Arrival::matched});
        const auto data = pattern(30'000, 1);
        runtime.barrier();
        if (runtime.rank() == Rank{0}) {
          for (uint32_t i = 0; i < 8; ++i) {
            (void)until_posted(runtime, [&] { return endpoint.send(Rank{1}, Tag{i}, data); });
          }
          EXPECT_LE(opened, 1) << "none has come back";
        }
        runtime.barrier();
        for (uint32_t i = 0; runtime.rank() == Rank{1} && i < 8; ++i) {
          std::vector<std::byte> into(data.size());
          EXPECT_EQ(endpoint.recv_wait(Rank{0}, Tag{i}, into).error, Errc::ok);
          EXPECT_EQ(into, data);
        }
      },
      counting(opened));
}

TEST(OpenMessages, GoWholeBesideFewOthers) {
  Runtime runtime;
  Runtime::Impl& impl = runtime.impl();
  EXPECT_EQ(impl.lends(256 << 10, true), comm::Lent::open);
  EXPECT_EQ(impl.lends(256 << 10, false), comm::Lent::whole);
  EXPECT_EQ(impl.lends((256 << 10) + 1, false), comm::Lent::not_now);
  for (uint32_t out = 0; out < 8; ++out) {
    impl.packet_states->begins(out);  // of 64 KiB each
    EXPECT_EQ(impl.lends(256 << 10, true), out < 4 ? comm::Lent::whole : comm::Lent::not_now);
    EXPECT_EQ(impl.lends(64 << 10, true), out < 7 ? comm::Lent::whole : comm::Lent::not_now);
    EXPECT_EQ(impl.lends((256 << 10) + 1, true), comm::Lent::not_now);
  }
  for (uint32_t out = 0; out < 8; ++out) impl.packet_states->reset(out);
  impl.packet_states->begins(0);
  EXPECT_EQ(impl.lends(24 << 10, true), comm::Lent::whole);
  EXPECT_EQ(impl.lends((24 << 10) - 1, true), comm::Lent::not_now);
  impl.core_is_shared = true;
  EXPECT_EQ(impl.lends(1, true), comm::Lent::whole);
  EXPECT_EQ(impl.lends(128 << 10, true), comm::Lent::whole);
  EXPECT_EQ(impl.lends((128 << 10) + 1, true), comm::Lent::not_now);
}

TEST(OpenMessages, OfFewPacketsAQuarterIsLentWhole) {
  fabric::register_fabric_config();
  const test::ConfigOverride few(test::ConfigOverride::List{{"fabric.packets", "16"}});
  Runtime runtime;
  Runtime::Impl& impl = runtime.impl();
  for (uint32_t out = 0; out < 3; ++out) impl.packet_states->begins(out);
  EXPECT_EQ(impl.lends(64 << 10, true), comm::Lent::whole);
  EXPECT_EQ(impl.lends(65 << 10, true), comm::Lent::not_now);
}

/// Of memory that is mapped from `begin` on.
std::size_t resident_bytes(std::byte* begin, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages(bytes / page);
  EXPECT_EQ(::mincore(begin, bytes, pages.data()), 0);
  return page * static_cast<std::size_t>(std::count_if(
                    pages.begin(), pages.end(), [](unsigned char it) { return it % 2 != 0; }));
}

TEST(Packets, PagesOfARoundComeAtOnceWhenEightWereFilled) {
  for (const std::size_t bytes : {64 << 10, 16 << 10, 4 << 10}) {
    Runtime runtime;
    Runtime::Impl& impl = runtime.impl();
    impl.go_around_bytes = 1 << 20;
    const std::size_t all = std::size_t{impl.packets->capacity()} * impl.packet_bytes;
    std::byte* const memory = impl.packet(0);
    (void)::madvise(memory, all, MADV_NOHUGEPAGE);  // by small ones
    const bool can = ::madvise(impl.packet(impl.packets->capacity() - 1), impl.packet_bytes,
                               /* MADV_POPULATE_WRITE */ 23) == 0;
    const std::size_t before = resident_bytes(memory, all);
    const std::size_t times = bytes < 16 << 10 ? 32 : 8;
    for (std::size_t i = 1; i <= times; ++i) {
      EXPECT_EQ(resident_bytes(memory, all), before) << i << " of " << bytes;
      impl.packets->free(impl.take_packet(bytes).index);
    }
    const std::size_t after =
        before + (can ? 1 << 20 : 0);  // an old kernel brings each as it comes
    EXPECT_EQ(resident_bytes(memory, all), after) << bytes;
    impl.packets->free(impl.take_packet(bytes).index);
    EXPECT_EQ(resident_bytes(memory, all), after) << "once";
    EXPECT_EQ(impl.packets->available(), impl.packets->capacity());
  }
}

/// A thread whose packets are out waits for them.
TEST(Packets, ARoundIsPreparedWhenMostPacketsAreHere) {
  Runtime runtime;
  Runtime::Impl& impl = runtime.impl();
  impl.go_around_bytes = 2 << 20;
  std::vector<uint32_t> out;
  for (int i = 0; i < 20; ++i) out.push_back(impl.packets->alloc());
  for (int i = 0; i < 10; ++i) impl.packets->free(impl.take_packet(64 << 10).index);
  EXPECT_FALSE(impl.round_is_there);
  for (const uint32_t index : out) impl.packets->free(index);
  impl.packets->free(impl.take_packet(64 << 10).index);
  EXPECT_TRUE(impl.round_is_there);
}

/// The kernel reads them on this core.
TEST(Packets, ForANetworkTheLastOneIsTaken) {
  Runtime runtime;
  Runtime::Impl& impl = runtime.impl();
  std::set<uint32_t> taken;
  for (int i = 0; i < 100; ++i) {
    const fabric::PacketPart part = impl.take_packet(30'000, true);
    EXPECT_EQ(part.offset, 0u);
    taken.insert(part.index);
    impl.packets->free(part.index);
  }
  EXPECT_EQ(taken.size(), 1u);
}

TEST(Packets, GoAroundForLongMessages) {
  Runtime runtime;
  Runtime::Impl& impl = runtime.impl();
  impl.go_around_bytes = 2 << 20;
  // How much is written, at least, from one use of a place to the next.
  const auto written_between = [&](std::size_t bytes) {
    std::map<std::size_t, std::size_t> last;
    std::size_t written = 0;
    std::size_t least = ~std::size_t{0};
    for (int time = 0; time < 5'000; ++time) {
      const fabric::PacketPart part = impl.take_packet(bytes);
      EXPECT_EQ(part.bytes, bytes);
      EXPECT_LE(part.offset + part.bytes, impl.packet_bytes);
      const std::size_t place = std::size_t{part.index} * impl.packet_bytes + part.offset;
      if (const auto found = last.find(place); found != last.end())
        least = std::min(least, written - found->second);
      last[place] = written;
      written += bytes;
      impl.packets->free(part.index);
    }
    return least;
  };
  for (const std::size_t kib : {64, 32, 16, 8, 4})
    EXPECT_EQ(written_between(kib << 10), impl.go_around_bytes) << kib;
  EXPECT_EQ(written_between(20'000), 32 * 3 * 20'000U) << "all that a thread takes first";
  EXPECT_EQ(written_between(2 << 10), 2U << 10) << "the packet that is warm";
  impl.core_is_shared = true;
  EXPECT_EQ(written_between(64 << 10), 64U << 10) << "by turns they lie in this core's caches";
}

}  // namespace
}  // namespace weft
