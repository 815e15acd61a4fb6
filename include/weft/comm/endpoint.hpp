// The endpoint: what a message is sent through, with arrival, buffer and completion bound early.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "weft/base/types.hpp"
#include "weft/comm/completion.hpp"
#include "weft/comm/matcher.hpp"
#include "weft/comm/message.hpp"
#include "weft/fabric/transport.hpp"

namespace weft {

class Device;
class Runtime;

/// What becomes of a message at its target.
enum class Arrival : uint8_t {
  matched,  ///< meets a posted receive by rank and tag (or one of them): concurrent hash matching
  queue,    ///< waits in a queue from which any thread takes the first packet (000 §3.3)
  handler,  ///< runs a function in the progressing thread (active message)
  memory,   ///< put, get and put-with-signal on regions
  matcher,  ///< is handed to a Matcher of the user's, with an envelope
};

/// Which parts of (rank, tag) a receive must name.
enum class MatchOn : uint8_t { rank_and_tag, rank, tag };

/// Where an arriving message's bytes go.
enum class Buffer : uint8_t {
  bound,      ///< the usual one of the arrival mode: posted buffer, Message, handler's argument
  inlined,    ///< only messages that travel in the ring (Runtime::inline_bytes, by rank); larger
              ///< sends are refused when posted
  explicit_,  ///< the buffer named by the receive, or the region named by the put
  allocated,  ///< Arrival::matched: the endpoint's allocator, on arrival, for receives without a
              ///< buffer; the size is told with the completion
};

/// Runs inside any call that progresses (waits, dequeue, `Runtime::progress`, idle workers), under
/// the lock of the device that the message came by. It may post, and complete what others wait for
/// (Synchronizer::arrive); where that answers retry, or more is to be done, it leaves the work to a
/// thread, a task, or Runtime::defer (a Deferred whose call answers retry defers itself again: it
/// is run once more after some progress). It must not block, wait (nor try again until there is
/// room: `…_wait`, until_posted, relax) or throw: where it does, a sentence says so and the process
/// ends.
using Handler = void (*)(void* argument, const Incoming& message);

/// How an endpoint is made. The same on every rank; combinations that make no sense are refused
/// with Error(bad_argument) and a sentence.
struct EndpointSpec {
  Arrival arrival = Arrival::matched;
  MatchOn match_on = MatchOn::rank_and_tag;
  Buffer buffer = Buffer::bound;
  /// For Buffer::allocated, and for messages above the eager limit of queues and handlers.
  /// nullptr: the heap.
  Allocator* allocator = nullptr;
  Handler handler = nullptr;  ///< for Arrival::handler; it makes and ends no endpoint
  void* handler_argument = nullptr;
  Matcher* matcher = nullptr;         ///< for Arrival::matcher
  Completion* at_source = nullptr;    ///< default for sends and puts posted without one
  Completion* at_target = nullptr;    ///< default for receives; Arrival::memory: of signals, which
                                      ///< a rank without one drops (put_signal)
  std::size_t queue_capacity = 4096;  ///< Arrival::queue: messages held before senders wait, and
                                      ///< with them what they send elsewhere (Endpoint)
  Device* device = nullptr;           ///< explicit assignment; nullptr: the runtime's policy
};

/// A registered range that peers may put to and get from, named by a key which is plain data and
/// travels in messages. Withdrawn when it ends; later operations with its key fail with bad_key. To
/// be ended once no access is under way any more, which its owner has to hear from those who make
/// them (a barrier, a message): large ones go on in the memory, and of memory that weft allocated
/// the owner knows nothing.
class Region {
 public:
  Region(Runtime& runtime, std::span<std::byte> memory);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  [[nodiscard]] const fabric::MemoryKey& key() const noexcept { return key_; }
  [[nodiscard]] std::span<std::byte> memory() const noexcept { return memory_; }

