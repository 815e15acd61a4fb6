// Sends that are taken back (MPI_Cancel): at once what waits in the backlog, or, if it has a
// number, when that has gone; what was announced by asking its receiver, over the device that
// announced it, so behind it. He answers only if he has the message still: its end tells the sender
// which it was. What has gone eagerly has ended.
#include <mutex>
#include <utility>

#include "mpi/messages/engine.hpp"
#include "weft/base/buffers.hpp"

namespace weft::mpi {

void Engine::recall(Transfer& transfer) {
  Peer& peer = this->peer(transfer.process);
  bool over = false;
  {
    const std::scoped_lock guard(stalled_lock_);
    take_refused(peer);
    if (!transfer.linked) {
      if (transfer.ended() || transfer.name.operation == AnnouncementName::kNone) return;
      recalls_.push_back({transfer.process,
                          {.tag = static_cast<uint32_t>(transfer.tag),
                           .context = transfer.channel->context,
                           .kind = kRecall},
                          transfer.name});
    } else if ((transfer.kind & kSequenced) != 0) {
      transfer.kind |= kVoid;  // its number goes all the same
      transfer.outcome.cancelled = true;
    } else {
      Entry* const before = transfer.previous;
      Entry* const behind = transfer.next;
      (before != nullptr ? before->next : peer.backlog) = behind;
      (behind != nullptr ? behind->previous : peer.backlog_last) = before;
      transfer.linked = false;
      // release: as in drain.
      peer.waiting.fetch_sub(1, std::memory_order_release);
      over = true;
    }
  }
  if (!over) {
    endpoint_->try_again_later();
    // Nobody else is waited for where it went to this rank: programs look once.
    for (int looks = 0; transfer.process == runtime_.rank() && !transfer.ended() && looks < 4;
         ++looks)
      runtime_.progress();
    return;
  }
  base::give_back_buffer(std::exchange(transfer.packed, nullptr));
  transfer.outcome.cancelled = true;
  transfer.end();
}

/// (stalled_lock_) True: asked, or there is nobody to ask.
bool Engine::ask_back(const Recall& recall) {
  const RecallBody body{recall.name.operation, recall.name.generation};
  return runtime_.is_dead(recall.to) ||
         endpoint_->send(recall.to, recall.envelope, std::as_bytes(std::span(&body, 1)),
                         &runtime_.device(recall.name.port)) != Post::retry;
}

namespace {

bool is_named(const Arrived& message, const RecallBody& body) noexcept {
  return message.is_announced() && message.announcement.operation == body.operation &&
         message.announcement.generation == body.generation;
}

/// (order's lock) The one that waits for its turn; nullptr: it does not.
Arrived* find_early(const SourceOrder& order, const RecallBody& body) noexcept {
  for (Entry* each = order.early; each != nullptr; each = each->next) {
    auto& message = static_cast<Arrived&>(*each);
    if (is_named(message, body)) return &message;
  }
  return nullptr;
}

}  // namespace

void Engine::give_back(const Delivery& message) noexcept {
  RecallBody body;
  if (message.payload.size() != sizeof body ||
      message.payload.copy(std::as_writable_bytes(std::span(&body, 1))) != Errc::ok) {
    return;
  }
  // acquire, both: pair with make's and order's release.
  Channel* const channel =
      place(message.envelope.context, Plane::program).load(std::memory_order_acquire);
  if (channel == nullptr) return;
  if (SourceOrder* const orders = channel->orders.load(std::memory_order_acquire);
      orders != nullptr) {
    SourceOrder& order = orders[message.source.value];
    const std::scoped_lock guard(order.lock);
    if (Arrived* const early = find_early(order, body); early != nullptr) {
      if ((early->kind & kVoid) == 0) turn_away(early->announcement);
      early->kind |= kVoid;
      return;
    }
  }
  Arrived* const found = channel->recall(
      message.source, static_cast<int>(message.envelope.tag),
      [](void* argument, const Arrived& each) {
        return is_named(each, *static_cast<const RecallBody*>(argument));
      },
      &body);
  if (found == nullptr) return;
  channel->counts.add(ChannelCount::met_unexpected);
  drop(*found);
}

void Engine::drop(Arrived& message) noexcept {
  if (message.is_announced() && endpoint_) turn_away(message.announcement);
  release(message);
}

void Engine::turn_away(const Announcement& message) {
  if (endpoint_->refuse(message) == Post::posted) return;
  {
    const std::scoped_lock guard(stalled_lock_);
    unfetched_.emplace_back(nullptr, message);
  }
  endpoint_->try_again_later();
}

}  // namespace weft::mpi
