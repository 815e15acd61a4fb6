// Sends: at once, announced, or in the backlog of their peer until there is room.
#include <algorithm>
#include <array>
#include <bit>
#include <mutex>

#include "mpi/messages/engine.hpp"
#include "mpi/messages/under_way.hpp"
#include "mpi/process.hpp"
#include "weft/base/buffers.hpp"

namespace weft::mpi {

namespace {

/// Bytes of a layout with holes that are packed on the stack.
constexpr std::size_t kSmallPack = 512;
/// Sends out of the backlog at a look, and as many recalls and fetches: `stalled_lock_` is held,
/// and each may ring a doorbell. What is refused comes again behind the others.
constexpr int kSendsAtALook = 64;

}  // namespace

inline Envelope Engine::envelope_of(const Channel& channel, const Transfer& transfer) const {
  return {.tag = static_cast<uint32_t>(transfer.tag),
          .sequence = transfer.sequence,
          .context = channel.context,
          .kind = transfer.kind};
}

inline bool Engine::send_at_once(Channel& channel, Rank to, int tag,
                                 std::span<const std::byte> data) {
  // Numbers are given with transfers.
  if (sequenced_ || !goes_eagerly(to, data.size())) return false;
  Peer& peer = this->peer(to);
  // acquire: pairs with drain's release; whoever sees that nobody waits any more goes behind them.
  if (peer.stopped.load(std::memory_order_relaxed) ||
      peer.waiting.load(std::memory_order_acquire) != 0 || (deaths() && runtime_.is_dead(to))) {
    return false;
  }
  const Envelope envelope{.tag = static_cast<uint32_t>(tag),
                          .context = channel.context,
                          .kind = static_cast<uint8_t>(channel.plane)};
  if (endpoint_->send(to, envelope, data, via(channel, tag)) == Post::retry) return false;
  channel.counts.add(ChannelCount::sent, ChannelCount::sent_bytes, data.size());
  return true;
}

uint64_t Engine::send_shared(Channel& channel, std::span<const Rank> to, int tag,
                             std::span<const std::byte> data) {
  // Numbers are given with transfers.
  if (sequenced_ || to.size() > Endpoint::kMostShared) return 0;
  std::array<Rank, Endpoint::kMostShared> ready;
  std::array<uint8_t, Endpoint::kMostShared> place;
  std::size_t count = 0;
  for (std::size_t i = 0; i < to.size(); ++i) {
    Peer& peer = this->peer(to[i]);
    // acquire: as in send_at_once.
    if (peer.stopped.load(std::memory_order_relaxed) ||
        peer.waiting.load(std::memory_order_acquire) != 0 || (deaths() && runtime_.is_dead(to[i])))
      continue;
    ready[count] = to[i];
    place[count++] = static_cast<uint8_t>(i);
  }
  const Envelope envelope{.tag = static_cast<uint32_t>(tag),
                          .context = channel.context,
                          .kind = static_cast<uint8_t>(channel.plane)};
  uint64_t sent = endpoint_->send_shared({ready.data(), count}, envelope, data, via(channel, tag));
  uint64_t went = 0;
  for (; sent != 0; sent &= sent - 1) {
    went |= uint64_t{1} << place[static_cast<std::size_t>(std::countr_zero(sent))];
    channel.counts.add(ChannelCount::sent, ChannelCount::sent_bytes, data.size());
  }
  return went;
}

/// A message that would be announced goes at once, in a few packets, while few such are out.
bool Engine::send_wide(Transfer& transfer, std::span<const std::byte> data) {
  return endpoint_->send_wide(transfer.process, envelope_of(*transfer.channel, transfer), data,
                              via(*transfer.channel, transfer.tag)) == Post::done;
}

/// One try. done: it has gone; posted: its completion will tell.
Post Engine::post(Transfer& transfer, std::span<const std::byte> data, How how) {
  const Envelope envelope = envelope_of(*transfer.channel, transfer);
  Device* const device = via(*transfer.channel, transfer.tag);
  if (how == How::eager) return endpoint_->send(transfer.process, envelope, data, device);
  if (how == How::written) return endpoint_->send_written(transfer.process, envelope, data, device);
  under_way_.fetch_add(1, std::memory_order_relaxed);
  const Post answer = endpoint_->announce(transfer.process, envelope, data, &sent_done_, &transfer,
                                          device, &transfer.name, how == How::brought);
  if (answer == Post::retry) under_way_.fetch_sub(1, std::memory_order_relaxed);
  return answer;
}

void Engine::send(Transfer& transfer, SendMode mode) {
  const Rank to = transfer.process;
  Peer& peer = this->peer(to);
  const auto bytes = static_cast<std::size_t>(transfer.capacity);
  ChannelCounts& counts = transfer.channel->counts;
  counts.add(ChannelCount::sent, ChannelCount::sent_bytes, bytes);
  if (deaths() && runtime_.is_dead(to)) [[unlikely]] {
    transfer.outcome.error = MPI_ERR_PROC_ABORTED;
    transfer.end();
    return;
  }
  const bool welcome = !peer.stopped.load(std::memory_order_relaxed);
  const bool at_once = mode != SendMode::synchronous && welcome;
  const bool is_short = goes_eagerly(to, bytes);
  const bool eager = at_once && is_short;
  std::span<const std::byte> data{transfer.buffer, bytes};
  std::array<std::byte, kSmallPack> small;
  if (!transfer.type->contiguous()) {
    std::byte* into = small.data();
    if (!eager || sequenced_ || bytes > small.size()) {
      into = transfer.packed = base::take_buffer(bytes);
      if (into == nullptr) {
        transfer.outcome.error = MPI_ERR_NO_MEM;
        transfer.end();
        return;
      }
    }
    data = {into, bytes};
    transfer.type->pack(transfer.buffer, transfer.count, 0, {into, bytes});
  }
  // The number last: what fails has none.
  if (sequenced_ && !transfer.channel->may_overtake) {
    transfer.kind |= kSequenced;
    transfer.sequence =
        order(*transfer.channel, to).next_sent.fetch_add(1, std::memory_order_relaxed);
  }
  // acquire: as in send_at_once.
  if (peer.waiting.load(std::memory_order_acquire) == 0) [[likely]] {
    // Not where its copy would be made under the lock of an order between devices.
    const bool went = at_once && !eager && !sequenced_ && send_wide(transfer, data);
    // Whoever matched it tells the sender, who waits for that: its bytes need not be asked for.
    const How how = eager                 ? (mode == SendMode::exchange ? How::written : How::eager)
                    : is_short && welcome ? How::brought
                                          : How::announced;
    const Post answer = went ? Post::done : post(transfer, data, how);
    if (answer == Post::posted) {
      counts.add(ChannelCount::announced);
      return;
    }
    if (answer == Post::done) [[likely]] {
      if (transfer.packed != nullptr)
        base::give_back_buffer(std::exchange(transfer.packed, nullptr));
      transfer.end();
      return;
    }
  }
  transfer.kind |= eager ? 0 : kAnnounce;
  stall(transfer, peer);
}

// --- The backlog ---------------------------------------------------------------------------------

void Engine::link_stalled(Peer& peer) noexcept {
  if (std::exchange(peer.stalled, true)) return;
  stalled_.push_back(&peer);
}

void Engine::stall(Transfer& transfer, Peer& peer) {
  transfer.channel->counts.add(ChannelCount::stalls);
  if (!transfer.type->contiguous() && transfer.packed == nullptr) {
    // It was packed on the stack.
    transfer.packed = base::take_buffer(static_cast<std::size_t>(transfer.capacity));
    if (transfer.packed == nullptr) {
      transfer.outcome.error = MPI_ERR_NO_MEM;
      transfer.end();
      return;
    }
    transfer.type->pack(transfer.buffer, transfer.count, 0,
                        {transfer.packed, static_cast<std::size_t>(transfer.capacity)});
  }
  transfer.name = {};
  // relaxed: before the push, so that this thread's next send, and whoever learns of this one, sees
  // it.
  peer.waiting.fetch_add(1, std::memory_order_relaxed);
  Entry* newest = peer.refused.load(std::memory_order_relaxed);
  do {
    transfer.next = newest;
    // release: pairs with take_refused. The last access: it may go from there, and end.
  } while (!peer.refused.compare_exchange_weak(newest, &transfer, std::memory_order_release,
                                               std::memory_order_relaxed));
  // Whoever was first of those that lie there has the peer looked at.
  if (newest != nullptr) return;
  {
    const std::scoped_lock guard(stalled_lock_);
    link_stalled(peer);
  }
  endpoint_->try_again_later();
}

/// (stalled_lock_) What was refused since goes behind the backlog, oldest first.
void Engine::take_refused(Peer& peer) noexcept {
  Entry* each = peer.refused.exchange(nullptr, std::memory_order_acquire);
  if (each == nullptr) return;
  Entry* const newest = each;
  Entry* oldest = nullptr;
  while (each != nullptr) {
    Entry* const before = each->next;
    each->next = oldest;
    if (oldest != nullptr) oldest->previous = each;
    each->linked = true;
    oldest = std::exchange(each, before);
  }
  oldest->previous = peer.backlog != nullptr ? peer.backlog_last : nullptr;
  (peer.backlog != nullptr ? peer.backlog_last->next : peer.backlog) = oldest;
  peer.backlog_last = newest;
}

/// (stalled_lock_) Sends what waits for this peer, as far as there is room and `most` allows. True:
/// nothing is left.
bool Engine::drain(Peer& peer, int& most, std::vector<Transfer*>& over) {
  if (peer.owes_notice && !send_notice(peer)) return false;
  uint32_t went = 0;
  for (;; --most) {
    if (peer.backlog == nullptr) take_refused(peer);
    if (peer.backlog == nullptr || most == 0) break;
    auto& first = static_cast<Transfer&>(*peer.backlog);
    Entry* const next = first.next;
    const std::byte* const from = first.packed != nullptr ? first.packed : first.buffer;
    const bool taken_back = (first.kind & kVoid) != 0;
    const bool eager = taken_back || ((first.kind & kAnnounce) == 0 &&
                                      !peer.stopped.load(std::memory_order_relaxed));
    first.kind &= static_cast<uint8_t>(~kAnnounce);
    ChannelCounts& counts = first.channel->counts;
    const auto bytes = taken_back ? 0 : static_cast<std::size_t>(first.capacity);
    // Once it is posted its end may be told at any time: nothing of it is read after that.
    first.linked = false;
    const Post answer = post(first, {from, bytes}, eager ? How::eager : How::announced);
    if (answer == Post::retry) {
      first.linked = true;
      first.kind |= eager ? 0 : kAnnounce;
      break;
    }
    peer.backlog = next;
    if (next != nullptr) next->previous = nullptr;
    ++went;
    if (answer == Post::done) {
      over.push_back(&first);
    } else {
      counts.add(ChannelCount::announced);
    }
  }
  // Of all at once: senders add to it. release: who sees that nobody waits goes behind all these.
  if (went != 0) peer.waiting.fetch_sub(went, std::memory_order_release);
  return peer.backlog == nullptr && peer.refused.load(std::memory_order_relaxed) == nullptr;
}

Tried Engine::try_again() noexcept {
  if (closing_.load(std::memory_order_acquire)) return Tried::all;
  std::vector<Transfer*> over;
  std::vector<std::pair<Transfer*, Announcement>> fetches;
  bool all = true;
  {
    // Somebody else is at it: no two of those who poll wait for each other.
    const std::unique_lock guard(stalled_lock_, std::try_to_lock);
    if (!guard) return Tried::nothing;
    std::size_t kept = 0;
    int most = kSendsAtALook;
    for (Peer* peer : stalled_) {
      if (drain(*peer, most, over)) {
        peer->stalled = false;
      } else {
        stalled_[kept++] = peer;
      }
    }
    stalled_.resize(kept);
    all = kept == 0;
    // Another one first at the next look: none keeps the others waiting.
    if (!all) std::rotate(stalled_.begin(), stalled_.begin() + 1, stalled_.end());
    for (auto left = std::min<std::size_t>(unfetched_.size(), kSendsAtALook); left != 0; --left) {
      fetches.push_back(unfetched_.front());
      unfetched_.pop_front();
    }
    for (auto left = std::min<std::size_t>(recalls_.size(), kSendsAtALook); left != 0; --left) {
      const Recall first = recalls_.front();
      recalls_.pop_front();
      if (!ask_back(first)) recalls_.push_back(first);
    }
  }
  // One that is refused again comes back to the list.
  for (const auto& [transfer, message] : fetches) {
    if (transfer != nullptr) {
      begin_fetch(*transfer, message);
    } else {
      turn_away(message);
    }
  }
  {
    const std::scoped_lock guard(stalled_lock_);
    all = all && unfetched_.empty() && recalls_.empty();
  }
  for (Transfer* each : over) {
    base::give_back_buffer(std::exchange(each->packed, nullptr));
    each->end();
  }
  return all ? Tried::all : over.empty() ? Tried::nothing : Tried::some;
}

void Engine::end_send(void* argument, const Event& event) {
  auto& transfer = *static_cast<Transfer*>(event.context);
  base::give_back_buffer(std::exchange(transfer.packed, nullptr));
  transfer.outcome.cancelled = event.error == Errc::cancelled;
  if (!transfer.outcome.cancelled) transfer.outcome.error = error_class_of(event.error);
  // release: pairs with shut. The last access: its end may let the program finalize.
  static_cast<Engine*>(argument)->under_way_.fetch_sub(1, std::memory_order_release);
  transfer.end();
}

// --- The room's interface ------------------------------------------------------------------------

void start_send(Transfer& transfer, Comm& comm, Plane plane, int to, int tag, const void* buffer,
                int64_t count, const Datatype& type, SendMode mode) {
  Channel& channel = *comm.channels[static_cast<std::size_t>(plane)];
  transfer.prepare(channel, comm.process(to), tag, const_cast<void*>(buffer), count, type);
  transfer.kind = static_cast<uint8_t>(plane);
  Engine& my = engine();
  my.expect(channel, tag);
  my.send(transfer, mode);
  my.runtime().run_deferred();
}

inline Arrived* Engine::post_receive(Transfer& transfer) {
  Channel& channel = *transfer.channel;
  Arrived* const met = timed(channel, [&] { return channel.post(transfer); });
  channel.counts.add(met != nullptr ? ChannelCount::met_unexpected : ChannelCount::posted);
  // How many wait is a sum over threads.
  if (match_times_ && met == nullptr) [[unlikely]]
    channel.counts.note_posted(channel.counts.posted());
  return met;
}

void start_prepared_recv(Transfer& transfer, Comm& comm) {
  const int from = transfer.outcome.source;  // once it is posted it is whoever's who progresses
  Engine& my = engine();
  my.expect(*transfer.channel, transfer.tag);
  if (Arrived* const met = my.post_receive(transfer); met != nullptr) {
    my.receive(transfer, *met);
  } else if (my.deaths() && whose_death_leaves_nobody(comm, from).value >= 0 &&
             my.withdraw(transfer)) [[unlikely]] {
    transfer.outcome.error = MPI_ERR_PROC_ABORTED;
    transfer.end();
  }
  my.runtime().run_deferred();
}

bool try_send(Comm& comm, Plane plane, int to, int tag, const void* buffer, int64_t count,
              const Datatype& type) {
  if (!type.contiguous()) return false;
  Channel& channel = *comm.channels[static_cast<std::size_t>(plane)];
  const std::span data{static_cast<const std::byte*>(buffer),
                       static_cast<std::size_t>(count * type.size())};
  return engine().send_at_once(channel, comm.process(to), tag, data);
}

uint64_t send_shared(Comm& comm, Plane plane, std::span<const int> to, int tag, const void* buffer,
                     int64_t count, const Datatype& type) {
  if (!type.contiguous() || to.size() > Endpoint::kMostShared) return 0;
  Channel& channel = *comm.channels[static_cast<std::size_t>(plane)];
  const std::span data{static_cast<const std::byte*>(buffer),
                       static_cast<std::size_t>(count * type.size())};
  std::array<Rank, Endpoint::kMostShared> processes;
  std::ranges::transform(to, processes.begin(), [&](int rank) { return comm.process(rank); });
  return engine().send_shared(channel, {processes.data(), to.size()}, tag, data);
}

void send_and_wait(Comm& comm, Plane plane, int to, int tag, const void* buffer, int64_t count,
                   const Datatype& type, SendMode mode) {
  const UnderWay call(comm);  // before it is sent, which tells the receiver of it
  Transfer transfer;
  start_send(transfer, comm, plane, to, tag, buffer, count, type, mode);
  wait(transfer);
  if (transfer.outcome.error != MPI_SUCCESS) {
    throw Failure(transfer.outcome.error,
                  "a send failed: " + why_failed(transfer.outcome.error, transfer.process))
        .about(&comm);
  }
}

}  // namespace weft::mpi