 private:
  Runtime& runtime_;
  std::span<std::byte> memory_;
  fabric::MemoryKey key_;
};

/// A numbered meeting point of all ranks: the n-th endpoint made on one rank talks to the n-th on
/// every other. Messages that arrive before it is made wait at their sender. A runtime makes at
/// most 65,536 in its life, each Team's among them; then Error(no_memory).
///
/// Order: what goes from one device to one rank meets its receives, queue or handler in the order
/// in which it was sent. Between devices there is none: with Assignment::round_robin, messages of
/// one thread may overtake each other, also those of one key.
///
/// What has no room here stays in its lane, of which there is one for each sender and device; and
/// with it stays all that the same rank sends later over the same device, to whatever endpoint:
/// messages, collectives, puts and gets. So do messages for a full queue (`queue_capacity`), large
/// ones for a handler whose allocator answers nullptr, signals for which `at_target` has no room,
/// messages without a receive beyond `comm.unexpected`, those that a Matcher does not take, and
/// those for an endpoint that is not made yet once the same table is full. Other ranks' lanes,
/// other devices, answers, and large transfers that are read go on. Who waits for something else
/// meanwhile, be it a barrier, waits for ever unless another thread makes room: empty queues first,
/// or make them large enough for all that may come before.
///
/// How large a queue (`queue_capacity`): as many messages as all senders together may have sent
/// before anybody here takes one. Where each waits for an answer before it asks again, that is the
/// number of threads and tasks that ask; where each has k under way, k times as many; where this
/// rank first does something else (a barrier, a phase), all that the others send meanwhile. Where
/// somebody always dequeues and streams have no end, any size works, for it only says how far
/// senders run ahead: 4096 hides pauses of a scheduler's time slice. A place takes 64 bytes, and
/// capacities are powers of two. A message of more than 40 bytes holds something else as well: up
/// to Runtime::inline_bytes of its sender a place of this rank's, of which there are
/// `comm.unexpected` for all endpoints together, above that a packet of its sender's
/// `fabric.packets`: beyond these a larger queue does not help.
///
/// Thread-safety: all calls from any thread, at the same time. Every posting call answers done,
/// posted or retry; arguments that no state could make right throw Error(bad_argument) or
/// Error(no_such_peer) before anything is posted. `completion` nullptr: the bound one; if there is
/// none either, the end of the operation is not told. `context` comes back in the event. A null
/// buffer with a length is refused. Ended only when nothing is pending on it that was posted here,
/// but for receives that met no message: these complete with `cancelled` while it ends. Messages
/// that were not received are dropped; a warning says how many it had.
/// Its end waits, progressing, until such receives were told, and for large messages and puts with
/// a signal that are on their way to its handler or `at_target` (of puts whose sender does not take
/// answers, until it progresses): these are called until it returns, so hold no lock that they
/// take. (A signal for which a CompletionQueue has no room then is dropped.)
class Endpoint {
 public:
  Endpoint(Runtime& runtime, const EndpointSpec& spec);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// Sends `data`. Up to the eager limit: done (or retry); to a rank that is dead likewise, and it
  /// goes nowhere (Runtime::is_dead). Larger: posted; the buffer is lent
  /// until the completion (rendezvous). That ends with `cancelled` if the endpoint there ends (or
  /// had ended) without having received it, with `bad_argument` if it was made otherwise than this
  /// one and takes no messages. So do puts and gets.
  Post send(Rank to, Tag tag, std::span<const std::byte> data, Completion* completion = nullptr,
            void* context = nullptr);
  /// The same for a list of pieces, which arrive as one message.
  Post send_gathered(Rank to, Tag tag, std::span<const std::span<const std::byte>> pieces,
                     Completion* completion = nullptr, void* context = nullptr);

  /// Arrival::matched: receives into `buffer` the next message of that key, first posted first
  /// served. done: it was there already, and is in `buffer`; `now` (if given) holds its event. A
  /// message larger than the buffer completes the receive with `truncated` and is dropped whole: a
  /// receive that fails is `posted`, and its completion tells (without one, `now` alone).
  /// Parts that `match_on` leaves out are ignored; the event tells them.
  Post recv(Rank from, Tag tag, std::span<std::byte> buffer, Completion* completion = nullptr,
            void* context = nullptr, Event* now = nullptr);
  /// Takes back a posted receive, found by key and context: true: it will complete with
  /// `cancelled`, never with a message. False: it was matched already, or never posted.
  bool cancel(Rank from, Tag tag, void* context);

  /// Arrival::queue: takes the next message of whatever rank and tag; false: none now. Polls only
  /// if the queue is empty.
  [[nodiscard]] bool dequeue(Message& message);

  /// Arrival::memory: copies `data` to `offset` of the region; completes when the bytes are there.
  /// done at once for memory that weft allocated, on the same node: that can be written after its
  /// owner's death, too, until this rank hears of it (Runtime::is_dead); then puts, and gets from
  /// it, complete with `peer_died` as from any other memory.
  Post put(const fabric::MemoryKey& to, std::size_t offset, std::span<const std::byte> data,
           Completion* completion = nullptr, void* context = nullptr);
  /// The same, and then the owner's endpoint completes `at_target` with this rank and `signal`. It
  /// tells of this put alone: large ones overtake each other, and signals that had to wait for room
  /// or, where more are unanswered than `fabric.control_cells`, for this rank's progress, are told
  /// after what was sent later. Once one is told of memory that its owner serves, that rank need
  /// not progress any more for this put to complete here, nor for small ones (at most
  /// Runtime::eager_bytes) before it over the same device and endpoint. The rank that is signalled
  /// must have made its endpoint with one; whether it has, only that rank knows. If not: to this
  /// rank itself, Error(bad_argument); elsewhere the put completes with `bad_argument` and writes
  /// nothing, but for memory that is written from here (weft's, on the same node), where it is done
  /// and the signal dropped. That rank's log names endpoint and sender once, and at its end how
  /// many if there were more.
  Post put_signal(const fabric::MemoryKey& to, std::size_t offset, std::span<const std::byte> data,
                  Tag signal, Completion* completion = nullptr, void* context = nullptr);
  /// Copies from `offset` of the region into `buffer`.
  Post get(const fabric::MemoryKey& from, std::size_t offset, std::span<std::byte> buffer,
           Completion* completion = nullptr, void* context = nullptr);

