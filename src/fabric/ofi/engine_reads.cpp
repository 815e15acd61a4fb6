// Memory that peers may read, reads of theirs, and what a peer's end means for them.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "fabric/ofi/connections.hpp"
#include "fabric/ofi/engine.hpp"
#include "fabric/ofi/ofi_transport.hpp"

namespace weft::fabric::ofi {

namespace {

constexpr int kStepsAfterCut = 4;  ///< one tells the provider; another, what that led to
constexpr uint64_t kReadPatienceNs = 1'000'000'000;  ///< in which the provider may take none

using Hold = std::scoped_lock<base::SpinLock>;

}  // namespace

// ---- offered ----

/// libfabric's providers do not all lock what they know of memory against their own progress: that
/// is made and taken back under the engine's lock, as everything else.
ReadOffer Engine::offer(const Peer& peer, std::span<const std::byte> memory) noexcept {
  if (!reads_remotely()) return {};
  std::unique_ptr<Offer> made(new (std::nothrow) Offer{.peer = peer, .exposed = {}});
  if (made == nullptr) return {};
  uint64_t key = 0;
  {
    const Hold hold(lock_);
    made->exposed = endpoint_.expose(memory);
    if (made->exposed == nullptr) return {};
    key = ::fi_mr_key(made->exposed.get());
    if (key == ReadOffer::kNone) return made->exposed.reset(), ReadOffer{};
    made->next = std::exchange(offers_, made.get());
    if (made->next != nullptr) made->next->before = made.get();
    offers_something_.store(true, std::memory_order_relaxed);  // relaxed: whether to look
  }
  transport_.note_gathering();  // should nobody poll, readers depend on the keeper
  return {made.release(), endpoint_.exposed_address(memory), key};
}

void Engine::withdraw_offer(void* handle, bool cuts) noexcept {
  const std::unique_ptr<Offer> gone(static_cast<Offer*>(handle));
  if (cuts) cut(gone->peer);
  const Hold hold(lock_);
  // What the provider had begun to send of it, it finds out now that it cannot.
  for (int i = 0; cuts && i < kStepsAfterCut; ++i) step();
  gone->exposed.reset();
  if (gone->next != nullptr) gone->next->before = gone->before;
  (gone->before != nullptr ? gone->before->next : offers_) = gone->next;
  offers_something_.store(offers_ != nullptr, std::memory_order_relaxed);  // relaxed: as above
}

void Engine::end_offers() noexcept {
  while (offers_ != nullptr) delete std::exchange(offers_, offers_->next);
}

/// Shuts what connects this port with any of the peer's: over TCP; what other providers connect
/// they keep.
void Engine::cut(const Peer& peer) const noexcept {
  if (!transport_.is_over_tcp()) return;
  for (uint32_t port = 0; peer.known() && port < peer.ports(); ++port)
    shut_connections(endpoint_.address(), peer.address(port));
}

// ---- read ----

Post Engine::begin_read(Peer& peer, uint32_t port, uint64_t address, uint64_t key,
                        std::span<std::byte> into, uint64_t token) noexcept {
  if (!reads_remotely()) return Post::done;
  const Hold hold(lock_);
  if (free_reads_.empty()) return Post::retry;
  Read& one = *free_reads_.front();
  one.from = nullptr;
  ssize_t answer = -FI_ENOTCONN;
  // relaxed: under the lock. Of the dead nothing is read any more.
  if (!peer.down.load(std::memory_order_relaxed)) [[likely]] {
    one.from = channel(peer, port % peer.ports());
    if (one.from == nullptr) return Post::retry;
    answer = read_remote(one, into, address, key);
    if (answer != -FI_EAGAIN) {
      one.from->no_reads_ns = 0;
    } else if (may_wait_to_read(*one.from)) {
      one.into.reset();
      suspect(*one.from);
      return Post::retry;
    }
    if (answer == 0) one.from->note_moved();
    ++one.from->reads;
  }
  free_reads_.erase(free_reads_.begin());
  one.token = token;
  one.under_way = true;
  if (answer != 0) end_read(one, false);
  return Post::posted;
}

/// Not for ever: what is not read comes in packets.
bool Engine::may_wait_to_read(Channel& from) const noexcept {
  const uint64_t now = transport_.awake_ns();
  if (from.no_reads_ns == 0) from.no_reads_ns = std::max<uint64_t>(now, 1);
  return now - std::min(now, from.no_reads_ns) <= kReadPatienceNs;
}

/// Where the provider must be told of the buffer, it is, for as long as the read lasts: those to
/// which that is dear keep what they were told, and watch for memory that goes away.
ssize_t Engine::read_remote(Read& one, std::span<std::byte> into, uint64_t address,
                            uint64_t key) noexcept {
  void* descriptor = nullptr;
  if (endpoint_.registers()) {
    one.into = endpoint_.enter_for_read(into);
    if (!one.into) return -FI_ENOMEM;  // it comes in packets
    descriptor = ::fi_mr_desc(one.into.get());
  }
  return endpoint_.read_remote(into, descriptor, one.from->address, address, key, one.context);
}

/// It is over: the polling thread tells. Version 1.17 may say so twice of one that failed.
void Engine::end_read(Read& one, bool ok) noexcept {
  if (!std::exchange(one.under_way, false)) return;
  one.into.reset();
  if (one.from != nullptr) --one.from->reads;
  one.ok = ok;
  ended_reads_.push_back(&one);                       // room for all
  has_reads_.store(true, std::memory_order_relaxed);  // as has_returned
  ring_if_armed();
}

void Engine::take_reads(std::vector<EndedRead>& into) noexcept {
  const Hold hold(lock_);
  for (Read* const one : ended_reads_) {
    into.push_back({one->token, one->ok});  // room for all
    free_reads_.push_back(one);
  }
  ended_reads_.clear();
  has_reads_.store(false, std::memory_order_relaxed);  // as above
}

void Engine::end_reads_of_the_dead() noexcept {
  for (std::size_t at = 0;; ++at) {
    const Peer* dead = nullptr;
    {
      const std::unique_lock hold(lock_, std::try_to_lock);
      if (!hold) return;  // the next look is soon
      // relaxed: under the lock, and looked at again.
      while (at < all_.size() &&
             (all_[at]->reads == 0 || !all_[at]->peer.down.load(std::memory_order_relaxed)))
        ++at;
      if (at == all_.size()) return;
      dead = &all_[at]->peer;
    }
    cut(*dead);
  }
}

}  // namespace weft::fabric::ofi
