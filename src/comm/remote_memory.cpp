// Remote memory: put, put with a signal, and get on regions.
//
// Memory that weft allocated is mapped by its peers on the same node and written directly; any
// other region is served by its owner's progress, which alone may say whether a key still holds.
#include <fmt/format.h>
#include <unistd.h>

#include "comm/endpoint_impl.hpp"
#include "comm/runtime_impl.hpp"
#include "weft/base/copy.hpp"
#include "weft/base/log.hpp"
#include "weft/base/small_copy.hpp"

namespace weft {

using comm::Bytes;
using comm::Handle;
using comm::Header;
using comm::Operation;
using comm::PacketType;
using comm::PutBody;
using comm::RendezvousBody;
using comm::Work;
using fabric::MemoryKey;
using fabric::Taken;

// --- Regions -------------------------------------------------------------------------------------

Region::Region(Runtime& runtime, std::span<std::byte> memory) : runtime_(runtime), memory_(memory) {
  if (memory.data() == nullptr && !memory.empty()) {
    throw Error(Errc::bad_argument, "a region over null with a length");
  }
  key_ = runtime.impl().transport->expose(memory);
}

Region::~Region() {
  if (::getpid() != runtime_.impl().process) return;  // as ~Runtime: it is the parent's
  runtime_.impl().transport->withdraw(key_);
}

namespace comm {
namespace {

/// What the key in `body` names here, [offset, offset + bytes) of it; nothing: bad key.
std::optional<std::span<std::byte>> resolve(Runtime::Impl& runtime, const PutBody& body,
                                            uint64_t bytes) noexcept {
  const MemoryKey key{.owner = runtime.self.rank().value,
                      .slot = body.slot,
                      .generation = body.generation,
                      .segment = body.segment,
                      .base = body.base,
                      .bytes = body.region_bytes};
  const auto region = runtime.transport->resolve(key);
  if (!region || body.offset > region->size() || bytes > region->size() - body.offset) {
    return std::nullopt;
  }
  return region->subspan(body.offset, bytes);
}

/// Tells the endpoint's at_target, which there is, of a put's signal. False: no room now.
bool tell_signal(Endpoint::Impl& endpoint, Rank source, Tag signal, std::span<std::byte> where) {
  return endpoint.spec.at_target->try_complete(
      {source, signal, Errc::ok, where.data(), where.size(), nullptr});
}

/// A signal for an endpoint that cannot tell anybody. Its sender is told if it waits for an answer;
/// where it wrote the memory itself only this side knows.
void lose_signal(Endpoint::Impl& endpoint, Rank source) {
  // relaxed: a count, and who logs.
  if (endpoint.signals_lost.fetch_add(1, std::memory_order_relaxed) != 0) return;
  base::log(base::LogLevel::warn,
            fmt::format("dropped the signal of a put from rank {} to endpoint {}, which was made "
                        "without at_target here (further ones are counted)",
                        source.value, endpoint.number));
}

/// A put with a signal is there, and answered.
bool end_told_put(Operation& over) {
  auto& owner = *static_cast<Endpoint::Impl*>(over.context);
  const bool tried = over.kind == comm::Kind::untold;
  // relaxed, all: who is untold comes back by itself, and the endpoint's end waits for us.
  const bool ending = owner.ending.load(std::memory_order_relaxed);
  const bool may_try = tried || ending || owner.untold.load(std::memory_order_relaxed) == 0;
  const bool told =
      over.error != Errc::ok ||
      (may_try && tell_signal(owner, over.peer, over.tag, {over.buffer, over.bytes})) || ending;
  if (!told) {
    if (!tried) owner.untold.fetch_add(1, std::memory_order_relaxed);
    over.kind = comm::Kind::untold;
    return false;
  }
  if (tried) owner.untold.fetch_sub(1, std::memory_order_relaxed);
  owner.end_inbound();
  return true;
}

/// Tells the signal of what is at `where`, once its sender's device got this answer (none: it wants
/// none) and those before it.
Taken answer_and_tell(Endpoint::Impl& endpoint, Device& device, const Arrived& arrived,
                      const std::optional<Handle>& theirs, std::span<std::byte> where) {
  Runtime::Impl& runtime = endpoint.runtime;
  Operation* const op =
      make_answer(runtime, arrived.source, arrived.reply_port, theirs.value_or(Handle{}), Errc::ok);
  if (op == nullptr) return Taken::hold;
  op->answers = theirs.has_value();
  op->tag = arrived.tag;
  op->buffer = where.data();
  op->bytes = op->moved = where.size();
  op->context = &endpoint;
  op->end = end_told_put;
  endpoint.inbound.fetch_add(1, std::memory_order_relaxed);  // as in announce_handler
  if (device.answer_in_order(*op)) return Taken::yes;
  op->end = nullptr;
  runtime.operations->release(*op);
  endpoint.end_inbound();
  return Taken::hold;
}

}  // namespace

// --- The owner's side (device's lock held) -----------------------------------------------------

Taken arrive_put(Endpoint::Impl& endpoint, Device& device, const Header& header,
                 const Arrived& arrived, const PutBody& body) {
  Runtime::Impl& runtime = endpoint.runtime;
  const auto target = resolve(runtime, body, arrived.payload.size());
  const bool answers = body.operation.index != kNoAnswer;
  const bool signals = target && (header.flags & kTellTarget) != 0;
  const bool tells = signals && endpoint.spec.at_target != nullptr;
  const Errc error = !target ? Errc::bad_key : signals && !tells ? Errc::bad_argument : Errc::ok;
  if (tells && endpoint.untold.load(std::memory_order_relaxed) != 0) return Taken::hold;
  if (error == Errc::ok) {
    base::small_copy(target->data(), arrived.payload.data(), arrived.payload.size());
  }
  // Held, it is offered again, and the same bytes are written again; but it is told once.
  if (tells) {
    const auto theirs = answers ? std::optional(body.operation) : std::nullopt;
    if (answer_and_tell(endpoint, device, arrived, theirs, *target) == Taken::hold)
      return Taken::hold;
  } else {
    if (answers && !device.answer(arrived.source, arrived.reply_port, body.operation, error)) {
      return Taken::hold;
    }
    if (signals) lose_signal(endpoint, arrived.source);
  }
  if (arrived.loan) device.port().give_back(arrived.loan);
  return Taken::yes;
}

Taken announce_put(Endpoint::Impl& endpoint, Device& device, const Header& header,
                   const Arrived& arrived, const RendezvousBody& from, const PutBody& body) {
  Runtime::Impl& runtime = endpoint.runtime;
  const auto target = resolve(runtime, body, from.bytes);
  const bool tells = (header.flags & kTellTarget) != 0;
  const bool is_lost = target && tells && endpoint.spec.at_target == nullptr;
  if (!target || is_lost) {
    const Errc why = is_lost ? Errc::bad_argument : Errc::bad_key;
    if (!device.answer(arrived.source, arrived.reply_port, from.operation, why)) return Taken::hold;
    if (is_lost) lose_signal(endpoint, arrived.source);
    return Taken::yes;
  }
  if (tells && endpoint.untold.load(std::memory_order_relaxed) != 0) return Taken::hold;
  Operation* op = runtime.operations->allocate_for_request();
  if (op == nullptr) return Taken::hold;
  op->buffer = target->data();
  op->capacity = target->size();
  op->completion = nullptr;
  op->kind = comm::Kind::put;
  op->context = &endpoint;
  op->endpoint = endpoint.number;
  op->end = tells ? end_told_put : OperationEnd{[](Operation&) { return true; }};
  if (tells) endpoint.inbound.fetch_add(1, std::memory_order_relaxed);  // as in announce_handler
  begin_transfer(runtime, device, *op, arrived.source, arrived.tag, arrived.reply_port, from);
  return Taken::yes;
}

Taken arrive_get(Endpoint::Impl& endpoint, Device& device, const Header& /*header*/,
                 const Arrived& arrived, const RendezvousBody& to, const PutBody& body) {
  Runtime::Impl& runtime = endpoint.runtime;
  const auto region = resolve(runtime, body, to.bytes);
  Operation* op = make_answer(runtime, arrived.source, arrived.reply_port, to.operation,
                              region ? Errc::ok : Errc::bad_key);
  if (op == nullptr) return Taken::hold;
  if (region) {
    op->buffer = region->data();
    op->capacity = op->bytes = region->size();
    op->moved = 0;
    op->endpoint = endpoint.number;
    op->remote_address = to.address;
    if (runtime.transport->can_read(arrived.source)) {
      op->work = Work::write;
    } else if (op->bytes != 0) {
      op->answers = false;  // the last fragment tells, or the peer, who reads
      op->work = op->bytes > runtime.packet_bytes ? Work::tell : Work::stream;
    }
  }
  device.start_locked(*op);
  return Taken::yes;
}

Taken arrive_signal(Endpoint::Impl& endpoint, Device& /*device*/, const Arrived& arrived) {
  if (endpoint.spec.at_target == nullptr) {
    lose_signal(endpoint, arrived.source);
    return Taken::yes;
  }
  return endpoint.untold.load(std::memory_order_relaxed) == 0 &&
                 tell_signal(endpoint, arrived.source, arrived.tag, {})
             ? Taken::yes
             : Taken::hold;
}

}  // namespace comm

// --- The caller's side -------------------------------------------------------------------------

namespace {

void check_access(const Endpoint::Impl& endpoint, const MemoryKey& key, std::size_t offset,
                  const void* buffer, std::size_t bytes) {
  if (endpoint.spec.arrival != Arrival::memory) {
    throw Error(Errc::bad_argument, "put and get need an endpoint made with Arrival::memory");
  }
  endpoint.runtime.check_rank(Rank{key.owner});
  if (offset > key.bytes || bytes > key.bytes - offset) {
    throw Error(Errc::bad_argument, "put or get beyond the end of the region");
  }
  if (buffer == nullptr && bytes != 0) {
    throw Error(Errc::bad_argument, "a null buffer with a length");
  }
}

PutBody put_body(Handle operation, const MemoryKey& key, std::size_t offset) noexcept {
  return {.operation = operation,
          .slot = key.slot,
          .generation = key.generation,
          .base = key.base,
          .region_bytes = key.bytes,
          .offset = offset,
          .segment = key.segment,
          .reserved = 0};
}

/// The record of a put or get under way. `asks`: the owner needs one, too.
Operation* make_access(Endpoint::Impl& endpoint, Device& device, const MemoryKey& key, Tag signal,
                       std::byte* buffer, std::size_t bytes, Completion* completion, void* context,
                       bool asks = true) noexcept {
  Runtime::Impl& runtime = endpoint.runtime;
  Operation* op = asks ? runtime.allocate_request(Rank{key.owner}) : runtime.operations->allocate();
  if (op == nullptr) return nullptr;
  op->buffer = buffer;
  op->capacity = op->bytes = bytes;
  op->moved = 0;
  op->completion = completion;
  op->context = context;
  op->peer = Rank{key.owner};
  op->tag = signal;
  op->endpoint = endpoint.number;
  op->device = device.number();
  return op;
}

/// Ends an operation that failed before anything was sent: told by progress.
Post fail_later(Device& device, Operation& op, Errc error) noexcept {
  op.error = error;
  op.work = Work::finish;
  device.enqueue(op);
  return Post::posted;
}

}  // namespace

Post Endpoint::Impl::post_put(const MemoryKey& key, std::size_t offset,
                              std::span<const std::byte> data, std::optional<Tag> signal,
                              Completion* completion, void* context) {
  check_access(*this, key, offset, data.data(), data.size());
  Device& device = pick_device();
  fabric::Port& port = device.port();
  const Rank owner{key.owner};
  if (signal && spec.at_target == nullptr && owner == runtime.self.rank()) [[unlikely]] {
    throw Error(Errc::bad_argument,
                fmt::format("put_signal to this rank itself through endpoint {}, which was made "
                            "without at_target: nobody would be told",
                            number));
  }
  const Tag tag = signal.value_or(Tag{});
  const uint8_t flags = signal ? comm::kTellTarget : uint8_t{0};
  auto* buffer = const_cast<std::byte*>(data.data());  // read only

  // Memory that weft allocated, on this node: written here and now.
  if (key.segment != 0 && !runtime.is_known_dead(owner)) {
    if (const auto mapped = runtime.transport->map_peer(key)) {
      if (!signal) {
        runtime.copy_ways->copy({owner, owner}, mapped->data() + offset, data.data(), data.size());
        return Post::done;
      }
      Operation* op = make_access(*this, device, key, tag, buffer, 0, completion, context, false);
      if (op == nullptr) return Post::retry;
      runtime.copy_ways->copy({owner, owner}, mapped->data() + offset, data.data(), data.size());
      const Bytes told(Header{.type = PacketType::signal,
                              .endpoint = number,
                              .tag = tag.value,
                              .reply_port = device.number()});
      if (port.try_send(owner, device.number(), told.span(), {}) != Post::retry) {
        runtime.operations->release_post(*op);
        return Post::done;
      }
      op->bytes = data.size();
      op->work = Work::signal;
      device.enqueue(*op);
      return Post::posted;
    }
  }

  Operation* op = make_access(*this, device, key, tag, buffer, data.size(), completion, context);
  if (op == nullptr) return Post::retry;
  if (runtime.is_dead(owner)) return fail_later(device, *op, Errc::peer_died);
  const Handle handle = runtime.operations->handle_of(*op);
  const PutBody body = put_body(handle, key, offset);
  Header header{.type = PacketType::put,
                .flags = flags,
                .endpoint = number,
                .tag = tag.value,
                .bytes = static_cast<uint32_t>(data.size()),
                .reply_port = device.number()};
  const bool fits_ring =
      data.size() + sizeof(Header) + sizeof(PutBody) <= port.max_inline_to(owner);
  const bool large = !fits_ring && !runtime.goes_eagerly(owner, data.size());
  RendezvousBody from{};
  if (large) {
    op->kind = comm::Kind::put;
    from = runtime.announcement_of(*op, device);
  }
  comm::OperationTable::expect(*op);  // and from here on it may be over at any time
  Post answer = Post::retry;
  if (fits_ring) {
    answer = port.try_send(owner, device.number(), Bytes(header, body).span(), data);
  } else if (!large) {
    answer = runtime.send_packet(device, owner, Bytes(header, body).span(), {&data, 1});
  } else {
    header.type = PacketType::put_large;
    answer = port.try_send(owner, device.number(), Bytes(header, from, body).span(), {});
  }
  return runtime.posted_unless_refused(*op, owner, device.number(), answer);
}

WEFT_NOT_IN_LINE Post Endpoint::put(const MemoryKey& to, std::size_t offset,
                                    std::span<const std::byte> data, Completion* completion,
                                    void* context) {
  return impl_->post_put(to, offset, data, std::nullopt,
                         completion != nullptr ? completion : impl_->spec.at_source, context);
}

WEFT_NOT_IN_LINE Post Endpoint::put_signal(const MemoryKey& to, std::size_t offset,
                                           std::span<const std::byte> data, Tag signal,
                                           Completion* completion, void* context) {
  return impl_->post_put(to, offset, data, signal,
                         completion != nullptr ? completion : impl_->spec.at_source, context);
}

WEFT_NOT_IN_LINE Post Endpoint::get(const MemoryKey& from, std::size_t offset,
                                    std::span<std::byte> buffer, Completion* completion,
                                    void* context) {
  Impl& my = *impl_;
  check_access(my, from, offset, buffer.data(), buffer.size());
  const Rank owner{from.owner};
  if (from.segment != 0 && !my.runtime.is_known_dead(owner)) {
    if (const auto mapped = my.runtime.transport->map_peer(from)) {
      base::copy_bytes(buffer.data(), mapped->data() + offset, buffer.size());
      return Post::done;
    }
  }
  Device& device = my.pick_device();
  Operation* op = make_access(my, device, from, Tag{}, buffer.data(), buffer.size(),
                              completion != nullptr ? completion : my.spec.at_source, context);
  if (op == nullptr) return Post::retry;
  if (my.runtime.is_dead(owner)) return fail_later(device, *op, Errc::peer_died);
  const Handle handle = my.runtime.operations->handle_of(*op);
  const Header header{
      .type = PacketType::get, .endpoint = my.number, .reply_port = device.number()};
  const RendezvousBody to{handle, reinterpret_cast<uintptr_t>(buffer.data()), buffer.size(),
                          fabric::ReadOffer::kNone};
  op->kind = comm::Kind::get;
  comm::OperationTable::expect(*op);
  const Post answer = device.port().try_send(
      owner, device.number(), Bytes(header, to, put_body(Handle{}, from, offset)).span(), {});
  return my.runtime.posted_unless_refused(*op, owner, device.number(), answer);
}

// Of memory that is written and read from here nobody else need hear, nor of its owner's death.
Event Endpoint::put_wait(const MemoryKey& to, std::size_t offset, std::span<const std::byte> data) {
  impl_->runtime.progress_now_and_then();
  return impl_->runtime.complete_now(impl_->called("put to", Rank{to.owner}),
                                     [&](Completion& done, Event& now) {
                                       now = {.peer = Rank{to.owner}, .bytes = data.size()};
                                       return put(to, offset, data, &done);
                                     });
}

Event Endpoint::get_wait(const MemoryKey& from, std::size_t offset, std::span<std::byte> buffer) {
  impl_->runtime.progress_now_and_then();
  return impl_->runtime.complete_now(
      impl_->called("get from", Rank{from.owner}), [&](Completion& done, Event& now) {
        now = {.peer = Rank{from.owner}, .data = buffer.data(), .bytes = buffer.size()};
        return get(from, offset, buffer, &done);
      });
}

}  // namespace weft