  /// Arrival::matcher: sends an eager message (at most `Runtime::eager_bytes`) with its envelope
  /// over `via`, or the policy's device: done or retry.
  Post send(Rank to, const Envelope& envelope, std::span<const std::byte> data,
            Device* via = nullptr);
  /// From so many bytes on a message may be read while it is written. (Of what is shorter, to be
  /// told how far it is costs more.)
  static constexpr std::size_t kLeastFollowed = 24 << 10;
  /// The same, but never read while it is written: for a receiver that sends at the same time, and
  /// would not follow.
  Post send_written(Rank to, const Envelope& envelope, std::span<const std::byte> data,
                    Device* via = nullptr);
  /// The same for a larger one, of a few packets, while little of this kind is under way: done; or
  /// retry, and it is better announced.
  Post send_wide(Rank to, const Envelope& envelope, std::span<const std::byte> data,
                 Device* via = nullptr);
  /// Arrival::matcher: one message, of up to `Runtime::shared_bytes`, to several ranks of this node
  /// at once: it is written once, where all of them read it. Which of `to` (kMostShared at most) it
  /// went to, a bit for each place, the lowest for the first; the others (of another node, without
  /// room now, this rank itself …) are the caller's to send to.
  static constexpr std::size_t kMostShared = 64;
  uint64_t send_shared(std::span<const Rank> to, const Envelope& envelope,
                       std::span<const std::byte> data, Device* via = nullptr);
  /// Announces a message of any size, which waits here until it is fetched: posted or retry. The
  /// completion tells that the buffer may be used again. `name` (if given) is filled in before
  /// anybody can answer. `brings`: a copy of its bytes goes along, if they are no more than an
  /// eager message may have.
  Post announce(Rank to, const Envelope& envelope, std::span<const std::byte> data,
                Completion* completion, void* context, Device* via = nullptr,
                AnnouncementName* name = nullptr, bool brings = false);
  /// Brings an announced message into `buffer`: posted or retry. One that is too long for it ends
  /// with `truncated` and is dropped whole; the sender's announcement ends well.
  Post fetch(const Announcement& message, std::span<std::byte> buffer, Completion* completion,
             void* context);
  /// Instead of that, of one that brought its bytes: the sender's announcement ends well. done: it
  /// is on its way, and nobody need progress for it; or retry: then it can be fetched, too.
  Post took(const Announcement& message);
  /// Instead of either: the sender's announcement ends with `cancelled`. posted or retry.
  Post refuse(const Announcement& message);
  /// Something was answered retry: Matcher::try_again is called at each progress of `via` (or the
  /// policy's device) until it answers Tried::all. Nobody sleeps meanwhile. Any thread, never
  /// fails.
  void try_again_later(Device* via = nullptr) noexcept;

  // Blocking conveniences: retry and wait inside, progressing meanwhile; suspend a task, not a
  // core. Failures are returned in the event; a send to a rank that is known to be dead fails.

  /// Returns when the buffer is the caller's again. Above `Runtime::eager_bytes` that is only once
  /// the receiver has the message: two ranks that do so towards each other before either receives,
  /// or one towards itself, wait for ever. Who exchanges posts the receive first.
  Event send_wait(Rank to, Tag tag, std::span<const std::byte> data);
  /// Returns when the message is in `buffer`. From any rank, it waits although all others are dead:
  /// who is to come may be this rank itself.
  Event recv_wait(Rank from, Tag tag, std::span<std::byte> buffer);
  /// The same until `now_ns()` passes `deadline_ns` (base/deadline.hpp). Nothing: the time came
  /// first, the receive was taken back and `buffer` is the caller's again. A message that has met
  /// it by then is waited for.
  [[nodiscard]] std::optional<Event> recv_until(Rank from, Tag tag, std::span<std::byte> buffer,
                                                uint64_t deadline_ns);
  template <class Rep, class Period>
  [[nodiscard]] std::optional<Event> recv_for(Rank from, Tag tag, std::span<std::byte> buffer,
                                              const std::chrono::duration<Rep, Period>& time) {
    return recv_until(from, tag, buffer, base::deadline_after(time));
  }
  /// Returns the next message of the queue.
  Message dequeue_wait();
  /// The same until `now_ns()` passes `deadline_ns` (base/deadline.hpp). False: the time came
  /// first. The bytes of a large message that came in time are waited for.
  [[nodiscard]] bool dequeue_until(Message& message, uint64_t deadline_ns);
  template <class Rep, class Period>
  [[nodiscard]] bool dequeue_for(Message& message, const std::chrono::duration<Rep, Period>& time) {
    return dequeue_until(message, base::deadline_after(time));
  }
  Event put_wait(const fabric::MemoryKey& to, std::size_t offset, std::span<const std::byte> data);
  Event get_wait(const fabric::MemoryKey& from, std::size_t offset, std::span<std::byte> buffer);

  [[nodiscard]] Runtime& runtime() const noexcept;
  [[nodiscard]] uint16_t number() const noexcept;

  struct Impl;  // src/comm/endpoint_impl.hpp

 private:
  static bool wait_for_message(Impl& my, Message& message, uint64_t deadline_ns);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
