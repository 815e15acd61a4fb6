// Both sides of a shared copy (shared_copy.hpp, docs/design/protocols.md). What devices do here
// they do under the progress lock of the one that carries the operation.
#include "comm/shared_copy.hpp"

#include <algorithm>
#include <utility>

#include "comm/device.hpp"
#include "comm/runtime_impl.hpp"
#include "weft/base/clock.hpp"

namespace weft {

using comm::CopyClaims;
using comm::Operation;

namespace comm {

CopyClaims* ClaimsTable::take(fabric::Transport& transport) noexcept {
  // Once and for all: where there is no room for it now, all copies are the receiver's.
  std::call_once(made_, [&]() noexcept { make(transport); });
  uint64_t free = free_.load(std::memory_order_relaxed);
  while (free != 0) {
    // acquire: pairs with give_back's release.
    if (free_.compare_exchange_weak(free, free & (free - 1), std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
      return &claims_[std::countr_zero(free)];
    }
  }
  return nullptr;
}

void ClaimsTable::make(fabric::Transport& transport) noexcept {
  std::span<std::byte> memory;
  try {
    memory = transport.allocate_shared(kBytes);
    key_ = transport.expose(memory);
  } catch (const std::exception&) {
    if (!memory.empty()) transport.release_shared(memory);
    return;
  }
  claims_ = reinterpret_cast<CopyClaims*>(memory.data());
  free_.store(~uint64_t{0}, std::memory_order_release);
}

CopyClaims* ClaimsTable::of_peer(fabric::Transport& transport, const fabric::MemoryKey& key,
                                 uint32_t number) noexcept {
  if (key.bytes != kBytes || key.base % sizeof(CopyClaims) != 0 || number >= kClaims) {
    return nullptr;
  }
  const auto memory = transport.map_peer(key);
  return memory ? reinterpret_cast<CopyClaims*>(memory->data()) + number : nullptr;
}

}  // namespace comm

namespace {

/// A fragment each: as large as a packet, as where cores share no cache each costs a quarter of a
/// microsecond beside its copies; but two at least, so that these can overlap.
constexpr uint64_t kSmallestChunk = 16 << 10;
constexpr uint64_t kChunksWanted = 2;
constexpr uint64_t kPage = 4096;

/// Fragments under way to a peer: so many that neither waits for the other where one has to fetch
/// from memory, or write there.
constexpr uint32_t kMostAhead = 16;
/// Where half of those that may be are under way, to whomever.
constexpr uint32_t kFewAhead = 4;

/// Offers to one peer over one device of which nothing was heard yet. An offer has two cells of the
/// control ring: a sender that computes shall find room left for its answers.
constexpr uint8_t kMostOffers = 8;
/// With fewer, or when it is asked again, its fragments are waited for a little.
constexpr uint8_t kPatientOffers = 2;
/// So many messages after a peer left that many offers alone, it is asked again.
constexpr uint8_t kAskAgain = 64;

/// A sender of whom nothing came for so long is taken for one that computes: copies of two chunks
/// from memory.
constexpr double kPatienceNs = 6'000;
/// The same of one who copies for this rank, too: what came from here comes first.
constexpr double kPatienceBothWaysNs = 48'000;
/// Where processes take turns on a core: it may have to wait for its own.
constexpr double kPatienceInTurnsNs = 100'000;
/// What it claimed and did not send in this time may never come; or it has lost its core.
constexpr double kLostNs = 300'000;

/// How a transfer is cut; the receiver's way, of which the sender is told.
struct Cut {
  uint64_t bytes;
  uint64_t chunk;
  uint32_t chunks;

