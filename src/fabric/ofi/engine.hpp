// The network's side of a port: sending, credits, receiving into queues, and progress for those who
// do not poll.
//
// Owner and lifetime: one for each port, made with the OfiTransport, before its port is opened, and
// ends with it.
// Who may call: anyone. Everything is done under one lock, which is held for a provider's call (a
// system call or two) and never over user code; OfiPort reads the queues outside it.
// Progress: sends do not wait for the network: what the provider does not take now is kept, within
// the credit. Contended: spins briefly, then yields. Meeting a peer for the first time asks the
// launcher, under the lock.
//
// Invariants: those of Channel, and
//  1. A slot is free, or in the provider's hands. So are receive buffers, or in `unposted_`.
//  2. A packet is entered in the loan book before it is sent, and struck when it comes back, both
//     under the lock: a sweep for a dead peer, under the lock after `down`, misses none.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "fabric/doorbell.hpp"
#include "fabric/ofi/channel.hpp"
#include "fabric/ofi/endpoint.hpp"
#include "weft/base/locks.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::fabric::ofi {

class OfiTransport;

class Engine {
 public:
  Engine(OfiTransport& transport, uint32_t number, const Info& info, fid_fabric& fabric);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] const Endpoint& endpoint() const noexcept { return endpoint_; }

  // ---- anyone ----
  Post send(WireKind kind, Peer& peer, uint32_t to_port, std::span<const std::byte> header,
            std::span<const std::byte> payload) noexcept;
  Post send_packet(Peer& peer, uint32_t to_port, std::span<const std::byte> header, uint32_t index,
                   uint32_t bytes) noexcept;
  /// A frame of this rank's own, sent by its port `from`.
  Post send_to_self(WireKind kind, Peer& self, uint32_t from, std::span<const std::byte> header,
                    std::span<const std::byte> payload) noexcept;
  /// Gives a packet of a peer's port back.
  void give_back(Peer& owner, uint32_t port, uint32_t index) noexcept;
  /// A packet of this rank, lent by this port, is back.
  void push_returned(uint32_t index) noexcept;

  // ---- the polling thread ----
  /// A step for everything, unless somebody else is at it.
  void progress() noexcept;
  /// What came back since; into `into`.
  void take_returned(std::vector<uint32_t>& into) noexcept;
  [[nodiscard]] bool has_returned() const noexcept {
    // relaxed: only whether to look; take_returned's lock orders the rest.
    return has_returned_.load(std::memory_order_relaxed);
  }
  /// Channels with queues: how many, and the list of those from `known` on.
  [[nodiscard]] std::size_t inbound_count() const noexcept {
    // acquire: pairs with the release in open_queues.
    return inbound_count_.load(std::memory_order_acquire);
  }
  void list_inbound(std::vector<Channel*>& known) noexcept;
  /// After frames of `channel` were consumed: tells its sender when it is worth it.
  void note_consumed(Channel& channel) noexcept;
  /// Packets that this port lent to a peer that is down, and that so come back.
  void sweep(const Peer& peer, std::vector<uint32_t>& into) noexcept;
  void arm() noexcept;
  void disarm() noexcept;
  [[nodiscard]] int bell_fd() const noexcept { return bell_.get(); }
  void ring() const noexcept;

  // ---- the keeper ----
  /// A step, if nobody polls and there may be something to do. True: it yielded something.
  bool keep() noexcept;

  // ---- the end ----
  /// How many lanes to `peer` were sent on.
  uint32_t lanes_to(const Peer& peer) noexcept;
  /// Says `leave` on each of them; `open_one`: makes one if there are none.
  void leave(Peer& peer, uint32_t lanes, bool open_one) noexcept;
  /// True when nothing is under way any more and those left have answered.
  bool has_left() noexcept;

 private:
  struct Slot {
    fi_context2 context;  // first: a completion gives its address
    std::byte* buffer;
    Channel* channel;
  };
  struct Receive {
    fi_context2 context;
    std::byte* buffer;
  };
  enum class Sent : uint8_t { yes, not_now, never };

  Channel& channel(Peer& peer, uint32_t port);
  void open_queues(Channel& channel);
  [[nodiscard]] bool has_credit(const Channel& channel, bool control, uint32_t cells) noexcept;
  [[nodiscard]] bool await_credit(Channel& channel, bool control, uint32_t cells) noexcept;
  WireHeader header_for(WireKind kind, std::size_t length) const noexcept;
  /// Numbers and sends a frame, now or later.
  void post(Channel& channel, WireHeader header, std::span<const std::byte> first,
            std::span<const std::byte> second, std::span<const std::byte> packet);
  Sent post_now(Channel& channel, const WireHeader& header, std::span<const std::byte> first,
                std::span<const std::byte> second, std::span<const std::byte> packet) noexcept;
  void enqueue(Channel& channel);
  void suspect(Channel& channel) noexcept;

  bool step();
  bool receive();
  bool serve(Channel& channel);
  void post_receive(Receive& one) noexcept;
  void read_error() noexcept;
  void take(std::span<const std::byte> bytes);
  [[nodiscard]] bool admit(Channel& channel, const WireHeader& header,
                           std::span<const std::byte> body);
  [[nodiscard]] bool admit_packet(Channel& channel, const WireHeader& header,
                                  std::span<const std::byte> body);
  void ring_if_armed() noexcept;
  void push_returned_locked(uint32_t index);

  OfiTransport& transport_;
  const uint32_t number_;
  const uint32_t slot_bytes_, receive_bytes_;
  base::SpinLock lock_;  // guards everything below but the atomics
  std::unique_ptr<std::byte[]> slot_memory_, receive_memory_;
  std::vector<Slot> slots_;
  std::vector<Slot*> free_;
  std::vector<Receive> receives_;
  std::vector<Receive*> unposted_;
  std::vector<std::unique_ptr<std::unique_ptr<Channel>[]>> channels_;  // by rank, then port
  std::vector<Channel*> all_, busy_, inbound_;
  std::vector<uint32_t> returned_;
  Endpoint endpoint_;  // goes before what it writes to
  Descriptor bell_, self_bell_;
  bool armed_ = false;
  uint64_t keeper_saw_ = 0;

  std::atomic<bool> has_returned_{false};
  std::atomic<std::size_t> inbound_count_{0};
  std::atomic<uint64_t> polls_{0};  ///< written by the polling thread, read by the keeper
};

}  // namespace weft::fabric::ofi
