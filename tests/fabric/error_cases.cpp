#include "fabric/error_cases.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <string_view>
#include <thread>

#include "fabric/conformance_ranks.hpp"
#include "fabric/exacting_libfabric.hpp"
#include "fabric/fork_job.hpp"
#include "fabric/parts.hpp"
#include "weft/base/config.hpp"
#include "weft/fabric/config.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace weft::fabric::test {
namespace {

constexpr uint32_t kEachWithPacket = 3;      ///< every so many messages
constexpr uint32_t kTelling = 1;             ///< the message that says what is offered
constexpr std::size_t kReadBytes = 8 << 10;  ///< of a read
constexpr int kAtOnce = 6;                   ///< cases
constexpr double kWatchdogS = 60;

/// What a rank offers, and where it reads to: it outlives the transports.
struct Memory {
  explicit Memory(uint64_t rank)
      : own(pattern(kReads * kReadBytes, rank)), read(own.size(), '\0') {}
  std::string own, read;
};

/// One rank of the two: sends numbered messages, some with packets, takes the other's, and reads
/// what the other offers.
class Talker final : public Sink {
 public:
  Talker(Transport& transport, Rank other, uint32_t messages, Memory& mine, const Memory& theirs)
      : transport_(transport),
        port_(transport.open_port(0)),
        other_(other),
        messages_(messages),
        memory_(mine),
        theirs_(theirs),
        offer_(port_->offer(other, bytes_of(mine.own))) {
    for (uint32_t i = 0; i < transport.geometry().packets; ++i) free_.push_back(i);
  }
  Talker(const Talker&) = delete;
  Talker& operator=(const Talker&) = delete;
  ~Talker() {
    if (offers()) port_->withdraw_offer(offer_.handle, is_down());
  }

  void turn() {
    if (sent_ < messages_ && !is_down() && send_one()) ++sent_;
    while (begun_ < to_read_ && !is_down() && begin_read()) ++begun_;
    if (port_->poll(*this, 16) == 0) {  // as a sleeper does
      arm(*port_);
      ::usleep(50);
      port_->disarm();
    }
  }
  [[nodiscard]] bool is_over() const {
    return sent_ == messages_ && next_ == messages_ && ended_ == to_read_ &&
           free_.size() == transport_.geometry().packets;
  }
  [[nodiscard]] bool is_down() const { return !cause_.empty(); }
  [[nodiscard]] bool is_right() const { return wrong_ == 0; }
  [[nodiscard]] const std::string& cause() const { return cause_; }
  [[nodiscard]] bool offers() const { return offer_.handle != nullptr; }
  [[nodiscard]] int failed_reads() const { return failed_reads_; }

  Taken on_frame(const Frame& frame) override {
    uint32_t number = 0;
    std::memcpy(&number, frame.head.data(), sizeof number);
    wrong_ += number != next_++ ||
              (number % kEachWithPacket == 0) != static_cast<bool>(frame.loan) ||
              (frame.loan && text_of(frame.packet) != text(number));
    if (number == kTelling) take_offer(frame.head.subspan(sizeof number));
    if (frame.loan) port_->give_back(frame.loan);
    return Taken::yes;
  }
  void on_control(const Frame&) override { ++wrong_; }
  void on_returned(std::span<const uint32_t> packets) override {
    free_.insert(free_.end(), packets.begin(), packets.end());
  }
  /// Each ends once; one that is said to be right is.
  void on_read(uint64_t token, bool ok) override {
    const bool is_new = token < begun_ && !std::exchange(has_ended_[token], true);
    const auto piece = [&](const std::string& text) {
      return std::string_view(text).substr(token * kReadBytes, kReadBytes);
    };
    wrong_ += !is_new || (ok && piece(memory_.read) != piece(theirs_.own));
    failed_reads_ += ok ? 0 : 1;
    ++ended_;
  }
  void on_peer_down(Rank peer, std::string_view cause) override {
    wrong_ += peer != other_ || is_down();
    cause_ = cause;
  }

