// Large messages: announced (RTS), then copied once by the receiver, or sent in fragments when it
// asks (RTR), then acknowledged (finished). 000 §3.3, Alg. 3.3.
//
// All of it runs under the progress lock of the device that carries the operation. An operation
// takes a turn at a time, so that many transfers share and none stalls small messages.
#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "comm/endpoint_impl.hpp"
#include "comm/runtime_impl.hpp"
#include "fabric/cma.hpp"
#include "weft/base/log.hpp"

namespace weft {

using comm::Header;
using comm::Operation;
using comm::PacketType;
using comm::Work;

namespace comm {

void begin_transfer(Runtime::Impl& runtime, Device& device, Operation& op, Rank source, Tag tag,
                    uint16_t reply_port, const RendezvousBody& body, Allocator* allocator) {
  op.peer = source;
  op.tag = tag;
  op.device = device.number();
  op.reply_port = reply_port;
  op.bytes = body.bytes;
  op.moved = 0;
  op.read_failed = false;
  op.remote = body.operation;
  op.remote_address = body.address;
  op.answers = true;
  if (allocator != nullptr && op.buffer == nullptr) {
    op.buffer = allocator->allocate(body.bytes);
    if (op.buffer != nullptr) op.capacity = body.bytes;
  }
  if (body.bytes > op.capacity) {
    // Dropped whole; the sender is told that it is over.
    op.error = op.buffer == nullptr && allocator != nullptr ? Errc::no_memory : Errc::truncated;
    op.work = Work::answer;
  } else if (body.bytes == 0) {
    op.work = Work::answer;  // an announced message may be empty
  } else {
    op.claims = nullptr;
    const bool offered = body.key != fabric::ReadOffer::kNone;
    op.work = !runtime.transport->can_read(source) ? offered ? Work::fetch : Work::ask
              : body.bytes >= runtime.settings.share_bytes && source != runtime.self.rank()
                  ? Work::share
                  : Work::read;
  }
  if (op.work == Work::fetch) begin_fetch(op, body.key);
  device.enqueue(op);
}

void begin_fetch(Operation& op, uint64_t key) noexcept {
  op.work = Work::fetch;
  op.remote_key = key;
  op.moved = 0;
  op.reads = 0;
  op.read_failed = false;
}

}  // namespace comm

/// One turn of a pending operation; true: it is over, or waits for the peer, and left the list.
bool Device::step(Operation& op) {
  switch (op.work) {
    case Work::read:
      if (!read_chunk(op)) return false;
      [[fallthrough]];
    case Work::answer:
      return end_and_answer(op);
    case Work::share:
      return share_chunk(op) && end_and_answer(op);
    case Work::help:
      return help_copy(op);
    case Work::fetch:
      return fetch(op);
    case Work::write:
      return write_chunk(op) && end_and_answer(op);
    case Work::stream:
      return stream_fragments(op) && (op.kind == comm::Kind::put ? await_end(op) : finish(op));
    case Work::ask:
      return send_request(op);
    case Work::tell:
      return tell_readable(op);
    case Work::signal:
      return send_signal(op) && finish(op);
    case Work::finish:
      return finish(op);
    case Work::attempt: {
      const Tried tried = comm::try_again(*static_cast<Endpoint::Impl*>(op.context));
      tried_some_ |= tried == Tried::some;
      return tried == Tried::all;
    }
    case Work::deaths:
    case Work::none:
      break;
  }
  WEFT_CHECK(false, "a pending operation has no work");
}

/// Once an operation: it fails with that.
void Device::tell_missing_memory(const Operation& op) noexcept {
  try {
    base::log(base::LogLevel::warn, fmt::format("{}, in the buffer of a message, put or get of {} "
                                                "bytes between it and rank {}: was it freed "
                                                "too early, or is it shorter than was said?",
                                                fabric::last_missing(), op.bytes, op.peer.value));
  } catch (const std::exception&) {  // no memory: then not
  }
}

bool Device::read_chunk(Operation& op) {
  const uint64_t chunk =
      std::min<uint64_t>(op.bytes - op.moved, runtime_.settings.copy_chunk_bytes);
  const Errc error = runtime_.transport->read_memory(op.peer, op.remote_address + op.moved,
                                                     {op.buffer + op.moved, chunk});
  op.moved += chunk;
  if (error != Errc::ok) {
    op.error = error;
    if (error == Errc::bad_memory) tell_missing_memory(op);
  } else if (op.moved < op.bytes) {
    return false;
  }
  op.work = Work::answer;
  return true;
}

bool Device::write_chunk(Operation& op) {
  const uint64_t chunk =
      std::min<uint64_t>(op.bytes - op.moved, runtime_.settings.copy_chunk_bytes);
  const Errc error = runtime_.transport->write_memory(op.peer, op.remote_address + op.moved,
                                                      {op.buffer + op.moved, chunk});
  op.moved += chunk;
  if (error != Errc::ok) {
    op.error = error;
    if (error == Errc::bad_memory) tell_missing_memory(op);
  } else if (op.moved < op.bytes) {
    return false;
  }
  op.work = Work::answer;
  return true;
}

/// What one read of it brings, at most: each is a request and an answer, so short ones are dear;
/// and others' messages come in between.
static uint64_t piece_of(const Operation& op) noexcept {
  constexpr uint64_t kPieceBytes = 1 << 20;
  return std::min<uint64_t>(op.bytes, kPieceBytes);
}

/// Reads the next piece of what is offered, if there is room for it beside others: posted. Done:
/// this rank cannot.
Post Device::read_piece(Operation& op) {
  constexpr uint64_t kMostBytesAtOnce = 4 << 20;
  const uint64_t piece = piece_of(op);
  if (reads_ != 0 && bytes_read_ + piece > kMostBytesAtOnce) return Post::retry;
  const uint64_t size = std::min(op.bytes - op.moved, piece);
  const Post answer =
      port_->try_read({op.peer, op.reply_port}, op.remote_address, op.remote_key, op.moved,
                      {op.buffer + op.moved, size}, reinterpret_cast<uintptr_t>(&op));
  if (answer == Post::posted) {
    ++op.reads;
    ++reads_;
    bytes_read_ += piece;
    op.moved += size;
  }
  return answer;
}

/// Begins to read what is offered, half of what a device may read at once, so that a peer who does
/// not answer leaves the others theirs. True: it is over, or goes on when a read of its own has
/// ended, or in its turn: who gets no room waits in line, and whoever comes later behind him. A
/// read fails with its connection; then all of it is sent.
bool Device::fetch(Operation& op) {
  constexpr uint16_t kMostPieces = 2;
  op.work = Work::none;
  while (!op.read_failed && op.moved < op.bytes && op.reads < kMostPieces) {
    // Where nothing is being read, one from the line is being tried again and again, as this is.
    const bool may_try = fetches_ == nullptr || reads_ == 0;
    const Post answer = may_try ? read_piece(op) : Post::retry;
    if (answer == Post::posted) continue;
    if (answer == Post::done) return send_request(op);
    if (op.reads != 0) return true;
    if (reads_ == 0) {
      op.work = Work::fetch;  // no end of a read will tell
      return false;
    }
    op.next = nullptr;
    *fetches_end_ = &op;
    fetches_end_ = &op.next;
    return true;
  }
  if (op.reads != 0) return true;
  if (!op.read_failed) {
    op.work = Work::answer;
    return step(op);
  }
  op.moved = 0;
  return send_request(op);
}

/// A read has ended: those first in line have the next, a piece each, as far as there is room.
void Device::fetch_next() {
  while (fetches_ != nullptr) {
    Operation& first = *fetches_;
    const Post answer = read_piece(first);
    if (answer == Post::retry && reads_ != 0) return;
    fetches_ = first.next;
    if (fetches_ == nullptr) fetches_end_ = &fetches_;
    if (answer == Post::retry) {
      first.work = Work::fetch;  // as above; what it gets in the end is followed by the others
      enqueue_locked(first);
      return;
    }
    if (!(answer == Post::done ? send_request(first) : fetch(first))) enqueue_locked(first);
  }
}

void Device::on_read(uint64_t token, bool ok) {
  auto& op = *reinterpret_cast<Operation*>(token);
  --op.reads;
  --reads_;
  bytes_read_ -= piece_of(op);
  op.read_failed |= !ok;
  fetch_next();
  if (!fetch(op)) enqueue_locked(op);
}

/// Of what a get wants: lets the peer read it, or else sends it.
bool Device::tell_readable(Operation& op) {
  const comm::Handle theirs = op.remote;
  const comm::RendezvousBody offer = runtime_.announcement_of(op, *this);
  op.work = Work::stream;
  if (!op.offered || runtime_.is_dead(op.peer)) return step(op);
  const comm::Bytes readable(Header{.type = PacketType::readable, .reply_port = number_}, theirs,
                             offer);
  op.work = Work::none;
  comm::OperationTable::expect(op);
  if (port_->try_control(op.peer, op.reply_port, readable.span()) != Post::retry) return true;
  if (!comm::OperationTable::claim(op)) return true;
  runtime_.withdraw_offer(op, false);
  op.work = Work::tell;
  return false;
}

/// Asks the sender for fragments; from then on they are counted by receive_fragment.
bool Device::send_request(Operation& op) {
  const comm::Bytes request(Header{.type = PacketType::ready_to_receive,
                                   .flags = op.read_failed ? comm::kReadFailed : uint8_t{0},
                                   .reply_port = number_},
                            op.remote, runtime_.operations->handle_of(op));
  if (runtime_.is_dead(op.peer)) {
    // The sweep of its operations is over, and nobody answers.
    op.error = Errc::peer_died;
    op.answers = false;
    return finish(op);
  }
  op.work = Work::none;
  comm::OperationTable::expect(op);
  if (port_->try_control(op.peer, op.reply_port, request.span()) != Post::retry) return true;
  if (!comm::OperationTable::claim(op)) return true;
  op.work = Work::ask;
  return false;
}

void Device::receive_fragment(const fabric::Frame& frame, const comm::DataBody& body) {
  Operation* op = runtime_.operations->find(body.operation, frame.source, number_);
  if (Operation* const shared = op != nullptr ? nullptr
                                              : runtime_.operations->find_welcoming(
                                                    body.operation, frame.source, number_);
      shared != nullptr) {
    receive_share(*shared, frame.packet, body.offset);
  } else if (op == nullptr || body.offset > op->bytes ||
             frame.packet.size() > op->bytes - body.offset) {
    count(op == nullptr ? late : malformed);
    // Perhaps of a share that is over: who sent it is there.
    const auto source = static_cast<std::size_t>(frame.source.value);
    if (op == nullptr && source < shares_.size() && shares_[source] != nullptr)
      shares_[source]->unheard = 0;
  } else {
    received_.copy(op->buffer + body.offset, frame.packet.data(), frame.packet.size());
    op->moved += frame.packet.size();
    if (op->moved == op->bytes && comm::OperationTable::claim(*op)) {
      op->answers = op->kind == comm::Kind::put;  // of others the sender knows: it sent all
      op->work = Work::answer;
      if (!step(*op)) enqueue_locked(*op);
    }
  }
  if (frame.loan) port_->give_back(frame.loan);
}

/// Sends a few fragments, each in a packet of its own; true once all are under way.
bool Device::stream_fragments(Operation& op) {
  if (runtime_.is_dead(op.peer)) {
    op.error = Errc::peer_died;
    return true;
  }
  for (uint32_t i = 0; i < kFragmentsPerTurn && op.moved < op.bytes; ++i) {
    const uint64_t size = std::min<uint64_t>(op.bytes - op.moved, runtime_.packet_bytes);
    if (!may_stream() || !send_fragment(op, op.moved, static_cast<uint32_t>(size))) return false;
    op.moved += size;
  }
  return op.moved == op.bytes;
}

/// What could not be read may not be there any more: then its reader is told, as we are.
void Device::refuse_if_freed(Operation& op) {
  const std::byte* const missing = fabric::first_unreadable({op.buffer, op.bytes});
  if (missing == nullptr) return;
  base::log(base::LogLevel::warn,
            fmt::format("what rank {} gets from here, {} bytes at {}, cannot be read from byte {} "
                        "on: was it freed too early?",
                        op.peer.value, op.bytes, fmt::ptr(op.buffer), missing - op.buffer));
  op.error = Errc::bad_memory;
  op.answers = true;
  op.work = Work::answer;
}

bool Device::may_stream() const noexcept {
  // relaxed: a budget.
  return runtime_.streaming_packets.load(std::memory_order_relaxed) < runtime_.most_streaming;
}

/// Sends a part of the buffer, in a packet. False: there is no room, and nothing happened.
bool Device::send_fragment(const Operation& op, uint64_t offset, uint32_t size) {
  const fabric::PacketPart part = runtime_.take_packet(size, runtime_.transport->is_far(op.peer));
  if (part.index == base::SlotPool::kNone) return false;
  comm::PacketStates& states = *runtime_.packet_states;
  runtime_.copy_ways->copy({states.exchange_reader(part, runtime_.packet_bytes, op.peer), op.peer},
                           runtime_.packet(part.index) + part.offset, op.buffer + offset, size);
  const comm::Bytes header(Header{.type = PacketType::data, .endpoint = op.endpoint, .bytes = size},
                           comm::DataBody{op.remote, offset});
  states.streams(part.index);
  runtime_.streaming_packets.fetch_add(1, std::memory_order_relaxed);
  if (port_->try_send_packet(op.peer, op.reply_port, header.span(), part) != Post::retry)
    return true;
  states.reset(part.index);
  states.not_read(part.index);
  runtime_.streaming_packets.fetch_sub(1, std::memory_order_relaxed);
  runtime_.packets->free(part.index);
  return false;
}

/// All of a put was sent: it is over when it is there.
bool Device::await_end(Operation& op) {
  if (op.error != Errc::ok) return finish(op);
  op.work = Work::none;
  comm::OperationTable::expect(op);  // whose death stream_fragments did not see is swept later
  return true;
}

/// All is there. Its peer is told first.
bool Device::end_and_answer(Operation& op) { return op.answers ? answer_in_order(op) : finish(op); }

bool Device::send_finished(Rank to, uint16_t reply_port, comm::Handle theirs, Errc error) noexcept {
  const comm::Bytes answer(
      Header{.type = PacketType::finished, .flags = wire_error(error), .reply_port = number_},
      theirs);
  return port_->try_control(to, reply_port, answer.span()) != Post::retry;
}

/// A receiver's want of room is its own affair: the sender's operation went well.
uint8_t Device::wire_error(Errc error) noexcept {
  const bool own = error == Errc::truncated || error == Errc::no_memory;
  return static_cast<uint8_t>(own ? Errc::ok : error);
}

bool Device::send_signal(Operation& op) {
  const comm::Bytes signal(Header{.type = PacketType::signal,
                                  .endpoint = op.endpoint,
                                  .tag = op.tag.value,
                                  .reply_port = number_});
  if (port_->try_send(op.peer, number_, signal.span(), {}) == Post::retry) return false;
  op.work = Work::finish;
  return true;
}

bool Device::finish(Operation& op) {
  op.work = Work::finish;
  if (std::exchange(op.counted, false)) runtime_.end_request(op.peer);
  // Whoever is told that it is over may do with the buffer what they like. The dead may not be so.
  runtime_.withdraw_offer(op, op.error == Errc::peer_died);
  if (op.end != nullptr ? !op.end(op)
                        : op.completion != nullptr && !op.completion->try_complete(op.event())) {
    return false;
  }
  op.end = nullptr;
  runtime_.operations->release(op);
  return true;
}

}  // namespace weft
