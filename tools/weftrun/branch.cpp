// A launcher's side of the fan-out tree towards its children.
#include "weftrun/branch.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "weft/base/clock.hpp"
#include "weftrun/proof.hpp"

namespace weft::run {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
/// What a connection gets to show who it is.
constexpr uint64_t kGreetingTime = 10 * kSecondNs;
/// Strangers at one time, beyond those who are expected.
constexpr std::size_t kMostStrangers = 64;
/// What the agents get to end by themselves, once all daemons were told to.
constexpr uint64_t kGoodByeTime = 5 * kSecondNs;
/// Between two looks at an agent whose end no descriptor tells.
constexpr uint64_t kLookAtAgents = kSecondNs / 20;

/// What epoll watches: the upper half of its word; the lower says which.
enum Kind : uint32_t { kListener, kStranger, kLink, kSaid, kEnded };

}  // namespace

std::vector<std::string> own_addresses() {
  std::vector<std::string> far, near;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {"127.0.0.1"};
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    const int family = one->ifa_addr->sa_family;
    if (family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
      inet_ntop(family, &address->sin_addr, text.data(), text.size());
    } else if (family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr)) continue;
      inet_ntop(family, &address->sin6_addr, text.data(), text.size());
    } else {
      continue;
    }
    ((one->ifa_flags & IFF_LOOPBACK) != 0 ? near : far).emplace_back(text.data());
  }
  freeifaddrs(list);
  far.insert(far.end(), near.begin(), near.end());
  return far;
}

Branch::Branch(Owner& owner, const JobSpec& spec, std::string bytes, std::string key, int member,
               char** environment)
    : owner_(owner),
      spec_(spec),
      bytes_(std::move(bytes)),
      key_(std::move(key)),
      member_(member),
      tree_{spec.members(), spec.degree},
      silence_ns_(static_cast<uint64_t>(spec.silence_ms) * kMillisecond),
      launch_until_(base::now_ns() + static_cast<uint64_t>(spec.launch_ms) * kMillisecond),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll_create1");
  if (tree_.children(member_) == 0) return;
  listen();
  start_agents(environment);
}

/// A port that the system chooses, for IPv6 and IPv4 where there are both.
void Branch::listen() {
  constexpr int kFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  sockaddr_storage any{};
  socklen_t length = sizeof(sockaddr_in6);
  any.ss_family = AF_INET6;
  listener_ = Fd(socket(AF_INET6, kFlags, 0));
  const int off = 0;
  if (listener_) setsockopt(listener_.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (!listener_ || bind(listener_.get(), reinterpret_cast<sockaddr*>(&any), length) != 0) {
    any = {};
    any.ss_family = AF_INET;
    length = sizeof(sockaddr_in);
    listener_ = Fd(socket(AF_INET, kFlags, 0));
    if (!listener_ || bind(listener_.get(), reinterpret_cast<sockaddr*>(&any), length) != 0)
      throw std::system_error(errno, std::generic_category(), "a port for daemons to connect to");
  }
  length = sizeof any;
  if (::listen(listener_.get(), SOMAXCONN) != 0 ||
      getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&any), &length) != 0)
    throw std::system_error(errno, std::generic_category(), "a port for daemons to connect to");
  port_ = ntohs(any.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&any)->sin6_port
                                          : reinterpret_cast<sockaddr_in*>(&any)->sin_port);
  watch(listener_.get(), kListener, 0, EPOLLIN, EPOLL_CTL_ADD);
}

/// As a word for the shell of another host, to which agents like ssh hand what they are given.
static std::string quoted(const std::string& word) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("/._-+,:@%=").find(c) != std::string_view::npos;
  };
  if (std::all_of(word.begin(), word.end(), plain)) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

