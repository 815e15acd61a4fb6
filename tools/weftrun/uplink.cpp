// A daemon's way to the job that it was summoned to.
#include "weftrun/uplink.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <stdexcept>

#include "weft/base/clock.hpp"
#include "weftrun/process_table.hpp"
#include "weftrun/proof.hpp"

namespace weft::run {
namespace {

/// What one address gets to answer, while there are others; in the next round twice as much.
constexpr uint64_t kAddressTime = 3000 * kMillisecond;
/// Between two rounds.
constexpr int kPauseMs = 100;

/// Why it was in vain.
struct Problem {
  std::string text;
  bool may_pass = false;  ///< somebody is there, or may be
};

/// Waits until `fd` is ready for `events`; false when the time is over before.
bool wait_for(int fd, short events, uint64_t until) {
  for (;;) {
    const uint64_t now = base::now_ns();
    if (now >= until) return false;
    pollfd one{fd, events, 0};
    const int ready = poll(&one, 1, static_cast<int>((until - now) / kMillisecond + 1));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

/// A connection, or why there is none.
Fd connect_to(const std::string& address, int port, uint64_t until, Problem& problem) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    problem = {"no address"};
    return {};
  }
  Fd socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int error = 0;
  if (!socket || connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0) error = errno;
  freeaddrinfo(found);
  if (error == EINPROGRESS) {
    socklen_t length = sizeof error;
    if (!wait_for(socket.get(), POLLOUT, until))
      error = ETIMEDOUT;
    else
      getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  }
  if (error != 0) {
    problem = {error_text(error), error == ETIMEDOUT};
    return {};
  }
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

/// The next message, or nothing when the time is over or the connection ended.
std::optional<Message> hear(Link& link, uint64_t until) {
  for (;;) {
    if (std::optional<Message> message = link.next()) {
      if (message->say != Say::beat) return message;
      continue;
    }
    const short events = link.wants_room() ? POLLIN | POLLOUT : POLLIN;
    if (!link.broken().empty() || !wait_for(link.fd(), events, until)) return std::nullopt;
    link.flush();
    link.read_some();
  }
}

/// Shows the other end that we know the key, once it has shown it to us.
bool greet(Link& link, const Summons& summons, uint64_t until) {
  const std::string nonce = fresh_nonce();
  link.send({.say = Say::hello, .member = summons.member, .text = nonce});
  const std::optional<Message> answer = hear(link, until);
  if (!answer || answer->say != Say::challenge) return false;
  const std::string theirs = answer->text.substr(0, kNonceBytes);
  if (!same_bytes(answer->text.substr(kNonceBytes),
                  proof_of(summons.key, "parent", summons.member, theirs, nonce)))
    return false;
  link.send(
      {.say = Say::proof, .text = proof_of(summons.key, "daemon", summons.member, nonce, theirs)});
  return true;
}

/// The job, if who started us is there and answers.
std::optional<Joined> try_address(const Summons& summons, const std::string& address,
                                  uint64_t answer_until, uint64_t job_until, Problem& problem) {
  Fd socket = connect_to(address, summons.port, answer_until, problem);
  if (!socket) return std::nullopt;
  Link link(std::move(socket), {summons.member + 1, 1});
  if (!greet(link, summons, answer_until)) {
    const bool was_silent = base::now_ns() >= answer_until;
    problem = {was_silent ? "no answer" : "somebody else is there", true};
    return std::nullopt;
  }
  link.trust({summons.member + 1, 1});
  const std::optional<Message> job = hear(link, job_until);
  std::optional<JobSpec> spec;
  if (job && job->say == Say::job) spec = decode_spec(job->text);
  if (!spec || summons.member >= spec->members())
    throw std::runtime_error("what started this daemon sent no job");
  link.trust({spec->members(), spec->ranks()});
  return Joined{std::move(link), *std::move(spec), job->text};
}

}  // namespace

Summons read_summons(int fd) {
  std::string text;
  std::array<char, 4096> buffer;
  while (!text.ends_with("\nend\n") && text.size() <= kMostSummons) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  std::optional<Summons> summons = decode_summons(text);
  if (!summons)
    throw std::runtime_error(
        "a daemon of weftrun is started by weftrun, of the same version, through a launch agent "
        "that "
        "passes on its standard input");
  return *std::move(summons);
}

Joined join(const Summons& summons) {
  const uint64_t launch = static_cast<uint64_t>(summons.launch_ms) * kMillisecond;
  const uint64_t until = base::now_ns() + launch;
  for (uint64_t patience = kAddressTime;; patience = std::min(2 * patience, launch)) {
    std::string problems;
    bool may_pass = false;
    for (const std::string& address : summons.addresses) {
      Problem problem;
      const uint64_t address_until = std::min(until, base::now_ns() + patience);
      if (std::optional<Joined> joined =
              try_address(summons, address, address_until, until, problem))
        return *std::move(joined);
      may_pass |= problem.may_pass;
      problems += fmt::format("{}{} port {}: {}", problems.empty() ? "" : "; ", address,
                              summons.port, problem.text);
    }
    // Refused by all: whoever started us listened before, and does no more.
    if (!may_pass || base::now_ns() >= until)
      throw std::runtime_error(fmt::format("cannot reach who started this daemon ({})", problems));
    poll(nullptr, 0, kPauseMs);
  }
}

}  // namespace weft::run
