// Both sides of a shared copy (shared_copy.hpp, docs/design/protocols.md). What devices do here
// they do under the progress lock of the one that carries the operation.
#include "comm/shared_copy.hpp"

#include "comm/device.hpp"
#include "comm/runtime_impl.hpp"
#include "weft/base/backoff.hpp"

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

/// Chunks so small that both ends have some, and so large that a copy's fixed cost is a tenth.
constexpr uint64_t kSmallestChunk = 32 << 10;
constexpr uint64_t kChunksWanted = 8;
constexpr uint64_t kPage = 4096;

/// Offers to one peer over one device of which nothing was heard yet. An offer has two cells of the
/// control ring: a sender that computes shall find room left for its answers.
constexpr uint8_t kMostOffers = 8;
/// So many messages after a peer left that many offers alone, it is asked again.
constexpr uint8_t kAskAgain = 64;
/// Turns of waiting for the sender's chunks between two looks whether it is still there.
constexpr uint32_t kWaitsBetweenLooks = 4096;

/// How a transfer is cut; the receiver's way, of which the sender is told.
struct Cut {
  uint64_t chunk;
  uint32_t chunks;

  Cut(uint64_t bytes, uint64_t the_chunk)
      : chunk(the_chunk), chunks(static_cast<uint32_t>((bytes + the_chunk - 1) / the_chunk)) {}
  static Cut of(uint64_t bytes, uint64_t most) noexcept {
    const uint64_t wanted =
        std::clamp(bytes / kChunksWanted, std::min(kSmallestChunk, most), most) / kPage * kPage;
    return {bytes, std::max(wanted, kPage)};
  }
  /// Both ends can do something, and their counts have room.
  [[nodiscard]] bool can_be_shared() const noexcept {
    return chunks > 1 && chunks <= CopyClaims::kMostChunks;
  }
};

}  // namespace

// --- The receiver --------------------------------------------------------------------------------

Device::Offers& Device::offers_to(Rank peer) {
  if (offers_.empty()) offers_.resize(static_cast<std::size_t>(runtime_.job.size()));
  return offers_[static_cast<std::size_t>(peer.value)];
}

/// Tells the sender where to write. False: not now, and then not at all.
bool Device::offer_share(Operation& op) {
  const Cut cut = Cut::of(op.bytes, runtime_.settings.copy_chunk_bytes);
  Offers& offers = offers_to(op.peer);
  if (offers.unheard >= kMostOffers && ++offers.left_out == kAskAgain) {
    offers.left_out = 0;
    --offers.unheard;
  }
  using Offer = comm::Bytes<comm::Handle, comm::ShareBody>;
  if (!cut.can_be_shared() || offers.unheard >= kMostOffers ||
      port_->max_control() < sizeof(Offer::raw)) {
    return false;
  }
  op.claims = runtime_.claims.take(*runtime_.transport);
  if (op.claims == nullptr) return false;
  const Offer offer(comm::Header{.type = comm::PacketType::share, .reply_port = number_}, op.remote,
                    comm::ShareBody{.claims = runtime_.claims.key(),
                                    .number = runtime_.claims.number_of(*op.claims),
                                    .generation = op.claims->begin(),
                                    .address = reinterpret_cast<uintptr_t>(op.buffer),
                                    .bytes = op.bytes,
                                    .chunk = cut.chunk});
  if (port_->try_control(op.peer, op.reply_port, offer.span()) == Post::retry) {
    runtime_.claims.give_back(*op.claims);
    return false;
  }
  ++offers.open;
  ++offers.unheard;
  return true;
}

