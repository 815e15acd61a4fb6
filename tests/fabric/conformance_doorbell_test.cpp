// Doorbells: sleeping until a sender rings, never missing one, with no timed rescue.
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "base/stress.hpp"
#include "fabric/conformance_ranks.hpp"

namespace weft::fabric::test {
namespace {

using Doorbells = Conformance;

/// Sleeps on the port's bell; false if nothing rang for a minute: the watchdog of these tests.
bool sleep_on(Port& port) {
  pollfd ask{port.bell_fd(), POLLIN, 0};
  return ::poll(&ask, 1, 60'000) == 1;
}
bool is_rung(Port& port) {
  pollfd ask{port.bell_fd(), POLLIN, 0};
  return ::poll(&ask, 1, 0) == 1;
}

/// Waits as a progress engine does: polls a while, arms, polls again, sleeps, disarms.
bool wait_for_frames(Port& port, Recorder& sink, std::size_t count, unsigned polls = 0) {
  const auto enough = [&] { return sink.frames.size() + sink.control.size() >= count; };
  while (!enough()) {
    for (unsigned i = 0; i < polls && !enough(); ++i) {
      port.poll(sink, 64);
      if (i % 1024 == 1023) std::this_thread::yield();  // to a sender that needs this core
    }
    if (enough() || port.poll(sink, 64) > 0) continue;
    port.arm();
    bool rung = true;
    if (port.poll(sink, 64) == 0) rung = sleep_on(port);
    port.disarm();
    if (!rung) return false;
  }
  return true;
}

TEST_P(Doorbells, RingsOnlyForSleepers) {
  Ranks ranks = make(2);
  const int to = ranks.at(1);
  Recorder sink;
  const auto send = [&] {
    while (ranks.port(0).try_send(Rank{to}, 0, bytes_of("x"), {}) == Post::retry) {
    }
  };
  send();
  ASSERT_TRUE(poll_until(ranks.port(to), sink, [&] { return sink.frames.size() == 1; }));
  ranks.port(to).arm();
  ranks.port(to).disarm();  // swallows what the meeting rang
  const bool rang_for_nobody = (send(), is_rung(ranks.port(to)));
  EXPECT_FALSE(rang_for_nobody && GetParam().wrap == nullptr);
  ASSERT_TRUE(poll_until(ranks.port(to), sink, [&] { return sink.frames.size() == 2; }));
  ranks.port(to).arm();
  send();
  EXPECT_TRUE(is_rung(ranks.port(to)));
  ranks.port(to).disarm();
  ASSERT_TRUE(poll_until(ranks.port(to), sink, [&] { return sink.frames.size() == 3; }));
  ranks.port(to).arm();
  while (ranks.port(0).try_control(Rank{to}, 0, bytes_of("x")) == Post::retry) {
  }
  EXPECT_TRUE(is_rung(ranks.port(to)));
  ranks.port(to).disarm();
  ranks.port(to).ring_self();
  EXPECT_TRUE(is_rung(ranks.port(to)));
  ranks.port(to).disarm();
  if (GetParam().wrap == nullptr) {
    EXPECT_FALSE(is_rung(ranks.port(to)));
  }
}

TEST_P(Doorbells, JoinsAnEpollSet) {
  Ranks ranks = make(2);
  const int to = ranks.at(1);
  const int set = ::epoll_create1(0);
  epoll_event event{};
  event.events = EPOLLIN;
  ASSERT_EQ(::epoll_ctl(set, EPOLL_CTL_ADD, ranks.port(to).bell_fd(), &event), 0);
  ranks.port(to).arm();
  while (ranks.port(0).try_send(Rank{to}, 0, bytes_of("x"), {}) == Post::retry) {
  }
  EXPECT_EQ(::epoll_wait(set, &event, 1, 60'000), 1);
  ::close(set);
}

TEST_P(Doorbells, AReturnedPacketRings) {
  Ranks ranks = make(2);
  const int to = ranks.at(1);
  Recorder sink, owner;
  while (ranks.port(0).try_send_packet(Rank{to}, 0, bytes_of("p"), 3, 8) == Post::retry) {
  }
  ASSERT_TRUE(poll_until(ranks.port(to), sink, [&] { return sink.frames.size() == 1; }));
  ranks.port(0).arm();
  ranks.port(0).poll(owner, 64);
  ranks.port(to).give_back(sink.frames[0].loan);
  EXPECT_TRUE(sleep_on(ranks.port(0)));
  ranks.port(0).disarm();
  ASSERT_TRUE(poll_until(ranks.port(0), owner, [&] { return owner.returned.size() == 1; }));
}

TEST_P(Doorbells, APeerThatLeavesRings) {
  if (GetParam().ranks == 1) GTEST_SKIP() << "needs two ranks";
  Ranks ranks = make(2);
  Recorder sink;
  while (ranks.port(1).try_send(Rank{0}, 0, bytes_of("x"), {}) == Post::retry) {
  }
  ASSERT_TRUE(poll_until(ranks.port(0), sink, [&] { return sink.frames.size() == 1; }));
  std::thread leaver([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ranks.end(1);
  });
  bool rung = true;
  while (sink.downs.empty() && rung) {
    ranks.port(0).arm();
    if (ranks.port(0).poll(sink, 64) == 0 && sink.downs.empty()) rung = sleep_on(ranks.port(0));
    ranks.port(0).disarm();
    ranks.port(0).poll(sink, 64);
  }
  leaver.join();
  EXPECT_TRUE(rung);
  EXPECT_EQ(sink.downs.size(), 1u);
}

/// Two ranks wake each other as fast as they can. Mostly they stay awake until the answer comes (a
/// sleeper's answer comes much too late to meet anybody falling asleep); one time in four they fall
/// asleep after about as long as an answer takes, so that the other's publishing and looking for a
/// sleeper moves across the announcing and the last poll. A lost ring runs into the watchdog.
TEST_P(Doorbells, NoRingIsEverMissed) {
  Ranks ranks = make(2);
  if (ranks.size() == 1) GTEST_SKIP() << "needs two ranks";
  const uint64_t seed = stress_seed("NoRingIsEverMissed");
  // Interceptors make the same bells slower: there, whatever the time allows is enough.
  const uint64_t least = GetParam().wrap ? 0 : weft::test::least_races();
  std::atomic<bool> missed{false};
  std::atomic<uint64_t> races{0};
  const auto play = [&](int self, bool serves) {
    std::minstd_rand random(static_cast<unsigned>(seed) + static_cast<unsigned>(self));
    Recorder sink;
    Port& port = ranks.port(self);
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::duration<double>(stress_seconds() / (GetParam().wrap ? 10 : 2));
    const auto say = [&](std::string_view what) {
      while (port.try_send(Rank{1 - self}, 0, bytes_of(what), {}) == Post::retry)
        std::this_thread::yield();
    };
    if (serves) say("ball");
    for (;;) {
      sink.frames.clear();
      const auto polls = static_cast<unsigned>(random() % 4 == 0 ? random() % 200 : 100'000);
      if (!wait_for_frames(port, sink, 1, polls)) {
        missed = true;
        return;
      }
      races.fetch_add(1, std::memory_order_relaxed);
      if (sink.frames[0].head == "stop") return;
      const bool enough = races.load(std::memory_order_relaxed) >= least;
      if (serves && ((enough && std::chrono::steady_clock::now() > end) || missed))
        return say("stop");
      say("ball");
    }
  };
  std::thread other(play, 1, false);
  play(0, true);
  other.join();
  EXPECT_FALSE(missed);
  EXPECT_GE(races.load(), least);
  std::printf("%llu sleep/wake races\n", static_cast<unsigned long long>(races.load()));
}

/// Many senders to one sleeper that never spins.
TEST_P(Doorbells, ManySendersOneSleeper) {
  constexpr int kSenders = 6;
  Ranks ranks = make(kSenders + 1);
  constexpr std::size_t kEach = 300;
  std::vector<std::thread> senders;
  for (int s = 1; s <= kSenders; ++s)
    senders.emplace_back([&, s] {
      for (std::size_t i = 0; i < kEach;)
        if (ranks.port(ranks.at(s)).try_send(Rank{0}, 0, bytes_of("x"), {}) == Post::done)
          ++i;
        else
          std::this_thread::yield();
    });
  Recorder sink;
  EXPECT_TRUE(wait_for_frames(ranks.port(0), sink, kEach * kSenders));
  for (auto& sender : senders) sender.join();
}

INSTANTIATE_TEST_SUITE_P(All, Doorbells, ::testing::ValuesIn(providers()), provider_name);

}  // namespace
}  // namespace weft::fabric::test