void Branch::start_agents(char** environment) {
  Summons summons{key_, 0, port_, spec_.launch_ms, own_addresses()};
  children_.resize(static_cast<std::size_t>(tree_.children(member_)));
  for (uint32_t i = 0; i < children_.size(); ++i) {
    Child& child = children_[i];
    child.member = tree_.first_child(member_) + static_cast<int>(i);
    summons.member = child.member;
    std::vector<std::string> words = spec_.agent;
    words.push_back(spec_.node_part(child.member).host);
    words.push_back(quoted(spec_.daemon));
    words.emplace_back(kDaemonOption);
    child.agent.emplace(words, environment, encode_summons(summons));
    if (child.agent->said_fd() >= 0)
      watch(child.agent->said_fd(), kSaid, i, EPOLLIN, EPOLL_CTL_ADD);
    if (child.agent->end_fd() >= 0) watch(child.agent->end_fd(), kEnded, i, EPOLLIN, EPOLL_CTL_ADD);
  }
}

void Branch::watch(int fd, uint32_t kind, uint32_t index, uint32_t events, int operation) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = static_cast<uint64_t>(kind) << 32 | index;
  if (epoll_ctl(epoll_.get(), operation, fd, &event) != 0)
    throw std::system_error(errno, std::generic_category(), "epoll_ctl");
}

Branch::Child* Branch::child_of(int member) {
  const int index = member - tree_.first_child(member_);
  if (index < 0 || static_cast<std::size_t>(index) >= children_.size()) return nullptr;
  return &children_[static_cast<std::size_t>(index)];
}

void Branch::serve() {
  std::array<epoll_event, 64> events;
  const int ready = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < ready; ++i) {
    const uint64_t word = events[static_cast<std::size_t>(i)].data.u64;
    const auto index = static_cast<uint32_t>(word);
    switch (static_cast<uint32_t>(word >> 32)) {
      case kListener:
        accept_some();
        break;
      case kStranger:
        on_stranger(index);
        break;
      case kLink:
        on_link(children_.at(index));
        break;
      default:
        on_agent(children_.at(index));
    }
  }
}

void Branch::accept_some() {
  for (;;) {
    Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno != EMFILE && errno != ENFILE) return;
      // It would knock for ever. Strangers, of whom one may be a daemon, go first.
      if (strangers_.empty())
        throw std::system_error(errno, std::generic_category(), "taking a daemon's connection");
      strangers_.erase(strangers_.begin());  // the oldest
      continue;
    }
    if (strangers_.size() >= kMostStrangers + children_.size()) continue;
    const int on = 1;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const uint32_t id = next_stranger_++;
    watch(socket.get(), kStranger, id, EPOLLIN, EPOLL_CTL_ADD);
    strangers_.emplace(id, Stranger{Link(std::move(socket), limits()),
                                    -1,
                                    fresh_nonce(),
                                    {},
                                    base::now_ns() + kGreetingTime});
  }
}

void Branch::on_stranger(uint32_t id) {
  const auto found = strangers_.find(id);
  if (found == strangers_.end()) return;
  Stranger& stranger = found->second;
  stranger.link.read_some();
  while (const std::optional<Message> message = stranger.link.next())
    if (!greet(id, stranger, *message)) return;
  if (!stranger.link.broken().empty()) strangers_.erase(found);
}

/// One step of the greeting. False: the connection is a stranger's no more.
bool Branch::greet(uint32_t id, Stranger& stranger, const Message& message) {
  Child* const child = child_of(stranger.member < 0 ? message.member : stranger.member);
  const bool free = child != nullptr && !child->link && !child->lost && !closing_;
  if (free && stranger.member < 0 && message.say == Say::hello) {
    stranger.member = message.member;
    stranger.their_nonce = message.text;
    stranger.link.send(
        {.say = Say::challenge,
         .text = stranger.own_nonce + proof_of(key_, "parent", stranger.member, stranger.own_nonce,
                                               stranger.their_nonce)});
    return true;
  }
  const bool proven = free && stranger.member >= 0 && message.say == Say::proof &&
                      same_bytes(message.text, proof_of(key_, "daemon", stranger.member,
                                                        stranger.their_nonce, stranger.own_nonce));
  if (proven) {
    child->link.emplace(std::move(stranger.link));
    child->link->trust(limits());
  }
  strangers_.erase(id);
  if (!proven) return false;
  const auto index = static_cast<uint32_t>(child - children_.data());
  watch(child->link->fd(), kLink, index, EPOLLIN, EPOLL_CTL_MOD);
  send(child->member, {.say = Say::job, .text = bytes_});
  return false;
}

