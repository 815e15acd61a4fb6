// The ofi transport between processes: memory that a rank offers is read over the network, whatever
// becomes of the rank and of the connection.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/fork_job.hpp"
#include "fabric/ofi_processes.hpp"
#include "fabric/tcp_providers.hpp"

namespace weft::fabric::test {
namespace {

constexpr std::size_t kOfferedBytes = 3 << 20, kPiece = 100'000;

/// What rank 1 offers, as it tells rank 0 in a frame.
struct Told {
  uint64_t address, key;
};

std::byte byte_at(std::size_t i, unsigned seed = 0) {
  return static_cast<std::byte>(i * 31 + (i >> 12) + seed);
}

/// A sink that knows which reads have ended, and how.
class Reads final : public Sink {
 public:
  Taken on_frame(const Frame& frame) override {
    frames.emplace_back(frame.head.begin(), frame.head.end());
    return Taken::yes;
  }
  void on_control(const Frame& /*frame*/) override {}
  void on_returned(std::span<const uint32_t> /*packets*/) override {}
  void on_read(uint64_t token, bool ok) override {
    EXPECT_TRUE(ended.emplace(token, ok).second) << "told once";
  }
  void on_peer_down(Rank /*peer*/, std::string_view cause) override { downs.emplace_back(cause); }
  [[nodiscard]] Told told() const {
    Told told{};
    std::memcpy(&told, frames.at(0).data(), sizeof told);
    return told;
  }
  [[nodiscard]] bool all_well() const {
    return std::all_of(ended.begin(), ended.end(), [](const auto& one) { return one.second; });
  }

  std::vector<std::vector<std::byte>> frames;
  std::map<uint64_t, bool> ended;
  std::vector<std::string> downs;
};

/// A rank of these tests.
struct Side {
  explicit Side(Job& rank) : transport(make_ofi_transport(rank, small_geometry())) {}
  /// Until `done`, or for a minute.
  template <class Done>
  bool until(Done done) {
    return poll_long(*port, sink, done);
  }
  bool until_frames(std::size_t count) {
    return until([&] { return sink.frames.size() == count; });
  }
  bool until_sent(Rank to, std::string_view text) {
    return until([&] { return port->try_send(to, 0, bytes_of(text), {}) == Post::done; });
  }

