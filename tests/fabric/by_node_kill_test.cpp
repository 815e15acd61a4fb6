// By node between processes: a rank that is killed is told once by whichever side served it, what
// it had comes back and nothing else; and what a rank does not need it does not open.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "fabric/conformance_ranks.hpp"
#include "fabric/fork_job.hpp"
#include "weft/fabric/config.hpp"

namespace weft::fabric::test {
namespace {

/// Polls until `done`, for a minute at most: the watchdog of these tests.
template <class Done>
bool poll_long(Port& port, Sink& sink, Done done) {
  return poll_until(port, sink, done, 60);
}

bool maps_segments() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("/memfd:weft") != std::string::npos) return true;
  return false;
}

constexpr int kRanks = 4;  // 0 and 1 on one node, 2 and 3 on the other
constexpr uint32_t kPackets = 3;

/// Words of the board.
enum : std::size_t { kReady, kDead, kOver };

/// Takes what rank 0 lends, gives nothing back before the victim is dead.
int keep_packets(Port& port, const SharedJob& job, bool is_victim) {
  Recorder sink;
  WEFT_EXPECT_IN_RANK(poll_long(port, sink, [&] { return sink.frames.size() == kPackets; }));
  ++job.word(kReady);
  if (is_victim)
    for (;;) port.poll(sink, 64);
  WEFT_EXPECT_IN_RANK(poll_long(port, sink, [&] { return job.word(kDead) == 1; }));
  for (const Seen& seen : sink.frames) port.give_back(seen.loan);
  WEFT_EXPECT_IN_RANK(poll_long(port, sink, [&] { return job.word(kOver) == 1; }));
  return 0;
}

/// Rank 0: lends packets to all others; of `victim` it hears once on each port.
int lend_packets(Transport& transport, const SharedJob& job, int victim) {
  const auto port = transport.open_port(0);
  const auto second = transport.open_port(1);
  Recorder sink, other;
  for (uint32_t i = 0; i < (kRanks - 1) * kPackets; ++i) {
    const Rank to{1 + static_cast<int>(i % (kRanks - 1))};
    WEFT_EXPECT_IN_RANK(poll_long(*port, sink, [&] {
      return port->try_send_packet(to, 0, bytes_of("p"), {i, 100}) == Post::posted;
    }));
  }
  WEFT_EXPECT_IN_RANK(poll_long(*port, sink, [&] { return job.word(kReady) == kRanks - 1; }));
  WEFT_EXPECT_IN_RANK(sink.returned.empty());
  while (job.word(kDead) == 0) ::usleep(1000);
  const Rank dead{victim};
  for (const auto& [each, seen] : {std::pair{port.get(), &sink}, {second.get(), &other}})
    WEFT_EXPECT_IN_RANK(poll_long(*each, *seen, [&, seen = seen] {
      (void)port->try_send(dead, 0, bytes_of("anybody?"), {});  // over a network, who asks is told
      return !seen->downs.empty();
    }));
  // The others' come back as well, given back; each of all exactly once.
  WEFT_EXPECT_IN_RANK(
      poll_long(*port, sink, [&] { return sink.returned.size() == (kRanks - 1) * kPackets; }));
  for (int i = 0; i < 3000; ++i) {
    port->poll(sink, 64);
    second->poll(other, 64);
  }
  std::sort(sink.returned.begin(), sink.returned.end());
  for (uint32_t i = 0; i < (kRanks - 1) * kPackets; ++i)
    WEFT_EXPECT_IN_RANK(sink.returned.at(i) == i);
  for (const Recorder* const seen : {&sink, &other}) {
    WEFT_EXPECT_IN_RANK(seen->downs.size() == 1);
    WEFT_EXPECT_IN_RANK(seen->downs[0].first == dead);
  }
  return 0;
}

class ByNodeProcesses : public ::testing::TestWithParam<int> {};

TEST_P(ByNodeProcesses, ARankThatIsKilledIsToldOnceAndOnlyItsPacketsAreSwept) {
  register_fabric_config();
  const int victim = GetParam();
  SharedJob job(kRanks, 2);
  pid_t ranks[kRanks];
  for (int r = 0; r < kRanks; ++r)
    ranks[r] = job.start(r, [&, r](Job& rank) {
      const auto transport = make_by_node_transport(rank, small_geometry());
      WEFT_EXPECT_IN_RANK(transport->name() == "by_node");
      WEFT_EXPECT_IN_RANK(maps_segments());
      if (r != 0) return keep_packets(*transport->open_port(0), job, r == victim);
      const int code = lend_packets(*transport, job, victim);
      job.word(kOver) = 1;
      return code;
    });
  wait_for_word(job.word(kReady), kRanks - 1, ranks[0]);
  const bool ready = job.word(kReady) == kRanks - 1;
  EXPECT_TRUE(ready);
  ::kill(ranks[victim], SIGKILL);
  (void)wait_for(ranks[victim]);
  job.word(kDead) = 1;
  if (!ready) job.word(kOver) = 1;
  for (int r = 0; r < kRanks; ++r)
    if (r != victim && (ready || r != 0)) {
      EXPECT_TRUE(ended_well(ranks[r])) << "rank " << r;
    }
}

INSTANTIATE_TEST_SUITE_P(Victims, ByNodeProcesses, ::testing::Values(1, 2),
                         [](const auto& one) { return one.param == 1 ? "near" : "far"; });

TEST(ByNodeAlone, OpensNoSegment) {
  register_fabric_config();
  SharedJob job(2, 2);
  const auto body = [&](Job& rank) {
    const auto transport = make_by_node_transport(rank, small_geometry());
    const auto port = transport->open_port(0);
    const Rank other{1 - rank.rank().value};
    Recorder sink;
    // To itself and to the other.
    WEFT_EXPECT_IN_RANK(port->try_send(rank.rank(), 0, bytes_of("self"), {}) == Post::done);
    WEFT_EXPECT_IN_RANK(port->try_send(other, 0, bytes_of("you"), {}) == Post::done);
    WEFT_EXPECT_IN_RANK(poll_long(*port, sink, [&] { return sink.frames.size() == 2; }));
    WEFT_EXPECT_IN_RANK(!maps_segments());
    ++job.word(kOver);
    WEFT_EXPECT_IN_RANK(poll_long(*port, sink, [&] { return job.word(kOver) == 2; }));
    return 0;
  };
  const pid_t one = job.start(0, body);
  const pid_t two = job.start(1, body);
  EXPECT_TRUE(ended_well(one));
  EXPECT_TRUE(ended_well(two));
}

}  // namespace
}  // namespace weft::fabric::test
