// Between processes: writers that are stopped or killed in the midst of packets that others read as
// they are written, and readers that are killed while they hold some that others read, too.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "comm/ranks.hpp"
#include "comm/runtime_impl.hpp"
#include "comm/shared_packets.hpp"
#include "fabric/fork_job.hpp"
#include "weft/base/config.hpp"
#include "weft/comm/config.hpp"
#include "weft/comm/matcher.hpp"
#include "weft/comm/runtime.hpp"
#include "weft/fabric/config.hpp"
#include "weft/fabric/job.hpp"

namespace weft {
namespace {

using fabric::test::SharedJob;
using test::pattern;

/// Memory in whose second half the first that reads it meets a signal.
struct Trapped {
  static constexpr std::size_t kHalf = 32 << 10;
  static std::byte* place;
  static int signal;

  static std::span<std::byte> make(int what, std::span<const std::byte> data) {
    signal = what;
    place = static_cast<std::byte*>(
        ::mmap(nullptr, data.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memcpy(place, data.data(), data.size());
    ::mprotect(place + kHalf, kHalf, PROT_NONE);
    struct sigaction action {};
    action.sa_handler = [](int) {
      // Of one who dies nobody gets that half: else it may be read just before.
      if (signal != SIGKILL) ::mprotect(place + kHalf, kHalf, PROT_READ | PROT_WRITE);
      ::raise(signal);
    };
    ::sigaction(SIGSEGV, &action, nullptr);
    return {place, data.size()};
  }
};
std::byte* Trapped::place = nullptr;
int Trapped::signal = 0;

/// Keeps what came, or its error.
struct Noting final : Matcher {
  bool arrive(const Delivery& message) noexcept override {
    if (waits_for != nullptr && *waits_for == 0) return false;
    bytes.resize(message.payload.size());
    if (copies) {
      error = message.payload.copy(bytes);
    } else if (const auto whole = message.payload.whole(error); error == Errc::ok) {
      std::copy(whole.begin(), whole.end(), bytes.begin());
    }
    came = true;
    return true;
  }
  bool announced(const Envelope&, const Announcement&,
                 std::span<const std::byte>) noexcept override {
    return true;
  }
  Tried try_again() noexcept override { return Tried::all; }
  void peer_down(Rank) noexcept override { is_down = true; }
  const std::atomic<uint64_t>* waits_for = nullptr;  ///< refuses all until it is set
  bool copies = true, came = false, is_down = false;
  Errc error = Errc::ok;
  std::vector<std::byte> bytes;
};

constexpr std::size_t kLong = 3 * 2 * Trapped::kHalf;

/// Rank 1, in a process of its own, is met by `signal` while it writes a message for rank 0.
class HalfWritten : public ::testing::Test {
 protected:
  void SetUp() override {
    fabric::register_fabric_config();
    base::set_config("fabric.transport", "shm");
    register_comm_config();
    base::set_config("comm.open_packets", "always");
  }
  void TearDown() override {
    base::set_config("fabric.transport", "automatic");
    base::set_config("comm.open_packets", "automatic");
  }

  pid_t start(int signal, MatchOn match_on = MatchOn::rank_and_tag) {
    return shared.start(1, [this, signal, match_on](fabric::Job& job) {
      Runtime runtime({.job = &job});
      Endpoint endpoint(runtime, {.arrival = Arrival::matched, .match_on = match_on});
      const std::byte word{};
      endpoint.send_wait(Rank{0}, Tag{0}, {&word, 1});
      while (shared.word(0) == 0) ::usleep(1000);
      const auto data = Trapped::make(signal, pattern(2 * Trapped::kHalf, 5));
      endpoint.send_wait(Rank{0}, Tag{1}, data);
      // The packet is its owner's again only now.
      for (uint32_t i = 2; i < 12; ++i) endpoint.send_wait(Rank{0}, Tag{i}, pattern(40'000, i));
      runtime.barrier();
      return 0;
    });
  }
  /// The same for a message of kLong bytes that `send` sends, when it answers true.
  template <class Send>
  static pid_t start_for_matchers(SharedJob& of, int signal, Send send) {
    return of.start(1, [signal, send](fabric::Job& job) {
      Runtime runtime({.job = &job});
      Noting none;
      Endpoint endpoint(runtime, {.arrival = Arrival::matcher, .matcher = &none});
      runtime.barrier();
      const auto data = pattern(kLong, 5);
      const auto trapped = Trapped::make(signal, data);
      while (!send(endpoint, trapped)) runtime.relax();
      runtime.barrier();
      return 0;
    });
  }
  static void wait_until_stopped(pid_t child) {
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WSTOPPED | WEXITED | WNOWAIT), 0);
    ASSERT_EQ(info.si_code, CLD_STOPPED);
  }

  SharedJob shared{2};
};

TEST_F(HalfWritten, AStoppedSendersMessageArrives) {
  const pid_t child = start(SIGSTOP);
  const auto job = shared.rank(0);
  {
    Runtime runtime({.job = job.get()});
    Endpoint endpoint(runtime, {.arrival = Arrival::matched});
    std::byte word{};
    endpoint.recv_wait(Rank{1}, Tag{0}, {&word, 1});
    std::vector<std::byte> into(2 * Trapped::kHalf);
    Synchronizer done;
    (void)until_posted(runtime, [&] { return endpoint.recv(Rank{1}, Tag{1}, into, &done); });
    shared.word(0) = 1;
    wait_until_stopped(child);
    runtime.wait(done);
    EXPECT_EQ(done.event().error, Errc::ok);
    EXPECT_EQ(into, pattern(into.size(), 5));
    ::kill(child, SIGCONT);
    for (uint32_t i = 2; i < 12; ++i) {
      std::vector<std::byte> next(40'000);
      EXPECT_EQ(endpoint.recv_wait(Rank{1}, Tag{i}, next).error, Errc::ok);
      EXPECT_EQ(next, pattern(next.size(), i));
    }
    runtime.barrier();
  }
  EXPECT_TRUE(fabric::test::ended_well(child));
}

TEST_F(HalfWritten, MatchersGetTheRestOfAStoppedSendersAndLearnOfADeadOnes) {
  for (const int signal : {SIGSTOP, SIGKILL}) {
    for (const bool copies : {true, false}) {
      SCOPED_TRACE(::testing::Message() << "signal " << signal << ", copies " << copies);
      const pid_t child = start_for_matchers(shared, signal, [](auto& endpoint, auto data) {
        return endpoint.send_wide(Rank{0}, {}, data) == Post::done;
      });
      const auto job = shared.rank(0);
      {
        Runtime runtime({.job = job.get()});
        Noting matcher;
        matcher.copies = copies;
        Endpoint endpoint(runtime, {.arrival = Arrival::matcher, .matcher = &matcher});
        runtime.barrier();
        if (signal == SIGSTOP) wait_until_stopped(child);
        while (!matcher.came && !matcher.is_down) runtime.progress();
        if (signal == SIGSTOP) {
          EXPECT_EQ(matcher.error, Errc::ok);
          EXPECT_EQ(matcher.bytes, pattern(kLong, 5));
          ::kill(child, SIGCONT);
          runtime.barrier();
        } else if (matcher.came) {
          EXPECT_EQ(matcher.error, Errc::peer_died);
        }
      }
      EXPECT_EQ(fabric::test::ended_well(child), signal == SIGSTOP);
    }
  }
}

TEST_F(HalfWritten, AReceiveFromAnybodyIsNotEndedByAKilledSenders) {
  const pid_t child = start(SIGKILL, MatchOn::tag);
  const auto job = shared.rank(0);
  Runtime runtime({.job = job.get()});
  Endpoint endpoint(runtime, {.arrival = Arrival::matched, .match_on = MatchOn::tag});
  std::byte word{};
  endpoint.recv_wait({}, Tag{0}, {&word, 1});
  std::vector<std::byte> into(2 * Trapped::kHalf);
  Synchronizer done;
  (void)until_posted(runtime, [&] { return endpoint.recv({}, Tag{1}, into, &done); });
  shared.word(0) = 1;
  while (runtime.cause_of_death(Rank{1}).empty()) runtime.progress();
  for (int i = 0; i < 1000; ++i) runtime.progress();
  EXPECT_FALSE(done.ready());
  EXPECT_TRUE(endpoint.cancel({}, Tag{1}, nullptr));
  runtime.wait(done);
  EXPECT_EQ(done.event().error, Errc::cancelled);
  fabric::test::wait_for(child);
}

TEST_F(HalfWritten, AKilledSendersMessageIsNone) {
  for (const bool expected : {true, false}) {
    SCOPED_TRACE(expected);
    shared.word(0) = 0;
    const pid_t child = start(SIGKILL);
    const auto job = shared.rank(0);
    Runtime runtime({.job = job.get()});
    Endpoint endpoint(runtime, {.arrival = Arrival::matched});
    std::byte word{};
    endpoint.recv_wait(Rank{1}, Tag{0}, {&word, 1});
    std::vector<std::byte> into(2 * Trapped::kHalf);
    Synchronizer done;
    const auto receive = [&] { return endpoint.recv(Rank{1}, Tag{1}, into, &done); };
    if (expected) (void)until_posted(runtime, receive);
    shared.word(0) = 1;
    fabric::test::wait_for(child);
    if (!expected) (void)until_posted(runtime, receive);
    runtime.wait(done);
    EXPECT_EQ(done.event().error, Errc::peer_died);
  }
}

// --- What several read ---------------------------------------------------------------------------

TEST_F(HalfWritten, EachReaderGetsTheRestOfAStoppedSendersAndLearnsOfADeadOnes) {
  for (const int signal : {SIGSTOP, SIGKILL}) {
    SCOPED_TRACE(signal);
    SharedJob three{3};
    const pid_t writer = start_for_matchers(three, signal, [](auto& endpoint, auto data) {
      return endpoint.send_shared(std::array{Rank{0}, Rank{2}}, {}, data) != 0;
    });
    // Whether it got all, or learnt why not.
    const auto read = [&](fabric::Job& job) {
      Runtime runtime({.job = &job});
      Noting matcher;
      Endpoint endpoint(runtime, {.arrival = Arrival::matcher, .matcher = &matcher});
      runtime.barrier();
      while (signal == SIGKILL ? !matcher.is_down : !matcher.came) runtime.progress();
      if (signal == SIGKILL) return matcher.came && matcher.error != Errc::peer_died ? 1 : 0;
      const bool right = matcher.error == Errc::ok && matcher.bytes == pattern(kLong, 5);
      three.word(0) += 1;
      runtime.barrier();
      return right ? 0 : 1;
    };
    const pid_t one = three.start(0, read);
    const pid_t other = three.start(2, read);
    if (signal == SIGSTOP) {
      // It goes on only when both have what it did not write.
      wait_until_stopped(writer);
      while (three.word(0) < 2) ::usleep(1000);
      ::kill(writer, SIGCONT);
    }
    EXPECT_TRUE(fabric::test::ended_well(one));
    EXPECT_TRUE(fabric::test::ended_well(other));
    EXPECT_EQ(fabric::test::ended_well(writer), signal == SIGSTOP);
  }
}

/// Is killed, or rather waits for that, with a message in hand.
struct Holding final : Matcher {
  explicit Holding(SharedJob& the_job) : job(the_job) {}
  bool arrive(const Delivery&) noexcept override {
    job.word(0) = 1;
    for (;;) ::pause();
  }
  bool announced(const Envelope&, const Announcement&,
                 std::span<const std::byte>) noexcept override {
    return true;
  }
  Tried try_again() noexcept override { return Tried::all; }
  void peer_down(Rank) noexcept override {}
  SharedJob& job;
};

TEST_F(HalfWritten, WhatAKilledReaderHeldIsFreeWhenTheOthersAreThrough) {
  for (const char* open : {"always", "never"}) {
    SCOPED_TRACE(open);
    base::set_config("comm.open_packets", open);
    SharedJob three{3};
    const auto data = pattern(200'001, 6);
    const pid_t holder = three.start(1, [&](fabric::Job& job) {
      Runtime runtime({.job = &job});
      Holding holding(three);
      Endpoint endpoint(runtime, {.arrival = Arrival::matcher, .matcher = &holding});
      runtime.barrier();
      for (;;) runtime.progress();
      return 0;
    });
    const pid_t reader = three.start(2, [&](fabric::Job& job) {
      Runtime runtime({.job = &job});
      Noting matcher;
      matcher.waits_for = &three.word(1);
      Endpoint endpoint(runtime, {.arrival = Arrival::matcher, .matcher = &matcher});
      runtime.barrier();
      while (!matcher.came) runtime.progress();
      // The end of a runtime waits for all of whose death it has not heard, as this one has not.
      ::_exit(matcher.error == Errc::ok && matcher.bytes == data ? 0 : 1);
      return 0;
    });
    const auto job = three.rank(0);
    {
      Runtime runtime({.job = job.get()});
      Noting none;
      Endpoint endpoint(runtime, {.arrival = Arrival::matcher, .matcher = &none});
      runtime.barrier();
      EXPECT_EQ(endpoint.send_shared(std::array{Rank{1}, Rank{2}}, {}, data), 0b11U);
      const auto& impl = runtime.impl();
      while (three.word(0) == 0) runtime.progress();
      ::kill(holder, SIGKILL);
      fabric::test::wait_for(holder);
      while (runtime.cause_of_death(Rank{1}).empty() ||
             impl.shared_packets->available() != fabric::kTickets - 1) {
        runtime.progress();
      }
      EXPECT_EQ(impl.packets->available(), impl.packets->capacity() - 4) << "one reads them still";
      three.word(1) = 1;
      while (impl.shared_packets->available() != fabric::kTickets) runtime.progress();
      EXPECT_EQ(impl.packets->available(), impl.packets->capacity());
    }
    EXPECT_TRUE(fabric::test::ended_well(reader));
  }
}

}  // namespace
}  // namespace weft
