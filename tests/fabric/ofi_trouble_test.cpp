// The ofi transport between processes, in trouble: ranks that are killed, stopped, or fall silent,
// and connections that break under what is on its way.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "fabric/conformance_ranks.hpp"
#include "fabric/fork_job.hpp"
#include "fabric/ofi_processes.hpp"
#include "fabric/tcp_providers.hpp"
#include "weft/base/config.hpp"
#include "weft/fabric/config.hpp"

namespace weft::fabric::test {
namespace {

class OfiProcesses : public ::testing::TestWithParam<const char*> {};

TEST_P(OfiProcesses, APeerThatIsKilledIsReportedToWhoeverSendsToIt) {
  const Configured provider("fabric.ofi.provider", GetParam());
  SharedJob job(3);
  constexpr uint32_t kPackets = 4;
  const auto body = [&](Job& rank) {
    const auto transport = make_ofi_transport(rank, small_geometry());
    const auto port = transport->open_port(0);
    Recorder sink;
    if (rank.rank().value == 1) {  // says so, takes what comes, gives nothing back
      WEFT_EXPECT_IN_RANK(port->try_send(Rank{0}, 0, bytes_of("here"), {}) == Post::done);
      WEFT_EXPECT_IN_RANK(
          poll_long(*port, sink, [&] { return sink.frames.size() == kPackets + 1; }));
      job.word(0) = 1;
      for (;;) port->poll(sink, 64);
    }
    if (rank.rank().value == 2) {  // goes on as if nothing had happened
      WEFT_EXPECT_IN_RANK(poll_long(*port, sink, [&] { return sink.frames.size() == 1; }));
      WEFT_EXPECT_IN_RANK(port->try_send(Rank{0}, 0, bytes_of("well"), {}) == Post::done);
      WEFT_EXPECT_IN_RANK(poll_long(*port, sink, [&] { return sink.frames.size() == 2; }));
      return 0;
    }
    WEFT_EXPECT_IN_RANK(poll_long(*port, sink, [&] { return sink.frames.size() == 1; }));
    WEFT_EXPECT_IN_RANK(sink.frames[0].head == "here");
    WEFT_EXPECT_IN_RANK(port->try_send(Rank{1}, 0, bytes_of("hello"), {}) == Post::done);
    for (uint32_t i = 0; i < kPackets; ++i)
      WEFT_EXPECT_IN_RANK(port->try_send_packet(Rank{1}, 0, bytes_of("p"), {i, 100}) ==
                          Post::posted);
    WEFT_EXPECT_IN_RANK(poll_long(*port, sink, [&] { return job.word(0) == 1; }));
    WEFT_EXPECT_IN_RANK(sink.returned.empty());
    job.word(1) = 1;
    while (job.word(2) == 0) ::usleep(1000);  // until it is dead
    WEFT_EXPECT_IN_RANK(poll_long(*port, sink, [&] {
      (void)port->try_send(Rank{1}, 0, bytes_of("anybody?"), {});
      return !sink.downs.empty();
    }));
    WEFT_EXPECT_IN_RANK(sink.downs[0].first == Rank{1});
    WEFT_EXPECT_IN_RANK(sink.downs[0].second.find("rank 1") != std::string::npos);
    WEFT_EXPECT_IN_RANK(sink.returned.size() == kPackets);
    WEFT_EXPECT_IN_RANK(port->try_send(Rank{2}, 0, bytes_of("you?"), {}) == Post::done);
    WEFT_EXPECT_IN_RANK(poll_long(*port, sink, [&] { return sink.frames.size() == 2; }));
    WEFT_EXPECT_IN_RANK(port->try_send(Rank{2}, 0, bytes_of("good"), {}) == Post::done);
    return 0;
  };
  pid_t ranks[3];
  for (int r = 0; r < 3; ++r) ranks[r] = job.start(r, body);
  wait_for_word(job.word(1), 1, ranks[0]);
  ::kill(ranks[1], SIGKILL);
  (void)wait_for(ranks[1]);
  const bool asked = job.word(1) != 0;
  job.word(2) = 1;
  EXPECT_TRUE(asked);
  if (asked) {
    EXPECT_TRUE(ended_well(ranks[0]));
  } else {
    ::kill(ranks[2], SIGKILL);
  }
  EXPECT_TRUE(ended_well(ranks[2]));
}

/// Numbered messages, some with packets, both ways, while all connections break again and again.
TEST_P(OfiProcesses, NothingIsLostOrRepeatedWhenConnectionsBreak) {
  const Configured provider("fabric.ofi.provider", GetParam());
  constexpr uint32_t kMessages = 20'000, kWithPacket = 5;
  SharedJob job(2);
  const auto body = [&](Job& rank) {
    const auto transport = make_ofi_transport(rank, small_geometry());
    const auto port = transport->open_port(0);
    const int me = rank.rank().value;
    const Rank other{1 - me};
    struct Counting final : Sink {
      Port* port = nullptr;
      uint32_t next = 0, wrong = 0, downs = 0;
      std::vector<uint32_t> free;
      Taken on_frame(const Frame& frame) override {
        uint32_t number = 0;
        std::memcpy(&number, frame.head.data(), sizeof number);
        const std::string text = "packet " + std::to_string(number);
        wrong += number != next++ || (number % kWithPacket == 0) != static_cast<bool>(frame.loan) ||
                 (frame.loan && text_of(frame.packet) != text);
        if (frame.loan) port->give_back(frame.loan);
        return Taken::yes;
      }
      void on_control(const Frame&) override { ++wrong; }
      void on_returned(std::span<const uint32_t> packets) override {
        free.insert(free.end(), packets.begin(), packets.end());
      }
      void on_peer_down(Rank, std::string_view cause) override {
        std::fprintf(stderr, "down: %.*s\n", static_cast<int>(cause.size()), cause.data());
        ++downs;
      }
    } sink;
    sink.port = port.get();
    for (uint32_t i = 0; i < transport->geometry().packets; ++i) sink.free.push_back(i);
    uint32_t sent = 0;
    const auto send_one = [&] {
      const auto header = std::as_bytes(std::span(&sent, 1));
      if (sent % kWithPacket != 0) return port->try_send(other, 0, header, {}) == Post::done;
      if (sink.free.empty()) return false;
      const uint32_t index = sink.free.back();
      const std::string text = "packet " + std::to_string(sent);
      std::memcpy(transport->packet_area().data() + std::size_t{index} * 1024, text.data(),
                  text.size());
      if (port->try_send_packet(other, 0, header, {index, static_cast<uint32_t>(text.size())}) !=
          Post::posted)
        return false;
      sink.free.pop_back();
      return true;
    };
    // They break each time that some more came, however long a new connection takes here.
    constexpr uint32_t kBetweenBreaks = 400;
    std::atomic<bool> ends{false};
    std::atomic<uint32_t> came{0};
    int broken = 0;
    std::thread breaker([&] {
      for (uint32_t next = kBetweenBreaks; me == 0 && !ends.load();) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        if (came.load() < next) continue;
        broken += break_connections();
        next = came.load() + kBetweenBreaks;
      }
    });
    const bool whole = poll_long(*port, sink, [&] {
      while (sent < kMessages && send_one()) ++sent;
      came = sink.next;
      return sent == kMessages && sink.next >= kMessages &&
             sink.free.size() == transport->geometry().packets;
    });
    ends = true;
    breaker.join();
    if (!whole)
      std::fprintf(stderr, "rank %d: sent %u, came %u, packets %zu\n", me, sent, sink.next,
                   sink.free.size());
    WEFT_EXPECT_IN_RANK(whole);
    WEFT_EXPECT_IN_RANK(sink.next == kMessages && sink.wrong == 0 && sink.downs == 0);
    if (me == 0) WEFT_EXPECT_IN_RANK(broken > 0);
    rank.fence();
    return 0;
  };
  const pid_t ranks[] = {job.start(0, body), job.start(1, body)};
  for (const pid_t rank : ranks) EXPECT_TRUE(ended_well(rank));
}

/// What lies in a dead rank's wake is offered before its death is told, to one that only receives.
TEST_P(OfiProcesses, LastWordsAreHeard) {
  const Configured provider("fabric.ofi.provider", GetParam());
  SharedJob job(2);
  constexpr std::size_t kWords = 10;
  const auto body = [&](Job& rank) {
    const auto transport = make_ofi_transport(rank, small_geometry());
    const auto port = transport->open_port(0);
    Recorder sink;
    if (rank.rank().value == 1) {
      for (std::size_t i = 0; i < kWords; ++i)
        WEFT_EXPECT_IN_RANK(port->try_send(Rank{0}, 0, bytes_of("word"), {}) == Post::done);
      // Until they are in the kernel's hands, no longer.
      WEFT_EXPECT_IN_RANK(poll_long(*port, sink, [&] { return job.word(1) != 0; }));
      ::raise(SIGKILL);
    }
    ::usleep(100'000);  // nobody polls; a keeper may
    job.word(1) = 1;
    while (job.word(2) == 0) ::usleep(1000);  // until it is dead
    transport->peer_died(Rank{1}, "rank 1 was killed");
    WEFT_EXPECT_IN_RANK(poll_long(*port, sink, [&] { return !sink.downs.empty(); }));
    const std::size_t heard = sink.frames.size();
    for (int i = 0; i < 100; ++i) port->poll(sink, 64);
    WEFT_EXPECT_IN_RANK(heard == sink.frames.size());
    WEFT_EXPECT_IN_RANK(sink.frames.size() == kWords);
    WEFT_EXPECT_IN_RANK(sink.downs[0].second == "rank 1 was killed");
    return 0;
  };
  const pid_t ranks[] = {job.start(0, body), job.start(1, body)};
  (void)wait_for(ranks[1]);
  job.word(2) = 1;
  EXPECT_TRUE(ended_well(ranks[0]));
}

/// A packet that a rank holds when the launcher tells of its death comes back, though nobody sends.
TEST_P(OfiProcesses, ADeathThatTheLauncherTellsBringsPacketsBack) {
  const Configured provider("fabric.ofi.provider", GetParam());
  SharedJob job(2);
  const auto body = [&](Job& rank) {
    const auto transport = make_ofi_transport(rank, small_geometry());
    const auto port = transport->open_port(0);
    Recorder sink;
    if (rank.rank().value == 1) {
      WEFT_EXPECT_IN_RANK(poll_long(*port, sink, [&] { return sink.frames.size() == 1; }));
      ::raise(SIGKILL);
    }
    WEFT_EXPECT_IN_RANK(port->try_send_packet(Rank{1}, 0, bytes_of("p"), {3, 100}) == Post::posted);
    while (job.word(2) == 0) port->poll(sink, 64);
    WEFT_EXPECT_IN_RANK(sink.returned.empty());
    transport->peer_died(Rank{1}, "rank 1 was killed");
    transport->peer_died(Rank{1}, "rank 1 was killed");  // once is enough
    WEFT_EXPECT_IN_RANK(poll_long(*port, sink, [&] { return !sink.downs.empty(); }));
    WEFT_EXPECT_IN_RANK(sink.downs[0].second == "rank 1 was killed");
    WEFT_EXPECT_IN_RANK(sink.returned == std::vector<uint32_t>{3});
    port->poll(sink, 64);
    WEFT_EXPECT_IN_RANK(sink.downs.size() == 1);
    return 0;
  };
  const pid_t ranks[] = {job.start(0, body), job.start(1, body)};
  (void)wait_for(ranks[1]);
  job.word(2) = 1;
  EXPECT_TRUE(ended_well(ranks[0]));
}

/// Stopped for longer than a second: dead, as is whoever is cut off. For less: it goes on.
TEST_P(OfiProcesses, APeerThatIsSilentForTooLongIsDeadAndForLessIsNot) {
  const Configured provider("fabric.ofi.provider", GetParam());
  const Configured silence("fabric.ofi.silence_s", "2");
  SharedJob job(2);
  const auto body = [&](Job& rank) {
    const auto transport = make_ofi_transport(rank, small_geometry());
    const auto port = transport->open_port(0);
    Recorder sink;
    if (rank.rank().value == 1) {
      for (;;) {
        port->poll(sink, 64);
        if (sink.frames.empty()) continue;
        (void)port->try_send(Rank{0}, 0, bytes_of("here"), {});
        sink.frames.clear();
      }
    }
    const auto is_answered = [&] {
      const std::size_t before = sink.frames.size();
      return port->try_send(Rank{1}, 0, bytes_of("there?"), {}) == Post::done &&
             poll_long(*port, sink, [&] { return sink.frames.size() > before; });
    };
    WEFT_EXPECT_IN_RANK(is_answered());
    job.word(1) = 1;                                // please stop it for a while
    while (job.word(2) == 0) port->poll(sink, 64);  // it was, and goes on
    WEFT_EXPECT_IN_RANK(is_answered());
    WEFT_EXPECT_IN_RANK(sink.downs.empty());
    job.word(1) = 2;  // please stop it
    WEFT_EXPECT_IN_RANK(poll_long(*port, sink, [&] { return !sink.downs.empty(); }));
    WEFT_EXPECT_IN_RANK(sink.downs[0].second.find("was silent for 2 s") != std::string::npos);
    WEFT_EXPECT_IN_RANK(sink.downs[0].second.find("rank 1 (on ") != std::string::npos);
    return 0;
  };
  const pid_t ranks[] = {job.start(0, body), job.start(1, body)};
  wait_for_word(job.word(1), 1, ranks[0]);
  ::kill(ranks[1], SIGSTOP);
  ::usleep(500'000);
  ::kill(ranks[1], SIGCONT);
  job.word(2) = 1;
  wait_for_word(job.word(1), 2, ranks[0]);
  ::kill(ranks[1], SIGSTOP);
  EXPECT_EQ(job.word(1), 2u);
  EXPECT_TRUE(ended_well(ranks[0]));
  ::kill(ranks[1], SIGKILL);
  (void)wait_for(ranks[1]);
}

/// A fork's copy of a transport ends without a word, and the original goes on.
TEST_P(OfiProcesses, AForksCopyEndsAndTouchesNothing) {
  const Configured provider("fabric.ofi.provider", GetParam());
  const auto jobs = make_local_job(1);
  auto transport = make_ofi_transport(*jobs.front(), small_geometry());
  auto port = transport->open_port(0);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    port.reset();
    transport.reset();
    ::_exit(0);
  }
  EXPECT_TRUE(ended_well(child));
  Recorder sink;
  EXPECT_EQ(port->try_send(Rank{0}, 0, bytes_of("me"), {}), Post::done);
  EXPECT_TRUE(poll_long(*port, sink, [&] { return sink.frames.size() == 1; }));
}

INSTANTIATE_TEST_SUITE_P(Providers, OfiProcesses, ::testing::ValuesIn(kTcpProviders),
                         provider_in_name);

TEST(OfiConfiguration, WhatDoesNotFitIsRefusedWithTheReason) {
  register_fabric_config();
  const auto said = [](const char* key, const char* value) {
    base::set_config(key, value);
    const auto job = make_local_job(1);
    std::string text;
    try {
      (void)make_ofi_transport(*job.front(), small_geometry());
    } catch (const Error& error) {
      text = error.code() == Errc::bad_config ? error.what() : "";
    }
    base::set_config(key, "");
    return text;
  };
  EXPECT_NE(said("fabric.ofi.provider", "nonsense").find("does not have here"), std::string::npos);
  EXPECT_NE(said("fabric.ofi.interface", "nonsense").find("there are: "), std::string::npos);
}

}  // namespace
}  // namespace weft::fabric::test
