// Tokens: how a ping-pong of each arrival mode sends and receives. One class per mode with the
// same members, so that the loops which use them have no test for the mode inside:
//   send(pair, last)  one message of the session's size to the peer, marked `last` or not
//   receive()         the next message: which pair it belongs to, and its mark
//   settle()          the sends of this thread have ended
//   kForAnyone        whether any thread may receive the message of any pair
// An object belongs to one thread of one rank; `Shared` to the rank, made collectively.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "comm/session.hpp"

namespace weft::bench {

struct Token {
  unsigned pair = 0;
  bool last = false;
};

/// What every mode needs.
struct TokenSetup {
  Pair& pair;
  Runtime& runtime;
  std::size_t bytes;
  unsigned threads;
  bool poll;
  bool ordinary_memory;
};

/// A send buffer that may be lent to the library until a completion.
class LentBuffer {
 public:
  LentBuffer(Runtime& runtime, std::size_t bytes) : runtime_(runtime), buffer_(bytes) {}
  /// Waits until the last send has ended, then marks the buffer for the next.
  std::span<const std::byte> prepare(bool last) {
    settle();
    buffer_.data()[0] = std::byte{last};
    return {buffer_.data(), buffer_.bytes()};
  }
  Completion* completion() noexcept { return &ended_; }
  void sent(Post answer) noexcept { lent_ = answer == Post::posted; }
  void settle() {
    if (!lent_) return;
    runtime_.wait_until([this] { return ended_.is_set(); });
    expect_ok(ended_.event().error, "send");
    ended_.clear();
    lent_ = false;
  }

 private:
  Runtime& runtime_;
  Buffer buffer_;
  Flag ended_;
  bool lent_ = false;
};

// Matched: a tag per pair ------------------------------------------------------------------------
class MatchedToken {
 public:
  static constexpr bool kForAnyone = false;
  struct Shared {
    explicit Shared(const TokenSetup& s) : setup(s), endpoint(s.runtime, {}) {}
    TokenSetup setup;
    Endpoint endpoint;
  };
  MatchedToken(Shared& shared, unsigned number)
      : shared_(shared),
        number_(number),
        out_(shared.setup.runtime, shared.setup.bytes),
        in_(shared.setup.bytes) {}

  void send(unsigned pair, bool last) {
    const auto data = out_.prepare(last);
    out_.sent(until_posted(shared_.setup.runtime, [&] {
      return shared_.endpoint.send(shared_.setup.pair.peer(), Tag{pair}, data, out_.completion());
    }));
  }
  Token receive() {
    const std::span<std::byte> buffer{in_.data(), in_.bytes()};
    const Rank peer = shared_.setup.pair.peer();
    Event event;
    if (!shared_.setup.poll) {
      event = shared_.endpoint.recv_wait(peer, Tag{number_}, buffer);
    } else {
      arrived_.clear();
      const Post answer = until_posted(shared_.setup.runtime, [&] {
        return shared_.endpoint.recv(peer, Tag{number_}, buffer, &arrived_, nullptr, &event);
      });
      if (answer == Post::posted) {
        poll_until(shared_.setup.runtime, [&] { return arrived_.is_set(); });
        event = arrived_.event();
      }
    }
    expect_ok(event.error, "receive");
    return {number_, in_.data()[0] != std::byte{0}};
  }
  void settle() { out_.settle(); }

 private:
  Shared& shared_;
  unsigned number_;
  LentBuffer out_;
  Buffer in_;
  Flag arrived_;
};

// Queue: any thread takes the next message -------------------------------------------------------
class QueueToken {
 public:
  static constexpr bool kForAnyone = true;
  struct Shared {
    explicit Shared(const TokenSetup& s)
        : setup(s),
          blocks(s.bytes, s.bytes > s.runtime.eager_bytes() ? 2 * s.threads : 0),
          endpoint(s.runtime, {.arrival = Arrival::queue, .allocator = &blocks}) {}
    TokenSetup setup;
    BlockAllocator blocks;
    Endpoint endpoint;
  };
  QueueToken(Shared& shared, unsigned)
      : shared_(shared), out_(shared.setup.runtime, shared.setup.bytes) {}

