// The network's side of a port: sending, credits, receiving into queues, and progress for those who
// do not poll.
//
// Owner and lifetime: one for each port, made with the OfiTransport, before its port is opened, and
// ends with it.
// Who may call: anyone. Everything is done under one lock, which is held for a provider's call (a
// system call or two) and never over user code; OfiPort reads the queues outside it.
// Progress: sends do not wait for the network: what the provider does not take now is kept, within
// the credit. Contended: spins briefly, then yields. A peer is met (its address asked for, which
// may take milliseconds) outside the lock.
// Sources: engine.cpp (sending, and steps), engine_receive.cpp, engine_reads.cpp (peers' memory),
// engine_upkeep.cpp (packets that come back, sleeping, the keeper's part, the end).
//
// Invariants: those of Channel and Outbox, and
//  1. A frame of the pools is free, in an outbox, or in the provider's hands. Receive buffers are
//     the ReceivePool's.
//  2. A packet is entered in the loan book before it is sent, and struck when it comes back, both
//     under the lock: a sweep for a dead peer, under the lock after `down`, misses none.
//  3. busy_, watched_ and inbound_ have room for every channel.
//  4. A read's record is free, in the provider's hands, or ended and not told. The buffer it reads
//     into is its caller's again only when the provider let go of it.
//  5. An answer to a peer's read is in its channel's list until the provider let go of it. One that
//     has no offer any more is in the provider's hands. Offer::answers counts those that have it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "fabric/doorbell.hpp"
#include "fabric/ofi/channel.hpp"
#include "fabric/ofi/effort.hpp"
#include "fabric/ofi/endpoint.hpp"
#include "fabric/ofi/outbox.hpp"
#include "fabric/ofi/receive_pool.hpp"
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
  Post send_packet(Peer& peer, uint32_t to_port, std::span<const std::byte> header,
                   PacketPart part) noexcept;
  /// A frame of this rank's own, sent by its port `from`.
  Post send_to_self(WireKind kind, Peer& self, uint32_t from, std::span<const std::byte> header,
                    std::span<const std::byte> payload) noexcept;
  /// Gives a packet of a peer's port back. False: no memory for that here; the engine that received
  /// it has it.
  [[nodiscard]] bool give_back(Peer& owner, uint32_t port, uint32_t index) noexcept;
  /// A packet of this rank, lent by this port, is back.
  void push_returned(uint32_t index) noexcept;
  /// As in Port::offer, and so on.
  [[nodiscard]] ReadOffer offer(const Peer& peer, std::span<const std::byte> memory) noexcept;
  void withdraw_offer(void* handle, bool cuts) noexcept;
  Post begin_read(Peer& peer, uint32_t port, uint64_t address, uint64_t key,
                  std::span<std::byte> into, uint64_t token) noexcept;

  // ---- the polling thread ----
  /// A step for everything, unless somebody else is at it.
  void progress() noexcept;
  /// What came back since; into `into`.
  void take_returned(std::vector<uint32_t>& into) noexcept;
  [[nodiscard]] bool has_returned() const noexcept {
    // relaxed: only whether to look; take_returned's lock orders the rest.
    return has_returned_.load(std::memory_order_relaxed);
  }
  struct EndedRead {
    uint64_t token;
    bool ok;
  };
  /// Under way or not told. More at once do not fit the caches of both ends: of 64, 1 MiB messages
  /// over TCP took 1.6 times as long.
  static constexpr std::size_t kMostReads = 8;
  /// Reads that ended since; into `into`, which has room for kMostReads.
  void take_reads(std::vector<EndedRead>& into) noexcept;
  [[nodiscard]] bool has_reads() const noexcept {
    return has_reads_.load(std::memory_order_relaxed);  // relaxed: as in has_returned
  }
  /// Channels with queues: how many, and the list of them.
  [[nodiscard]] std::size_t inbound_count() const noexcept {
    // acquire: pairs with the release in open_queues.
    return inbound_count_.load(std::memory_order_acquire);
  }
  void list_inbound(std::vector<Channel*>& known) noexcept;
  /// After frames of `channel` were consumed: tells its sender when it is worth it.
  void note_consumed(Channel& channel) noexcept;
  /// Whether all that a peer, down since `since_ns`, had sent by then was received: nothing was
  /// left to receive since, or, where others never pause, it was long enough ago.
  [[nodiscard]] bool is_drained(uint64_t since_ns) noexcept;
  /// Nothing more is admitted from a peer that is down.
  void close(const Peer& peer) noexcept;
  /// Packets that this port lent to it come back.
  void sweep(const Peer& peer, std::vector<uint32_t>& into) noexcept;
  /// Whether the port has an end still to tell: until then, the keeper rings its sleeper.
  void expect_end(bool expected) noexcept {
    expects_end_.store(expected, std::memory_order_relaxed);  // relaxed: looked at again and again
  }
  void arm() noexcept;
  void disarm() noexcept;
  [[nodiscard]] int bell_fd() const noexcept { return bell_.get(); }
  void ring() const noexcept;

  /// Frames came of ranks that were not met yet.
  [[nodiscard]] bool has_strangers() const noexcept {
    return has_strangers_.load(std::memory_order_relaxed);  // relaxed: whether to look
  }
  /// Meets them and takes their frames. May wait for the launcher.
  void meet_strangers() noexcept;

  // ---- the keeper ----
  /// A step, if nobody polls and there may be something to do. True: it yielded something.
  bool keep() noexcept;
  /// From time to time: the next step asks peers that should have answered, and gives those up that
  /// never do.
  void look_after() noexcept;
  /// The same: a provider writes into a reader's memory until it hears of the connection's end. Of
  /// a peer that fell silent it never would, so we end it.
  void end_reads_of_the_dead() noexcept;

  // ---- the end ----
  /// Peers are asked at once, and often at first, however long they have not answered before.
  void begin_to_leave() noexcept;
  /// A step. True if before it all that was sent had arrived and nothing was owed, but for peers
  /// that are down. `asks`: and asks those whose share had not.
  [[nodiscard]] bool settle(bool asks) noexcept;
  /// Whether what was sent to `peer` has arrived and nothing is owed to it, or it is down.
  [[nodiscard]] bool is_settled(const Peer& peer) noexcept;
  [[nodiscard]] bool speaks_to(const Peer& peer) noexcept;
  void leave(Peer& peer) noexcept;
  /// True when the provider owes nothing any more, and no peer waits for an answer.
  bool is_quiet() noexcept;

 private:
  struct Read {
    fi_context2 context;  // first: a completion gives its address
    uint64_t token = 0;
    Channel* from = nullptr;
    Fid<fid_mr> into;       ///< where the provider must be told of it
    uint64_t tag = 0;       ///< by messages: under which it comes
    std::size_t bytes = 0;  ///< by messages
    uint64_t asked_ns = 0;  ///< by messages: when last
    uint64_t asked = 0;     ///< by messages: the number of that frame
    uint64_t request = 0;   ///< by messages: of the first
    bool under_way = false;
    bool ok = false;
  };
  /// Memory that peers may read.
  struct Offer {
    const Peer& peer;
    const std::span<const std::byte> memory;
    uint64_t key = ReadOffer::kNone;
    Fid<fid_mr> exposed;
    uint32_t answers = 0;  ///< to be sent of it, or in the provider's hands
    Offer *next = nullptr, *before = nullptr;
  };
  /// By messages: what a peer asked for. It lies where other frames have their bytes.
  struct Answer {
    Offer* of;  ///< nullptr: it was withdrawn
    std::span<const std::byte> piece;
    uint64_t tag;
  };
  /// Packets that go back in a frame of their own, at least, while more may come: few of what their
  /// owner has.
  [[nodiscard]] static std::size_t returns_at_once(const Channel& channel) noexcept {
    return std::clamp<std::size_t>(channel.peer.geometry().packets / 8, 1, 8);
  }
  /// Of a channel: a reader has kMostReads, and what it got the provider may not have told of yet.
  static constexpr uint32_t kMostAnswers = 4 * kMostReads;
  /// Frames about reads that are on their way: for each of ours a request, and a question about the
  /// one before it; and what is said to the peer's.
  static constexpr uint32_t kMostAboutReads = 2 * kMostReads + 4 * kMostAnswers;
  enum class Admitted : uint8_t { yes, not_now, nonsense };

  // engine.cpp
  /// Null: no memory now.
  Channel* channel(Peer& peer, uint32_t port) noexcept;
  [[nodiscard]] bool has_credit(const Channel& channel, bool control, uint32_t cells) noexcept;
  [[nodiscard]] bool await_credit(Channel& channel, bool control, uint32_t cells) noexcept;
  OutFrame* make_frame(Channel& channel, WireKind kind, std::span<const std::byte> first,
                       std::span<const std::byte> second) noexcept;
  void take_along(Channel& channel, OutFrame& frame) noexcept;
  /// Numbers and sends a frame, now or later. False: no memory now.
  bool post(Channel& channel, WireKind kind, std::span<const std::byte> first,
            std::span<const std::byte> second) noexcept;
  void append(Channel& channel, OutFrame& frame) noexcept;
  void free(OutFrame& frame) noexcept { (frame.is_batch ? batches_ : pool_).give(frame); }
  void seal(const Channel& channel, OutFrame& frame) noexcept;
  /// Several frames from `first` on, together, and how many; or that one by itself.
  OutFrame& gather(Channel& channel, OutFrame& first, std::size_t& count) noexcept;
  bool pump(Channel& channel) noexcept;
  [[nodiscard]] bool may_hand_over() const noexcept {
    return sends_left_ != 0 && under_way_ < effort_.under_way;
  }
  [[nodiscard]] bool hand_over(Channel& channel, OutFrame& frame) noexcept;
  [[nodiscard]] bool send_report(Channel& channel) noexcept;
  bool send_returns(Channel& channel) noexcept;
  void note_sent(OutFrame& frame, int error) noexcept;
  void note_trouble(Channel& channel, int error) noexcept;
  void drop_outbox(Channel& channel) noexcept;
  void enqueue(Channel& channel) noexcept;
  void watch(Channel& channel) noexcept;
  void suspect(Channel& channel) noexcept;
  bool step(bool may_come = true) noexcept;
  [[nodiscard]] bool may_wait(const Channel& channel) const noexcept;
  [[nodiscard]] bool owes_report(const Channel& channel) const noexcept;
  [[nodiscard]] bool is_settled_with(const Channel& channel) const noexcept;
  bool serve(Channel& channel) noexcept;

  // engine_receive.cpp
  [[nodiscard]] bool open_queues(Channel& channel) noexcept;
  bool receive() noexcept;
  void read_error() noexcept;
  void take(std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] bool take_frame(const Decoded& frame) noexcept;
  void put_aside(std::span<const std::byte> bytes) noexcept;
  void take_numbered(Channel& channel, const Decoded& frame, int32_t ahead) noexcept;
  void keep_early(Channel& channel, const Decoded& frame, uint64_t number) noexcept;
  [[nodiscard]] bool is_genuine(const Decoded& frame, uint64_t number) const noexcept;
  [[nodiscard]] bool is_closed(const Peer& peer) const noexcept {
    return closed_[static_cast<std::size_t>(peer.rank().value)];
  }
  [[nodiscard]] bool take_report(Channel& channel, const Decoded& frame) noexcept;
  [[nodiscard]] Admitted admit(Channel& channel, const Decoded& frame) noexcept;
  [[nodiscard]] Admitted admit_body(Channel& channel, const Decoded& frame) noexcept;
  [[nodiscard]] Admitted admit_packet(Channel& channel, const Decoded& frame) noexcept;
  [[nodiscard]] bool is_lent(const Channel& to, uint32_t packet) const noexcept;
  void refuse(Channel& channel, std::string_view what) noexcept;

  // engine_reads.cpp
  ssize_t read_remote(Read& one, std::span<std::byte> into, uint64_t address,
                      uint64_t key) noexcept;
  ssize_t ask_for(Read& one, std::span<std::byte> into, void* descriptor, uint64_t offset,
                  uint64_t key) noexcept;
  [[nodiscard]] bool may_wait(uint64_t& since_ns) const noexcept;
  /// The read whose context it is; nullptr: none's.
  [[nodiscard]] Read* read_of(const void* context) noexcept;
  void end_read(Read& one, bool ok) noexcept;
  void ask_about_reads() noexcept;
  static Answer& answer_of(OutFrame& frame) noexcept {
    return *reinterpret_cast<Answer*>(frame.bytes());
  }
  [[nodiscard]] Admitted admit_read(Channel& from, const Decoded& frame) noexcept;
  void admit_unread(Channel& from, const Decoded& frame) noexcept;
  bool send_answers(Channel& to) noexcept;
  void end_answer(OutFrame& frame, int error) noexcept;
  /// Out of its channel's list.
  void unlist(OutFrame& answer) noexcept;
  /// Those that the provider does not have: gone, but for the word that they are, if there is one.
  void drop_answers(Channel& to, const Offer* of, bool tells) noexcept;
  /// False: no memory now.
  [[nodiscard]] bool say_unread(Channel& to, uint64_t tag) noexcept;
  void cut(const Peer& peer) const noexcept;
  void end_offers() noexcept;

  // engine_upkeep.cpp
  void ring_if_armed() noexcept;
  void push_returned_locked(uint32_t index) noexcept;
  void ask(Channel& channel) noexcept;
  [[nodiscard]] static bool is_time_to_ask_again(const Channel& channel, uint64_t now) noexcept;
  void look_after_locked() noexcept;
  void check_way(Channel& channel) noexcept;
  void look_at_held(Channel& channel) noexcept;
  void check_pulse(Channel& channel) noexcept;

  OfiTransport& transport_;
  const uint32_t number_;
  const WireLimits limits_;
  const uint32_t frame_bytes_, batch_bytes_;
  const SizeClasses classes_;
  const Effort effort_;
  const int32_t most_ahead_;  ///< numbers that may be under way to this port on one lane
  base::SpinLock lock_;       // guards everything below but the atomics
  FramePool pool_, batches_;
  const std::unique_ptr<ReceivePool> receives_;
  std::vector<std::unique_ptr<std::unique_ptr<Channel>[]>> channels_;  // by rank, then port
  /// By rank: its end was told, or it sent nonsense: nothing is admitted.
  std::vector<bool> closed_;
  std::vector<Channel*> all_, busy_, watched_, inbound_;
  std::vector<std::vector<std::byte>> strangers_;  ///< frames of ranks that were not met yet
  std::size_t stranger_bytes_ = 0;
  std::vector<uint32_t> returned_;
  std::vector<uint32_t> in_hands_;  ///< by packet: sends of it that the provider has not ended
  std::vector<Read> reads_;
  std::vector<Read*> free_reads_;  ///< those that ended last are used last
  std::vector<Read*> ended_reads_;
  Offer* offers_ = nullptr;  ///< all of them
  uint64_t next_tag_ = 0;    ///< for a read by messages; nobody guesses the first
  void* packets_descriptor_ = nullptr;
  Endpoint endpoint_;  // goes before what it writes to
  Descriptor bell_, self_bell_;
  uint32_t sends_left_ = effort_.sends;  ///< until it receives again
  /// Frames in the provider's hands, but for abandoned ones, and those for peers that are down.
  uint32_t under_way_ = 0;
  bool armed_ = false;
  bool rang_ = false;  ///< since it was armed
  uint64_t keeper_saw_ = 0;
  uint64_t empty_ns_ = 0;  ///< when last, after a death, nothing was left to receive

  const uint64_t put_off_ticks_ = base::to_ticks(50e3);  ///< that a few packets wait with others
  std::atomic<bool> has_returned_{false};
  std::atomic<bool> has_reads_{false};
  std::atomic<bool> has_strangers_{false};
  std::atomic<bool> expects_end_{false};
  std::atomic<bool> look_is_due_{false};
  std::atomic<std::size_t> inbound_count_{0};
  std::atomic<bool> offers_something_{false};
  std::atomic<uint64_t> polls_{0};  ///< written by the polling thread, read by the keeper
};

}  // namespace weft::fabric::ofi
