// The transport contract: moving bytes between ranks, knowing nothing of what they mean.
//
// A Transport is what one rank has of one way to reach others (self, local, shm, ofi, by_node).
// A Port is one device's share of it: own inbound rings, own doorbell, polled by one thread at a
// time. Everything on the message path is non-blocking. Within a node it allocates nothing and
// makes no system call, except that a send to a sleeping port rings its doorbell; over a network it
// is the provider's calls, under one lock for each port, and memory for what may have to be sent
// again, and for each large message that is offered to be read.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "weft/base/error.hpp"
#include "weft/base/types.hpp"

namespace weft::fabric {

/// A packet that belongs to the sending rank's packet area and is lent to this one until
/// `Port::give_back`. Plain data; may be kept and given back from any thread, on any port of the
/// transport that delivered it.
struct Loan {
  int32_t owner = -1;  ///< rank that owns the packet; -1: no packet
  uint16_t port = 0;   ///< port of the owner to which it returns
  uint32_t index = 0;  ///< packet number in the owner's area, or a ticket (OpenSend)
  explicit operator bool() const noexcept { return owner >= 0; }
};

/// What is lent of a packet of this rank's area: `bytes` of it, from `offset` on, a multiple of 64.
struct PacketPart {
  uint32_t index;
  uint32_t bytes;
  uint32_t offset = 0;
  bool operator==(const PacketPart&) const noexcept = default;
};

/// Of packets that are lent *open*: their owner may be writing them still, one after the other,
/// front to back.
struct OpenLoan {
  static constexpr uint32_t kMost = 4;
  const std::atomic<uint32_t>* written;  ///< how far, in bytes
  uint64_t origin;                       ///< what they are written from, in the source's process;
                                         ///< 0: not to be read there
  uint32_t bytes;                        ///< when they are whole
  uint32_t count;
  std::span<const std::byte> pieces[kMost];
  uint32_t return_count;    ///< so many numbers are to be given back:
  uint32_t returns[kMost];  ///< of each packet, or one ticket
};

/// Packets that several ranks read are lent to each by a number of its own, behind those of the
/// packets: so many ranks, of all such packets together.
inline constexpr uint32_t kTickets = 1024;

/// What `Port::try_send_open` lends.
struct OpenSend {
  static constexpr uint32_t kNoTicket = ~uint32_t{0};
  std::span<const uint32_t> indices;  ///< up to OpenLoan::kMost, full but for the last
  uint32_t bytes;                     ///< when they are whole
  const std::byte* origin;            ///< what they are, or were, written from
  /// From `geometry().packets` on: it is lent, and comes back, instead of the packets, which stay
  /// the caller's.
  uint32_t ticket = kNoTicket;
  uint32_t offset = 0;  ///< where they begin, if it is one packet
};

/// One arrived frame. The spans are valid until the sink returns; `packet` stays valid until the
/// loan is given back.
struct Frame {
  Rank source;
  std::span<const std::byte> head;    ///< header, followed by payload sent inline with it
  std::span<const std::byte> packet;  ///< payload by reference; empty if none
  Loan loan;                          ///< set if and only if `packet` came by reference
  /// Set: it is of the first of these packets, which are all the sink's until it gives them back.
  const OpenLoan* open = nullptr;

  /// The numbers of all that came with it, `loan`'s owner's (Port::give_back_all).
  [[nodiscard]] std::span<const uint32_t> indices() const noexcept {
    if (open != nullptr) return {open->returns, open->return_count};
    return {&loan.index, loan ? std::size_t{1} : 0};
  }
  /// All of it is there.
  [[nodiscard]] bool is_whole() const noexcept {
    // acquire: pairs with the owner's release; the bytes are there.
    return open == nullptr || open->written->load(std::memory_order_acquire) >= open->bytes;
  }
};

/// A header of two words, which is what nearly every frame has: it travels in registers.
struct ShortHeader {
  uint64_t words[2];
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return std::as_bytes(std::span(words));
  }
};

