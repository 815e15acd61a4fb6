// What an arriving message meets: a posted receive, a first-packet queue, or a handler. One
// function per mode, chosen when the endpoint was made. All under the progress lock.
#include "comm/endpoint_impl.hpp"
#include "comm/runtime_impl.hpp"
#include "comm/users_code.hpp"
#include "weft/base/copy.hpp"
#include "weft/base/small_copy.hpp"

namespace weft::comm {

using fabric::Loan;
using fabric::Taken;

namespace {

[[nodiscard]] uint64_t as_value(const void* record) noexcept {
  return reinterpret_cast<uintptr_t>(record);
}

/// The event of an eager message meeting a receive; the payload is copied if it fits. Allocates:
/// a receive without a buffer gets one from the endpoint's allocator.
template <bool Allocates>
Event deliver(Endpoint::Impl& endpoint, Operation& op, Rank source, Tag tag,
              std::span<const std::byte> payload, OpenPacket* open = nullptr) noexcept {
  if constexpr (Allocates) {
    if (op.buffer == nullptr) {
      op.buffer = endpoint.spec.allocator->allocate(payload.size());
      if (op.buffer == nullptr) {
        return {source, tag, Errc::no_memory, nullptr, payload.size(), op.context};
      }
      op.capacity = payload.size();
    }
  }
  Event event{source, tag, Errc::ok, op.buffer, payload.size(), op.context};
  if (payload.size() > op.capacity) [[unlikely]] {
    event.error = Errc::truncated;
  } else if (open != nullptr) [[unlikely]] {
    event.error = open->copy({op.buffer, payload.size()});
  } else {
    base::small_copy(op.buffer, payload.data(), payload.size());
  }
  return event;
}

/// Tells a receive that it is over: true, and its record may be released. False: its completion has
/// no room, it is kept pending.
inline bool told(Device& device, Operation& op, const Event& event) {
  if (op.completion == nullptr || device.tell(*op.completion, event)) [[likely]]
    return true;
  op.peer = event.peer;
  op.tag = event.tag;
  op.error = event.error;
  op.bytes = event.bytes;
  op.work = Work::finish;
  device.enqueue_locked(op);
  return false;
}

void tell(Runtime::Impl& runtime, Device& device, Operation& op, const Event& event) {
  if (told(device, op, event)) runtime.operations->release_post(op);
}

/// Where receives without a buffer get one; nullptr: they get none.
Allocator* allocator_of(const Endpoint::Impl& endpoint) noexcept {
  return endpoint.spec.buffer == Buffer::allocated ? endpoint.spec.allocator : nullptr;
}

/// The bytes of an unexpected eager message.
std::span<const std::byte> payload_of(Runtime::Impl& runtime, const Unexpected& record) noexcept {
  switch (record.holds) {
    case Unexpected::Holds::inlined:
      return {record.inlined, record.bytes};
    case Unexpected::Holds::kept:
      return {(*runtime.kept)[record.kept], record.bytes};
    case Unexpected::Holds::loan:
      return {record.lent.place, record.bytes};
    case Unexpected::Holds::rendezvous:
      break;
  }
  return {};
}

}  // namespace

static bool fill_unexpected(Runtime::Impl& runtime, Device& device, Unexpected& record, Origin from,
                            std::span<const std::byte> payload, const Loan& loan) {
  record.source = from.source;
  record.tag = from.tag;
  record.bytes = static_cast<uint32_t>(payload.size());
  if (loan) {
    record.holds = Unexpected::Holds::loan;
    record.lent.place = payload.data();
    record.lent.loan = loan;
  } else if (payload.size() <= Unexpected::kInlineBytes) {
    record.holds = Unexpected::Holds::inlined;
    base::small_copy(record.inlined, payload.data(), payload.size());
  } else {
    const uint32_t place = device.allocate_kept();
    if (place == KeptBytes::kNone) return false;
    record.holds = Unexpected::Holds::kept;
    record.kept = place;
    base::copy_bytes((*runtime.kept)[place], payload.data(), payload.size());
  }
  return true;
}

void release_unexpected(Runtime::Impl& runtime, Unexpected& record) {
  if (record.holds == Unexpected::Holds::kept) {
    runtime.kept->release(record.kept);
  } else if (record.holds == Unexpected::Holds::loan) {
    runtime.devices[0]->port().give_back(record.lent.loan);
  }
  runtime.unexpected->release(record);
}

/// A run, where nothing is gained by looking at it as a whole.
template <Taken (*Inlined)(Endpoint::Impl&, Device&, Origin, std::span<const std::byte>)>
static uint32_t arrive_each(Endpoint::Impl& endpoint, Device& device, Origin from,
                            const fabric::ShortRun& run) {
  uint32_t taken = 0;
  while (taken < run.count &&
         Inlined(endpoint, device, from, run.pieces[taken].payload) == Taken::yes) {
    ++taken;
  }
  return taken;
}

// --- Matched -------------------------------------------------------------------------------------

namespace {

constexpr Loan kNoLoan;

template <bool Allocates>
[[gnu::noinline]] Taken keep_unexpected(Endpoint::Impl& endpoint, Device& device, Origin from,
                                        std::span<const std::byte> payload, const Loan& loan) {
  Runtime::Impl& runtime = endpoint.runtime;
  const uint64_t key = endpoint.key(from.source, from.tag);
  // Unexpected: it must be kept, or be left in the ring until there is room.
  Unexpected* record = device.allocate_unexpected();
  if (record == nullptr) return Taken::hold;
  if (!fill_unexpected(runtime, device, *record, from, payload, loan)) {
    device.release_unexpected(*record);
    return Taken::hold;
  }
  const uint64_t met = endpoint.table->access(key, Side::arrival, as_value(record));
  if (met == 0) {
    device.count(Device::unexpected);
    return Taken::yes;
  }
  if (met == MatchTable::kNoRoom) {
    if (record->holds == Unexpected::Holds::kept) device.release_kept(record->kept);
    device.release_unexpected(*record);
    return Taken::hold;
  }
  // A receive was posted between the two looks.
  auto& op = *reinterpret_cast<Operation*>(met);
  const Event event =
      deliver<Allocates>(endpoint, op, record->source, record->tag, payload_of(runtime, *record));
  release_unexpected(runtime, *record);
  tell(runtime, device, op, event);
  return Taken::yes;
}

template <bool Allocates>
inline Taken meet_receive(Endpoint::Impl& endpoint, Device& device, Origin from,
                          std::span<const std::byte> payload, const Loan& loan,
                          OpenPacket* open = nullptr) {
  Runtime::Impl& runtime = endpoint.runtime;
  const uint64_t key = endpoint.key(from.source, from.tag);
  if (const uint64_t met = endpoint.table->take(key, Side::arrival); met != 0) [[likely]] {
    auto& op = *reinterpret_cast<Operation*>(met);
    const Event event = deliver<Allocates>(endpoint, op, from.source, from.tag, payload, open);
    if (loan) device.port().give_back(loan);
    tell(runtime, device, op, event);
    return Taken::yes;
  }
  if (open != nullptr && !open->is_whole()) return Taken::hold;  // what is kept is whole
  return keep_unexpected<Allocates>(endpoint, device, from, payload, loan);
}

template <bool Allocates>
Taken arrive_matched(Endpoint::Impl& endpoint, Device& device, Origin from,
                     std::span<const std::byte> payload) {
  return meet_receive<Allocates>(endpoint, device, from, payload, kNoLoan);
}

/// All the receives that wait for a run are taken together.
template <bool Allocates>
uint32_t arrive_matched_run(Endpoint::Impl& endpoint, Device& device, Origin from,
                            const fabric::ShortRun& run) {
  uint64_t met[fabric::ShortRun::kMost];
  const uint64_t key = endpoint.key(from.source, from.tag);
  OperationTable::Releases over(*endpoint.runtime.operations);
  const uint32_t receives = endpoint.table->take_run(key, Side::arrival, {met, run.count});
  for (uint32_t i = 0; i < receives; ++i) {
    auto& op = *reinterpret_cast<Operation*>(met[i]);
    const Event event =
        deliver<Allocates>(endpoint, op, from.source, from.tag, run.pieces[i].payload);
    if (told(device, op, event)) over.add(op);
  }
  uint32_t taken = receives;
  while (taken < run.count &&
         keep_unexpected<Allocates>(endpoint, device, from, run.pieces[taken].payload, kNoLoan) ==
             Taken::yes) {
    ++taken;
  }
  return taken;
}

template <bool Allocates>
Taken arrive_matched_eager(Endpoint::Impl& endpoint, Device& device, const Arrived& arrived) {
  return meet_receive<Allocates>(endpoint, device, {arrived.source, arrived.tag}, arrived.payload,
                                 arrived.loan, arrived.open);
}

Taken announce_matched(Endpoint::Impl& endpoint, Device& device, const Arrived& arrived,
                       const RendezvousBody& body) {
  Runtime::Impl& runtime = endpoint.runtime;
  const uint64_t key = endpoint.key(arrived.source, arrived.tag);
  const auto begin = [&](uint64_t met) {
    begin_transfer(runtime, device, *reinterpret_cast<Operation*>(met), arrived.source, arrived.tag,
                   arrived.reply_port, body, allocator_of(endpoint));
    return Taken::yes;
  };
  // What a receive waits for needs no record, of which there may be none.
  if (const uint64_t met = endpoint.table->take(key, Side::arrival); met != 0) return begin(met);
  Unexpected* record = device.allocate_unexpected();
  if (record == nullptr) return Taken::hold;
  record->source = arrived.source;
  record->tag = arrived.tag;
  record->reply_port = arrived.reply_port;
  record->holds = Unexpected::Holds::rendezvous;
  record->rendezvous = body;
  const uint64_t met = endpoint.table->access(key, Side::arrival, as_value(record));
  if (met == 0) {
    device.count(Device::unexpected);
    return Taken::yes;
  }
  device.release_unexpected(*record);
  return met == MatchTable::kNoRoom ? Taken::hold : begin(met);
}

}  // namespace

const Arrivals kMatched{arrive_matched<false>, arrive_matched_run<false>,
                        arrive_matched_eager<false>, announce_matched};
const Arrivals kMatchedAllocated{arrive_matched<true>, arrive_matched_run<true>,
                                 arrive_matched_eager<true>, announce_matched};

bool receive_unexpected(Endpoint::Impl& endpoint, Operation& op, Unexpected& record, Event& event) {
  Runtime::Impl& runtime = endpoint.runtime;
  if (record.holds == Unexpected::Holds::rendezvous) {
    const Unexpected announced = record;
    runtime.unexpected->release(record);
    begin_transfer(runtime, *runtime.devices[op.device], op, announced.source, announced.tag,
                   announced.reply_port, announced.rendezvous, allocator_of(endpoint));
    return false;
  }
  const auto payload = payload_of(runtime, record);
  event = endpoint.spec.buffer == Buffer::allocated
              ? deliver<true>(endpoint, op, record.source, record.tag, payload)
              : deliver<false>(endpoint, op, record.source, record.tag, payload);
  release_unexpected(runtime, record);
  return true;
}

// --- Queue: the first packet goes to whoever asks ----------------------------------------------

namespace {

inline Taken put_in_queue(Endpoint::Impl& endpoint, Device& device, Origin from,
                          std::span<const std::byte> payload, const Loan& loan) {
  if (device.wishes_from(endpoint) && endpoint.hand_over(device, from, payload, loan)) {
    return Taken::yes;
  }
  Runtime::Impl& runtime = endpoint.runtime;
  uint32_t place = KeptBytes::kNone;
  if (!loan && payload.size() > QueueEntry::kInlineBytes) {
    place = device.allocate_kept();
    if (place == KeptBytes::kNone) return Taken::hold;
    base::copy_bytes((*runtime.kept)[place], payload.data(), payload.size());
  }
  const bool pushed = endpoint.push([&](QueueEntry& entry) {
    entry.source = from.source;
    entry.tag = from.tag;
    entry.bytes = static_cast<uint32_t>(payload.size());
    if (loan) {
      entry.holds = QueueEntry::Holds::loan;
      entry.lent.place = payload.data();
      entry.lent.loan = loan;
    } else if (place != KeptBytes::kNone) {
      entry.holds = QueueEntry::Holds::kept;
      entry.kept = place;
    } else {
      entry.holds = QueueEntry::Holds::inlined;
      base::small_copy(entry.inlined, payload.data(), payload.size());
    }
  });
  if (!pushed) {
    if (place != KeptBytes::kNone) device.release_kept(place);
    return Taken::hold;
  }
  device.note_queued(endpoint.queue_waiters);
  return Taken::yes;
}

Taken arrive_queue(Endpoint::Impl& endpoint, Device& device, Origin from,
                   std::span<const std::byte> payload) {
  return put_in_queue(endpoint, device, from, payload, kNoLoan);
}

Taken arrive_queue_eager(Endpoint::Impl& endpoint, Device& device, const Arrived& arrived) {
  return put_in_queue(endpoint, device, {arrived.source, arrived.tag}, arrived.payload,
                      arrived.loan);
}

Taken announce_queue(Endpoint::Impl& endpoint, Device& device, const Arrived& arrived,
                     const RendezvousBody& body) {
  const bool pushed = endpoint.push([&](QueueEntry& entry) {
    entry.source = arrived.source;
    entry.tag = arrived.tag;
    entry.bytes = 0;
    entry.reply_port = arrived.reply_port;
    entry.holds = QueueEntry::Holds::rendezvous;
    entry.rendezvous = body;
  });
  if (!pushed) return Taken::hold;
  device.note_queued(endpoint.queue_waiters);
  return Taken::yes;
}

}  // namespace

const Arrivals kQueued{arrive_queue, arrive_each<arrive_queue>, arrive_queue_eager, announce_queue};

// --- Handler (active message) ------------------------------------------------------------------

namespace {

void call_handler(const Endpoint::Impl& endpoint, const Incoming& message) noexcept {
  const UsersCode here(endpoint.number);
  try {
    endpoint.spec.handler(endpoint.spec.handler_argument, message);
  } catch (...) {
    users_code_threw(endpoint.number);
  }
}

Taken arrive_handler(Endpoint::Impl& endpoint, Device& /*device*/, Origin from,
                     std::span<const std::byte> payload) {
  call_handler(endpoint, {from.source, from.tag, payload});
  return Taken::yes;
}

Taken arrive_handler_eager(Endpoint::Impl& endpoint, Device& device, const Arrived& arrived) {
  call_handler(endpoint, {arrived.source, arrived.tag, arrived.payload});
  if (arrived.loan) device.port().give_back(arrived.loan);
  return Taken::yes;
}

Taken announce_handler(Endpoint::Impl& endpoint, Device& device, const Arrived& arrived,
                       const RendezvousBody& body) {
  Runtime::Impl& runtime = endpoint.runtime;
  Operation* op = runtime.operations->allocate_for_request();
  if (op == nullptr) return Taken::hold;
  std::byte* buffer = endpoint.spec.allocator->allocate(body.bytes);
  if (buffer == nullptr) {
    runtime.operations->release(*op);
    return Taken::hold;
  }
  op->buffer = buffer;
  op->capacity = body.bytes;
  op->completion = nullptr;
  op->context = &endpoint;
  op->endpoint = endpoint.number;
  op->end = [](Operation& over) {
    auto& owner = *static_cast<Endpoint::Impl*>(over.context);
    Incoming message{over.peer, over.tag, {over.buffer, over.bytes}, over.error};
    if (over.error != Errc::ok) message.data = {};
    call_handler(owner, message);
    owner.spec.allocator->release(over.buffer, over.capacity);
    owner.end_inbound();
    return true;
  };
  endpoint.inbound.fetch_add(1, std::memory_order_relaxed);  // seen by unpublish: device's lock
  begin_transfer(runtime, device, *op, arrived.source, arrived.tag, arrived.reply_port, body);
  return Taken::yes;
}

}  // namespace

const Arrivals kHandled{arrive_handler, arrive_each<arrive_handler>, arrive_handler_eager,
                        announce_handler};

// --- Memory endpoints take no messages ---------------------------------------------------------

namespace {

Taken arrive_refused(Endpoint::Impl& endpoint, Device& device, Origin from,
                     std::span<const std::byte> /*payload*/) {
  device.note_refused(endpoint, from.source);
  return Taken::yes;
}

Taken arrive_refused_eager(Endpoint::Impl& endpoint, Device& device, const Arrived& arrived) {
  device.note_refused(endpoint, arrived.source);
  if (arrived.loan) device.port().give_back(arrived.loan);
  return Taken::yes;
}

Taken announce_refused(Endpoint::Impl& endpoint, Device& device, const Arrived& arrived,
                       const RendezvousBody& body) {
  if (!device.answer(arrived.source, arrived.reply_port, body.operation, Errc::bad_argument))
    return Taken::hold;
  device.note_refused(endpoint, arrived.source);
  return Taken::yes;
}

}  // namespace

const Arrivals kRefused{arrive_refused, arrive_each<arrive_refused>, arrive_refused_eager,
                        announce_refused};

}  // namespace weft::comm