 private:
  /// Too long to be injected; where a packet takes more, of two sizes.
  [[nodiscard]] std::string text(uint32_t number) const {
    const std::size_t most = transport_.geometry().packet_bytes;
    return pattern(number % 2 == 0 ? most / 2 : most * 3 / 4, number);
  }
  bool send_one() {
    const auto header = std::as_bytes(std::span(&sent_, 1));
    const uint64_t told[] = {offer_.address, offer_.key};
    const auto more = sent_ == kTelling ? std::span<const std::byte>(std::as_bytes(std::span(told)))
                                        : std::span<const std::byte>();
    if (sent_ % kEachWithPacket != 0) return port_->try_send(other_, 0, header, more) == Post::done;
    if (free_.empty()) return false;
    const uint32_t index = free_.back();
    const std::string words = text(sent_);
    const std::size_t stride = transport_.geometry().packet_bytes;
    std::memcpy(transport_.packet_area().data() + index * stride, words.data(), words.size());
    free_.pop_back();  // it may come back in the call
    if (port_->try_send_packet(other_, 0, header, {index, static_cast<uint32_t>(words.size())}) ==
        Post::posted)
      return true;
    free_.push_back(index);
    return false;
  }
  void take_offer(std::span<const std::byte> told) {
    if (told.size() != sizeof told_) {
      ++wrong_;
      return;
    }
    std::memcpy(told_, told.data(), sizeof told_);
    if (told_[1] != ReadOffer::kNone) to_read_ = kReads;
  }
  bool begin_read() {
    const std::size_t at = begun_ * kReadBytes;
    const auto into = std::as_writable_bytes(std::span(memory_.read)).subspan(at, kReadBytes);
    return port_->try_read({other_, 0}, told_[0], told_[1], at, into, begun_) == Post::posted;
  }

