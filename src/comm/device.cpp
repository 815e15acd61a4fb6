// A device's progress: the one switch on the packet type, pending work, and what comes back.
#include "comm/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "comm/endpoint_impl.hpp"
#include "comm/runtime_impl.hpp"
#include "weft/base/log.hpp"

namespace weft {

namespace {

constexpr std::size_t kReturnsAtOnce = 64;
constexpr uint32_t kMostInVain = 64;    ///< operations that find no room, at a look
constexpr uint32_t kMostPutOff = 1024;  ///< polls that a death waits for while others send on

/// False too for a length that no buffer has: room for it would be awaited for ever.
bool take_body(std::span<const std::byte>& from, comm::RendezvousBody& body) noexcept {
  return comm::take(from, body) && body.bytes <= uint64_t{PTRDIFF_MAX};
}

}  // namespace

using comm::Header;
using comm::Operation;
using comm::PacketType;
using fabric::Taken;

Device::Device(Runtime::Impl& runtime, uint16_t number, std::unique_ptr<fabric::Port> port)
    : runtime_(runtime),
      owner_(runtime.self),
      endpoints_(runtime.endpoints.get()),
      openings_(runtime.openings),
      watchers_(runtime.watchers),
      serial_(runtime.settings.serial_progress ? &runtime.serial_lock : nullptr),
      port_(std::move(port)),
      bell_(*port_),
      keepers_(runtime.keepers.get()),
      number_(number),
      received_(runtime.received_bytes, runtime.settings.nontemporal) {}

// --- Frames --------------------------------------------------------------------------------------

// The usual case: an eager message goes straight to what its endpoint was made for.
Taken Device::on_short(Rank source, fabric::ShortHeader packed,
                       std::span<const std::byte> payload) {
  const Header header = comm::unpack(packed);
  if (header.type == PacketType::enveloped) {
    // acquire: as below.
    Endpoint::Impl* endpoint = endpoints_[header.endpoint].load(std::memory_order_acquire);
    if (endpoint != nullptr && endpoint->spec.matcher != nullptr) [[likely]] {
      return noted(
          endpoint->spec.matcher->arrive({source, comm::unpack_envelope(packed), Payload(payload)})
              ? Taken::yes
              : Taken::hold,
          source, header.endpoint);
    }
  }
  if (header.type == PacketType::eager && header.bytes == payload.size()) [[likely]] {
    // acquire: pairs with publish()'s release; the endpoint is whole.
    Endpoint::Impl* endpoint = endpoints_[header.endpoint].load(std::memory_order_acquire);
    if (endpoint != nullptr) [[likely]] {
      return noted(endpoint->arrivals.inlined(*endpoint, *this, {source, Tag{header.tag}}, payload),
                   source, header.endpoint);
    }
  }
  return Sink::on_short(source, packed, payload);
}

/// A run of eager messages, none of which says that it has another length.
static bool is_eager(const fabric::ShortRun& run) noexcept {
  bool usual = comm::unpack(run.header(0)).type == PacketType::eager;
  for (uint32_t i = 0; i < run.count; ++i) {
    usual &= comm::unpack(run.header(i)).bytes == run.pieces[i].payload.size();
  }
  return usual;
}

/// Offers a run to whoever matches it, those with one envelope together; how many were taken.
static uint32_t match(Matcher& matcher, const fabric::ShortRun& run) {
  uint32_t taken = 0;
  while (taken < run.count) {
    uint32_t end = taken + 1;
    while (end < run.count && run.pieces[end].second_word == run.pieces[taken].second_word) ++end;
    const uint32_t alike = end - taken;
    const uint32_t now = matcher.arrive_run(
        {run.source, comm::unpack_envelope(run.header(taken)), {run.pieces + taken, alike}});
    taken += now;
    if (now < alike) break;
  }
  return taken;
}

// Several of the kind to one endpoint with one tag.
uint32_t Device::on_run(const fabric::ShortRun& run) {
  const Header header = comm::unpack(run.header(0));
  // acquire: as in on_short.
  Endpoint::Impl* const endpoint = endpoints_[header.endpoint].load(std::memory_order_acquire);
  const bool is_matched = endpoint != nullptr && header.type == PacketType::enveloped &&
                          endpoint->spec.matcher != nullptr;
  if (endpoint == nullptr || (!is_matched && !is_eager(run))) [[unlikely]]
    return Sink::on_run(run);
  const uint32_t taken =
      is_matched ? match(*endpoint->spec.matcher, run)
                 : endpoint->arrivals.run(*endpoint, *this, {run.source, Tag{header.tag}}, run);
  count(frames_in, taken);
  if (taken < run.count) [[unlikely]]
    (void)noted(Taken::hold, run.source, header.endpoint);
  return taken;
}

inline Taken Device::noted(Taken taken, Rank source, uint16_t endpoint) noexcept {
  if (taken == Taken::yes) [[likely]] {
    count(frames_in);
  } else {
    count(held);
    note_held(source, endpoint);
  }
  return taken;
}

Taken Device::on_frame(const fabric::Frame& frame) {
  if (frame.head.size() < sizeof(Header)) {
    malformed_frame(frame, "no header");
    return Taken::yes;
  }
  const Header header = comm::unpack(frame.head.data());
  if (frame.open != nullptr && !may_take_open(frame, header))
    return noted(Taken::hold, frame.source, header.endpoint);
  if (header.type == PacketType::data) {
    // For an operation: a fragment that nobody waits for may come after its endpoint's end.
    std::span<const std::byte> rest = frame.head.subspan(sizeof(Header));
    comm::DataBody body;
    if (comm::take(rest, body) && frame.packet.size() == header.bytes && frame.open == nullptr) {
      receive_fragment(frame, body);
      count(frames_in);
    } else {
      malformed_frame(frame, "a fragment of another length than it says");
    }
    return Taken::yes;
  }
  if (header.type == PacketType::probe) {
    receive_probe(frame, header);
    return Taken::yes;
  }
  // acquire: as in on_short.
  Endpoint::Impl* endpoint = endpoints_[header.endpoint].load(std::memory_order_acquire);
  if (endpoint == nullptr) {
    const Taken kept = runtime_.keep_early(*this, frame, header);
    if (kept == Taken::hold) note_held(frame.source, header.endpoint);
    return kept;
  }
  return noted(dispatch(*endpoint, header, frame.head.subspan(sizeof(Header)), frame), frame.source,
               header.endpoint);
}

/// Whether open packets may be taken now: whole ones as any, else where they are copied, and the
/// peer can be read from if its writing stands still. More than one only where they are copied.
bool Device::may_take_open(const fabric::Frame& frame, const Header& header) {
  const bool is_one = frame.open->count == 1;
  const bool is_whole = frame.is_whole();
  if (is_whole && is_one) return true;
  if (!is_whole && !runtime_.transport->can_read(frame.source)) return false;
  // acquire: as in on_short.
  const Endpoint::Impl* endpoint = endpoints_[header.endpoint].load(std::memory_order_acquire);
  if (endpoint == nullptr) return is_whole;  // it is kept, or its endpoint has ended
  // A receive from anybody shall not end by a message that its sender did not live to write.
  return header.type == PacketType::enveloped || !is_one ||
         (header.type == PacketType::eager && endpoint->spec.arrival == Arrival::matched &&
          endpoint->spec.match_on != MatchOn::tag);
}

Taken Device::dispatch(Endpoint::Impl& endpoint, const Header& header,
                       std::span<const std::byte> rest, const fabric::Frame& frame) {
  comm::Arrived arrived{frame.source, Tag{header.tag}, header.reply_port, rest, frame.loan};
  comm::RendezvousBody rendezvous;
  comm::PutBody put;
  std::optional<comm::OpenPacket> open;
  if (frame.open != nullptr && (frame.open->count > 1 || !frame.is_whole())) {
    // Several are for a matcher only.
    const bool fits = frame.open->count == 1 || header.type == PacketType::enveloped;
    if (!fits) {
      malformed_frame(frame, "several packets where one is expected");
      return Taken::yes;
    }
    arrived.open = &open.emplace(*runtime_.transport, frame);
  }
  switch (header.type) {
    case PacketType::eager:
      if (frame.loan) arrived.payload = frame.packet;
      if (arrived.payload.size() != header.bytes) break;
      return endpoint.arrivals.eager(endpoint, *this, arrived);
    case PacketType::ready_to_send:
      if (!take_body(rest, rendezvous)) break;
      return endpoint.arrivals.announced(endpoint, *this, arrived, rendezvous);
    case PacketType::enveloped:
      if (endpoint.spec.matcher == nullptr) break;
      if (frame.loan) arrived.payload = frame.packet;
      return comm::arrive_enveloped(endpoint, *this, comm::packed_of(frame.head), arrived);
    case PacketType::announced:
      if (endpoint.spec.matcher == nullptr || !take_body(rest, rendezvous)) break;
      arrived.payload = frame.loan ? frame.packet : rest;
      // All of its bytes, or none.
      if (!arrived.payload.empty() && arrived.payload.size() != rendezvous.bytes) break;
      return comm::arrive_announced(endpoint, *this, comm::packed_of(frame.head), arrived,
                                    rendezvous);
    case PacketType::put:
      if (endpoint.spec.arrival != Arrival::memory || !comm::take(rest, put)) break;
      arrived.payload = frame.loan ? frame.packet : rest;
      if (arrived.payload.size() != header.bytes) break;
      return comm::arrive_put(endpoint, *this, header, arrived, put);
    case PacketType::put_large:
      if (endpoint.spec.arrival != Arrival::memory || !take_body(rest, rendezvous) ||
          !comm::take(rest, put)) {
        break;
      }
      return comm::announce_put(endpoint, *this, header, arrived, rendezvous, put);
    case PacketType::get:
      if (endpoint.spec.arrival != Arrival::memory || !take_body(rest, rendezvous) ||
          !comm::take(rest, put)) {
        break;
      }
      return comm::arrive_get(endpoint, *this, header, arrived, rendezvous, put);
    case PacketType::signal:
      if (endpoint.spec.arrival != Arrival::memory) break;
      return comm::arrive_signal(endpoint, *this, arrived);
    default:
      break;
  }
  if (refuse(frame, Errc::bad_argument) == Taken::hold) return Taken::hold;
  malformed_frame(frame, "a packet type or length that this endpoint cannot have been sent");
  return Taken::yes;
}

/// Not among `frames_in`: that nothing but probes came is what these ask about.
void Device::receive_probe(const fabric::Frame& frame, const Header& header) {
  std::span<const std::byte> rest = frame.head.subspan(sizeof(Header));
  comm::ProbeBody probe;
  if (!comm::take(rest, probe)) {
    malformed_frame(frame, "a probe too short");
    return;
  }
  runtime_.probes.arrive(frame.source, header.flags, probe);
  give_back(frame);
  ++probes_polled_;
}

void Device::note_probes(uint32_t served) noexcept {
  if (std::exchange(probes_polled_, 0) == served) count(probe_polls);
}

void Device::on_control(const fabric::Frame& frame) {
  Header header;
  comm::Handle mine;
  comm::Handle theirs;
  std::span<const std::byte> rest = frame.head;
  if (!comm::take(rest, header) || !comm::take(rest, mine)) {
    malformed_frame(frame, "a control frame too short");
    return;
  }
  Operation* op = runtime_.operations->find(mine, frame.source, number_);
  if (op == nullptr) {
    count(late);
    return;
  }
  if (header.type == PacketType::finished) {
    if (!comm::OperationTable::claim(*op)) return;
    op->error = header.flags <= static_cast<uint8_t>(kLastErrc) ? static_cast<Errc>(header.flags)
                                                                : Errc::protocol;
    op->moved = op->bytes;
    op->work = comm::Work::finish;
    end_rests();
  } else if (header.type == PacketType::ready_to_receive && comm::take(rest, theirs)) {
    if (!comm::OperationTable::claim(*op)) return;
    op->remote = theirs;
    op->reply_port = header.reply_port;
    op->work = comm::Work::stream;
    // Our provider may not know yet that the connection on which it was read has ended.
    if ((header.flags & comm::kReadFailed) != 0) {
      runtime_.withdraw_offer(*op, true);
      refuse_if_freed(*op);
    }
  } else if (comm::RendezvousBody from;
             header.type == PacketType::readable && comm::take(rest, from)) {
    if (op->kind != comm::Kind::get || from.bytes != op->bytes ||
        from.key == fabric::ReadOffer::kNone) {
      malformed_frame(frame, "an offer of something else");
      return;
    }
    if (!comm::OperationTable::claim(*op)) return;
    op->remote = from.operation;
    op->remote_address = from.address;
    op->reply_port = header.reply_port;
    op->answers = true;
    comm::begin_fetch(*op, from.key);
  } else if (comm::ShareBody offer; header.type == PacketType::share && comm::take(rest, offer)) {
    take_share(*op, header.reply_port, offer);
    return;
  } else {
    malformed_frame(frame, "an unknown control frame");
    return;
  }
  if (!step(*op)) enqueue_locked(*op);
}

void Device::on_returned(std::span<const uint32_t> packets) {
  std::array<uint32_t, kReturnsAtOnce> free;
  std::size_t count = 0;
  for (const uint32_t index : packets) {
    if (runtime_.shared_packets->is_ticket(index)) {
      runtime_.shared_packets->came_back(index);
      continue;
    }
    const auto [streamed, is_free] = runtime_.packet_states->came_back(index);
    // relaxed: only a budget; see stream_fragments.
    if (streamed) runtime_.streaming_packets.fetch_sub(1, std::memory_order_relaxed);
    if (!is_free) continue;
    free[count++] = index;
    if (count == free.size()) runtime_.packets->free({free.data(), std::exchange(count, 0)});
  }
  runtime_.packets->free({free.data(), count});
  end_rests();
}

void Device::on_peer_down(Rank peer, std::string_view cause) {
  if (runtime_.heard_of_death(peer, number_, cause)) runtime_.peer_down(peer, cause);
}

/// Ends what waits for a dead peer's answers over this device. What is posted later finds it dead.
void Device::sweep(Rank peer) {
  end_rests();
  runtime_.operations->sweep(peer, number_, [this](Operation& op) {
    op.error = Errc::peer_died;
    op.answers = false;
    op.work = comm::Work::finish;
    if (!step(op)) enqueue_locked(op);
  });
}

void Device::note_death() noexcept {
  // acq_rel: one note at a time; look_at_deaths clears it before it reads the reports.
  if (!death_noted_.exchange(true, std::memory_order_acq_rel)) {
    death_note_.work = comm::Work::deaths;
    enqueue(death_note_);
  }
}

bool Device::look_at_deaths() {
  death_noted_.store(false, std::memory_order_release);
  for (const auto& [rank, cause] : runtime_.reported_deaths()) on_peer_down(rank, cause);
  for (const Rank rank : runtime_.dead_since(swept_)) {
    sweep(rank);
    ++swept_;
  }
  return true;
}

/// For whom it was, if it got so far.
static std::string for_endpoint(const fabric::Frame& frame) {
  if (frame.head.size() < sizeof(Header)) return {};
  const Header header = comm::unpack(frame.head.data());
  if (header.type >= PacketType::probe) return {};
  return fmt::format(" for endpoint {}", header.endpoint);
}

void Device::malformed_frame(const fabric::Frame& frame, const char* why) {
  if (counters_.read(malformed) == 0) {
    const std::string whither = for_endpoint(frame);
    base::log(base::LogLevel::warn,
              fmt::format("dropped a malformed frame from rank {}{}: {} (further ones are counted)",
                          frame.source.value, whither, why));
  }
  count(malformed);
  give_back(frame);
}

void Device::give_back(const fabric::Frame& frame) noexcept {
  port_->give_back_all(frame.loan, frame.indices());
}

// --- Pending work --------------------------------------------------------------------------------

void Device::enqueue(Operation& op) noexcept {
  Operation* head = inbox_.load(std::memory_order_relaxed);
  do {
    op.next = head;
    // release: pairs with the exchange in work(); the operation is whole.
  } while (!inbox_.compare_exchange_weak(head, &op, std::memory_order_release,
                                         std::memory_order_relaxed));
  wake_sleeper();
}

void Device::wake_sleeper() noexcept {
  // seq_cst: the work first, then the look; the sleeper announces itself, then looks for work.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (runtime_.asleep.load(std::memory_order_seq_cst) != 0) port_->ring_self();
}

void Device::enqueue_locked(Operation& op) noexcept {
  op.next = nullptr;
  *pending_end_ = &op;
  pending_end_ = &op.next;
  pending_count_.store(pending_count_.load(std::memory_order_relaxed) + 1,
                       std::memory_order_relaxed);
}

uint32_t Device::work() {
  // acquire: pairs with enqueue's release. The inbox is last in, first out: turn it round.
  Operation* arrived = inbox_.exchange(nullptr, std::memory_order_acquire);
  Operation* in_order = nullptr;
  while (arrived != nullptr) {
    Operation* next = arrived->next;
    arrived->next = in_order;
    in_order = arrived;
    arrived = next;
  }
  while (in_order != nullptr) {
    Operation* next = in_order->next;
    enqueue_locked(*in_order);
    in_order = next;
  }
  // Answers have the ring for control frames first, and what is pending here has it next time.
  const auto pay_all = [this] { return owed_.pay_all([this](Operation& op) { return pay(op); }); };
  pays_first_ = !pays_first_;
  uint32_t moved = pays_first_ ? pay_all() : 0;
  // One turn for each; those that are not over queue up again, so that large ones share. Copies
  // have one chunk's time in all: those that had none keep their place in front, and small messages
  // come in between however many transfers are under way. Where many find no room, the rest keeps
  // its place, too: a look costs the same however many wait.
  uint32_t in_vain = 0;
  uint64_t copied = 0;
  comm::Operation* waiting = nullptr;
  comm::Operation** waiting_end = &waiting;
  uint32_t waiting_count = 0;
  Operation* turn = pending_;
  Operation** const turn_end = pending_end_;
  uint32_t turn_count = pending_count_.load(std::memory_order_relaxed);
  pending_ = nullptr;
  pending_end_ = &pending_;
  pending_count_.store(0, std::memory_order_relaxed);
  while (turn != nullptr && in_vain < kMostInVain) {
    Operation* op = turn;
    turn = turn->next;
    --turn_count;
    const uint64_t before = op->moved;
    const comm::Work work = op->work;
    const bool copies = work == comm::Work::read || work == comm::Work::write ||
                        work == comm::Work::share || work == comm::Work::help;
    if (copies && copied >= runtime_.settings.copy_chunk_bytes) {
      op->next = nullptr;
      *waiting_end = op;
      waiting_end = &op->next;
      ++waiting_count;
      continue;
    }
    const bool shared = work == comm::Work::share || work == comm::Work::help;
    // What is shared may have to wait, and is charged by what it did.
    if (copies && !shared)
      copied += std::min(op->bytes - before, runtime_.settings.copy_chunk_bytes);
    if (op->work == comm::Work::attempt) {
      // What it waits for is room, which comes with time and is no progress of its own.
      if (step(*op))
        ++moved;
      else
        enqueue_locked(*op);
    } else if (op == &death_note_) {
      // What the dead had sent may lie behind what the poll before this took or left: that comes
      // first.
      if ((polled_ != 0 || port_->rests()) && ++put_off_ < kMostPutOff) {
        enqueue_locked(*op);
      } else {
        put_off_ = 0;
        look_at_deaths();  // the note may be in the inbox again by now
      }
      ++moved;
    } else if (step(*op)) {
      ++moved;
    } else {
      if (op->moved != before || op->work != work)
        ++moved;
      else
        ++in_vain;
      enqueue_locked(*op);
    }
    if (shared) copied += std::exchange(shared_copied_, 0);
  }
  if (turn != nullptr) {
    *waiting_end = turn;
    waiting_end = turn_end;
    waiting_count += turn_count;
  }
  if (waiting != nullptr) {
    *waiting_end = pending_;
    if (pending_ == nullptr) pending_end_ = waiting_end;
    pending_ = waiting;
    pending_count_.store(pending_count_.load(std::memory_order_relaxed) + waiting_count,
                         std::memory_order_relaxed);
  }
  return pays_first_ ? moved : moved + pay_all();
}

uint32_t Device::attend() {
  uint32_t served = busy() ? work() : 0;
  // relaxed: as in progress_locked.
  const uint32_t early_before = early_delivered_;
  if (openings_.load(std::memory_order_relaxed) != 0) runtime_.deliver_early(*this);
  served += early_delivered_ - early_before;
  if (busy()) wake_sleeper();
  return served;
}

bool Device::tell_another(Completion& completion, const Event& event) noexcept {
  if (told_.completion != nullptr) tell_counted();
  if (!completion.counts() || event.error != Errc::ok) return completion.try_complete(event);
  // The first of a row at once: mostly it is alone, and somebody waits for it.
  completion.complete_many(event, 1);
  told_.completion = &completion;
  told_.count = 0;
  return true;
}

void Device::tell_counted() noexcept {
  // With a count of 0 it may be gone already, and is not touched; else it is waited for, and may be
  // gone afterwards.
  Completion* const completion = std::exchange(told_.completion, nullptr);
  if (told_.count != 0) completion->complete_many(told_.last, told_.count);
}

void Device::wake_queued() noexcept {
  queued_->wake(1);
  queued_ = nullptr;
}

}  // namespace weft