  std::unique_ptr<Transport> transport;
  std::unique_ptr<Port> port = transport->open_port(0);
  Reads sink;
};

/// Offers `memory` to rank 0 and says so; its handle.
void* offer_to_first(Port& port, std::span<const std::byte> memory) {
  const ReadOffer offer = port.offer(Rank{0}, memory);
  const Told told{offer.address, offer.key};
  while (port.try_send(Rank{0}, 0, std::as_bytes(std::span(&told, 1)), {}) == Post::retry) {
  }
  return offer.handle;
}

struct ReadsBy {
  const char* provider;
  const char* reads;
};

/// By the provider as networks do that read by themselves, by messages as over plain TCP. (Version
/// 1.17's "net" frees a read of its own twice whose connection is replaced in the middle: not met
/// here so far.)
constexpr ReadsBy kReadsBy[] = {
    {kLayered, "provider"}, {kUnlayered, "provider"}, {kUnlayered, "messages"}};

class OfiReads : public ::testing::TestWithParam<ReadsBy> {
 protected:
  static Configured way() {
    return Configured(Configured::List{{"fabric.ofi.provider", GetParam().provider},
                                       {"fabric.ofi.remote_reads", GetParam().reads}});
  }
};

/// Its owner does not even poll: the keeper serves.
TEST_P(OfiReads, WhatAPeerOffersIsReadUntilItIsWithdrawn) {
  const Configured chosen = way();
  SharedJob job(2);
  const auto body = [&](Job& rank) {
    Side side(rank);
    auto& port = side.port;
    auto& sink = side.sink;
    if (rank.rank().value == 1) {
      std::vector<std::byte> memory(kOfferedBytes);
      for (std::size_t i = 0; i < kOfferedBytes; ++i) memory[i] = byte_at(i);
      void* const handle = offer_to_first(*port, memory);
      WEFT_EXPECT_IN_RANK(handle != nullptr);
      WEFT_EXPECT_IN_RANK(port->offer(Rank{1}, memory).handle == nullptr);  // to oneself: no need
      while (job.word(0) == 0) ::usleep(1000);
      port->withdraw_offer(handle, false);
      job.word(0) = 2;
      WEFT_EXPECT_IN_RANK(side.until_frames(1));
      return 0;
    }
    WEFT_EXPECT_IN_RANK(side.until_frames(1));
    const Told theirs = sink.told();
    std::vector<std::byte> mine(kOfferedBytes);
    std::size_t asked = 0, count = 0;
    const bool whole = side.until([&] {
      while (asked < kOfferedBytes) {
        const std::size_t size = std::min(kPiece, kOfferedBytes - asked);
        if (port->try_read({Rank{1}, 0}, theirs.address, theirs.key, asked,
                           std::span(mine).subspan(asked, size), count) != Post::posted)
          break;
        asked += size;
        ++count;
      }
      return asked == kOfferedBytes && sink.ended.size() == count;
    });
    WEFT_EXPECT_IN_RANK(whole && sink.all_well());
    bool same = true;
    for (std::size_t i = 0; i < kOfferedBytes; ++i) same &= mine[i] == byte_at(i);
    WEFT_EXPECT_IN_RANK(same);
    job.word(0) = 1;
    while (job.word(0) != 2) ::usleep(1000);
    // A key that holds no more: refused, and all else goes on.
    sink.ended.clear();
    WEFT_EXPECT_IN_RANK(side.until([&] {
      return port->try_read({Rank{1}, 0}, theirs.address, theirs.key, 0,
                            std::span(mine).first(kPiece), 7) == Post::posted;
    }));
    WEFT_EXPECT_IN_RANK(side.until([&] { return sink.ended.size() == 1; }));
    WEFT_EXPECT_IN_RANK(!sink.all_well());
    WEFT_EXPECT_IN_RANK(port->try_send(Rank{1}, 0, bytes_of("end"), {}) == Post::done);
    WEFT_EXPECT_IN_RANK(sink.downs.empty());
    return 0;
  };
  const pid_t ranks[] = {job.start(0, body), job.start(1, body)};
  for (const pid_t rank : ranks) EXPECT_TRUE(ended_well(rank));
}

/// Each read ends, right or not at all, while connections break and messages go on.
TEST_P(OfiReads, AReadEndsWhenItsConnectionBreaks) {
  const Configured chosen = way();
  constexpr int kRounds = 16;
  SharedJob job(2);
  const auto body = [&](Job& rank) {
    Side side(rank);
    auto& port = side.port;
    auto& sink = side.sink;
    if (rank.rank().value == 1) {
      std::vector<std::byte> memory(kOfferedBytes);
      for (std::size_t i = 0; i < kOfferedBytes; ++i) memory[i] = byte_at(i);
      WEFT_EXPECT_IN_RANK(offer_to_first(*port, memory) != nullptr);
      for (std::size_t round = 1; round <= kRounds; ++round) {
        WEFT_EXPECT_IN_RANK(side.until_frames(round));
        WEFT_EXPECT_IN_RANK(side.until_sent(Rank{0}, "well"));
      }
      return 0;
    }
    WEFT_EXPECT_IN_RANK(side.until_frames(1));
    const Told theirs = sink.told();
    int right = 0, broken = 0;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<std::byte> mine(kOfferedBytes);
      sink.ended.clear();
      const auto begin = [&](std::size_t at, uint64_t token) {
        return side.until([&] {
          return port->try_read({Rank{1}, 0}, theirs.address, theirs.key, at,
                                std::span(mine).subspan(at, kOfferedBytes / 2),
                                token) == Post::posted;
        });
      };
      WEFT_EXPECT_IN_RANK(begin(0, 0) && begin(kOfferedBytes / 2, 1));
      for (int i = 0; i < round; ++i) port->poll(sink, 64);
      if (round % 4 != 3) broken += break_connections();
      WEFT_EXPECT_IN_RANK(side.until([&] { return sink.ended.size() == 2; }));
      for (const auto& [half, ok] : sink.ended) {
        if (!ok) continue;
        ++right;
        for (std::size_t i = half * kOfferedBytes / 2; i < (half + 1) * kOfferedBytes / 2; ++i)
          WEFT_EXPECT_IN_RANK(mine[i] == byte_at(i));
      }
      WEFT_EXPECT_IN_RANK(side.until_sent(Rank{1}, "round"));
      const auto answers = static_cast<std::size_t>(round) + 2;
      WEFT_EXPECT_IN_RANK(side.until_frames(answers));
    }
    WEFT_EXPECT_IN_RANK(right > 0 && broken > 0);
    WEFT_EXPECT_IN_RANK(sink.downs.empty());
    return 0;
  };
  const pid_t ranks[] = {job.start(0, body), job.start(1, body)};
  for (const pid_t rank : ranks) EXPECT_TRUE(ended_well(rank));
}

/// Nobody writes into a reader's memory once the read has ended: not when the owner is killed, nor
/// when one that was taken for dead, for it was stopped, goes on.
TEST_P(OfiReads, ThePeersEndEndsAReadForGood) {
  const Configured chosen = way();
  const Configured silence("fabric.ofi.silence_s", "2");
  for (const bool stopped : {false, true}) {
    SharedJob job(2);
    const auto body = [&](Job& rank) {
      Side side(rank);
      auto& port = side.port;
      auto& sink = side.sink;
      if (rank.rank().value == 1) {
        std::vector<std::byte> memory(kOfferedBytes, std::byte{1});
        WEFT_EXPECT_IN_RANK(offer_to_first(*port, memory) != nullptr);
        for (;;) port->poll(sink, 64);
      }
      WEFT_EXPECT_IN_RANK(side.until_frames(1));
      const Told theirs = sink.told();
      job.word(1) = 1;                         // please end it
      while (job.word(2) == 0) ::usleep(100);  // it was
      std::vector<std::byte> mine(kOfferedBytes);
      // Of one that was killed the connection's end may be known already.
      const Post answer = port->try_read({Rank{1}, 0}, theirs.address, theirs.key, 0, mine, 0);
      WEFT_EXPECT_IN_RANK(answer == Post::posted || !stopped);
      WEFT_EXPECT_IN_RANK(side.until([&] {
        (void)port->try_send(Rank{1}, 0, bytes_of("anybody?"), {});
        return (answer != Post::posted || !sink.ended.empty()) && !sink.downs.empty();
      }));
      WEFT_EXPECT_IN_RANK(answer != Post::posted || !sink.all_well());
      std::fill(mine.begin(), mine.end(), std::byte{2});
      job.word(1) = 2;  // please let it go on
      for (int i = 0; i < 200; ++i, ::usleep(1000)) port->poll(sink, 64);
      WEFT_EXPECT_IN_RANK(
          std::all_of(mine.begin(), mine.end(), [](std::byte b) { return b == std::byte{2}; }));
      return 0;
    };
    const pid_t ranks[] = {job.start(0, body), job.start(1, body)};
    wait_for_word(job.word(1), 1, ranks[0]);
    ::kill(ranks[1], stopped ? SIGSTOP : SIGKILL);
    if (stopped) {
      // Not before all of its threads stand still: one of them could answer yet.
      int status = 0;
      EXPECT_EQ(::waitpid(ranks[1], &status, WUNTRACED), ranks[1]);
      EXPECT_TRUE(WIFSTOPPED(status));
    } else {
      (void)wait_for(ranks[1]);
    }
    job.word(2) = 1;
    wait_for_word(job.word(1), 2, ranks[0]);
    EXPECT_EQ(job.word(1), 2u);
    if (stopped) ::kill(ranks[1], SIGCONT);
    EXPECT_TRUE(ended_well(ranks[0]));
    if (!stopped) continue;
    ::kill(ranks[1], SIGKILL);
    (void)wait_for(ranks[1]);
  }
}

/// A reader is stopped in the middle, and taken for dead; its peer uses the memory for something
/// else. When the reader goes on, it must not take the one half and the other for what was offered.
TEST_P(OfiReads, WhatIsReadIsWholeOrNothing) {
  constexpr std::size_t kMuch = 64 << 20;  // more than lies in sockets
  const Configured chosen = way();
  const Configured silence("fabric.ofi.silence_s", "2");
  SharedJob job(2);
  const auto body = [&](Job& rank) {
    Side side(rank);
    auto& port = side.port;
    auto& sink = side.sink;
    if (rank.rank().value == 1) {
      std::vector<std::byte> memory(kMuch, std::byte{1});
      void* const handle = offer_to_first(*port, memory);
      WEFT_EXPECT_IN_RANK(handle != nullptr);
      WEFT_EXPECT_IN_RANK(side.until([&] { return !sink.downs.empty(); }));
      port->withdraw_offer(handle, true);
      std::fill(memory.begin(), memory.end(), std::byte{2});
      job.word(1) = 1;  // please let it go on
      while (job.word(2) == 0) port->poll(sink, 64);
      return 0;
    }
    WEFT_EXPECT_IN_RANK(side.until_frames(1));
    const Told theirs = sink.told();
    std::vector<std::byte> mine(kMuch);
    WEFT_EXPECT_IN_RANK(side.until([&] {
      return port->try_read({Rank{1}, 0}, theirs.address, theirs.key, 0, mine, 0) == Post::posted;
    }));
    while (mine[1 << 20] == std::byte{0}) port->poll(sink, 1);
    ::raise(SIGSTOP);
    WEFT_EXPECT_IN_RANK(side.until([&] { return sink.ended.size() == 1; }));
    WEFT_EXPECT_IN_RANK(!sink.all_well());
    job.word(2) = 1;
    return 0;
  };
  const pid_t ranks[] = {job.start(0, body), job.start(1, body)};
  wait_for_word(job.word(1), 1, ranks[1]);
  EXPECT_EQ(job.word(1), 1u);
  ::kill(ranks[0], SIGCONT);
  EXPECT_TRUE(ended_well(ranks[0]));
  job.word(2) = 1;
  EXPECT_TRUE(ended_well(ranks[1]));
}

TEST_P(OfiReads, NothingIsOfferedWhereItShallNotBe) {
  const Configured chosen = way();
  const std::vector<std::byte> memory(kOfferedBytes);
  const auto offers = [&] {
    Ranks ranks({"ofi", 2, make_ofi_transport}, 2, small_geometry());
    Port& port = ranks.port(0);
    const ReadOffer offer = port.offer(Rank{1}, memory);
    if (offer.handle != nullptr) port.withdraw_offer(offer.handle, false);
    return offer.handle != nullptr;
  };
  EXPECT_TRUE(offers());
  {
    const Configured off("fabric.ofi.remote_reads", "off");
    EXPECT_FALSE(offers());
  }
  const Configured tagged("fabric.security", "mac");
  EXPECT_FALSE(offers());
}

INSTANTIATE_TEST_SUITE_P(Ways, OfiReads, ::testing::ValuesIn(kReadsBy), [](const auto& one) {
  return std::string(one.param.provider == std::string(kLayered) ? "tcp_rxm" : "tcp") + "_by_" +
         one.param.reads;
});

}  // namespace
}  // namespace weft::fabric::test
