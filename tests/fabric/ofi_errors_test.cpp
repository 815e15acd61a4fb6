// A provider that answers with errors, call by call: once, now and then, or always; and a process
// that may open few files, or have little memory.
//
// Each case is a process of its own: rank 0's calls fail, rank 1's do not. It ends in an error at
// set-up that names the call, after which another transport can be made; or everything arrives; or
// each learns that the other is lost, in a sentence. It never crashes, and never waits for ever.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fabric/conformance_ranks.hpp"
#include "fabric/faulty_libfabric.hpp"
#include "fabric/fork_job.hpp"
#include "fabric/parts.hpp"
#include "weft/base/config.hpp"
#include "weft/fabric/config.hpp"

namespace weft::fabric::test {
namespace {

constexpr uint32_t kMessages = 60, kWithPacket = 3;
constexpr int kAtOnce = 6;  ///< cases
constexpr double kWatchdogS = 60;

/// One rank of the two: sends numbered messages, some with packets, and takes the other's.
class Talker final : public Sink {
 public:
  Talker(Transport& transport, Rank other)
      : transport_(transport), port_(transport.open_port(0)), other_(other) {
    for (uint32_t i = 0; i < transport.geometry().packets; ++i) free_.push_back(i);
  }
  void turn() {
    if (sent_ < kMessages && !is_down() && send_one()) ++sent_;
    if (port_->poll(*this, 16) == 0) {  // as a sleeper does
      arm(*port_);
      ::usleep(50);
      port_->disarm();
    }
  }
  [[nodiscard]] bool is_over() const {
    return sent_ == kMessages && next_ == kMessages &&
           free_.size() == transport_.geometry().packets;
  }
  [[nodiscard]] bool is_down() const { return !cause_.empty(); }
  [[nodiscard]] bool is_right() const { return wrong_ == 0; }
  [[nodiscard]] const std::string& cause() const { return cause_; }

  Taken on_frame(const Frame& frame) override {
    uint32_t number = 0;
    std::memcpy(&number, frame.head.data(), sizeof number);
    wrong_ += number != next_++ || (number % kWithPacket == 0) != static_cast<bool>(frame.loan) ||
              (frame.loan && text_of(frame.packet) != text(number));
    if (frame.loan) port_->give_back(frame.loan);
    return Taken::yes;
  }
  void on_control(const Frame&) override { ++wrong_; }
  void on_returned(std::span<const uint32_t> packets) override {
    free_.insert(free_.end(), packets.begin(), packets.end());
  }
  void on_peer_down(Rank peer, std::string_view cause) override {
    wrong_ += peer != other_ || is_down();
    cause_ = cause;
  }

 private:
  static std::string text(uint32_t number) {
    return pattern(600, number) + std::to_string(number);  // too long to be injected
  }
  bool send_one() {
    const auto header = std::as_bytes(std::span(&sent_, 1));
    if (sent_ % kWithPacket != 0) return port_->try_send(other_, 0, header, {}) == Post::done;
    if (free_.empty()) return false;
    const uint32_t index = free_.back();
    const std::string words = text(sent_);
    const std::size_t stride = transport_.geometry().packet_bytes;
    std::memcpy(transport_.packet_area().data() + index * stride, words.data(), words.size());
    free_.pop_back();  // it may come back in the call
    if (port_->try_send_packet(other_, 0, header, index, static_cast<uint32_t>(words.size())) ==
        Post::posted)
      return true;
    free_.push_back(index);
    return false;
  }

