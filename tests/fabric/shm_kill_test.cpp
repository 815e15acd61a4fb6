// Senders and receivers that are killed or stopped: at random moments, and at every instruction.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <map>
#include <random>
#include <thread>

#include "fabric/conformance_ranks.hpp"
#include "fabric/fork_job.hpp"
#include "weft/base/config.hpp"
#include "weft/fabric/config.hpp"

namespace weft::fabric::test {
namespace {

using Clock = std::chrono::steady_clock;

bool rings(Port& port, int milliseconds = 60'000) {
  pollfd ask{port.bell_fd(), POLLIN, 0};
  return ::poll(&ask, 1, milliseconds) == 1;
}

/// Polls as an engine that never spins does.
template <class Done>
bool sleep_until(Port& port, Sink& sink, Done done) {
  while (!done()) {
    if (port.poll(sink, 64) > 0) continue;
    arm(port);
    const bool rung = port.poll(sink, 64) > 0 || done() || rings(port);
    port.disarm();
    if (!rung) return false;
  }
  return true;
}

/// A rank that floods rank 0 with numbered frames of all kinds until it is told to stop.
int flood(Job& job, const SharedJob& shared) {
  const auto transport = make_shm_transport(job, small_geometry());
  const auto port = transport->open_port(0);
  const auto self = static_cast<uint64_t>(job.rank().value);
  const auto area = transport->packet_area();
  std::vector<uint32_t> free(transport->geometry().packets);
  for (uint32_t i = 0; i < free.size(); ++i) free[i] = i;
  Recorder sink;
  std::minstd_rand random(static_cast<unsigned>(self + 1));
  for (uint64_t number = 0; shared.word(0).load() == 0;) {
    const std::string body = pattern(random() % 200, number);
    const std::string head = std::to_string(number) + " ";
    Post answer;
    if (random() % 3 == 0 && !free.empty()) {
      std::memcpy(area.data() + free.back() * std::size_t{transport->geometry().packet_bytes},
                  body.data(), body.size());
      answer = port->try_send_packet(Rank{0}, 0, bytes_of(head),
                                     {free.back(), static_cast<uint32_t>(body.size())});
      if (answer == Post::posted) free.pop_back();
    } else {
      answer = port->try_send(Rank{0}, 0, bytes_of(head), bytes_of(body));
    }
    if (answer == Post::retry)
      ::sched_yield();
    else
      ++number;
    port->poll(sink, 16);
    free.insert(free.end(), sink.returned.begin(), sink.returned.end());
    sink.returned.clear();
  }
  return 0;
}

/// Checks the floods' frames and gives their packets back.
class FloodChecker final : public Sink {
 public:
  explicit FloodChecker(Port& port) : port_(port) {}
  Taken on_frame(const Frame& frame) override {
    const std::string text = text_of(frame.head);
    const std::size_t blank = text.find(' ');
    const uint64_t number = std::stoull(text);
    EXPECT_EQ(number, next[frame.source.value]++) << "from " << frame.source.value;
    EXPECT_FALSE(down.contains(frame.source.value)) << "a frame after the death";
    const std::string body = frame.loan ? text_of(frame.packet) : text.substr(blank + 1);
    EXPECT_EQ(body, pattern(body.size(), number));
    if (frame.loan) port_.give_back(frame.loan);
    return Taken::yes;
  }
  void on_control(const Frame&) override {}
  void on_returned(std::span<const uint32_t>) override {}
  void on_peer_down(Rank peer, std::string_view) override {
    EXPECT_TRUE(down.insert({peer.value, true}).second);
  }
  std::map<int, uint64_t> next;
  std::map<int, bool> down;

 private:
  Port& port_;
};

class Kill : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    register_fabric_config();
    base::set_config("fabric.shm_backing", GetParam());
  }
  void TearDown() override { base::set_config("fabric.shm_backing", "memfd"); }
};