  Cut(uint64_t all, uint64_t each)
      : bytes(all), chunk(each), chunks(static_cast<uint32_t>((all + each - 1) / each)) {}
  static Cut of(uint64_t bytes, uint64_t most) noexcept {
    const uint64_t wanted =
        std::clamp(bytes / kChunksWanted, std::min(kSmallestChunk, most), most) / kPage * kPage;
    return {bytes, std::max(wanted, kPage)};
  }
  /// Both ends can do something, and their counts have room.
  [[nodiscard]] bool can_be_shared() const noexcept {
    return chunks > 1 && chunks <= CopyClaims::kMostChunks;
  }
  [[nodiscard]] uint64_t offset_of(uint32_t number) const noexcept { return number * chunk; }
  [[nodiscard]] uint64_t size_of(uint32_t number) const noexcept {
    return std::min(bytes - offset_of(number), chunk);
  }
  /// Of the last `some` chunks.
  [[nodiscard]] uint64_t bytes_of_last(uint32_t some) const noexcept {
    return some == 0 ? 0 : bytes - offset_of(chunks - some);
  }
};

uint64_t most_of(const Runtime::Impl& runtime) noexcept {
  return std::min<uint64_t>(runtime.settings.copy_chunk_bytes, runtime.packet_bytes);
}

}  // namespace

/// nullptr: there are none yet, and no memory for them now.
Device::Shares* Device::try_shares_with(Rank peer) noexcept {
  try {
    if (shares_.empty()) shares_.resize(static_cast<std::size_t>(runtime_.job.size()));
    auto& shares = shares_[static_cast<std::size_t>(peer.value)];
    if (shares == nullptr) shares = std::make_unique<Shares>();
    return shares.get();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

/// Once there was an offer, or one was taken up.
Device::Shares& Device::shares_with(Rank peer) noexcept {
  return *shares_[static_cast<std::size_t>(peer.value)];
}

/// Processes do: another one ran when this one's core was left last, and was not one to keep it
/// from. A guess.
bool Device::takes_turns() const noexcept {
  return runtime_.core_is_shared.load(std::memory_order_relaxed);
}

// --- The receiver --------------------------------------------------------------------------------

/// Tells the sender what it may send. False: not now, and then not at all.
bool Device::offer_share(Operation& op, Shares& shares) {
  const Cut cut = Cut::of(op.bytes, most_of(runtime_));
  const bool asks_again = shares.unheard >= kMostOffers && ++shares.left_out == kAskAgain;
  if (asks_again) {
    shares.left_out = 0;
    --shares.unheard;
  }
  using Offer = comm::Bytes<comm::Handle, comm::ShareBody>;
  if (!cut.can_be_shared() || shares.unheard >= kMostOffers ||
      port_->max_control() < sizeof(Offer::raw)) {
    return false;
  }
  op.claims = runtime_.claims.take(*runtime_.transport);
  if (op.claims == nullptr) return false;
  const Offer offer(comm::Header{.type = comm::PacketType::share, .reply_port = number_}, op.remote,
                    comm::ShareBody{.claims = runtime_.claims.key(),
                                    .number = runtime_.claims.number_of(*op.claims),
                                    .generation = op.claims->begin(),
                                    .operation = runtime_.operations->handle_of(op),
                                    .bytes = op.bytes,
                                    .chunk = cut.chunk});
  op.chunks = 0;
  comm::OperationTable::welcome(op);
  if (port_->try_control(op.peer, op.reply_port, offer.span()) == Post::retry) {
    comm::OperationTable::end_welcome(op);
    runtime_.claims.give_back(*op.claims);
    return false;
  }
  const uint64_t now = base::ticks();
  const bool patient = shares.unheard < kPatientOffers || asks_again;
  shares.heard = std::max(shares.heard, patient ? now : now - patience(shares));
  op.offer_number = ++shares.offered;
  ++shares.open;
  ++shares.unheard;
  return true;
}

/// One turn of the receiver's; true: all is there, or it failed.
bool Device::share_chunk(Operation& op) {
  if (op.claims == nullptr) {
    Shares* const shares = try_shares_with(op.peer);
    if (shares != nullptr && shares->open == kMostOffers)
      return false;  // those before it are being copied
    if (shares == nullptr || !offer_share(op, *shares)) {
      op.work = comm::Work::read;
      return read_chunk(op);
    }
  }
  if (op.moved < op.bytes) copy_share(op);
  if (op.moved < op.bytes && op.error == Errc::ok) return false;
  end_share(op);
  op.work = comm::Work::answer;
  return true;
}

/// How long a peer's fragments are waited for, in ticks.
uint64_t Device::patience(const Shares& shares) const noexcept {
  static const uint64_t own_core = base::to_ticks(kPatienceNs);
  static const uint64_t both_ways = base::to_ticks(kPatienceBothWaysNs);
  static const uint64_t in_turns = base::to_ticks(kPatienceInTurnsNs);
  if (takes_turns()) return in_turns;
  return shares.helping != nullptr ? both_ways : own_core;
}

/// Reads a chunk, unless fragments come: the next from the front, or one that the sender claimed
/// and does not send. Fragments come in the order of offers: none come any more when one came for a
/// later offer.
void Device::copy_share(Operation& op) {
  static const uint64_t lost = base::to_ticks(kLostNs);
  const Shares& shares = shares_with(op.peer);
  const bool passed = static_cast<int16_t>(shares.served - op.offer_number) > 0;
  const uint64_t quiet = base::ticks() - shares.heard;
  if (!passed && quiet < patience(shares)) return;
  const Cut cut = Cut::of(op.bytes, most_of(runtime_));
  // relaxed: nobody else changes the generation.
  const auto generation =
      CopyClaims::counts(op.claims->claimed.load(std::memory_order_relaxed)).generation;
  uint32_t number = 0;
  if (const auto next = op.claims->claim(generation, cut.chunks, false)) {
    number = *next;
  } else if (!passed && quiet < lost) {
    return;
  } else {
    number = cut.chunks - ++op.chunks;
    op.claims->arrived.store(op.chunks, std::memory_order_relaxed);
  }
  const uint64_t at = cut.offset_of(number);
  const uint64_t size = cut.size_of(number);
  op.error =
      runtime_.transport->read_memory(op.peer, op.remote_address + at, {op.buffer + at, size});
  if (op.error == Errc::bad_memory) [[unlikely]]
    tell_missing_memory(op);
  op.moved += size;
  shared_copied_ += size;
}

/// A fragment of a shared copy came; if it is not the next from the back, it came too late.
void Device::receive_share(Operation& op, std::span<const std::byte> data, uint64_t offset) {
  Shares& shares = shares_with(op.peer);
  shares.heard = base::ticks();
  shares.served = op.offer_number;
  shares.unheard = 0;
  const Cut cut = Cut::of(op.bytes, most_of(runtime_));
  const uint64_t from_front = op.moved - cut.bytes_of_last(op.chunks);
  if (op.moved == op.bytes) return count(late);
  const uint32_t number = cut.chunks - 1 - op.chunks;
  if (offset != cut.offset_of(number) || data.size() != cut.size_of(number) ||
      offset < from_front) {
    return count(late);
  }
  received_.copy(op.buffer + offset, data.data(), data.size());
  op.moved += data.size();
  // relaxed: it tells the sender how far it may go.
  op.claims->arrived.store(++op.chunks, std::memory_order_relaxed);
}

void Device::end_share(Operation& op) {
  comm::OperationTable::end_welcome(op);
  // relaxed: as in copy_share.
  const auto word = op.claims->claimed.load(std::memory_order_relaxed);
  op.claims->close(CopyClaims::counts(word).generation);
  runtime_.claims.give_back(*op.claims);
  Shares& shares = shares_with(op.peer);
  // Numbers go round: where none is open, the last is the one that the next are compared with.
  if (--shares.open == 0) shares.served = shares.offered;
}

// --- The sender ----------------------------------------------------------------------------------

/// The receiver of `op` offers a share of the copy: taken up with a record of its own, if there is
/// one; the offer may as well be ignored.
void Device::take_share(const Operation& op, uint16_t reply_port, const comm::ShareBody& offer) {
  if (offer.claims.owner != op.peer.value || offer.bytes != op.bytes || offer.chunk < kPage ||
      offer.chunk > runtime_.packet_bytes || !Cut(op.bytes, offer.chunk).can_be_shared() ||
      !runtime_.transport->can_read(op.peer)) {
    return;
  }
  Shares* const known = try_shares_with(op.peer);
  CopyClaims* const claims =
      known != nullptr ? comm::ClaimsTable::of_peer(*runtime_.transport, offer.claims, offer.number)
                       : nullptr;
  Operation* const help = claims != nullptr ? runtime_.operations->allocate() : nullptr;
  if (help == nullptr) return;
  Shares& shares = *known;
  help->buffer = op.buffer;
  help->bytes = op.bytes;
  help->capacity = offer.chunk;
  help->completion = nullptr;
  help->peer = op.peer;
  help->tag = Tag{offer.generation};
  help->endpoint = op.endpoint;
  help->reply_port = reply_port;
  help->moved = 0;
  help->chunks = 0;
  help->tries = 0;
  help->remote = offer.operation;
  help->claims = claims;
  help->device = number_;
  help->next = nullptr;
  help->work = comm::Work::help;
  if (shares.helping == nullptr) {
    shares.helping = help;
    enqueue_locked(*help);
  } else {
    *shares.helps_end = help;
    shares.helps_end = &help->next;
  }
}

/// One turn of the sender's; true: it left the pending list.
bool Device::help_copy(Operation& op) {
  Operation* help = &op;
  for (;;) {
    Help now = Help::goes_on;
    for (uint32_t sent = 0; sent < kFragmentsPerTurn && now == Help::goes_on; ++sent) {
      const uint64_t before = help->moved;
      now = send_help(*help);
      if (help->moved == before) break;  // there was no room
    }
    switch (now) {
      case Help::goes_on:
        if (help == &op) return false;
        enqueue_locked(*help);
        return true;
      case Help::rests:
        help->next = std::exchange(resting_, help);
        return true;
      case Help::over:
        break;
    }
    // The next, which may be over, too.
    Shares& shares = shares_with(help->peer);
    Operation* const next = shares.helps;
    shares.helping = next;
    shares.heard = base::ticks();  // the peer has time for its own messages from now on
    (void)finish(*help);           // nobody is to be told
    if (next == nullptr) return true;
    shares.helps = next->next;
    if (shares.helps == nullptr) shares.helps_end = &shares.helps;
    help = next;
  }
}

/// Sends the next chunk from the back, unless it is far enough ahead: then it rests until a packet
/// comes back, of which some are out.
Device::Help Device::send_help(Operation& op) {
  constexpr uint16_t kMostTries = 64;
  if (runtime_.is_dead(op.peer)) return Help::over;  // what was announced has ended, and its buffer
  const Cut cut(op.bytes, op.capacity);
  if (op.claims->is_over(op.tag.value, cut.chunks)) return Help::over;
  // relaxed: see receive_share.
  const uint32_t arrived = op.claims->arrived.load(std::memory_order_relaxed);
  if (op.chunks - arrived >= most_ahead()) return Help::rests;
  if (!may_stream()) return Help::goes_on;
  const auto number = op.claims->claim(op.tag.value, cut.chunks, true);
  if (!number) return Help::over;
  const uint64_t size = cut.size_of(*number);
  if (!send_fragment(op, cut.offset_of(*number), static_cast<uint32_t>(size))) {
    op.claims->unclaim(op.tag.value);
    return ++op.tries < kMostTries ? Help::goes_on : Help::over;  // the receiver does the rest
  }
  ++op.chunks;
  op.tries = 0;
  op.moved += size;
  shared_copied_ += size;
  return Help::goes_on;
}

uint32_t Device::most_ahead() const noexcept {
  // Where processes take turns on a core: for as long as the sender has its own.
  if (takes_turns()) return kMostAhead;
  // relaxed: a budget, as in may_stream.
  const uint32_t all = runtime_.streaming_packets.load(std::memory_order_relaxed);
  return all < runtime_.most_streaming / 2 ? kMostAhead : kFewAhead;
}

void Device::end_rests() noexcept {
  while (resting_ != nullptr) enqueue_locked(*std::exchange(resting_, resting_->next));
}

}  // namespace weft
