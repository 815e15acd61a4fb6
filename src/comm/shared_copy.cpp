// Both sides of a shared copy (shared_copy.hpp, docs/design/protocols.md). All of it but the table
// runs under the progress lock of the device that carries the operation.
#include "comm/shared_copy.hpp"

#include "comm/device.hpp"
#include "comm/runtime_impl.hpp"

namespace weft {

using comm::CopyClaims;
using comm::Operation;

namespace comm {

CopyClaims* ClaimsTable::take(fabric::Transport& transport) noexcept {
  try {
    std::call_once(made_, [&] {
      const auto memory = transport.allocate_shared(kClaims * sizeof(CopyClaims));
      claims_ = reinterpret_cast<CopyClaims*>(memory.data());
      key_ = transport.expose(memory);
      free_.store(~uint64_t{0}, std::memory_order_release);
    });
  } catch (const std::exception&) {
    return nullptr;  // it is tried again, which is seldom: large transfers alone come here
  }
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

CopyClaims* ClaimsTable::of_peer(fabric::Transport& transport, const fabric::MemoryKey& key,
                                 uint32_t number) noexcept {
  const auto memory = transport.map_peer(key);
  if (!memory || memory->size() < kClaims * sizeof(CopyClaims) || number >= kClaims) return nullptr;
  return reinterpret_cast<CopyClaims*>(memory->data()) + number;
}

}  // namespace comm

namespace {

/// Chunks so small that both ends have some, and so large that a copy's fixed cost is a tenth.
constexpr uint64_t kSmallestChunk = 32 << 10;
constexpr uint64_t kChunksWanted = 8;
constexpr uint64_t kPage = 4096;

/// How a transfer is cut; the receiver's way, of which the sender is told.
struct Cut {
  uint64_t chunk;
  uint32_t chunks;

  Cut(uint64_t bytes, uint64_t the_chunk)
      : chunk(the_chunk), chunks(static_cast<uint32_t>((bytes + the_chunk - 1) / the_chunk)) {}
  static Cut of(uint64_t bytes, uint64_t most) noexcept {
    const uint64_t wanted =
        std::clamp(bytes / kChunksWanted, kSmallestChunk, std::max(most, kSmallestChunk));
    const uint64_t chunk = std::max(wanted, bytes / (CopyClaims::kMostChunks - 1) + 1);
    return {bytes, (chunk + kPage - 1) / kPage * kPage};
  }
};

}  // namespace

// --- The receiver --------------------------------------------------------------------------------

/// Tells the sender where to write. False: not now, and then not at all.
bool Device::offer_share(Operation& op) {
  op.claims = runtime_.claims.take(*runtime_.transport);
  if (op.claims == nullptr) return false;
  const comm::Bytes offer(
      comm::Header{.type = comm::PacketType::share, .reply_port = number_}, op.remote,
      comm::ShareBody{.claims = runtime_.claims.key(),
                      .number = runtime_.claims.number_of(*op.claims),
                      .generation = op.claims->begin(),
                      .address = reinterpret_cast<uintptr_t>(op.buffer),
                      .bytes = op.bytes,
                      .chunk = Cut::of(op.bytes, runtime_.settings.copy_chunk_bytes).chunk});
  if (port_->try_control(op.peer, op.reply_port, offer.span()) != Post::retry) return true;
  runtime_.claims.give_back(*op.claims);
  return false;
}

/// One turn of the receiver's; true: all is there, or it failed.
bool Device::share_chunk(Operation& op) {
  if (op.claims == nullptr && !offer_share(op)) {
    op.work = comm::Work::read;
    return read_chunk(op);
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
  if (!claims.is_done()) {
    if (!runtime_.is_dead(op.peer)) return false;
    op.error = Errc::peer_died;
  }
  const bool again = claims.failed.load(std::memory_order_relaxed) != 0 && op.error == Errc::ok;
  runtime_.claims.give_back(claims);
  op.work = comm::Work::answer;
  if (!again) return true;
  // The sender may not write here: all of it once more, alone.
  op.moved = 0;
  op.work = comm::Work::read;
  return false;
}

// --- The sender ----------------------------------------------------------------------------------

/// The receiver of `op` offers a share of the copy: taken up with a record of its own, if there is
/// one; the offer may as well be ignored.
void Device::take_share(const Operation& op, const comm::ShareBody& offer) {
  if (offer.bytes != op.bytes || offer.chunk == 0 || !runtime_.transport->can_read(op.peer)) return;
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
  help->work = comm::Work::help;
  start_locked(*help);
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
