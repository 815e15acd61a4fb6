// The ofi transport between processes: frames and packets in both directions, and a rank that is
// killed without a word.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <string>

#include "fabric/conformance_ranks.hpp"
#include "fabric/fork_job.hpp"
#include "weft/base/config.hpp"
#include "weft/fabric/config.hpp"

namespace weft::fabric::test {
namespace {

/// Polls until `done`, for a minute at most: the watchdog of these tests.
template <class Done>
bool poll_long(Port& port, Sink& sink, Done done) {
  return poll_until(port, sink, done, 60);
}

class OfiProcesses : public ::testing::TestWithParam<const char*> {};

TEST_P(OfiProcesses, APeerThatIsKilledIsReportedToWhoeverSendsToIt) {
  register_fabric_config();
  base::set_config("fabric.ofi.provider", GetParam());
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
      WEFT_EXPECT_IN_RANK(port->try_send_packet(Rank{1}, 0, bytes_of("p"), i, 100) == Post::posted);
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
  int status = 0;
  while (job.word(1) == 0 && ::waitpid(ranks[0], &status, WNOHANG) == 0) ::usleep(1000);
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
  base::set_config("fabric.ofi.provider", "");
}

INSTANTIATE_TEST_SUITE_P(Providers, OfiProcesses, ::testing::Values("tcp;ofi_rxm", "net"),
                         [](const auto& one) {
                           return std::string(one.param) == "net" ? "net" : "tcp_rxm";
                         });

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