  Transport& transport_;
  const std::unique_ptr<Port> port_;
  const Rank other_;
  const uint32_t messages_;
  Memory& memory_;
  const Memory& theirs_;
  const ReadOffer offer_;
  std::vector<uint32_t> free_;
  uint32_t sent_ = 0, next_ = 0, wrong_ = 0;
  uint64_t told_[2] = {};
  uint32_t to_read_ = 0, begun_ = 0, ended_ = 0;
  bool has_ended_[kReads] = {};
  int failed_reads_ = 0;
  std::string cause_;
};

Outcome fail(const Case& one, std::string_view why) {
  std::fprintf(stderr, "%s: %.*s\n", one.name.c_str(), static_cast<int>(why.size()), why.data());
  return kWrong;
}

void call(const std::function<void()>& what) {
  if (what) what();
}

void fence(Job& first, Job& second) {
  std::thread other([&] { first.fence(); });
  second.fence();
  other.join();
}

/// Where messages are sorted by size, they must be of several.
Geometry geometry_for(const Case& one) {
  Geometry geometry = small_geometry();
  if (std::string_view(one.receive) == "sized") geometry.packet_bytes = 16 << 10;
  return geometry;
}

/// After an error at set-up.
Outcome refused(const Case& one, std::string_view said) {
  for (const std::string& word : one.said)
    if (said.find(word) == std::string_view::npos) return fail(one, said);
  if (said.find("ofi") == std::string_view::npos) return fail(one, said);
  const auto alone = make_local_job(1);
  (void)make_ofi_part(*alone[0], geometry_for(one), {});  // nothing is broken
  return kRefused;
}

/// Both ranks talk until they are through.
Outcome talk(const Case& one, Transport& first, Transport& second, Memory (&memory)[2]) {
  Talker zero(first, Rank{1}, one.messages, memory[0], memory[1]);
  Talker other(second, Rank{0}, one.messages, memory[1], memory[0]);
  Outcome outcome = kWrong;
  while (outcome == kWrong) {
    zero.turn();
    other.turn();
    if (!zero.is_right() || !other.is_right()) return fail(one, "what came was wrong");
    if (zero.is_over() && other.is_over()) outcome = kArrived;
    if (zero.is_down() && other.is_down()) outcome = kLost;
  }
  call(one.end);
  if (outcome == kLost) {
    const auto says = [](const Talker& who, std::string_view words) {
      return who.cause().find(words) != std::string::npos;
    };
    if (!says(zero, "rank 1") || !says(zero, one.lost_said)) return fail(one, zero.cause());
    if (!says(other, "rank 0")) return fail(one, other.cause());
    std::printf("%s: %s\n", one.name.c_str(), zero.cause().c_str());
    return outcome;
  }
  if (one.offers != Case::kAny && one.offers != (zero.offers() ? 1 : 0))
    return fail(one, zero.offers() ? "offered" : "not offered");
  if (one.failed_reads != Case::kAny && one.failed_reads != zero.failed_reads())
    return fail(one, std::to_string(zero.failed_reads()) + " reads failed");
  return outcome;
}

Outcome run_transports(const Case& one) {
  const auto jobs = make_local_job(2);
  Memory memory[] = {Memory(0), Memory(1)};
  std::unique_ptr<Transport> first, second;
  call(one.at_set_up);
  try {
    FaultyLibfabric::resume();
    first = make_ofi_part(*jobs[0], geometry_for(one), {});
    FaultyLibfabric::pause();  // rank 1's objects are the provider's own
    second = make_ofi_part(*jobs[1], geometry_for(one), {});
  } catch (const Error& error) {
    call(one.end);
    FaultyLibfabric::pause();
    first.reset();
    return refused(one, error.what());
  }
  fence(*jobs[0], *jobs[1]);
  call(one.afterwards);
  const Outcome outcome = talk(one, *first, *second, memory);
  std::thread leaving([&] { first.reset(); });
  second.reset();
  leaving.join();
  return outcome;
}

/// In a process of its own.
Outcome run(const Case& one, const char* provider) {
  register_fabric_config();
  base::set_config("fabric.ofi.provider", provider);
  base::set_config("fabric.ofi.silence_s", one.silence_s);
  base::set_config("fabric.ofi.receive", one.receive);
  base::set_config("fabric.ofi.remote_reads", one.reads);
  if (one.scarce) {
    base::set_config("fabric.ofi.receives", "4");
    base::set_config("fabric.ofi.receive_memory", "65536");
  }
  if (one.exacting) ExactingLibfabric::install();
  FaultyLibfabric::install();
  const Outcome outcome = run_transports(one);
  if (one.is_of_calls && FaultyLibfabric::calls() == 0) return fail(one, "was never called");
  if (one.exacting && ExactingLibfabric::entries() != 0) return fail(one, "memory is left told of");
  if (FaultyLibfabric::open() > one.left_open)
    return fail(one, std::to_string(FaultyLibfabric::open()) + " objects are left open");
#if defined(__SANITIZE_ADDRESS__)
  if (__lsan_do_recoverable_leak_check() != 0) return fail(one, "leaks");
#endif
  return outcome;
}

}  // namespace

Case case_of(const Fault& fault) {
  Case one{.name = fault.text(), .said = {ofi::libfabric().strerror(fault.code)}};
  one.at_set_up = [fault] { FaultyLibfabric::begin(fault); };
  // What closes does so at the end.
  if (fault.call != Call::close) one.end = [] { FaultyLibfabric::end(); };
  one.is_of_calls = true;
  return one;
}

Case later_case_of(const Fault& fault) {
  Case one = case_of(fault);
  one.name += ", later";
  one.afterwards = std::exchange(one.at_set_up, {});
  return one;
}

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

void expect_all(const std::vector<Case>& cases, const char* provider, Outcome expected) {
  const auto outcomes = run_all(cases, provider);
  for (std::size_t i = 0; i < cases.size(); ++i) EXPECT_EQ(outcomes[i], expected) << cases[i].name;
}

}  // namespace weft::fabric::test
