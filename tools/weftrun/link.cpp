// One TCP connection between two members of the launchers' tree.
#include "weftrun/link.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "weft/base/clock.hpp"
#include "weftrun/process_table.hpp"

namespace weft::run {
namespace {

/// Bytes read before others get their turn.
constexpr std::size_t kHeardAtOnce = std::size_t{1} << 20;

}  // namespace

Link::Link(Fd socket, const WireLimits& limits)
    : socket_(std::move(socket)), limits_(limits), heard_at_(base::now_ns()), said_at_(heard_at_) {}

void Link::trust(const WireLimits& limits) {
  limits_ = limits;
  most_text_ = kMostText;
}

void Link::send(const Message& message) {
  if (!broken_.empty()) return;
  unsent_.push_back(encode(message));
  said_at_ = base::now_ns();
  flush();
}

void Link::flush() {
  while (!unsent_.empty() && broken_.empty()) {
    const std::string& front = unsent_.front();
    const ssize_t sent = ::send(socket_.get(), front.data() + sent_of_front_,
                                front.size() - sent_of_front_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      // What was said last by the other end may still be read: it tells of the end, too.
      if (errno == EAGAIN) return;
      unsent_.clear();
      sent_of_front_ = 0;
      return;
    }
    sent_of_front_ += static_cast<std::size_t>(sent);
    if (sent_of_front_ < front.size()) continue;
    unsent_.pop_front();
    sent_of_front_ = 0;
  }
}

void Link::read_some() {
  std::array<char, 65536> buffer;
  for (std::size_t taken = 0; taken < kHeardAtOnce && broken_.empty();) {
    const ssize_t got = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got < 0) broken_ = error_text(errno);
    if (got == 0) broken_ = "it closed the connection";
    if (got <= 0) return;
    heard_at_ = base::now_ns();
    in_.append(buffer.data(), static_cast<std::size_t>(got));
    taken += static_cast<std::size_t>(got);
  }
}

std::optional<Message> Link::next() {
  const std::string_view ready = std::string_view(in_).substr(taken_);
  if (ready.size() < kLengthBytes) return std::nullopt;
  const auto length = decode_length(ready.substr(0, kLengthBytes), most_text_);
  std::optional<Message> message;
  if (length && ready.size() - kLengthBytes < *length) {
    in_.erase(0, taken_);
    taken_ = 0;
    return std::nullopt;
  }
  if (length) message = decode(ready.substr(kLengthBytes, *length), limits_);
  if (!message) {
    broken_ = "it sent what is no message";
    in_.clear();
    taken_ = 0;
    return std::nullopt;
  }
  taken_ += kLengthBytes + *length;
  if (taken_ == in_.size()) {
    in_.clear();
    taken_ = 0;
  }
  return message;
}

}  // namespace weft::run