/// Frames without a packet, of whatever length, of one rank that follow each other on one lane and
/// have the same first header word: what does not differ is looked at once.
struct ShortRun {
  static constexpr uint32_t kMost = 8;
  struct Piece {
    uint64_t second_word;  ///< of its header
    std::span<const std::byte> payload;
  };
  Rank source;
  uint64_t first_word;
  uint32_t count;
  Piece pieces[kMost];
  [[nodiscard]] ShortHeader header(uint32_t number) const noexcept {
    return {{first_word, pieces[number].second_word}};
  }
};

/// The short frames that somebody takes without a sink: those whose header's first word is `first`
/// under `mask`.
struct ShortFilter {
  uint64_t mask;
  uint64_t first;
};

/// One of them, taken: two registers.
struct ShortFrame {
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr uint32_t kLonger = kNone - 1;
  Rank source;
  uint32_t bytes;  ///< of its payload, which was copied; kNone: there was none to take; kLonger:
                   ///< there is one, for more room
  uint64_t first_word;  ///< of its header
  explicit operator bool() const noexcept { return bytes < kLonger; }
};

/// A port of a rank.
struct Address {
  Rank rank;
  uint32_t port;
};

/// Memory that one peer may read over the network: what `Port::offer` made of it. Address and key
/// are sent in messages.
struct ReadOffer {
  void* handle = nullptr;  ///< the owner's, for `Port::withdraw_offer`; nullptr: nothing is offered
  uint64_t address = 0;
  uint64_t key = kNone;
  static constexpr uint64_t kNone = ~uint64_t{0};  ///< no key
};

/// What a sink answers for a frame.
enum class Taken : uint8_t {
  yes,   ///< Taken (a loan, if any, is now the sink's to give back).
  hold,  ///< Not now: keep this frame and everything behind it on its lane; offer it again at the
         ///< next poll. Other lanes, and control frames, go on.
};

/// Where a port's poll delivers. Called only by the polling thread, never under a lock that a
/// sender could need.
class Sink {
 public:
  virtual Taken on_frame(const Frame& frame) = 0;
  /// The same for a frame without a packet, taken apart: `payload` lies behind its header. A port
  /// that can tell such frames cheaply offers them here.
  virtual Taken on_short(Rank source, ShortHeader header, std::span<const std::byte> payload);
  /// The same for several at once: how many of them, from the first, were taken. Fewer than all:
  /// the next is to be held.
  virtual uint32_t on_run(const ShortRun& run);
  /// A control frame: always taken.
  virtual void on_control(const Frame& frame) = 0;
  /// Packets, and tickets, that this rank lent by this port and that came back.
  virtual void on_returned(std::span<const uint32_t> packets) = 0;
  /// What `Port::try_read` began with this token has ended; the buffer is the caller's again. Not
  /// `ok`: what is in it is undefined.
  virtual void on_read(uint64_t token, bool ok);
  /// `peer` died; everything it sent before was offered already. Once per peer and port.
  virtual void on_peer_down(Rank peer, std::string_view cause) = 0;

 protected:
  ~Sink() = default;
};

/// Memory that peers can name: what `Transport::expose` made of it. Plain data, sent in messages.
struct MemoryKey {
  int32_t owner = -1;
  uint32_t slot = 0;        ///< row of the owner's exposure table
  uint32_t generation = 0;  ///< of that row; a withdrawn row's generation moved on
  uint32_t segment = 0;     ///< shared segment that holds it, 0: ordinary memory
  uint64_t base = 0;        ///< address in the owner's process (ordinary) or offset in the segment
  uint64_t bytes = 0;
};
static_assert(sizeof(MemoryKey) == 32);

/// How large the parts of a transport are; filled from configuration.
struct Geometry {
  uint32_t ports = 1;                ///< most ports that this rank may open
  uint32_t lane_cells = 256;         ///< cells of 64 bytes in a message ring; a power of two
  uint32_t control_cells = 64;       ///< cells in a control ring; a power of two
  uint32_t packet_bytes = 64 << 10;  ///< payload of one packet; a multiple of 64
  uint32_t packets = 256;            ///< packets of this rank
};

