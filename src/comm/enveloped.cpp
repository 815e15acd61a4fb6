// Messages with an envelope: sent, announced and fetched for rooms that match by themselves
// (weft/comm/matcher.hpp).
#include <fmt/format.h>

#include "comm/endpoint_impl.hpp"
#include "comm/runtime_impl.hpp"

namespace weft {

using comm::Operation;
using comm::PacketType;
using comm::RendezvousBody;
using comm::Work;

// --- Sending -------------------------------------------------------------------------------------

void Endpoint::Impl::refuse_envelope(std::size_t bytes) const {
  if (spec.matcher == nullptr) {
    throw Error(
        Errc::bad_argument,
        fmt::format("an envelope through endpoint {}, which was made without a matcher", number));
  }
  throw Error(Errc::bad_argument,
              fmt::format("{} bytes with an envelope, which go as one message up to "
                          "Runtime::eager_bytes: announce them",
                          bytes));
}

WEFT_NOT_IN_LINE Post Endpoint::send(Rank to, const Envelope& envelope,
                                     std::span<const std::byte> data, Device* via) {
  Impl& my = *impl_;
  my.check_envelope(to, data.data(), data.size());
  Device& device = via != nullptr ? *via : my.pick_device();
  const auto header = comm::pack(PacketType::enveloped, my.number, device.number(), envelope);
  if (my.fits_ring(to, data.size())) [[likely]] {
    return device.port().try_send_short({to, device.number()}, header, data);
  }
  if (!my.runtime.goes_eagerly(to, data.size())) [[unlikely]]
    my.refuse_envelope(data.size());
  std::byte raw[sizeof header];
  std::memcpy(raw, &header, sizeof header);
  return my.runtime.opens(data.size()) &&
                 my.runtime.send_in_packets(device, to, raw, data, comm::Lent::open) == Post::done
             ? Post::done
             : my.runtime.send_packet(device, to, raw, {&data, 1});
}

Post Endpoint::send_written(Rank to, const Envelope& envelope, std::span<const std::byte> data,
                            Device* via) {
  if (data.size() < kLeastFollowed) return send(to, envelope, data, via);
  Impl& my = *impl_;
  my.check_envelope(to, data.data(), data.size());
  if (!my.runtime.goes_eagerly(to, data.size())) [[unlikely]]
    my.refuse_envelope(data.size());
  Device& device = via != nullptr ? *via : my.pick_device();
  const auto header = comm::pack(PacketType::enveloped, my.number, device.number(), envelope);
  return my.runtime.send_packet(device, to, header.bytes(), {&data, 1});
}

Post Endpoint::send_wide(Rank to, const Envelope& envelope, std::span<const std::byte> data,
                         Device* via) {
  Impl& my = *impl_;
  my.check_envelope(to, data.data(), data.size());
  const bool can_follow = my.runtime.transport->written(to, 0, true) != nullptr;
  const comm::Lent lent = my.runtime.lends(data.size(), can_follow);
  if (lent == comm::Lent::not_now) return Post::retry;
  Device& device = via != nullptr ? *via : my.pick_device();
  const auto header = comm::pack(PacketType::enveloped, my.number, device.number(), envelope);
  return my.runtime.send_in_packets(device, to, header.bytes(), data, lent);
}

uint64_t Endpoint::send_shared(std::span<const Rank> to, const Envelope& envelope,
                               std::span<const std::byte> data, Device* via) {
  Impl& my = *impl_;
  if (to.size() > kMostShared)
    throw Error(Errc::bad_argument,
                fmt::format("one message to {} ranks at once: {} at most", to.size(), kMostShared));
  for (const Rank rank : to) my.check_envelope(rank, data.data(), data.size());
  if (data.empty() || to.empty()) return 0;
  Device& device = via != nullptr ? *via : my.pick_device();
  const auto header = comm::pack(PacketType::enveloped, my.number, device.number(), envelope);
  return my.runtime.send_shared(device, to, header.bytes(), data);
}

WEFT_NOT_IN_LINE Post Endpoint::announce(Rank to, const Envelope& envelope,
                                         std::span<const std::byte> data, Completion* completion,
                                         void* context, Device* via, AnnouncementName* name,
                                         bool brings) {
  Impl& my = *impl_;
  my.check_envelope(to, data.data(), data.size());
  Runtime::Impl& runtime = my.runtime;
  Device& device = via != nullptr ? *via : my.pick_device();
  Operation* op = runtime.operations->allocate();
  if (op == nullptr) return Post::retry;
  op->buffer = const_cast<std::byte*>(data.data());  // read only
  op->capacity = op->bytes = data.size();
  op->moved = 0;
  op->completion = completion;
  op->context = context;
  op->peer = to;
  op->tag = Tag{envelope.tag};
  op->endpoint = my.number;
  op->device = device.number();
  if (runtime.is_dead(to)) {
    op->error = Errc::peer_died;
    op->work = Work::finish;
    device.enqueue(*op);
    return Post::posted;
  }
  const auto header = comm::pack(PacketType::announced, my.number, device.number(), envelope);
  // Where it is fetched all the same, packets bring it: what goes along is not worth an offer.
  const bool along = brings && !data.empty() && runtime.goes_eagerly(to, data.size());
  const RendezvousBody body = along ? RendezvousBody{runtime.operations->handle_of(*op),
                                                     reinterpret_cast<uintptr_t>(data.data()),
                                                     data.size(), fabric::ReadOffer::kNone}
                                    : runtime.announcement_of(*op, device);
  if (name != nullptr) *name = {body.operation.index, body.operation.generation, op->device};
  std::byte raw[sizeof header + sizeof body];
  std::memcpy(raw, &header, sizeof header);
  std::memcpy(raw + sizeof header, &body, sizeof body);
  comm::OperationTable::expect(*op);
  const Post answer = along && !my.fits_ring(to, sizeof body + data.size())
                          ? runtime.send_packet(device, to, raw, {&data, 1})
                          : device.port().try_send(to, device.number(), raw,
                                                   along ? data : std::span<const std::byte>());
  return runtime.posted_unless_refused(*op, to, device.number(), answer);
}

// --- Receiving -----------------------------------------------------------------------------------

uint32_t Matcher::arrive_run(const DeliveryRun& run) noexcept {
  uint32_t taken = 0;
  while (taken < run.size() && arrive(run[taken])) ++taken;
  return taken;
}

Post Endpoint::fetch(const Announcement& message, std::span<std::byte> buffer,
                     Completion* completion, void* context) {
  Impl& my = *impl_;
  Operation* op = my.runtime.operations->allocate_for_fetch();
  if (op == nullptr) return Post::retry;
  op->buffer = buffer.data();
  op->capacity = buffer.size();
  op->completion = completion;
  op->context = context;
  op->endpoint = my.number;
  comm::begin_transfer(
      my.runtime, my.pick_device(), *op, message.source, Tag{}, message.reply_port,
      {{message.operation, message.generation}, message.address, message.bytes, message.key});
  return Post::posted;
}

Post Endpoint::took(const Announcement& message) {
  const comm::Handle theirs{message.operation, message.generation};
  return impl_->pick_device().send_finished(message.source, message.reply_port, theirs, Errc::ok)
             ? Post::done
             : Post::retry;
}

Post Endpoint::refuse(const Announcement& message) {
  Impl& my = *impl_;
  Operation* op = my.runtime.operations->allocate_for_fetch();
  if (op == nullptr) return Post::retry;
  Device& device = my.pick_device();
  op->capacity = op->bytes = op->moved = 0;
  op->completion = nullptr;
  op->context = nullptr;
  op->endpoint = my.number;
  op->peer = message.source;
  op->device = device.number();
  op->reply_port = message.reply_port;
  op->remote = {message.operation, message.generation};
  op->answers = true;
  op->error = Errc::cancelled;
  op->work = Work::answer;
  device.enqueue(*op);
  return Post::posted;
}

/// Counts who asked since the last look, so that a request during a look is followed by another.
void Endpoint::try_again_later(Device* via) noexcept {
  Impl& my = *impl_;
  // acq_rel: release: what is to be tried is seen by the look; acquire: pairs with try_again's
  // exchange.
  if (my.tries_asked.fetch_add(1, std::memory_order_acq_rel) != 0) return;
  Device& device = via != nullptr ? *via : my.pick_device();
  my.try_note.work = Work::attempt;
  my.try_note.context = &my;
  device.enqueue(my.try_note);
}

namespace comm {

/// (lock) One look; all: nothing is left to be tried, and the note leaves the pending list.
Tried try_again(Endpoint::Impl& endpoint) {
  uint32_t asked = endpoint.tries_asked.load(std::memory_order_acquire);
  const Tried tried = endpoint.spec.matcher->try_again();
  if (tried == Tried::all &&
      !endpoint.tries_asked.compare_exchange_strong(asked, 0, std::memory_order_acq_rel))
    return Tried::some;
  return tried;
}

fabric::Taken arrive_enveloped(Endpoint::Impl& endpoint, Device& device,
                               const fabric::ShortHeader& header, const Arrived& arrived) {
  OpenPacket* const open = arrived.open;
  const Payload payload = open != nullptr ? Payload(*open) : Payload(arrived.payload);
  if (!endpoint.spec.matcher->arrive({arrived.source, unpack_envelope(header), payload})) {
    return fabric::Taken::hold;
  }
  if (open != nullptr) {
    device.port().give_back_all(arrived.loan, open->indices());
  } else if (arrived.loan) {
    device.port().give_back(arrived.loan);
  }
  return fabric::Taken::yes;
}

fabric::Taken arrive_announced(Endpoint::Impl& endpoint, Device& device,
                               const fabric::ShortHeader& header, const Arrived& arrived,
                               const RendezvousBody& body) {
  const Announcement announced{arrived.source,
                               static_cast<uint16_t>(header.words[1] >> 32),
                               body.operation.index,
                               body.operation.generation,
                               body.address,
                               body.bytes,
                               body.key};
  if (!endpoint.spec.matcher->announced(unpack_envelope(header), announced, arrived.payload))
    return fabric::Taken::hold;
  if (arrived.loan) device.port().give_back(arrived.loan);
  return fabric::Taken::yes;
}

}  // namespace comm

// --- Work for later ------------------------------------------------------------------------------

namespace {
/// Of a chain of which each defers the next, at one go.
constexpr int kDeferredRounds = 64;
}  // namespace

void Runtime::defer(Deferred& work) noexcept {
  Deferred* first = deferred_.load(std::memory_order_relaxed);
  do {
    work.next_deferred = first;
    // release: pairs with the exchange in run_deferred_now; the work is whole.
  } while (!deferred_.compare_exchange_weak(first, &work, std::memory_order_release,
                                            std::memory_order_relaxed));
}

/// What runs may defer more, and post: the outermost call of a thread does it all, in order. But
/// not without an end: work that was answered retry defers itself again, and waits for progress,
/// which would never come. So after some rounds the rest is for the next call, and nobody sleeps
/// meanwhile (Impl::sleep).
WEFT_NOT_IN_LINE void Runtime::run_deferred_now() noexcept {
  thread_local bool running = false;
  if (running) return;
  running = true;
  // acquire: pairs with defer's release. Last in, first out: turn it round.
  for (int rounds = 0; rounds < kDeferredRounds; ++rounds) {
    Deferred* last = deferred_.exchange(nullptr, std::memory_order_acquire);
    if (last == nullptr) break;
    Deferred* in_order = nullptr;
    while (last != nullptr) {
      Deferred* const next = last->next_deferred;
      last->next_deferred = in_order;
      in_order = last;
      last = next;
    }
    while (in_order != nullptr) {
      Deferred* const next = in_order->next_deferred;
      // It may take long, or need what a thread holds whose wake the caller put off, or did not
      // give since it is about to take the message itself.
      if (!impl_->turns.owed.empty()) impl_->turns.keep_watch();
      {
        const comm::WaitSet::Taker nobody(nullptr, comm::WaitSet::Taker::Before::wakes);
        in_order->run();
      }
      in_order = next;
      // Whoever waits for a condition that this made true, after progress had woken them in vain.
      base::light_fence();  // as in Device::after_progress
      if (!impl_->watchers.empty()) impl_->watchers.wake_all();
    }
  }
  running = false;
  // relaxed: a thread of its own left it there, or whoever did has called after that.
  if (deferred_.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
    impl_->devices[0]->wake_sleeper();
}

}  // namespace weft
