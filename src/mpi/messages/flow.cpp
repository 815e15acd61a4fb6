// Bounded memory for messages that nobody asked for yet: a sender whose messages fill more than its
// share is told to announce them instead (kStop), and to send again (kGo) once half of that is
// free.
//
// What is told may come late: a sender is stopped by the messages that it has sent meanwhile, which
// the rings bound. Announced messages cost a record each, and their senders wait.
#include <mutex>

#include "mpi/messages/engine.hpp"

namespace weft::mpi {

void Engine::charge(Rank source, int64_t bytes) noexcept {
  Peer& peer = this->peer(source);
  // acq_rel: who sees that all are below their half sees the amounts that made it so.
  const int64_t of_peer = peer.unexpected_bytes.fetch_add(bytes, std::memory_order_acq_rel) + bytes;
  const int64_t of_all = unexpected_bytes_.fetch_add(bytes, std::memory_order_acq_rel) + bytes;
  if (of_peer <= most_per_peer_ && of_all <= most_) [[likely]]
    return;
  // Counted first: whoever lets this peer go counts it off.
  told_to_stop_.fetch_add(1, std::memory_order_acq_rel);
  if (peer.told_to_stop.exchange(true, std::memory_order_acq_rel)) {
    told_to_stop_.fetch_sub(1, std::memory_order_acq_rel);
    return;
  }
  count(stops);
  owe_notice(peer);
}

void Engine::discharge(Rank source, int64_t bytes) noexcept {
  Peer& peer = this->peer(source);
  const int64_t of_peer = peer.unexpected_bytes.fetch_sub(bytes, std::memory_order_acq_rel) - bytes;
  const int64_t of_all = unexpected_bytes_.fetch_sub(bytes, std::memory_order_acq_rel) - bytes;
  if (told_to_stop_.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  if (of_all > most_ / 2) return;
  // Crossing the half of all lets everybody go who is below his own.
  if (of_all + bytes > most_ / 2) let_go();
  if (of_peer <= most_per_peer_ / 2 && peer.told_to_stop.exchange(false)) {
    told_to_stop_.fetch_sub(1, std::memory_order_relaxed);
    owe_notice(peer);
  }
}

void Engine::let_go() noexcept {
  for (int i = 0; i < runtime_.size(); ++i) {
    Peer& peer = this->peer(Rank{i});
    if (peer.told_to_stop.load(std::memory_order_relaxed) &&
        peer.unexpected_bytes.load(std::memory_order_relaxed) <= most_per_peer_ / 2 &&
        peer.told_to_stop.exchange(false)) {
      told_to_stop_.fetch_sub(1, std::memory_order_relaxed);
      owe_notice(peer);
    }
  }
}

void Engine::owe_notice(Peer& peer) noexcept {
  if (closing_.load(std::memory_order_acquire)) return;
  {
    const std::scoped_lock guard(stalled_lock_);
    peer.owes_notice = true;
    link_stalled(peer);
  }
  endpoint_->try_again_later();
}

/// (stalled_lock_) Tells the peer what holds now; false: no room.
bool Engine::send_notice(Peer& peer) {
  const uint8_t kind = peer.told_to_stop.load(std::memory_order_relaxed) ? kStop : kGo;
  const Rank to{static_cast<int32_t>(&peer - peers_)};
  // Always over the same device: a stop and a go must not overtake each other.
  if (!runtime_.is_dead(to) &&
      endpoint_->send(to, Envelope{.kind = kind}, {}, &runtime_.device(0)) == Post::retry) {
    return false;
  }
  peer.owes_notice = false;
  return true;
}

void Engine::control(const Delivery& message) noexcept {
  const uint8_t kind = message.envelope.kind;
  if (kind == kRecall) {
    give_back(message);
  } else {
    // relaxed: a hint to later sends.
    peer(message.source).stopped.store(kind == kStop, std::memory_order_relaxed);
  }
}

}  // namespace weft::mpi