TEST_P(Kill, SendersKilledAtRandomMomentsStallNobody) {
  std::mt19937_64 random(stress_seed("SendersKilledAtRandomMoments"));
  const auto end = Clock::now() + std::chrono::duration<double>(stress_seconds());
  int kills = 0;
  do {
    constexpr int kSenders = 4;
    SharedJob shared(kSenders + 1);
    std::vector<pid_t> children;
    for (int r = 1; r <= kSenders; ++r)
      children.push_back(shared.start(r, [&](Job& job) { return flood(job, shared); }));
    const auto job = shared.rank(0);
    const auto transport = make_shm_transport(*job, small_geometry());
    const auto port = transport->open_port(0);
    FloodChecker sink(*port);
    // Only peers that were spoken to or heard from are watched. Whatever this answers, it is met.
    for (int r = 1; r <= kSenders; ++r) (void)port->try_send(Rank{r}, 0, bytes_of("hello"), {});
    for (int victim = 0; victim < kSenders - 1; ++victim) {
      const auto until = Clock::now() + std::chrono::microseconds(random() % 20000);
      while (Clock::now() < until) port->poll(sink, 64);
      const bool frozen_first = random() % 2 == 0;
      const pid_t pid = children[static_cast<std::size_t>(victim)];
      if (frozen_first) ::kill(pid, SIGSTOP);
      ::kill(pid, SIGKILL);
      ++kills;
      ASSERT_TRUE(sleep_until(
          *port, sink, [&] { return sink.down.size() == static_cast<std::size_t>(victim) + 1; }));
      EXPECT_TRUE(sink.down.contains(victim + 1));
      wait_for(pid);
      // The last one still comes through.
      const uint64_t before = sink.next[kSenders];
      ASSERT_TRUE(sleep_until(*port, sink, [&] { return sink.next[kSenders] > before + 50; }));
    }
    shared.word(0) = 1;
    // It may stand in a full ring for as long as nobody takes from it.
    int status = 0;
    while (::waitpid(children.back(), &status, WNOHANG) == 0) port->poll(sink, 64);
    EXPECT_EQ(status, 0);
  } while (Clock::now() < end && !HasFailure());
  std::printf("%d kills\n", kills);
}

TEST_P(Kill, AStoppedSenderStallsNobodyAndGoesOn) {
  SharedJob shared(3);
  std::vector<pid_t> children;
  for (int r = 1; r <= 2; ++r)
    children.push_back(shared.start(r, [&](Job& job) { return flood(job, shared); }));
  const auto job = shared.rank(0);
  const auto transport = make_shm_transport(*job, small_geometry());
  const auto port = transport->open_port(0);
  FloodChecker sink(*port);
  ASSERT_TRUE(sleep_until(*port, sink, [&] { return sink.next[1] > 10 && sink.next[2] > 10; }));
  ::kill(children[0], SIGSTOP);
  int status = 0;
  ::waitpid(children[0], &status, WUNTRACED);
  const auto until = Clock::now() + std::chrono::milliseconds(500);
  while (Clock::now() < until) port->poll(sink, 64);
  const uint64_t mine = sink.next[1], others = sink.next[2];
  ASSERT_TRUE(sleep_until(*port, sink, [&] { return sink.next[2] > others + 200; }));
  EXPECT_EQ(sink.next[1], mine);
  EXPECT_TRUE(sink.down.empty()) << "stopped is not dead";
  ::kill(children[0], SIGCONT);
  ASSERT_TRUE(sleep_until(*port, sink, [&] { return sink.next[1] > mine + 200; }));
  shared.word(0) = 1;
  for (const pid_t child : children) {
    while (::waitpid(child, &status, WNOHANG) == 0) port->poll(sink, 64);
    EXPECT_EQ(status, 0);
  }
}

