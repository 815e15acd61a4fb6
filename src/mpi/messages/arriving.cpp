// Messages that arrive: in order, to the receive that waits, or kept until it comes.
#include <cstring>
#include <mutex>

#include "mpi/messages/combining.hpp"
#include "mpi/messages/engine.hpp"
#include "weft/base/buffers.hpp"
#include "weft/base/cache_line.hpp"

namespace weft::mpi {

namespace {

constexpr int64_t kRecordBytes = sizeof(Arrived);

Plane plane_of(const Envelope& envelope) noexcept {
  return (envelope.kind & kCollective) != 0 ? Plane::collective : Plane::program;
}

/// Bytes come to where they are to lie, in the order in which they come.
bool lands(const Transfer& receive) noexcept {
  return receive.kind == 0 && receive.type->contiguous();
}

std::span<const std::byte> payload_of(const Arrived& message) noexcept {
  return {message.holds == Arrived::Holds::heap      ? message.heap
          : message.holds == Arrived::Holds::brought ? message.brought
                                                     : message.inlined,
          message.bytes};
}

}  // namespace

// --- Ends of receives ----------------------------------------------------------------------------

/// Says whose message it is.
static void note_source(Transfer& transfer, Rank source, int tag, int64_t bytes) noexcept {
  Outcome& outcome = transfer.outcome;
  if (transfer.process == kAnySource) outcome.source = transfer.channel->group->rank_of(source);
  outcome.tag = tag;
  outcome.bytes = bytes;
}

/// Puts a message where its receive wants it: all that is left is to count it and to end. Returns
/// its bytes.
inline std::size_t Engine::put_down(Transfer& transfer, Rank source, int tag,
                                    const Payload& payload) {
  std::size_t bytes = payload.size();
  note_source(transfer, source, tag, static_cast<int64_t>(bytes));
  if (bytes > static_cast<std::size_t>(transfer.capacity)) [[unlikely]] {
    transfer.outcome.error = MPI_ERR_TRUNCATE;
    transfer.outcome.bytes = transfer.capacity;
    bytes = static_cast<std::size_t>(transfer.capacity);
  }
  Errc error = Errc::ok;
  if (lands(transfer)) [[likely]] {
    error = payload.copy({transfer.buffer, bytes});
  } else if (transfer.kind == Transfer::kCombines) {
    Combiner combiner(*transfer.combining, transfer.buffer);
    error = payload.hand_out(bytes, combiner);
    if (error == Errc::ok) transfer.channel->counts.add(ChannelCount::combined);
  } else if (const auto whole = payload.whole(error); error == Errc::ok) {
    transfer.type->unpack(transfer.buffer, transfer.count, 0, whole.first(bytes));
  }
  if (error != Errc::ok) [[unlikely]]
    transfer.outcome.error = error_class_of(error);
  return bytes;
}

inline void Engine::deliver(Transfer& transfer, Rank source, int tag, const Payload& payload,
                            bool waited) {
  const std::size_t bytes = put_down(transfer, source, tag, payload);
  transfer.channel->counts.note_received(1, bytes, waited);
  transfer.end();
}

void Engine::begin_fetch(Transfer& transfer, const Announcement& message) {
  std::byte* into = transfer.buffer;
  // Too long for its receive: the core drops it, and the sender is told that it went well.
  const bool fits = message.bytes <= static_cast<uint64_t>(transfer.capacity);
  auto room = fits ? static_cast<std::size_t>(message.bytes) : 0;
  if (fits && !lands(transfer)) {
    into = transfer.packed = base::take_buffer(room);
    if (into == nullptr) {
      transfer.outcome.error = MPI_ERR_NO_MEM;  // kept: see end_fetch
      room = 0;
    }
  }
  under_way_.fetch_add(1, std::memory_order_relaxed);
  if (endpoint_->fetch(message, {into, room}, &fetched_, &transfer) == Post::posted) return;
  under_way_.fetch_sub(1, std::memory_order_relaxed);
  base::give_back_buffer(std::exchange(transfer.packed, nullptr));
  {
    const std::scoped_lock guard(stalled_lock_);
    unfetched_.emplace_back(&transfer, message);
  }
  endpoint_->try_again_later();
}

void Engine::end_fetch(void* argument, const Event& event) {
  auto& my = *static_cast<Engine*>(argument);
  auto& transfer = *static_cast<Transfer*>(event.context);
  Outcome& outcome = transfer.outcome;
  outcome.bytes = static_cast<int64_t>(event.bytes);
  if (outcome.error == MPI_SUCCESS) outcome.error = error_class_of(event.error);
  if (event.error == Errc::truncated) outcome.bytes = transfer.capacity;
  if (transfer.packed != nullptr) {
    const std::span<const std::byte> came{transfer.packed, event.bytes};
    if (event.error == Errc::ok && transfer.kind == Transfer::kCombines) {
      Combiner(*transfer.combining, transfer.buffer).take(came);
      transfer.channel->counts.add(ChannelCount::combined);
    } else if (event.error == Errc::ok) {
      transfer.type->unpack(transfer.buffer, transfer.count, 0, came);
    }
    base::give_back_buffer(std::exchange(transfer.packed, nullptr));
  }
  transfer.channel->counts.add(ChannelCount::received, ChannelCount::received_bytes, event.bytes);
  // release: pairs with shut. The last access: its end may let the program finalize.
  my.under_way_.fetch_sub(1, std::memory_order_release);
  transfer.end();
}

void Engine::receive(Transfer& transfer, Arrived& message) {
  // Its sender is told before the receive ends, behind which nobody may progress for long.
  if (message.is_announced() && !(message.holds == Arrived::Holds::brought &&
                                  endpoint_->took(message.announcement) == Post::done)) {
    note_source(transfer, message.process, message.tag, static_cast<int64_t>(message.bytes));
    const Announcement announcement = message.announcement;
    release(message);
    begin_fetch(transfer, announcement);
    return;
  }
  deliver(transfer, message.process, message.tag, Payload(payload_of(message)), false);
  release(message);
}

// --- Records of what waits -----------------------------------------------------------------------

Arrived* Engine::record_of(Channel& channel, Rank source, const Envelope& envelope) {
  Arrived* const record = records_.allocate();
  if (record == nullptr) return nullptr;
  record->process = source;
  record->tag = static_cast<int>(envelope.tag);
  record->is_receive = false;
  record->channel = &channel;
  record->sequence = envelope.sequence;
  record->kind = envelope.kind;
  return record;
}

Arrived* Engine::record_of(Channel& channel, const Delivery& message) {
  Arrived* const record = record_of(channel, message.source, message.envelope);
  if (record == nullptr) return nullptr;
  record->bytes = message.payload.size();
  std::byte* into = record->inlined;
  record->holds = Arrived::Holds::inlined;
  if (record->bytes > Arrived::kInlineBytes) {
    record->holds = Arrived::Holds::heap;
    into = record->heap = base::take_buffer(record->bytes);
    if (into == nullptr) {
      records_.release(*record);
      return nullptr;
    }
  }
  if (message.payload.copy({into, record->bytes}) != Errc::ok) [[unlikely]] {
    // Its sender died before it was sent: it is offered no more.
    if (record->holds == Arrived::Holds::heap) base::give_back_buffer(record->heap);
    records_.release(*record);
    return nullptr;
  }
  charge(message.source, static_cast<int64_t>(record->bytes) + kRecordBytes);
  return record;
}

Arrived* Engine::record_of(Channel& channel, const Envelope& envelope, const Announcement& message,
                           std::span<const std::byte> brought) {
  Arrived* const record = record_of(channel, message.source, envelope);
  if (record == nullptr) return nullptr;
  record->bytes = message.bytes;
  record->holds = Arrived::Holds::announced;
  record->announcement = message;
  // Without memory for them they wait at their sender.
  if (brought.empty() || (record->brought = base::take_buffer(brought.size())) == nullptr)
    return record;
  std::memcpy(record->brought, brought.data(), brought.size());
  record->holds = Arrived::Holds::brought;
  charge(message.source, static_cast<int64_t>(record->bytes) + kRecordBytes);
  return record;
}

void Engine::release(Arrived& message) noexcept {
  const Rank source = message.process;
  const auto bytes = static_cast<int64_t>(message.bytes) + kRecordBytes;
  const Arrived::Holds holds = message.holds;
  if (holds == Arrived::Holds::heap) base::give_back_buffer(message.heap);
  if (holds == Arrived::Holds::brought) base::give_back_buffer(message.brought);
  records_.release(message);
  if (holds != Arrived::Holds::announced) discharge(source, bytes);
}

/// A receive may have been posted since the look without a record.
void Engine::wait_in(Channel& channel, Arrived& message) {
  if (Transfer* const met = timed(channel, [&] { return channel.arrive(message); });
      met != nullptr) {
    channel.counts.add(ChannelCount::met_posted);
    receive(*met, message);
  } else {
    channel.counts.add(ChannelCount::unexpected);
    channel.counts.note_unexpected(channel.unexpected());
  }
}

// --- Receives ------------------------------------------------------------------------------------

bool Engine::withdraw(Transfer& transfer) {
  Channel& channel = *transfer.channel;
  if (!channel.withdraw(transfer)) return false;
  channel.counts.add(ChannelCount::withdrawn);
  return true;
}

Arrived* Engine::extract(Channel& channel, Rank source, int tag) {
  Arrived* const met = timed(channel, [&] { return channel.extract(source, tag); });
  if (met != nullptr) channel.counts.add(ChannelCount::met_unexpected);
  return met;
}

// --- Arrivals ------------------------------------------------------------------------------------

/// One that met no receive waits for its own. False: there is no room for it.
bool Engine::keep(Channel& channel, const Delivery& message) {
  Arrived* const record = record_of(channel, message);
  if (record == nullptr) return false;
  wait_in(channel, *record);
  return true;
}

[[gnu::always_inline]] inline bool Engine::accept(Channel& channel, const Delivery& message) {
  const int tag = static_cast<int>(message.envelope.tag);
  if (Transfer* const met =
          timed(channel, [&] { return channel.take_receive(message.source, tag); });
      met != nullptr) [[likely]] {
    deliver(*met, message.source, tag, message.payload, true);
    return true;
  }
  return keep(channel, message);
}

bool Engine::accept(Channel& channel, const Envelope& envelope, const Announcement& message,
                    std::span<const std::byte> brought) {
  if (!brought.empty()) {
    const int tag = static_cast<int>(envelope.tag);
    if (Transfer* const met =
            timed(channel, [&] { return channel.take_receive(message.source, tag); });
        met != nullptr) {
      // As in receive.
      if (endpoint_->took(message) == Post::done) {
        deliver(*met, message.source, tag, Payload(brought), true);
      } else {
        channel.counts.add(ChannelCount::met_posted);
        note_source(*met, message.source, tag, static_cast<int64_t>(message.bytes));
        begin_fetch(*met, message);
      }
      return true;
    }
  }
  Arrived* const record = record_of(channel, envelope, message, brought);
  if (record == nullptr) return false;
  wait_in(channel, *record);
  return true;
}

bool Engine::arrive(const Delivery& message) noexcept {
  if (!opened_.load(std::memory_order_acquire)) [[unlikely]]
    return false;
  const Envelope& envelope = message.envelope;
  if ((envelope.kind & kStop) != 0) [[unlikely]] {
    control(message);
    return true;
  }
  Channel& channel = this->channel(envelope.context, plane_of(envelope));
  if ((envelope.kind & kSequenced) == 0) [[likely]]
    return accept(channel, message);
  return accept_in_order(channel, message);
}

bool Engine::accept_in_order(Channel& channel, const Delivery& message) {
  SourceOrder& order = this->order(channel, message.source);
  const std::scoped_lock guard(order.lock);
  if (message.envelope.sequence != order.expected) {
    Arrived* const record = record_of(channel, message);
    return keep_early(order, channel, message.envelope, record);
  }
  if ((message.envelope.kind & kVoid) == 0 && !accept(channel, message)) return false;
  ++order.expected;
  if (order.early != nullptr) offer_early(order, channel);
  return true;
}

uint32_t Engine::arrive_run(const DeliveryRun& run) noexcept {
  if (!opened_.load(std::memory_order_acquire)) [[unlikely]]
    return 0;
  if ((run.envelope.kind & (kStop | kSequenced)) != 0) return Matcher::arrive_run(run);
  Channel& channel = this->channel(run.envelope.context, plane_of(run.envelope));
  const int tag = static_cast<int>(run.envelope.tag);
  std::array<Transfer*, DeliveryRun::kMost> met;
  const auto count = static_cast<uint32_t>(run.size());
  const uint32_t waited = timed(channel, [&] {
    return channel.take_receives_of(run.source, tag, {met.data(), count});
  });
  if (waited != 0) [[likely]] {
    std::size_t bytes = 0;
    for (uint32_t i = 0; i < waited; ++i)
      bytes += put_down(*met[i], run.source, tag, run.payload(i));
    channel.counts.note_received(waited, bytes, true);
    for (uint32_t i = 0; i < waited; ++i) met[i]->end();
  }
  // For these it was looked in vain, a moment ago.
  uint32_t taken = waited;
  while (taken < count && keep(channel, run[taken])) ++taken;
  return taken;
}

bool Engine::announced(const Envelope& envelope, const Announcement& message,
                       std::span<const std::byte> brought) noexcept {
  if (!opened_.load(std::memory_order_acquire)) [[unlikely]]
    return false;
  Channel& channel = this->channel(envelope.context, plane_of(envelope));
  if ((envelope.kind & kSequenced) == 0) return accept(channel, envelope, message, brought);
  SourceOrder& order = this->order(channel, message.source);
  const std::scoped_lock guard(order.lock);
  if (envelope.sequence != order.expected) {
    return keep_early(order, channel, envelope, record_of(channel, envelope, message, brought));
  }
  if (!accept(channel, envelope, message, brought)) return false;
  ++order.expected;
  if (order.early != nullptr) offer_early(order, channel);
  return true;
}

// --- Order between devices -----------------------------------------------------------------------

/// (order's lock) Puts a message that overtook others where it belongs among its like.
bool Engine::keep_early(SourceOrder& order, Channel& channel, const Envelope& envelope,
                        Arrived* record) {
  if (record == nullptr) return false;
  channel.counts.add(ChannelCount::out_of_sequence);
  Entry** place = &order.early;
  // Numbers wrap: what is ahead is told by its distance from what is expected.
  while (*place != nullptr && static_cast<Arrived*>(*place)->sequence - order.expected <
                                  envelope.sequence - order.expected) {
    place = &(*place)->next;
  }
  record->next = *place;
  *place = record;
  return true;
}

/// (order's lock) Those whose turn it is now.
void Engine::offer_early(SourceOrder& order, Channel& channel) {
  while (order.early != nullptr) {
    auto& first = static_cast<Arrived&>(*order.early);
    if (first.sequence != order.expected) return;
    order.early = first.next;
    ++order.expected;
    if ((first.kind & kVoid) != 0) {
      release(first);
    } else {
      wait_in(channel, first);
    }
  }
}

// --- Deaths --------------------------------------------------------------------------------------

void Engine::peer_down(Rank peer) noexcept {
  // seq_cst: first this, then a look at the channels; receives are posted first, then look here.
  deaths_.store(true, std::memory_order_seq_cst);
  std::vector<Transfer*> over;
  std::vector<Transfer*> taken_back;
  for (std::size_t i = 0; i < kContexts * 2; ++i) {
    Channel* const channel = channels_[i].load(std::memory_order_acquire);
    if (channel == nullptr) continue;
    const std::scoped_lock guard(channels_lock_);  // its group stays
    if (channel->group == nullptr || channel->group->rank_of(peer) == MPI_UNDEFINED) {
      continue;
    }
    const std::size_t before = over.size();
    channel->take_receives(
        [](void* dead, const Transfer& each) {
          return each.process == *static_cast<Rank*>(dead) || each.process == kAnySource;
        },
        &peer, over);
    channel->counts.add(ChannelCount::withdrawn, over.size() - before);
  }
  {
    const std::scoped_lock guard(stalled_lock_);
    Peer& dead = this->peer(peer);
    take_refused(dead);
    const std::size_t before = over.size();
    for (Entry* each = dead.backlog; each != nullptr; each = each->next) {
      auto& send = static_cast<Transfer&>(*each);
      send.linked = false;
      ((send.kind & kVoid) != 0 ? taken_back : over).push_back(&send);
    }
    dead.backlog = dead.backlog_last = nullptr;
    const std::size_t sends = over.size() - before + taken_back.size();
    dead.waiting.fetch_sub(static_cast<uint32_t>(sends), std::memory_order_relaxed);
  }
  for (Transfer* each : over) each->outcome.error = MPI_ERR_PROC_ABORTED;
  over.insert(over.end(), taken_back.begin(), taken_back.end());
  for (Transfer* each : over) {
    base::give_back_buffer(std::exchange(each->packed, nullptr));
    each->end();
  }
}

}  // namespace weft::mpi