  Transport& transport_;
  const std::unique_ptr<Port> port_;
  const Rank other_;
  std::vector<uint32_t> free_;
  uint32_t sent_ = 0, next_ = 0, wrong_ = 0;
  std::string cause_;
};

/// How a case ended.
enum Outcome : int { kArrived = 10, kRefused, kLost, kWrong };

/// What goes wrong, and when.
struct Case {
  std::string name;
  std::string said;  ///< what an error at set-up must contain
  std::function<void()> at_set_up, afterwards = {}, end = {};
  const char* silence_s = "1";
};

Outcome fail(const Case& one, std::string_view why) {
  std::fprintf(stderr, "%s: %.*s\n", one.name.c_str(), static_cast<int>(why.size()), why.data());
  return kWrong;
}

void fence(Job& first, Job& second) {
  std::thread other([&] { first.fence(); });
  second.fence();
  other.join();
}

/// In a process of its own.
Outcome run(const Case& one, const char* provider) {
  const auto call = [](const std::function<void()>& what) {
    if (what) what();
  };
  register_fabric_config();
  base::set_config("fabric.ofi.provider", provider);
  base::set_config("fabric.ofi.silence_s", one.silence_s);
  const auto jobs = make_local_job(2);
  std::unique_ptr<Transport> first, second;
  call(one.at_set_up);
  try {
    first = make_ofi_part(*jobs[0], small_geometry(), {});
    FaultyLibfabric::pause();  // rank 1's objects are the provider's own
    second = make_ofi_part(*jobs[1], small_geometry(), {});
    FaultyLibfabric::resume();
  } catch (const Error& error) {
    call(one.end);
    first.reset();
    const std::string said = error.what();
    if (said.find("ofi: ") == std::string::npos || said.find(one.said) == std::string::npos)
      return fail(one, said);
    const auto alone = make_local_job(1);
    first = make_ofi_part(*alone[0], small_geometry(), {});  // nothing is broken
    first.reset();
    return kRefused;
  }
  fence(*jobs[0], *jobs[1]);
  call(one.afterwards);
  Outcome outcome = kWrong;
  {
    Talker zero(*first, Rank{1}), other(*second, Rank{0});
    while (outcome == kWrong) {
      zero.turn();
      other.turn();
      if (!zero.is_right() || !other.is_right()) return fail(one, "what came was wrong");
      if (zero.is_over() && other.is_over()) outcome = kArrived;
      if (zero.is_down() && other.is_down()) outcome = kLost;
    }
    call(one.end);
    for (const Talker* const who : {&zero, &other})
      if (outcome == kLost && who->cause().find("rank ") == std::string::npos)
        return fail(one, who->cause());
    if (outcome == kLost) std::printf("%s: %s\n", one.name.c_str(), zero.cause().c_str());
  }
  std::thread leaving([&] { first.reset(); });
  second.reset();
  leaving.join();
  return outcome;
}

/// Runs all cases, several at a time; says how each ended.
std::vector<Outcome> run_all(const std::vector<Case>& cases, const char* provider) {
  std::vector<Outcome> outcomes(cases.size(), kWrong);
  struct Running {
    pid_t pid;
    std::size_t number;
    std::chrono::steady_clock::time_point start;
  };
  std::deque<Running> running;
  std::size_t next = 0;
  while (next < cases.size() || !running.empty()) {
    if (next < cases.size() && running.size() < kAtOnce) {
      std::fflush(nullptr);
      const pid_t child = ::fork();
      if (child == 0) {
        int code = kWrong;
        try {
          code = run(cases[next], provider);
        } catch (const std::exception& error) {
          code = fail(cases[next], error.what());
        }
        std::fflush(nullptr);
        ::_exit(code);
      }
      running.push_back({child, next++, std::chrono::steady_clock::now()});
      continue;
    }
    for (auto one = running.begin(); one != running.end();) {
      int status = 0;
      if (::waitpid(one->pid, &status, WNOHANG) == 0) {
        const std::chrono::duration<double> age = std::chrono::steady_clock::now() - one->start;
        if (age.count() > kWatchdogS) ::kill(one->pid, SIGKILL);
        ++one;
        continue;
      }
      if (WIFEXITED(status)) outcomes[one->number] = static_cast<Outcome>(WEXITSTATUS(status));
      if (WIFSIGNALED(status))
        std::fprintf(stderr, "%s: signal %d\n", cases[one->number].name.c_str(), WTERMSIG(status));
      one = running.erase(one);
    }
    ::usleep(2000);
  }
  return outcomes;
}

Case case_of(const Fault& fault) {
  return {fault.text(),
          ofi::libfabric().strerror(fault.code),
          [fault] { FaultyLibfabric::begin(fault); },
          {},
          [] { FaultyLibfabric::end(); }};
}

class OfiErrors : public ::testing::TestWithParam<const char*> {
 protected:
  /// Errors that the calls answer with: of the provider that is only for want of a better one, one.
  static std::vector<int> codes() {
    if (std::string_view(GetParam()) != "net") return {FI_EIO};
    return {FI_ENOMEM, FI_EIO, FI_EAGAIN};
  }
  static void SetUpTestSuite() { FaultyLibfabric::install(); }  // loaded once for all cases
};

/// Without these there is no transport: the error names the call. Closing may fail as it likes.
TEST_P(OfiErrors, AtSetUpAreThrown) {
  std::vector<Case> cases;
  for (const Call call : {Call::getinfo, Call::fabric, Call::domain, Call::av_open, Call::endpoint,
                          Call::bind, Call::bind_queue, Call::enable, Call::getname})
    for (const int code : codes())
      for (const How how : {How::once, How::always}) cases.push_back(case_of({call, code, how}));
  for (const Call call : {Call::cq_open, Call::get_wait})
    cases.push_back(case_of({call, FI_ENOMEM, How::always}));
  cases.push_back(case_of({Call::dupinfo, FI_ENOMEM, How::once}));
  const auto outcomes = run_all(cases, GetParam());
  for (std::size_t i = 0; i < cases.size(); ++i) EXPECT_EQ(outcomes[i], kRefused) << cases[i].name;
}

/// These have another way, or are tried again.
TEST_P(OfiErrors, ThatAreNoMisfortune) {
  std::vector<Case> cases;
  for (const int code : codes()) {
    for (const Call call : {Call::send, Call::inject, Call::receive, Call::read, Call::read_error,
                            Call::completion, Call::trywait, Call::wait}) {
      cases.push_back(case_of({call, code, How::once}));
      cases.push_back(case_of({call, code, How::now_and_then}));
    }
    for (const Call call : {Call::wait_open, Call::trywait, Call::wait, Call::close})
      cases.push_back(case_of({call, code, How::always}));
    cases.push_back(case_of({Call::cq_open, code, How::once}));
  }
  for (Case& one : cases) one.silence_s = "20";  // answers may be lost, too
  const auto outcomes = run_all(cases, GetParam());
  for (std::size_t i = 0; i < cases.size(); ++i) EXPECT_EQ(outcomes[i], kArrived) << cases[i].name;
}

/// Nothing gets through: both ranks are told.
TEST_P(OfiErrors, ThatDoNotEndAreTheEndOfThePeer) {
  std::vector<Case> cases;
  for (const int code : codes()) {
    cases.push_back(case_of({Call::insert, code, How::once}));
    for (const Call call : {Call::insert, Call::send, Call::inject, Call::receive, Call::read})
      cases.push_back(case_of({call, code, How::always}));
  }
  cases.push_back(case_of({Call::unreadable, FI_EIO, How::always}));
  cases.push_back(case_of({Call::completion, FI_EIO, How::always}));
  const auto outcomes = run_all(cases, GetParam());
  for (std::size_t i = 0; i < cases.size(); ++i) EXPECT_EQ(outcomes[i], kLost) << cases[i].name;
}

/// Sets a limit of this process.
void limit(int resource, rlim_t most) {
  rlimit now{};
  ::getrlimit(static_cast<decltype(RLIMIT_AS)>(resource), &now);
  now.rlim_cur = most;
  ::setrlimit(static_cast<decltype(RLIMIT_AS)>(resource), &now);
}

// Sanitizers need all addresses there are, and files for looks at what a pointer points to.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void unlimit(int resource) {
  rlimit now{};
  ::getrlimit(static_cast<decltype(RLIMIT_AS)>(resource), &now);
  limit(resource, now.rlim_max);
}

/// The number that the next file would get.
rlim_t next_file() {
  const int next = ::dup(2);
  ::close(next);
  return static_cast<rlim_t>(next);
}

/// Too few files, at set-up or when connections are made.
TEST_P(OfiErrors, FewFiles) {
  std::vector<Case> cases;
  const auto lift = [] { unlimit(RLIMIT_NOFILE); };
  for (rlim_t room = 0; room < 48; room += room < 24 ? 1 : 4)
    cases.push_back({std::to_string(room) + " more files",
                     "ulimit -n",
                     [room] { limit(RLIMIT_NOFILE, next_file() + room); },
                     {},
                     lift});
  const std::size_t at_set_up = cases.size();
  for (const rlim_t room : {0, 1, 2, 3, 4, 6})
    cases.push_back({std::to_string(room) + " files for connections",
                     "",
                     {},
                     [room] { limit(RLIMIT_NOFILE, next_file() + room); },
                     lift});
  const auto outcomes = run_all(cases, GetParam());
  EXPECT_EQ(outcomes[0], kRefused);
  for (std::size_t i = 0; i < at_set_up; ++i)
    EXPECT_TRUE(outcomes[i] == kRefused || outcomes[i] == kLost || outcomes[i] == kArrived)
        << cases[i].name;
  for (std::size_t i = at_set_up; i < cases.size(); ++i)
    EXPECT_TRUE(outcomes[i] == kLost || outcomes[i] == kArrived) << cases[i].name;
}

/// Bytes of addresses in use.
rlim_t addresses_in_use() {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

/// Too few addresses.
TEST_P(OfiErrors, FewAddresses) {
  std::vector<Case> cases;
  for (rlim_t room = 0; room <= (rlim_t{16} << 20); room += rlim_t{1} << 20)
    cases.push_back({std::to_string(room >> 20) + " MiB of addresses",
                     "",
                     [room] { limit(RLIMIT_AS, addresses_in_use() + room); },
                     {},
                     [] { unlimit(RLIMIT_AS); }});
  const auto outcomes = run_all(cases, GetParam());
  EXPECT_EQ(outcomes[0], kRefused);
  for (std::size_t i = 0; i < cases.size(); ++i)
    EXPECT_TRUE(outcomes[i] == kRefused || outcomes[i] == kLost || outcomes[i] == kArrived)
        << cases[i].name;
}
#endif

/// Nothing is locked over TCP.
TEST_P(OfiErrors, NoLockedMemory) {
  const auto outcomes =
      run_all({{"no locked memory", "", [] { limit(RLIMIT_MEMLOCK, 0); }}}, GetParam());
  EXPECT_EQ(outcomes[0], kArrived);
}

INSTANTIATE_TEST_SUITE_P(Providers, OfiErrors, ::testing::Values("tcp;ofi_rxm", "net"),
                         [](const auto& one) {
                           return std::string(one.param) == "net" ? "net" : "tcp_rxm";
                         });

}  // namespace
}  // namespace weft::fabric::test