void Branch::on_link(Child& child) {
  if (!child.link) return;
  child.link->flush();
  child.link->read_some();
  while (child.link) {
    std::optional<Message> message = child.link->next();
    if (!message) break;
    if (message->say != Say::beat && !closing_)
      owner_.from_child(child.member, *std::move(message));
  }
  if (!child.link) return;
  if (!child.link->broken().empty())
    lose(child, fmt::format("the connection to it ended ({})", child.link->broken()));
  else
    watch_room(child);
}

void Branch::on_agent(Child& child) {
  const auto told = [&](const std::string& line) {
    if (!closing_ && !line.empty()) owner_.child_said(child.member, line);
  };
  child.agent->listen(told);
  const std::optional<std::string> end = child.agent->take_end();
  if (!end) return;
  child.agent->listen(told);
  if (!child.link) lose(child, fmt::format("the launch agent {}, and no daemon answered", *end));
}

void Branch::lose(Child& child, const std::string& how) {
  child.link.reset();
  if (std::exchange(child.lost, true) || closing_) return;
  owner_.child_lost(child.member, how);
}

void Branch::watch_room(Child& child) {
  if (child.link->wants_room() == child.waits_for_room) return;
  child.waits_for_room = child.link->wants_room();
  watch(child.link->fd(), kLink, static_cast<uint32_t>(&child - children_.data()),
        child.waits_for_room ? EPOLLIN | EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD);
}

void Branch::send(int child, const Message& message) {
  Child* const to = child_of(child);
  if (to == nullptr || !to->link) return;
  to->link->send(message);
  watch_room(*to);
}

void Branch::send_all(const Message& message) {
  for (const Child& child : children_) send(child.member, message);
}

uint64_t Branch::next_deadline() const {
  uint64_t next = UINT64_MAX;
  for (const Child& child : children_) {
    if (child.lost) continue;
    if (!child.link && !child.agent->running()) return 0;
    if (!child.link && child.agent->ends_unseen())
      next = std::min(next, base::now_ns() + kLookAtAgents);
    next = std::min(next, child.link ? std::min(child.link->said_at() + silence_ns_ / kBeats,
                                                child.link->heard_at() + silence_ns_)
                                     : launch_until_);
  }
  for (const auto& [id, stranger] : strangers_) next = std::min(next, stranger.until);
  return next;
}

void Branch::on_time(uint64_t now) {
  for (Child& child : children_) {
    if (child.lost) continue;
    // Its agent could not even be started, or may have ended unseen.
    if (!child.link && (!child.agent->running() || child.agent->ends_unseen())) on_agent(child);
    if (!child.link) {
      if (!child.lost && launch_until_ <= now)
        lose(child, fmt::format("no daemon answered within {} s", spec_.launch_ms / 1000.0));
      continue;
    }
    if (child.link->heard_at() + silence_ns_ <= now) {
      // We may have been stopped: what it said meanwhile lies there.
      on_link(child);
      if (child.link && child.link->heard_at() + silence_ns_ <= now)
        lose(child, fmt::format("it was silent for {} s", spec_.silence_ms / 1000.0));
      continue;
    }
    if (child.link->said_at() + silence_ns_ / kBeats <= now) send(child.member, {.say = Say::beat});
  }
  std::erase_if(strangers_, [now](const auto& one) { return one.second.until <= now; });
}

void Branch::close() {
  send_all({.say = Say::bye});
  closing_ = true;
  // Behind these is nobody who could hear it and end by himself.
  for (const Child& child : children_)
    if (!child.link) child.agent->end_it();
  const uint64_t until = base::now_ns() + kGoodByeTime;
  for (;;) {
    bool left = false;
    for (Child& child : children_) {
      child.agent->take_end();
      left = left || child.agent->running();
    }
    if (!left || base::now_ns() >= until) break;
    pollfd one{epoll_.get(), POLLIN, 0};
    constexpr int kPauseMs = 50;
    poll(&one, 1, kPauseMs);
    serve();
  }
  for (const Child& child : children_) child.agent->end_it();
}

}  // namespace weft::run