/// The kernel's membarrier passes some cores by (docs/design/lanes.md). A sender there may have
/// looked for a sleeper before its message could be seen, and not ring: but all it did can be seen
/// within a few microseconds, and whatever it sends from then on rings. So who sleeps looks once
/// more, this long after `arm`; not again.
inline constexpr uint64_t kSecondLookNs = 200'000;

/// Between Port::arm, of as many ports as the caller will sleep on, and the polls that follow:
/// every sender sees what was announced, or the poll sees what it sent (Dekker's rule). A
/// membarrier, which interrupts the cores that run processes with such transports; where the kernel
/// has none senders fence, and so does this. Any thread.
void arming_barrier() noexcept;

/// One device's share of a transport.
///
/// Who may call: `try_send*` any thread (a process-private lock per lane, held for a few dozen
/// instructions; contended: spins briefly, then yields); `poll`, `linger`, `take_short`, `arm`,
/// `disarm` one thread at a time (the device's progress lock, held by the caller, sees to it);
/// `give_back` any thread. Ordering: frames from one port to one port of a peer arrive in the order
/// in which they were accepted; control frames are ordered among themselves only.
class Port {
 public:
  virtual ~Port() = default;
  Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  /// Most bytes of header and payload together that `try_send` takes, and `try_control`; to
  /// whichever rank.
  [[nodiscard]] virtual uint32_t max_inline() const noexcept = 0;
  [[nodiscard]] virtual uint32_t max_control() const noexcept = 0;
  /// Most that `try_send` takes to this rank of the job, which may be more (within a node). To
  /// itself a rank may send as much as to anybody.
  [[nodiscard]] virtual uint32_t max_inline_to(Rank /*to*/) const noexcept { return max_inline(); }

  /// Copies header and payload into the ring to `to`, port `to_port` modulo the peer's number of
  /// ports: done or retry. Throws nothing. A dead peer: done, and the bytes go nowhere.
  virtual Post try_send(Rank to, uint32_t to_port, std::span<const std::byte> header,
                        std::span<const std::byte> payload) noexcept = 0;
  /// The same with a short header. Made for payloads that fit a ring's cell with it.
  virtual Post try_send_short(Address to, ShortHeader header,
                              std::span<const std::byte> payload) noexcept;
  /// Lends a packet, of which `part` is in use, with a copied header: posted
  /// (the packet comes back through Sink::on_returned of this port) or retry. Not to a dead peer:
  /// then it comes back at the next poll.
  virtual Post try_send_packet(Rank to, uint32_t to_port, std::span<const std::byte> header,
                               PacketPart part) noexcept = 0;
  /// The same for packets which the caller writes only when they are lent, if they are: front to
  /// back, from memory at `origin` that stays as it is meanwhile, telling by `Transport::written`
  /// of the first how far it is. A packet may come back before that. Or they are whole when they
  /// are lent, and `written` says so. To peers that `written` answers for.
  virtual Post try_send_open(Rank to, uint32_t to_port, std::span<const std::byte> header,
                             const OpenSend& packets) noexcept;
  /// As try_send, on the control ring, which a held frame never blocks. A header alone.
  virtual Post try_control(Rank to, uint32_t to_port,
                           std::span<const std::byte> header) noexcept = 0;

  /// Offers at most `budget` waiting messages to `sink`, serving active lanes in turn, and what
  /// control frames and returned packets there are; returns how many of all were taken: 0 only if
  /// there was nothing, or what there was is held, or, unless the port is armed, came within a
  /// fraction of a microsecond behind others. More may be there than it took.
  virtual uint32_t poll(Sink& sink, uint32_t budget) = 0;
  /// Something may be there that `poll` leaves for a fraction of a microsecond, as above. The
  /// polling thread's question, as `poll`.
  [[nodiscard]] virtual bool rests() const noexcept { return false; }
  /// Frames that came from other nodes, where this one's are told apart (by_node). Any thread.
  [[nodiscard]] virtual uint64_t far_frames() const noexcept { return 0; }
  /// A few more looks where the last message came from: for callers whose `poll` took nothing and
  /// who would come again at once, from further away.
  virtual uint32_t linger(Sink& sink, uint32_t budget);
  /// True where a poll costs much (system calls, mostly), however little it yields. The polling
  /// thread's question, as `poll`.
  [[nodiscard]] virtual bool polls_dearly() const noexcept { return false; }
  /// A short way for callers who take message after message: takes the next frame of the lane that
  /// the last poll served from, if it is a short one that `wanted` lets pass, and copies its
  /// payload into `into`, if that has room; if not, and the port does this with longer ones, too,
  /// it is there still, for a call with room for any. None: nothing was done, and a `poll` is due.
  /// A port answers so at least as often as `poll` would turn to something else.
  virtual ShortFrame take_short(ShortFilter wanted, std::span<std::byte> into) noexcept;

