// One TCP connection between two members of the launchers' tree: whole messages, never waiting.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "weftrun/spawn.hpp"
#include "weftrun/wire.hpp"

namespace weft::run {

inline constexpr uint64_t kMillisecond = 1'000'000;  ///< in nanoseconds
/// Signs of life in the time after which silence is an end.
inline constexpr uint64_t kBeats = 4;

/// Owner and lifetime: whoever talks to the other end; the socket closes with it.
/// Who may call: one thread. Nothing here waits: what cannot be sent now is kept, and `wants_room`
/// says that somebody should call `flush` when the socket can be written. Invariant: once `broken`
/// says why, nothing is sent or heard any more.
class Link {
 public:
  /// `socket`: connected, not blocking. Messages are short until `trust`.
  Link(Fd socket, const WireLimits& limits);

  void send(const Message& message);
  void flush();
  /// Reads what has come, up to a limit that lets others have their turn.
  void read_some();
  /// The next message that came whole.
  std::optional<Message> next();
  /// The other end knows the key: messages may be long.
  void trust(const WireLimits& limits);

  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  [[nodiscard]] bool wants_room() const noexcept { return !unsent_.empty() && broken_.empty(); }
  [[nodiscard]] const std::string& broken() const noexcept { return broken_; }
  /// When something came last, and when `send` was called last (base::now_ns): what waits for room
  /// does not need another sign of life behind it.
  [[nodiscard]] uint64_t heard_at() const noexcept { return heard_at_; }
  [[nodiscard]] uint64_t said_at() const noexcept { return said_at_; }

 private:
  Fd socket_;
  WireLimits limits_;
  std::size_t most_text_ = kMostGreeting;
  std::string in_;
  std::size_t taken_ = 0;  ///< of in_
  std::deque<std::string> unsent_;
  std::size_t sent_of_front_ = 0;
  std::string broken_;
  uint64_t heard_at_;
  uint64_t said_at_;
};

}  // namespace weft::run
