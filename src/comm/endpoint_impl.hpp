// What an endpoint is made of, and the arrival functions that its specification chose.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <set>

#include "comm/bounded_queue.hpp"
#include "comm/device.hpp"
#include "comm/left_queues.hpp"
#include "comm/match_table.hpp"
#include "comm/runtime_impl.hpp"
#include "comm/unexpected.hpp"
#include "weft/comm/endpoint.hpp"

namespace weft::comm {

/// A message in a first-packet queue: one cell of the bounded queue, one cache line with its
/// sequence number.
struct QueueEntry {
  static constexpr uint32_t kInlineBytes = Message::kInlineBytes;
  enum class Holds : uint8_t { inlined, kept, loan, rendezvous };
  Rank source;
  Tag tag;
  uint32_t bytes;
  uint16_t reply_port;
  Holds holds;
  union {
    std::byte inlined[kInlineBytes];
    uint32_t kept;  ///< the place's number
    struct {
      const std::byte* place;
      fabric::Loan loan;
    } lent;
    RendezvousBody rendezvous;
  };
  QueueEntry() noexcept {}  // NOLINT: a cell is filled before it is read
};
static_assert(sizeof(QueueEntry) == 56);

/// How an endpoint with one device sends what fits a ring's cell: all that does not change from
/// message to message, side by side.
struct ShortWay {
  fabric::Port* port = nullptr;
  fabric::ShortHeader header{};  ///< of a message without tag and bytes
  std::size_t bytes = 0;         ///< most that it takes
  uint32_t ranks = 0;            ///< to ranks below this; 0: there is no short way
  uint16_t number = 0;           ///< of the port, here and there
};

/// Whose message it is: in one register.
struct Origin {
  Rank source;
  Tag tag;
};

/// An arrived message in full, whether it comes from a frame now or waited as an early one.
struct Arrived {
  Rank source;
  Tag tag;
  uint16_t reply_port;
  std::span<const std::byte> payload;
  const fabric::Loan& loan;    ///< set: the payload lies in the sender's packet
  OpenPacket* open = nullptr;  ///< set: which is being written still, or one of several
};

/// What an endpoint does with arriving messages: one function for each kind, bound when it is made
/// (arrivals.cpp). All under the lock of the device.
struct Arrivals {
  /// An eager message whose bytes lie in the ring: the usual case.
  fabric::Taken (*inlined)(Endpoint::Impl&, Device&, Origin, std::span<const std::byte>);
  /// Several of them of one origin: how many, from the first, were taken.
  uint32_t (*run)(Endpoint::Impl&, Device&, Origin, const fabric::ShortRun&);
  /// An eager message whose bytes lie in the sender's packet, or waited.
  fabric::Taken (*eager)(Endpoint::Impl&, Device&, const Arrived&);
  /// The announcement of a large one.
  fabric::Taken (*announced)(Endpoint::Impl&, Device&, const Arrived&, const RendezvousBody&);
};
extern const Arrivals kMatched, kMatchedAllocated, kQueued, kHandled, kRefused;

}  // namespace weft::comm

/// For calls that are posted again and again with waits in between (until_posted): a task may go on
/// in another thread then, where what a loop remembers of thread_locals' addresses is wrong.
#define WEFT_NOT_IN_LINE [[gnu::noinline]]

namespace weft {

struct Endpoint::Impl {
  Runtime::Impl& runtime;
  EndpointSpec spec;
  uint16_t number = 0;
  comm::Arrivals arrivals{};
  std::size_t inline_bytes = 0;       ///< messages up to this travel in the ring, to whomever
  std::size_t most_inline_bytes = 0;  ///< to some
  comm::ShortWay short_way;
  uint64_t eager_word = 0;  ///< first word of an eager message's header, without its tag
  std::unique_ptr<comm::MatchTable> table;                      // Arrival::matched
  std::unique_ptr<comm::BoundedQueue<comm::QueueEntry>> queue;  // Arrival::queue
  bool one_producer = false;  ///< one device, whose lock is held for each push
  comm::WaitSet queue_waiters;
  comm::LeftQueues::Entry left{queue, queue_waiters};
  /// Large messages for the handler and puts with a signal that are coming in, and cancelled
  /// receives when it ends: each will tell this endpoint. Once `ending`, signals that find no room
  /// are dropped.
  std::atomic<uint32_t> inbound{0};
  std::atomic<bool> ending{false};
  /// Arrival::memory: signals for which at_target had no room, whose operations go on trying. While
  /// there are any, puts with a signal stay in their lanes.
  std::atomic<uint32_t> untold{0};
  std::atomic<uint64_t> signals_lost{0};  // Arrival::memory: there is no at_target
  std::atomic<uint32_t> tries_asked{0};   // Arrival::matcher: see try_again_later
  comm::Operation try_note{};             // in an inbox or pending while `tries_asked` is not 0
  std::set<int32_t> dead;                 // Arrival::matcher: of whom it was told (death_lock)

  Impl(Runtime::Impl& the_runtime, const EndpointSpec& the_spec)
      : runtime(the_runtime), spec(the_spec) {}