  /// Returns a packet to its owner. Never fails.
  virtual void give_back(Loan loan) noexcept = 0;
  /// The same for several that came from where `loan` did (Frame::indices); none: nothing is done.
  virtual void give_back_all(Loan loan, std::span<const uint32_t> indices) noexcept;

  /// Lets `peer` read `memory` over the network, from this port, until `withdraw_offer`; nothing is
  /// copied. (What keeps others from it is that the key cannot be guessed.) Nothing is offered
  /// where the network cannot, or shall not, or for peers of this node, who read without
  /// (`Transport::read_memory`). Any thread, as the next two.
  [[nodiscard]] virtual ReadOffer offer(Rank peer, std::span<const std::byte> memory) noexcept;
  /// From here on nothing of it is read. `cuts`: the peer may be in the middle of reading, and what
  /// it has not got it shall not get: its connections to this port are cut, if that takes it.
  virtual void withdraw_offer(void* handle, bool cuts) noexcept;
  /// Begins to read `into.size()` bytes, from byte `offset` on, of what port `from.port` of a peer
  /// offered: posted (Sink::on_read of this port follows, once, and until then nobody else touches
  /// the buffer, whatever becomes of the peer) or retry. done: this port cannot.
  virtual Post try_read(Address from, uint64_t address, uint64_t key, uint64_t offset,
                        std::span<std::byte> into, uint64_t token) noexcept;

  /// Announces that the caller is about to sleep on `bell_fd()`: sends to this port ring. After
  /// `arm` the caller executes arming_barrier and must `poll` once more before it sleeps, and once
  /// again, still armed, when it has slept for kSecondLookNs.
  virtual void arm() noexcept = 0;
  /// Takes the announcement back and swallows what rang.
  virtual void disarm() noexcept = 0;
  /// Readable when somebody rang, or when a connected peer died; can join any poll or epoll set.
  [[nodiscard]] virtual int bell_fd() const noexcept = 0;
  /// Makes `bell_fd` readable from this process: so that one thread can get another out of sleep.
  virtual void ring_self() noexcept = 0;
};

/// A way to reach other ranks.
///
/// Lifetime: made by the providers' functions below after the job was joined (collective: they
/// publish and fence); outlived by nothing that it made. Any thread may call anything.
class Transport {
 public:
  virtual ~Transport() = default;
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  [[nodiscard]] virtual const Geometry& geometry() const noexcept = 0;
  /// True if frames can be sent to `rank`.
  [[nodiscard]] virtual bool reaches(Rank rank) const noexcept = 0;
  /// True if frames to `rank` go over a network.
  [[nodiscard]] virtual bool is_far(Rank /*rank*/) const noexcept { return false; }
  /// This rank's packets, back to back, `geometry().packets` × `geometry().packet_bytes` bytes.
  [[nodiscard]] virtual std::span<std::byte> packet_area() noexcept = 0;
  /// Opens port `number` < geometry().ports; once each. Senders may send to it from then on;
  /// before, they are told retry, or what they send waits, within the lane's length.
  virtual std::unique_ptr<Port> open_port(uint32_t number) = 0;
  /// How far what begins with packet `index` of this rank is written (`Port::try_send_open`).
  /// `follows`: `to` shall read while it is written, not only what is whole. nullptr: it cannot.
  [[nodiscard]] virtual std::atomic<uint32_t>* written(Rank to, uint32_t index,
                                                       bool follows) noexcept;

