// Endpoints: making one (early binding), sending, receiving, cancelling, taking from a queue.
#include <fmt/format.h>
#include <unistd.h>

#include "comm/endpoint_impl.hpp"
#include "comm/runtime_impl.hpp"
#include "comm/users_code.hpp"
#include "weft/base/asymmetric_fence.hpp"
#include "weft/base/buffers.hpp"
#include "weft/base/copy.hpp"
#include "weft/base/small_copy.hpp"

namespace weft {

using comm::Bytes;
using comm::Header;
using comm::Operation;
using comm::PacketType;
using comm::RendezvousBody;
using comm::Work;

// --- Sending -----------------------------------------------------------------------------------

// The usual case, without a call that would have to return here: stores of saved registers count. A
// sender runs ahead of its receiver's cache lines by as many messages as its store buffer holds.
WEFT_NOT_IN_LINE Post Endpoint::send(Rank to, Tag tag, std::span<const std::byte> data,
                                     Completion* completion, void* context) {
  Impl& my = *impl_;
  const comm::ShortWay& way = my.short_way;
  if (static_cast<uint32_t>(to.value) < way.ranks && data.size() <= way.bytes &&
      data.data() != nullptr) [[likely]] {
    return way.port->try_send_short({to, way.number},
                                    comm::pack_short(way.header, tag.value, data.size()), data);
  }
  return my.send_otherwise(to, tag, data, completion, context);
}

Post Endpoint::Impl::send_otherwise(Rank to, Tag tag, std::span<const std::byte> data,
                                    Completion* completion, void* context) {
  runtime.check_rank(to);
  if (!takes_messages()) refuse_send();
  if (!fits_ring(to, data.size())) {
    return send_large(to, tag, {&data, 1}, data.size(), completion, context);
  }
  if (data.data() == nullptr && !data.empty()) refuse_null();
  Device& device = pick_device();
  const auto header = comm::pack({.type = PacketType::eager,
                                  .endpoint = number,
                                  .tag = tag.value,
                                  .bytes = static_cast<uint32_t>(data.size()),
                                  .reply_port = device.number()});
  return device.port().try_send_short({to, device.number()}, header, data);
}

WEFT_NOT_IN_LINE Post Endpoint::send_gathered(Rank to, Tag tag,
                                              std::span<const std::span<const std::byte>> pieces,
                                              Completion* completion, void* context) {
  Impl& my = *impl_;
  my.runtime.check_rank(to);
  if (!my.takes_messages()) my.refuse_send();
  std::size_t bytes = 0;
  for (const auto& piece : pieces) {
    if (piece.data() == nullptr && !piece.empty()) [[unlikely]]
      my.refuse_null();
    bytes += piece.size();
  }
  if (pieces.size() == 1) return send(to, tag, pieces[0], completion, context);
  if (!my.fits_ring(to, bytes)) {
    return my.send_large(to, tag, pieces, bytes, completion, context);
  }
  std::byte together[Runtime::Impl::kMaxInlineBytes];
  comm::gather(pieces, together);
  return send(to, tag, {together, bytes}, completion, context);
}

/// What does not fit a ring cell: a packet, or an announcement.
Post Endpoint::Impl::send_large(Rank to, Tag tag,
                                std::span<const std::span<const std::byte>> pieces,
                                std::size_t bytes, Completion* completion, void* context) {
  for (const auto& piece : pieces) {
    if (piece.data() == nullptr && !piece.empty()) refuse_null();
  }
  if (spec.buffer == Buffer::inlined) {
    throw Error(Errc::bad_argument,
                fmt::format("a message of {} bytes on an endpoint with Buffer::inlined, which "
                            "carries up to {}",
                            bytes, runtime.inline_bytes(to)));
  }
  Device& device = pick_device();
  Header header{.type = PacketType::eager,
                .endpoint = number,
                .tag = tag.value,
                .bytes = static_cast<uint32_t>(bytes),
                .reply_port = device.number()};
  if (runtime.goes_eagerly(to, bytes)) {
    if (pieces.size() == 1 && spec.arrival == Arrival::matched && runtime.opens(bytes) &&
        runtime.send_in_packets(device, to, Bytes(header).span(), pieces[0], comm::Lent::open) ==
            Post::done)
      return Post::done;
    return runtime.send_packet(device, to, Bytes(header).span(), pieces);
  }
  // Rendezvous. Pieces are gathered into memory of their own: the one copy that a list costs.
  Operation* op = spec.arrival == Arrival::handler ? runtime.allocate_request(to)
                                                   : runtime.operations->allocate();
  if (op == nullptr) return Post::retry;
  op->buffer = const_cast<std::byte*>(pieces[0].data());  // read only
  op->completion = completion != nullptr ? completion : spec.at_source;
  op->context = context;
  if (pieces.size() > 1) {
    op->buffer = base::take_buffer(bytes);
    if (op->buffer == nullptr) {
      if (op->counted) runtime.end_request(to);
      runtime.operations->release_post(*op);
      return Post::retry;
    }
    op->owns_buffer = true;
    comm::gather(pieces, op->buffer);
  }
  op->capacity = op->bytes = bytes;
  op->moved = 0;
  op->peer = to;
  op->tag = tag;
  op->endpoint = number;
  op->device = device.number();
  if (runtime.is_dead(to)) {
    op->error = Errc::peer_died;
    op->work = Work::finish;
    device.enqueue(*op);
    return Post::posted;
  }
  header.type = PacketType::ready_to_send;
  header.bytes = 0;
  const RendezvousBody body = runtime.announcement_of(*op, device);
  comm::OperationTable::expect(*op);
  const Post answer = device.port().try_send(to, device.number(), Bytes(header, body).span(), {});
  return runtime.posted_unless_refused(*op, to, device.number(), answer);
}

void Endpoint::Impl::refuse_send() const {
  throw Error(Errc::bad_argument,
              spec.arrival == Arrival::memory
                  ? "send through an endpoint made with Arrival::memory, which takes puts and gets"
                  : "send through an endpoint made with Arrival::matcher, which takes messages "
                    "with envelopes");
}

void Endpoint::Impl::refuse_null() const {
  throw Error(Errc::bad_argument, "a null buffer with a length");
}

// --- Receiving ---------------------------------------------------------------------------------

WEFT_NOT_IN_LINE Post Endpoint::recv(Rank from, Tag tag, std::span<std::byte> buffer,
                                     Completion* completion, void* context, Event* now) {
  Impl& my = *impl_;
  if (my.table == nullptr) {
    throw Error(Errc::bad_argument, "recv needs an endpoint made with Arrival::matched");
  }
  if (my.spec.match_on != MatchOn::tag) my.runtime.check_rank(from);
  if (buffer.data() == nullptr && !buffer.empty()) my.refuse_null();
  const uint64_t key = my.key(from, tag);
  uint64_t met = 0;
  Operation* op = my.runtime.operations->allocate();
  if (op == nullptr) [[unlikely]] {
    // All records wait for messages, perhaps for such as have no room before this one is taken.
    op = my.runtime.operations->allocate_for_fetch();
    if (op == nullptr) return Post::retry;
    met = my.table->take(key, comm::Side::receive);
    if (met == 0) {
      my.runtime.operations->release(*op);
      return Post::retry;
    }
  }
  op->buffer = buffer.data();
  op->capacity = buffer.size();
  op->completion = completion != nullptr ? completion : my.spec.at_target;
  op->context = context;
  op->peer = from;
  op->tag = tag;
  op->endpoint = my.number;
  op->device = my.pick_device().number();
  if (met == 0) [[likely]]
    met = my.table->access(key, comm::Side::receive, reinterpret_cast<uintptr_t>(op));
  if (met == 0) {
    // seq_cst: after inserting, look for a death; peer_down counts it, then looks at the table.
    if (my.runtime.deaths.load(std::memory_order_seq_cst) != 0) [[unlikely]] {
      my.fail_if_dead(key, op, from);
    }
    return Post::posted;
  }
  if (met == comm::MatchTable::kNoRoom) {
    my.runtime.operations->release_post(*op);
    return Post::retry;
  }
  Event event;
  if (!comm::receive_unexpected(my, *op, *reinterpret_cast<comm::Unexpected*>(met), event)) {
    return Post::posted;
  }
  if (event.error != Errc::ok && op->completion != nullptr) [[unlikely]]
    return my.tell_failure(*op, event);
  my.runtime.operations->release(*op);
  if (now != nullptr) *now = event;
  return Post::done;
}

/// A receive that met its message and failed: `done` would be read as a success.
Post Endpoint::Impl::tell_failure(Operation& op, const Event& event) {
  op.peer = event.peer;
  op.tag = event.tag;
  op.error = event.error;
  op.bytes = event.bytes;
  op.work = Work::finish;
  runtime.devices[op.device]->enqueue(op);
  return Post::posted;
}

/// A receive posted after its sender's death will never meet a message.
void Endpoint::Impl::fail_if_dead(uint64_t key, Operation* op, Rank from) {
  if (spec.match_on == MatchOn::tag || !runtime.is_dead(from)) return;
  // What the dead sent may be among what came early: see deliver_early, which looks then.
  if (runtime.endpoints[number].load(std::memory_order_seq_cst) != this &&
      runtime.opening_without(number, from) != this) {
    return;
  }
  if (table->remove(key, comm::Side::receive, reinterpret_cast<uintptr_t>(op))) {
    runtime.end_later(*op, Errc::peer_died);
  }
}

bool Endpoint::cancel(Rank from, Tag tag, void* context) {
  Impl& my = *impl_;
  if (my.table == nullptr) return false;
  const uint64_t met = my.table->remove_if(
      my.key(from, tag), comm::Side::receive,
      [](uint64_t value, const void* wanted) {
        return reinterpret_cast<const Operation*>(value)->context == wanted;
      },
      context);
  if (met == 0) return false;
  my.runtime.end_later(*reinterpret_cast<Operation*>(met), Errc::cancelled);
  return true;
}

[[noreturn]] [[gnu::cold]] static void refuse_dequeue() {
  throw Error(Errc::bad_argument, "dequeue needs an endpoint made with Arrival::queue");
}

// Message after message of one peer takes the short way; whatever else there is, the other one.
WEFT_NOT_IN_LINE bool Endpoint::dequeue(Message& message) {
  Impl& my = *impl_;
  if (my.queue == nullptr) [[unlikely]]
    refuse_dequeue();
  message.release();
  Device& device = my.pick_device();
  bool longer = false;
  if (my.queue->size_hint() == 0 &&
      device.try_short([&] { return my.take_short(device, message, longer); })) [[likely]]
    return true;
  return longer ? my.dequeue_longer(device, message) : my.dequeue_otherwise(device, message);
}

/// (lock of `device`) Takes an eager message straight from the ring, if the next is one. `longer`:
/// it is, but more than a message holds itself.
inline bool Endpoint::Impl::take_short(Device& device, Message& message, bool& longer) {
  // Older ones first. Whatever of this device's was taken from the queue is out of it for good.
  if (queue->size_hint() != 0) [[unlikely]]
    return false;
  // The frame's length is the message's: what its header says of bytes is not looked at.
  const fabric::ShortFrame frame =
      device.port().take_short({kAllButTag, eager_word}, message.inlined_);
  longer = frame.bytes == fabric::ShortFrame::kLonger;
  if (!frame) return false;
  message.source_ = frame.source;
  message.tag_ = Tag{static_cast<uint32_t>(frame.first_word >> 32)};
  message.bytes_ = frame.bytes;
  message.holds_ = Message::Holds::inlined;
  message.runtime_ = &runtime.self;
  return true;
}

bool Endpoint::Impl::dequeue_longer(Device& device, Message& message) {
  if (device.try_short([&] { return take_longer(device, message); })) return true;
  return dequeue_otherwise(device, message);
}

/// (lock of `device`) Takes such a one into a place of its own.
inline bool Endpoint::Impl::take_longer(Device& device, Message& message) {
  if (queue->size_hint() != 0) return false;  // as in take_short
  const uint32_t place = device.allocate_kept();
  if (place == comm::KeptBytes::kNone) return false;
  std::byte* const bytes = (*runtime.kept)[place];
  const fabric::ShortFrame frame =
      device.port().take_short({kAllButTag, eager_word}, {bytes, runtime.kept->bytes()});
  if (!frame) {
    device.release_kept(place);
    return false;
  }
  message.source_ = frame.source;
  message.tag_ = Tag{static_cast<uint32_t>(frame.first_word >> 32)};
  message.bytes_ = frame.bytes;
  message.holds_ = Message::Holds::kept;
  message.packet_index_ = place;
  message.place_ = bytes;
  message.runtime_ = &runtime.self;
  return true;
}

bool Endpoint::Impl::dequeue_otherwise(Device& device, Message& message) {
  if (!queue->seems_empty() && take_from_queue(message)) return true;
  if (device.row_is_over() && runtime.progress_before_row(device) != 0 && take_from_queue(message))
    return true;
  uint32_t served = device.try_progress_for(*this, message);
  device.count_in_row(served);
  if (message.runtime_ != nullptr) return true;
  if (runtime.only_device == nullptr && served == 0) served = runtime.progress_others(device);
  // What came was for others, or was put in the queue.
  return served != 0 && take_from_queue(message);
}

bool Endpoint::Impl::hand_over(Device& device, comm::Origin from,
                               std::span<const std::byte> payload, const fabric::Loan& loan) {
  // Older ones first. Whatever of this device's was taken from the queue is out of it for good.
  if (queue->size_hint() != 0) return false;
  uint32_t place = comm::KeptBytes::kNone;
  if (!loan && payload.size() > Message::kInlineBytes) {
    place = device.allocate_kept();
    if (place == comm::KeptBytes::kNone) return false;
  }
  Message& message = *device.end_wish();
  message.source_ = from.source;
  message.tag_ = from.tag;
  message.bytes_ = payload.size();
  message.runtime_ = &runtime.self;
  if (loan) {
    message.holds_ = Message::Holds::packet;
    message.place_ = payload.data();
    message.loan_owner_ = loan.owner;
    message.loan_port_ = loan.port;
    message.packet_index_ = loan.index;
  } else if (place != comm::KeptBytes::kNone) {
    message.holds_ = Message::Holds::kept;
    message.packet_index_ = place;
    message.place_ = (*runtime.kept)[place];
    base::copy_bytes((*runtime.kept)[place], payload.data(), payload.size());
  } else {
    message.holds_ = Message::Holds::inlined;
    base::small_copy(message.inlined_, payload.data(), payload.size());
  }
  return true;
}

bool Endpoint::Impl::take_from_queue(Message& message) {
  using Holds = comm::QueueEntry::Holds;
  const bool took = queue->try_pop_with([&](const comm::QueueEntry& entry) {
    message.source_ = entry.source;
    message.tag_ = entry.tag;
    message.bytes_ = entry.bytes;
    message.runtime_ = &runtime.self;
    switch (entry.holds) {
      case Holds::inlined:
        message.holds_ = Message::Holds::inlined;
        base::small_copy(message.inlined_, entry.inlined, entry.bytes);
        break;
      case Holds::kept:
        message.holds_ = Message::Holds::kept;
        message.packet_index_ = entry.kept;
        message.place_ = (*runtime.kept)[entry.kept];
        break;
      case Holds::loan:
        message.holds_ = Message::Holds::packet;
        message.place_ = entry.lent.place;
        message.loan_owner_ = entry.lent.loan.owner;
        message.loan_port_ = entry.lent.loan.port;
        message.packet_index_ = entry.lent.loan.index;
        break;
      case Holds::rendezvous:
        message.holds_ = Message::Holds::announced;
        message.bytes_ = entry.rendezvous.bytes;
        message.loan_port_ = entry.reply_port;
        message.packet_index_ = number;
        message.device_ = spec.device;
        message.announce({entry.rendezvous, spec.allocator});
        break;
    }
  });
  if (took && message.holds_ == Message::Holds::announced) message.start_transfer();
  return took;
}

// --- Blocking conveniences ---------------------------------------------------------------------

Event Endpoint::send_wait(Rank to, Tag tag, std::span<const std::byte> data) {
  Runtime::Impl& runtime = impl_->runtime;
  Event event{.peer = to, .tag = tag, .bytes = data.size()};
  runtime.check_rank(to);
  if (runtime.goes_eagerly(to, data.size())) {
    // A network may take all that is sent to the dead, and who only sends would never hear of it.
    if (runtime.has_far_ranks) [[unlikely]]
      runtime.progress_now_and_then();
    (void)runtime.until_posted_as(impl_->called("send to", to),
                                  [&] { return send(to, tag, data); });  // done: it is copied
  } else {
    event = runtime.complete_now(impl_->called("send to", to), [&](Completion& done, Event& now) {
      now = {.peer = to, .tag = tag, .bytes = data.size()};
      return send(to, tag, data, &done);
    });
  }
  // A small message to the dead goes nowhere and is done.
  if (event.error == Errc::ok && runtime.is_dead(to)) event.error = Errc::peer_died;
  return event;
}

Event Endpoint::recv_wait(Rank from, Tag tag, std::span<std::byte> buffer) {
  return impl_->runtime.complete_now(
      impl_->called("receive from", from),
      [&](Completion& done, Event& now) { return recv(from, tag, buffer, &done, nullptr, &now); });
}

std::optional<Event> Endpoint::recv_until(Rank from, Tag tag, std::span<std::byte> buffer,
                                          uint64_t deadline_ns) {
  Runtime& runtime = impl_->runtime.self;
  Synchronizer done;
  Event now;
  for (;;) {
    const Post answer = recv(from, tag, buffer, &done, &done, &now);
    if (answer == Post::done) break;
    if (answer == Post::posted) {
      if (!runtime.wait_until(done, deadline_ns)) {
        const bool taken_back = cancel(from, tag, &done);
        runtime.wait(done);  // which tells of that, too
        if (taken_back) return std::nullopt;
      }
      now = done.event();
      break;
    }
    if (base::now_ns() >= deadline_ns) return std::nullopt;
    runtime.relax();
  }
  now.context = nullptr;
  return now;
}

Message Endpoint::dequeue_wait() {
  Message message;
  (void)dequeue_until(message, base::kNoDeadline);
  return message;
}

bool Endpoint::dequeue_until(Message& message, uint64_t deadline_ns) {
  Impl& my = *impl_;
  if (my.runtime.takes_turns) my.runtime.turns.begin_wait();
  const bool got = dequeue(message) || wait_for_message(my, message, deadline_ns);
  // Progress wakes one waiter however many messages it queued, or none if it takes them itself, so
  // that those who run already can take them without a switch for each. What is left then is for
  // the next waiter, as is what came with the deadline.
  base::light_fence();  // between our take and the look for others: see WaitSet::enroll
  if (!my.queue_waiters.empty() && my.queue->size_hint() != 0) [[unlikely]]
    my.leave_others(got);
  if (got) my.runtime.self.wait(message);
  return got;
}

void Endpoint::Impl::leave_others(bool got) noexcept {
  if (got && runtime.leaves_queue(queue_waiters) && runtime.turns.may_leave()) {
    runtime.turns.leave(left);
  } else {
    queue_waiters.wake(1);
  }
  if (runtime.takes_turns) runtime.turns.end_wait();
}

bool Endpoint::wait_for_message(Impl& my, Message& message, uint64_t deadline_ns) {
  struct Wanted {
    Endpoint::Impl& my;
    Message& message;
  } wanted{my, message};
  comm::Turns& turns = my.runtime.turns;
  const bool takes = my.runtime.leaves_queue(my.queue_waiters) && comm::Turns::comes_back_soon() &&
                     turns.has_watch();
  const comm::WaitSet::Taker taker(takes ? &my.queue_waiters : nullptr);
  return my.runtime.wait_for(
      my.queue_waiters,
      [](void* argument) {
        auto& want = *static_cast<Wanted*>(argument);
        return want.message.runtime_ != nullptr || want.my.take_from_queue(want.message);
      },
      &wanted, deadline_ns);
}

// --- Making and ending -------------------------------------------------------------------------

namespace {

void check_spec(const EndpointSpec& spec) {
  const bool matched = spec.arrival == Arrival::matched;
  if (spec.arrival == Arrival::handler && spec.handler == nullptr) {
    comm::refuse("Arrival::handler needs a handler");
  }
  if (spec.arrival != Arrival::handler && spec.handler != nullptr) {
    comm::refuse(
        "a handler is called by Arrival::handler only; for completions use HandlerCompletion");
  }
  if ((spec.arrival == Arrival::matcher) != (spec.matcher != nullptr)) {
    comm::refuse("Arrival::matcher and a matcher belong together");
  }
  if (!matched && spec.match_on != MatchOn::rank_and_tag) {
    comm::refuse("match_on belongs to Arrival::matched");
  }
  if (spec.buffer == Buffer::explicit_ && !matched && spec.arrival != Arrival::memory) {
    comm::refuse(
        "Buffer::explicit_ needs receives or regions that name the buffer: Arrival::matched or "
        "Arrival::memory");
  }
  if (spec.buffer == Buffer::allocated && !matched) {
    comm::refuse(
        "Buffer::allocated belongs to Arrival::matched: queues and handlers bring their messages "
        "along (large ones in memory from the endpoint's allocator), and a put names its place");
  }
  if (spec.buffer == Buffer::inlined && spec.arrival == Arrival::memory) {
    comm::refuse("Buffer::inlined is for messages: puts and gets have no ring cell to fit");
  }
  if (spec.arrival == Arrival::queue && spec.at_target != nullptr) {
    comm::refuse("a queue is its own completion: take messages with dequeue");
  }
  if (spec.arrival == Arrival::handler && spec.at_target != nullptr) {
    comm::refuse("the handler is the completion at the target of Arrival::handler");
  }
  if (spec.arrival == Arrival::queue && spec.queue_capacity == 0) {
    comm::refuse("a queue needs room for at least one message");
  }
}

}  // namespace

/// A get, and a large put, say all that the owner has to know in one frame.
static void check_frames(std::size_t longest) {
  using Request = Bytes<Header, comm::RendezvousBody, comm::PutBody>;
  if (longest >= sizeof(Request::raw)) return;
  throw Error(Errc::bad_config,
              fmt::format("remote memory needs frames of {} bytes, and they have {}: "
                          "fabric.inline_cells is too small",
                          sizeof(Request::raw), longest));
}

Endpoint::Endpoint(Runtime& runtime, const EndpointSpec& spec) {
  comm::UsersCode::check_may_wait();  // for each device's lock
  check_spec(spec);
  Runtime::Impl& whole = runtime.impl();
  impl_ = std::make_unique<Impl>(whole, spec);
  Impl& my = *impl_;
  if (my.spec.allocator == nullptr) my.spec.allocator = &heap_allocator();
  my.inline_bytes = runtime.inline_bytes();
  my.most_inline_bytes = runtime.inline_bytes(runtime.rank());
  switch (spec.arrival) {
    case Arrival::matched:
      my.arrivals = spec.buffer == Buffer::allocated ? comm::kMatchedAllocated : comm::kMatched;
      // Room for all that can wait: memory comes on first touch.
      my.table = std::make_unique<comm::MatchTable>(
          4096, std::size_t{whole.settings.operations} + whole.settings.unexpected);
      break;
    case Arrival::queue:
      my.arrivals = comm::kQueued;
      my.queue = std::make_unique<comm::BoundedQueue<comm::QueueEntry>>(spec.queue_capacity);
      my.one_producer = whole.devices.size() == 1;
      break;
    case Arrival::handler:
      my.arrivals = comm::kHandled;
      break;
    case Arrival::memory:
      check_frames(whole.devices[0]->port().max_inline());
      [[fallthrough]];
    case Arrival::matcher:
      my.arrivals = comm::kRefused;
      break;
  }
  whole.publish(my);
}

void Endpoint::Impl::find_short_way() noexcept {
  const auto header = comm::pack({.type = PacketType::eager, .endpoint = number});
  eager_word = header.words[0];
  Device* const device = spec.device != nullptr ? spec.device : runtime.only_device;
  if (device == nullptr || !takes_messages()) return;
  short_way = {.port = &device->port(),
               .header = comm::pack(
                   {.type = PacketType::eager, .endpoint = number, .reply_port = device->number()}),
               .bytes = inline_bytes,
               .ranks = runtime.ranks_limit,
               .number = device->number()};
}

Endpoint::~Endpoint() {
  if (impl_ == nullptr) return;
  if (::getpid() != impl_->runtime.process) {  // as ~Runtime: it is the parent's
    (void)impl_.release();
    return;
  }
  comm::UsersCode::check_may_wait();
  // A note of this endpoint's in a device's list ends by being looked at.
  while (impl_->tries_asked.load(std::memory_order_acquire) != 0) impl_->runtime.self.relax();
  impl_->runtime.retire(*impl_);
}

Runtime& Endpoint::runtime() const noexcept { return impl_->runtime.self; }
uint16_t Endpoint::number() const noexcept { return impl_->number; }

}  // namespace weft