/// One turn of the receiver's; true: all is there, or it failed.
bool Device::share_chunk(Operation& op) {
  if (op.claims == nullptr) {
    if (offers_to(op.peer).open == kMostOffers) return false;  // those before it are being copied
    if (!offer_share(op)) {
      op.work = comm::Work::read;
      return read_chunk(op);
    }
  }
  CopyClaims& claims = *op.claims;
  const Cut cut = Cut::of(op.bytes, runtime_.settings.copy_chunk_bytes);
  // relaxed: nobody else changes the generation.
  const auto generation =
      CopyClaims::counts(claims.claimed.load(std::memory_order_relaxed)).generation;
  if (const auto number = claims.claim(generation, cut.chunks, false)) {
    const uint64_t at = *number * cut.chunk;
    const uint64_t size = std::min(op.bytes - at, cut.chunk);
    const Errc error =
        runtime_.transport->read_memory(op.peer, op.remote_address + at, {op.buffer + at, size});
    op.moved += size;
    if (error != Errc::ok) {
      op.error = error;
      claims.close(generation, cut.chunks);
    }
    if (!claims.all_claimed(cut.chunks)) return false;
  }
  const bool done = claims.is_done();
  if (!done && !is_gone(op)) return false;
  Offers& offers = offers_to(op.peer);
  --offers.open;
  if (CopyClaims::counts(claims.claimed.load(std::memory_order_relaxed)).back != 0) {
    offers.unheard = 0;
  }
  op.work = comm::Work::answer;
  if (!done) {
    // What is called dead may still be in its chunk: these claims are not used again.
    op.error = Errc::peer_died;
    return true;
  }
  const bool again = claims.failed.load(std::memory_order_relaxed) != 0 && op.error == Errc::ok;
  runtime_.claims.give_back(claims);
  if (!again) return true;
  // The sender may not write here: all of it once more, alone.
  op.moved = 0;
  op.work = comm::Work::read;
  return false;
}

void Device::end_shares() {
  with_lock([this] {
    for (const Operation* op = pending_; op != nullptr; op = op->next) {
      if (op->work != comm::Work::share || op->claims == nullptr) continue;
      const auto word = op->claims->claimed.load(std::memory_order_relaxed);
      op->claims->close(CopyClaims::counts(word).generation,
                        Cut::of(op->bytes, runtime_.settings.copy_chunk_bytes).chunks);
      for (base::Backoff backoff; !op->claims->is_done() && !is_gone(*op);) backoff.pause();
    }
  });
}

/// Whether nobody will finish the sender's chunks. Its death may be told late, behind messages that
/// wait for room: so it is asked for itself, too, now and then.
bool Device::is_gone(const Operation& op) {
  if (runtime_.is_dead(op.peer)) return true;
  if (++share_waits_ % kWaitsBetweenLooks != 0) return false;
  std::byte any;
  return runtime_.transport->read_memory(op.peer, op.remote_address, {&any, 1}) == Errc::peer_died;
}

// --- The sender ----------------------------------------------------------------------------------

/// The receiver of `op` offers a share of the copy: taken up with a record of its own, if there is
/// one; the offer may as well be ignored.
void Device::take_share(const Operation& op, const comm::ShareBody& offer) {
  const uint64_t most = std::max<uint64_t>(runtime_.settings.copy_chunk_bytes, kSmallestChunk);
  if (offer.claims.owner != op.peer.value || offer.bytes != op.bytes || offer.chunk < kPage ||
      offer.chunk > most || !Cut(op.bytes, offer.chunk).can_be_shared() ||
      !runtime_.transport->can_read(op.peer)) {
    return;
  }
  CopyClaims* const claims =
      comm::ClaimsTable::of_peer(*runtime_.transport, offer.claims, offer.number);
  Operation* const help = claims != nullptr ? runtime_.operations->allocate() : nullptr;
  if (help == nullptr) return;
  help->buffer = op.buffer;
  help->bytes = op.bytes;
  help->capacity = offer.chunk;
  help->completion = nullptr;
  help->peer = op.peer;
  help->tag = Tag{offer.generation};
  help->endpoint = op.endpoint;
  help->moved = 0;
  help->remote_address = offer.address;
  help->claims = claims;
  help->device = number_;
  help->work = comm::Work::help;
  enqueue_locked(*help);
}

/// One turn of the sender's; true: there is nothing left to do.
bool Device::help_copy(Operation& op) {
  if (runtime_.is_dead(op.peer)) return true;  // what was announced has ended, and its buffer
  const Cut cut(op.bytes, op.capacity);
  const auto number = op.claims->claim(op.tag.value, cut.chunks, true);
  if (!number) return true;
  const uint64_t at = *number * cut.chunk;
  const uint64_t size = std::min(op.bytes - at, cut.chunk);
  const Errc error =
      runtime_.transport->write_memory(op.peer, op.remote_address + at, {op.buffer + at, size});
  op.claims->tell_done(error == Errc::ok);
  op.moved += size;
  return false;
}

}  // namespace weft