  void send(unsigned pair, bool last) {
    const auto data = out_.prepare(last);
    out_.sent(until_posted(shared_.setup.runtime, [&] {
      return shared_.endpoint.send(shared_.setup.pair.peer(), Tag{pair}, data, out_.completion());
    }));
  }
  Token receive() {
    Message message;
    if (shared_.setup.poll) {
      while (!shared_.endpoint.dequeue(message)) {
        if (++empty_ % 4096 == 0) yield_core();
      }
      if (!message.ready()) {
        poll_until(shared_.setup.runtime, [&] { return message.ready(); });
      }
    } else {
      message = shared_.endpoint.dequeue_wait();
      if (!message.ready()) shared_.setup.runtime.wait(message);
    }
    expect_ok(message.error(), "dequeue");
    return {message.tag().value, message.data()[0] != std::byte{0}};
  }
  void settle() { out_.settle(); }

 private:
  Shared& shared_;
  LentBuffer out_;
  unsigned empty_ = 0;
};

/// Where handlers and signals note an arrival for a waiting thread: by pair.
struct alignas(base::kCacheLine) ArrivalSlot {
  Synchronizer arrived{1};
  bool last = false;
};

/// Receives from a slot that progress fills.
inline Token receive_from(ArrivalSlot& slot, unsigned number, const TokenSetup& setup) {
  wait_for(setup.runtime, slot.arrived, setup.poll);
  const Token token{number, slot.last};
  slot.arrived.reset(1);  // before our answer goes out: the next message cannot be here yet
  return token;
}

// Handler: runs in the progressing thread --------------------------------------------------------
class HandlerToken {
 public:
  static constexpr bool kForAnyone = false;
  struct Shared {
    explicit Shared(const TokenSetup& s)
        : setup(s),
          blocks(s.bytes, s.bytes > s.runtime.eager_bytes() ? 2 * s.threads : 0),
          slots(s.threads),
          endpoint(s.runtime, {.arrival = Arrival::handler,
                               .allocator = &blocks,
                               .handler = &on_message,
                               .handler_argument = this}) {}
    static void on_message(void* shared, const Incoming& message) {
      auto& slot = static_cast<Shared*>(shared)->slots[message.tag.value];
      slot.last = message.error != Errc::ok || message.data[0] != std::byte{0};
      slot.arrived.arrive();
    }
    TokenSetup setup;
    BlockAllocator blocks;
    std::vector<ArrivalSlot> slots;
    Endpoint endpoint;
  };
  HandlerToken(Shared& shared, unsigned number)
      : shared_(shared), number_(number), out_(shared.setup.runtime, shared.setup.bytes) {}

  void send(unsigned pair, bool last) {
    const auto data = out_.prepare(last);
    out_.sent(until_posted(shared_.setup.runtime, [&] {
      return shared_.endpoint.send(shared_.setup.pair.peer(), Tag{pair}, data, out_.completion());
    }));
  }
  Token receive() { return receive_from(shared_.slots[number_], number_, shared_.setup); }
  void settle() { out_.settle(); }

 private:
  Shared& shared_;
  unsigned number_;
  LentBuffer out_;
};

// Put with a signal ------------------------------------------------------------------------------
class PutToken {
 public:
  static constexpr bool kForAnyone = false;
  static constexpr uint32_t kLast = 1U << 31;
  struct Shared {
    explicit Shared(const TokenSetup& s)
        : setup(s),
          slots(s.threads),
          on_signal(&signalled, this),
          target(s.pair, s.runtime, s.bytes * s.threads, s.ordinary_memory),
          endpoint(s.runtime, {.arrival = Arrival::memory, .at_target = &on_signal}) {}
    static void signalled(void* shared, const Event& event) {
      auto& slot = static_cast<Shared*>(shared)->slots[event.tag.value & ~kLast];
      slot.last = event.error != Errc::ok || (event.tag.value & kLast) != 0;
      slot.arrived.arrive();
    }
    TokenSetup setup;
    std::vector<ArrivalSlot> slots;
    HandlerCompletion on_signal;
    PutTarget target;
    Endpoint endpoint;
  };
  PutToken(Shared& shared, unsigned number)
      : shared_(shared), number_(number), out_(shared.setup.runtime, shared.setup.bytes) {}

  void send(unsigned pair, bool last) {
    const auto data = out_.prepare(last);
    out_.sent(until_posted(shared_.setup.runtime, [&] {
      return shared_.endpoint.put_signal(shared_.target.peer_key(), pair * shared_.setup.bytes,
                                         data, Tag{pair | (last ? kLast : 0)}, out_.completion());
    }));
  }
  Token receive() { return receive_from(shared_.slots[number_], number_, shared_.setup); }
  void settle() { out_.settle(); }

 private:
  Shared& shared_;
  unsigned number_;
  LentBuffer out_;
};

}  // namespace weft::bench
