// Providers that must be told of the memory that they work on, where a process may lock little.
// (That they are told of all of it, the conformance suite looks at, and the tests of reads.)
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "fabric/exacting_libfabric.hpp"
#include "fabric/fork_job.hpp"
#include "fabric/ofi_processes.hpp"

namespace weft::fabric::test {
namespace {

constexpr std::size_t kToldBytes = 1 << 20;

TEST(OfiRegistered, TooLittleAtSetUpIsSaid) {
  SharedJob job(1);
  const pid_t rank = job.start(0, [](Job& self) {
    constexpr std::size_t kMost = 64 << 10;
    ExactingLibfabric::install();
    ExactingLibfabric::lock_at_most(kMost);
    const rlimit limit{kMost, kMost};
    ::setrlimit(RLIMIT_MEMLOCK, &limit);
    try {
      const auto transport = make_ofi_transport(self, small_geometry());
    } catch (const Error& error) {
      const std::string said = error.what();
      WEFT_EXPECT_IN_RANK(error.code() == Errc::no_memory);
      WEFT_EXPECT_IN_RANK(said.find("fi_mr_reg") != std::string::npos);
      WEFT_EXPECT_IN_RANK(said.find("64 KiB of memory: ulimit -l") != std::string::npos);
      return 0;
    }
    return 1;
  });
  EXPECT_TRUE(ended_well(rank));
}

/// What is read into cannot be had: the read ends, and all else goes on.
TEST(OfiRegistered, TooLittleForAReadEndsTheRead) {
  SharedJob job(2);
  const auto body = [&](Job& self) {
    ExactingLibfabric::install();
    const auto transport = make_ofi_transport(self, small_geometry());
    const auto port = transport->open_port(0);
    Recorder sink;
    const Rank other{1 - self.rank().value};
    const auto send = [&](std::span<const std::byte> bytes) {
      return poll_long(*port, sink,
                       [&] { return port->try_send(other, 0, bytes, {}) == Post::done; });
    };
    std::vector<std::byte> memory(kToldBytes, std::byte{1});
    if (self.rank().value == 1) {
      const ReadOffer offer = port->offer(other, memory);
      WEFT_EXPECT_IN_RANK(offer.handle != nullptr);
      WEFT_EXPECT_IN_RANK(send(std::as_bytes(std::span(&offer, 1))));
      WEFT_EXPECT_IN_RANK(poll_long(*port, sink, [&] { return sink.frames.size() == 1; }));
      port->withdraw_offer(offer.handle, false);
      return 0;
    }
    WEFT_EXPECT_IN_RANK(poll_long(*port, sink, [&] { return sink.frames.size() == 1; }));
    ReadOffer offer;
    std::memcpy(&offer, sink.frames[0].head.data(), sizeof offer);
    const auto read = [&](uint64_t token) {
      WEFT_EXPECT_IN_RANK(port->try_read({other, 0}, offer.address, offer.key, 0, memory, token) ==
                          Post::posted);
      WEFT_EXPECT_IN_RANK(poll_long(*port, sink, [&] { return !sink.reads.empty(); }));
      return 0;
    };
    ExactingLibfabric::lock_at_most(kToldBytes);  // of which some is locked
    if (const int failed = read(5)) return failed;
    WEFT_EXPECT_IN_RANK(sink.reads.back() == std::pair(uint64_t{5}, false));
    sink.reads.clear();
    std::fill(memory.begin(), memory.end(), std::byte{0});
    ExactingLibfabric::lock_at_most(SIZE_MAX);
    if (const int failed = read(6)) return failed;
    WEFT_EXPECT_IN_RANK(sink.reads.back() == std::pair(uint64_t{6}, true));
    WEFT_EXPECT_IN_RANK(memory == std::vector<std::byte>(kToldBytes, std::byte{1}));
    WEFT_EXPECT_IN_RANK(send(bytes_of("end")));
    return 0;
  };
  const pid_t ranks[] = {job.start(0, body), job.start(1, body)};
  for (const pid_t rank : ranks) EXPECT_TRUE(ended_well(rank));
}

}  // namespace
}  // namespace weft::fabric::test