  [[nodiscard]] uint64_t key(Rank rank, Tag tag) const noexcept {
    const uint64_t high = uint64_t{static_cast<uint32_t>(rank.value)} << 32;
    switch (spec.match_on) {
      case MatchOn::rank:
        return high;
      case MatchOn::tag:
        return tag.value;
      default:
        return high | tag.value;
    }
  }
  /// A blocking call, for comm.report_quiet.
  [[nodiscard]] comm::NamedCall called(const char* name, Rank peer) const noexcept {
    return {name, peer, number};
  }
  /// Once the number is known; before the endpoint is published.
  void find_short_way() noexcept;
  Post send_otherwise(Rank to, Tag tag, std::span<const std::byte> data, Completion* completion,
                      void* context);
  Post send_large(Rank to, Tag tag, std::span<const std::span<const std::byte>> pieces,
                  std::size_t bytes, Completion* completion, void* context);
  Post post_put(const fabric::MemoryKey& key, std::size_t offset, std::span<const std::byte> data,
                std::optional<Tag> signal, Completion* completion, void* context);
  /// `to`: of the job.
  [[nodiscard]] bool fits_ring(Rank to, std::size_t bytes) const noexcept {
    return bytes <= inline_bytes ||
           (bytes <= most_inline_bytes && bytes <= runtime.inline_bytes(to));
  }
  [[nodiscard]] bool takes_messages() const noexcept {
    return spec.arrival != Arrival::memory && spec.arrival != Arrival::matcher;
  }
  [[noreturn]] void refuse_send() const;
  /// Before something goes through a matcher's endpoint.
  void check_envelope(Rank to, const void* data, std::size_t bytes) const {
    runtime.check_rank(to);
    if (spec.matcher == nullptr) [[unlikely]]
      refuse_envelope(bytes);
    if (data == nullptr && bytes != 0) [[unlikely]]
      refuse_null();
  }
  [[noreturn]] void refuse_envelope(std::size_t bytes) const;
  [[noreturn]] void refuse_null() const;
  Post tell_failure(comm::Operation& op, const Event& event);
  void fail_if_dead(uint64_t key, comm::Operation* op, Rank from);
  /// Messages are left for threads that sleep; `got`: the caller has one, and is back soon.
  void leave_others(bool got) noexcept;
  bool take_from_queue(Message& message);
  bool dequeue_otherwise(Device& device, Message& message);
  static constexpr uint64_t kAllButTag = 0xffffffff;  ///< of a header's first word
  bool take_short(Device& device, Message& message, bool& longer);
  bool take_longer(Device& device, Message& message);
  bool dequeue_longer(Device& device, Message& message);
  /// (lock of `device`) Hands an eager message to whoever polls for one in `dequeue`, past the
  /// queue, if that is empty and there is a place for its bytes.
  bool hand_over(Device& device, comm::Origin from, std::span<const std::byte> payload,
                 const fabric::Loan& loan);
  template <class F>
  bool push(F&& fill) {
    return one_producer ? queue->try_push_alone_with(fill) : queue->try_push_with(fill);
  }

  /// The last access of who is counted in `inbound`.
  void end_inbound() noexcept {
    // release: pairs with the destructor's acquire; the endpoint is touched no more.
    inbound.fetch_sub(1, std::memory_order_release);
  }
  [[nodiscard]] Device& pick_device() const noexcept {
    return spec.device != nullptr ? *spec.device : runtime.this_device();
  }
};

namespace comm {

// arrivals.cpp
/// A receive met an unexpected message: true: finished now, and `event` says how; false: a large
/// message's transfer began and the completion will tell. The record `arrived` is released.
bool receive_unexpected(Endpoint::Impl&, Operation& op, Unexpected& arrived, Event& event);

/// Frees what an unexpected record holds, and the record. `keep_loan`: its packet stays lent.
void release_unexpected(Runtime::Impl&, Unexpected& record);

/// Copies `pieces` one behind the other.
void gather(std::span<const std::span<const std::byte>> pieces, std::byte* into) noexcept;

/// A large message taken from a queue, on its way into memory from the endpoint's allocator. It may
/// outlive the endpoint.
struct MessageTransfer {
  explicit MessageTransfer(Allocator& the_allocator) : allocator(the_allocator) {}
  Allocator& allocator;
  std::byte* buffer = nullptr;
  Synchronizer done;
};
/// What a message from a queue keeps of what was announced until there is memory for its transfer,
/// where else a short one's bytes lie.
struct Announced {
  RendezvousBody body;
  Allocator* allocator;
};
static_assert(sizeof(Announced) <= Message::kInlineBytes);

// answers.cpp
/// An operation of this rank's own that sends `finished` with `error`, then ends. nullptr: none is
/// free now.
Operation* make_answer(Runtime::Impl&, Rank to, uint16_t reply_port, Handle theirs,
                       Errc error) noexcept;

// transfers.cpp
/// Makes `op` (buffer, capacity, completion or end, endpoint set) the receiver of an announced
/// message and hands it to `device`. `allocator`: where a buffer comes from if it has none.
void begin_transfer(Runtime::Impl&, Device& device, Operation& op, Rank source, Tag tag,
                    uint16_t reply_port, const RendezvousBody& body,
                    Allocator* allocator = nullptr);
/// `op` (peer, remote operation and address, length and buffer set) reads what the peer offers.
void begin_fetch(Operation& op, uint64_t key) noexcept;

// enveloped.cpp (under the device's lock; Arrival::matcher)
fabric::Taken arrive_enveloped(Endpoint::Impl&, Device&, const fabric::ShortHeader&,
                               const Arrived&);
Tried try_again(Endpoint::Impl&);
fabric::Taken arrive_announced(Endpoint::Impl&, Device&, const fabric::ShortHeader&, const Arrived&,
                               const RendezvousBody&);

// remote_memory.cpp (all under the device's lock)
fabric::Taken arrive_put(Endpoint::Impl&, Device&, const Header&, const Arrived&, const PutBody&);
fabric::Taken announce_put(Endpoint::Impl&, Device&, const Header&, const Arrived&,
                           const RendezvousBody&, const PutBody&);
fabric::Taken arrive_get(Endpoint::Impl&, Device&, const Header&, const Arrived&,
                         const RendezvousBody&, const PutBody&);
fabric::Taken arrive_signal(Endpoint::Impl&, Device&, const Arrived&);

}  // namespace comm
}  // namespace weft