TEST_P(Kill, ASleeperIsWokenByAPeersDeath) {
  SharedJob shared(2);
  const pid_t child = shared.start(1, [&](Job& rank) {
    const auto transport = make_shm_transport(rank, small_geometry());
    const auto port = transport->open_port(0);
    while (port->try_send(Rank{0}, 0, bytes_of("hello"), {}) == Post::retry) ::sched_yield();
    ::pause();
    return 0;
  });
  const auto job = shared.rank(0);
  const auto transport = make_shm_transport(*job, small_geometry());
  const auto port = transport->open_port(0);
  const auto other_port = transport->open_port(1);
  Recorder sink, other;
  ASSERT_TRUE(sleep_until(*port, sink, [&] { return sink.frames.size() == 1; }));
  std::thread killer([&] {
    ::usleep(100'000);
    ::kill(child, SIGKILL);
  });
  EXPECT_TRUE(sleep_until(*port, sink, [&] { return sink.downs.size() == 1; }));
  EXPECT_TRUE(sleep_until(*other_port, other, [&] { return other.downs.size() == 1; }));
  killer.join();
  wait_for(child);
  EXPECT_EQ(sink.downs[0].first, Rank{1});
  // A death that was told does not keep anybody awake.
  arm(*port);
  port->poll(sink, 64);
  port->disarm();
  arm(*port);
  EXPECT_FALSE(rings(*port, 50));
  port->disarm();
}

TEST_P(Kill, AReceiverThatDiesFreesItsSenders) {
  SharedJob shared(2);
  const pid_t receiver = shared.start(1, [&](Job& rank) {
    const auto transport = make_shm_transport(rank, small_geometry());
    const auto port = transport->open_port(0);
    shared.word(1) = 1;
    Recorder sink;
    for (;;) port->poll(sink, 1);  // takes, and gives nothing back
    return 0;
  });
  const auto job = shared.rank(0);
  const auto transport = make_shm_transport(*job, small_geometry());
  const auto port = transport->open_port(0);
  Recorder sink;
  while (shared.word(1).load() == 0) ::usleep(100);
  uint32_t lent = 0;
  ASSERT_TRUE(poll_until(*port, sink, [&] {
    if (lent < 16 && port->try_send_packet(Rank{1}, 0, bytes_of("p"), {lent, 8}) == Post::posted)
      ++lent;
    return lent == 16;
  }));
  ASSERT_TRUE(transport->can_read(Rank{1})) << transport->why_not_read(Rank{1});
  ::kill(receiver, SIGKILL);
  ASSERT_TRUE(sleep_until(*port, sink, [&] { return !sink.downs.empty(); }));
  std::sort(sink.returned.begin(), sink.returned.end());
  ASSERT_EQ(sink.returned.size(), 16u);
  for (uint32_t i = 0; i < 16; ++i) EXPECT_EQ(sink.returned[i], i);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(port->try_send(Rank{1}, 0, bytes_of("x"), {}), Post::done);
  std::byte buffer[8];
  EXPECT_EQ(transport->read_memory(Rank{1}, 4096, buffer), Errc::peer_died);
  wait_for(receiver);
}

/// From now on this process has no pidfd_open, as on older kernels; false: it cannot be taken away.
bool without_pidfds() {
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 &&
         ::syscall(SYS_pidfd_open, ::getpid(), 0) == -1 && errno == ENOSYS;
}

/// A rank 0 without pidfds meets rank 1; `then` is its life from there, which lasts until that one
/// is down.
template <class Then>
void beside_one_that_is_not_watched(bool it_is_killed, Then then) {
  constexpr uint64_t kMet = 1, kUnable = 2;
  SharedJob shared(2);
  const pid_t observer = shared.start(0, [&](Job& job) {
    if (!without_pidfds()) {
      shared.word(0) = kUnable;
      return 0;
    }
    const auto transport = make_shm_transport(job, small_geometry());
    const auto port = transport->open_port(0);
    Recorder sink;
    WEFT_EXPECT_IN_RANK(sleep_until(*port, sink, [&] { return sink.frames.size() == 1; }));
    WEFT_EXPECT_IN_RANK(port->try_send_packet(Rank{1}, 0, bytes_of("p"), {3, 8}) == Post::posted);
    shared.word(0) = kMet;
    WEFT_EXPECT_IN_RANK(then(*transport, *port, sink));
    WEFT_EXPECT_IN_RANK(sink.downs.size() == 1 && sink.downs[0].first == Rank{1});
    WEFT_EXPECT_IN_RANK(sink.returned == std::vector<uint32_t>{3});
    return 0;
  });
  const pid_t other = shared.start(1, [&](Job& job) {
    const auto transport = make_shm_transport(job, small_geometry());
    const auto port = transport->open_port(0);
    while (port->try_send(Rank{0}, 0, bytes_of("hello"), {}) == Post::retry) ::sched_yield();
    ::pause();
    return 0;
  });
  siginfo_t ended{};
  while (shared.word(0).load() == 0 && ended.si_pid == 0) {
    ::usleep(1000);
    ::waitid(P_PID, static_cast<id_t>(observer), &ended, WEXITED | WNOHANG | WNOWAIT);
  }
  if (it_is_killed) {
    ::usleep(100'000);
    ::kill(other, SIGKILL);
    wait_for(other);
  }
  EXPECT_TRUE(ended_well(observer));
  if (!it_is_killed) {
    ::kill(other, SIGKILL);
    wait_for(other);
  }
  if (shared.word(0) == kUnable) GTEST_SKIP() << "no system call can be taken away here";
}

TEST_P(Kill, APeerThatCannotBeWatchedIsAskedFor) {
  beside_one_that_is_not_watched(true, [](Transport&, Port& port, Recorder& sink) {
    return poll_until(port, sink, [&] { return !sink.downs.empty(); });
  });
}

TEST_P(Kill, ASleeperIsWokenByTheDeathOfAPeerThatCannotBeWatched) {
  beside_one_that_is_not_watched(true, [](Transport&, Port& port, Recorder& sink) {
    return sleep_until(port, sink, [&] { return !sink.downs.empty(); });
  });
}

TEST_P(Kill, OfAPeerThatCannotBeWatchedTheLaunchersWordIsTaken) {
  beside_one_that_is_not_watched(false, [](Transport& transport, Port& port, Recorder& sink) {
    transport.peer_died(Rank{1}, "rank 1 was lost");
    return sleep_until(port, sink, [&] { return !sink.downs.empty(); }) &&
           sink.downs[0].second == "rank 1 was lost";
  });
}

INSTANTIATE_TEST_SUITE_P(Shm, Kill, ::testing::Values("memfd", "file"),
                         [](const auto& one) { return std::string(one.param); });

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

/// What the victim does between the two marks.
struct Deed {
  const char* name;
  bool receiver_sleeps;
  /// Runs in the victim; `loan` is one that it holds from rank 0.
  void (*run)(Port& port, Loan loan);
};

void send_small(Port& port, Loan) { (void)port.try_send(Rank{0}, 0, bytes_of("deed"), {}); }
void send_large(Port& port, Loan) {
  // Does not fit before the ring's end: a pad frame first.
  static const std::string body(200, 'L');
  (void)port.try_send(Rank{0}, 0, bytes_of("deed"), bytes_of(body));
}
void send_packet(Port& port, Loan) {
  (void)port.try_send_packet(Rank{0}, 0, bytes_of("deed"), {3, 64});
}
void send_open(Port& port, Loan) {
  static const std::byte origin[64]{};
  const uint32_t index = 3;
  (void)port.try_send_open(Rank{0}, 0, bytes_of("deed"), {{&index, 1}, 64, origin});
}
void send_shared(Port& port, Loan) {
  static const std::byte origin[64]{};
  const uint32_t index = 3;
  (void)port.try_send_open(Rank{0}, 0, bytes_of("deed"),
                           {{&index, 1}, 64, origin, small_geometry().packets + 5});
}
void send_control(Port& port, Loan) { (void)port.try_control(Rank{0}, 0, bytes_of("deed")); }
void give_back(Port& port, Loan loan) { port.give_back(loan); }

class EveryInstruction : public ::testing::TestWithParam<Deed> {
 protected:
  void SetUp() override { register_fabric_config(); }
};

/// The victim traces itself, stops before the deed and after it; in between this process lets it
/// execute `steps` instructions, looks that rank 2 is not stalled, and kills it.
TEST_P(EveryInstruction, KilledThereStallsNobody) {
  const Deed& deed = GetParam();
  constexpr int kWarmUp = 14;  // of 16 cells: a large frame then needs a pad
  int whole = 0, absent = 0;
  bool finished = false;
  // Every instruction in a stress run; otherwise every third (from a random start) of the first few
  // hundred, where the deed itself is, and every 41st of what opening a bell for the first time
  // adds behind it.
  const bool thorough = stress_seconds() >= 10;
  const auto stride = [thorough](int at) { return thorough ? 1 : at < 300 ? 3 : 41; };
  for (int steps = static_cast<int>(std::random_device{}() % 3); !finished;
       steps += stride(steps)) {
    SharedJob shared(3);
    const pid_t victim = shared.start(1, [&](Job& rank) {
      const auto transport = make_shm_transport(rank, small_geometry());
      const auto port = transport->open_port(0);
      Recorder sink;
      for (int i = 0; i < kWarmUp; ++i)
        while (port->try_send(Rank{0}, 0, bytes_of("warm"), {}) == Post::retry) ::sched_yield();
      while (port->try_control(Rank{0}, 0, bytes_of("warm")) == Post::retry) ::sched_yield();
      if (!poll_until(*port, sink, [&] { return sink.frames.size() == 1; })) return 1;
      ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      ::raise(SIGSTOP);
      deed.run(*port, sink.frames[0].loan);
      ::raise(SIGUSR1);
      return 0;
    });
    const auto job0 = shared.rank(0), job2 = shared.rank(2);
    std::unique_ptr<Transport> transport, transport2;
    std::thread maker([&] { transport2 = make_shm_transport(*job2, small_geometry()); });
    transport = make_shm_transport(*job0, small_geometry());
    maker.join();
    const auto port = transport->open_port(0), port2 = transport2->open_port(0);
    Recorder sink, sink2;
    const auto other_sends = [&](const char* what) {
      ASSERT_EQ(port2->try_send(Rank{0}, 0, bytes_of(what), {}), Post::done);
    };
    other_sends("hi");
    ASSERT_TRUE(poll_until(*port, sink, [&] {
      return sink.frames.size() == kWarmUp + 1 && sink.control.size() == 1;
    }));
    ASSERT_TRUE(poll_until(*port, sink, [&] {
      return port->try_send_packet(Rank{1}, 0, bytes_of("loan"), {9, 8}) == Post::posted;
    }));
    int status = 0;
    ASSERT_EQ(::waitpid(victim, &status, 0), victim);
    ASSERT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP) << status;
    sink.frames.clear();
    sink.control.clear();
    if (deed.receiver_sleeps) {
      arm(*port);
      port->poll(sink, 64);
    }
    for (int i = 0; i < steps && !finished; ++i) {
      ASSERT_EQ(::ptrace(PTRACE_SINGLESTEP, victim, nullptr, nullptr), 0);
      ASSERT_EQ(::waitpid(victim, &status, 0), victim);
      ASSERT_TRUE(WIFSTOPPED(status));
      finished = WSTOPSIG(status) == SIGUSR1;
    }
    // Stopped: another sender gets through, and wakes.
    other_sends("between");
    if (deed.receiver_sleeps) {
      ASSERT_TRUE(rings(*port)) << "after " << steps << " instructions";
      port->disarm();
    }
    ASSERT_TRUE(poll_until(*port, sink,
                           [&] {
                             return std::any_of(
                                 sink.frames.begin(), sink.frames.end(),
                                 [](const Seen& one) { return one.head == "between"; });
                           }))
        << "after " << steps << " instructions";
    ::kill(victim, SIGKILL);
    ASSERT_TRUE(sleep_until(*port, sink, [&] { return sink.downs.size() == 1; }))
        << "after " << steps << " instructions";
    wait_for(victim);
    const auto deeds =
        std::count_if(sink.frames.begin(), sink.frames.end(),
                      [](const Seen& one) {
                        return one.head == "deed" || one.head == "deed" + std::string(200, 'L');
                      }) +
        static_cast<std::ptrdiff_t>(sink.control.size());
    ASSERT_EQ(sink.frames.size() + sink.control.size(), 1u + static_cast<std::size_t>(deeds));
    ASSERT_LE(deeds, 1);
    deeds == 1 ? ++whole : ++absent;
    // Its loan came back exactly once, given or taken.
    ASSERT_EQ(sink.returned, std::vector<uint32_t>{9}) << "after " << steps << " instructions";
    other_sends("after");
    ASSERT_TRUE(poll_until(*port, sink, [&] { return sink.frames.back().head == "after"; }));
  }
  std::printf("%s: absent %d times, whole %d times\n", deed.name, absent, whole);
  EXPECT_GT(absent, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Deeds, EveryInstruction,
    ::testing::Values(Deed{"small", false, send_small}, Deed{"small_to_sleeper", true, send_small},
                      Deed{"large_behind_a_pad", false, send_large},
                      Deed{"packet", false, send_packet}, Deed{"open_packet", false, send_open},
                      Deed{"shared_packet", false, send_shared},
                      Deed{"control", false, send_control},
                      Deed{"return_to_sleeper", true, give_back}, Deed{"return", false, give_back}),
    [](const auto& one) { return std::string(one.param.name); });

#endif

}  // namespace
}  // namespace weft::fabric::test