  /// The launcher says that `peer` died. A transport that notices by itself need not hear it; one
  /// that does not ends what concerns that peer, and its ports report it (Sink::on_peer_down), at
  /// the latest when somebody sends to it.
  virtual void peer_died(Rank peer, std::string_view cause) noexcept;

  /// True if `read_memory` works towards `peer` (one address space, or cross-memory attach, probed
  /// once per peer; `why_not` says what refused).
  virtual bool can_read(Rank peer) noexcept = 0;
  [[nodiscard]] virtual std::string why_not_read(Rank peer) const = 0;
  /// Copies `local.size()` bytes from `address` of the peer's process: one copy. The peer must
  /// know of it and keep the buffer alive. ok, peer_died, no_permission or bad_memory (the
  /// peer has none there, or this process).
  virtual Errc read_memory(Rank peer, uint64_t address, std::span<std::byte> local) noexcept = 0;
  /// The other direction.
  virtual Errc write_memory(Rank peer, uint64_t address,
                            std::span<const std::byte> local) noexcept = 0;

  /// Memory that node peers can write without a copy: page-aligned, zeroed. Throws
  /// Error(no_memory). Freed by `release_shared`, which withdraws its exposures first.
  virtual std::span<std::byte> allocate_shared(std::size_t bytes) = 0;
  /// False: nothing of that begin is allocated.
  virtual bool release_shared(std::span<std::byte> memory) noexcept = 0;
  /// Names [memory) to peers. Within memory from `allocate_shared` the key has a segment.
  /// Throws Error(no_memory) when the exposure table is full.
  virtual MemoryKey expose(std::span<std::byte> memory) = 0;
  virtual void withdraw(const MemoryKey& key) noexcept = 0;
  /// The owner's check of a key that came from outside: the range it names, or nothing if it was
  /// withdrawn, forged, or belongs to another rank.
  virtual std::optional<std::span<std::byte>> resolve(const MemoryKey& key) noexcept = 0;
  /// A peer's view: its exposed shared memory mapped here (on first use, cached), or nothing if
  /// the key is not of shared memory, or was withdrawn, or cannot be mapped.
  virtual std::optional<std::span<std::byte>> map_peer(const MemoryKey& key) noexcept = 0;
};

class Job;

/// What a provider must be to pass for a transport; checked where each is made.
template <class F>
concept TransportProvider = requires(F make, Job& job, const Geometry& geometry) {
  { make(job, geometry) } -> std::same_as<std::unique_ptr<Transport>>;
};

/// Ranks of one process: `job` from make_local_job. A job of one is the `self` transport.
std::unique_ptr<Transport> make_local_transport(Job& job, const Geometry& geometry);
/// The ranks of this node, through shared segments. Throws Error(no_memory, no_permission).
std::unique_ptr<Transport> make_shm_transport(Job& job, const Geometry& geometry);
/// All ranks of the job, over libfabric. Throws Error(bad_config) if no provider fits, or this
/// build is without it; Error(no_memory, no_permission).
std::unique_ptr<Transport> make_ofi_transport(Job& job, const Geometry& geometry);
/// The ranks of this node through memory, all others over libfabric; where all are of this node,
/// without libfabric. Pretended nodes count as nodes. Throws what those two do.
std::unique_ptr<Transport> make_by_node_transport(Job& job, const Geometry& geometry);

/// A way to reach a whole job.
enum class TransportChoice : uint8_t { local, shm, by_node, ofi };
/// What it depends on.
struct JobShape {
  bool in_process;     ///< its ranks are threads of one process, or it is one rank alone
  bool shares_memory;  ///< all its ranks do
  bool one_node;       ///< also where nodes are pretended
};
/// What `make_transport` makes for such a job: as `fabric.transport` says; `automatic`: `local` or
/// `shm` if all ranks share memory, else `by_node`.
TransportChoice choose_transport(JobShape shape);
/// For `job`; every rank of it gets the same answer.
TransportChoice choose_transport(const Job& job);
/// That. Throws what its maker does.
std::unique_ptr<Transport> make_transport(Job& job, const Geometry& geometry);

}  // namespace weft::fabric
