#include "fabric/ofi/engine.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>
#include <sodium.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "fabric/ofi/limits.hpp"
#include "fabric/ofi/ofi_transport.hpp"
#include "fabric/packet_ref.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/copy.hpp"

namespace weft::fabric::ofi {

namespace {

constexpr uint64_t kPatienceNs = 200'000'000;  ///< before a peer that takes nothing is suspected
constexpr uint64_t kRestNs = 10'000'000;       ///< after an error, before it is tried again
constexpr uint64_t kTaggedRestNs = 50'000;     ///< after a refusal, where frames have tags
constexpr uint64_t kGatherNs = 5'000;          ///< what follows so soon waits for the next step
constexpr uint32_t kBatchBytes = 4096;
constexpr uint32_t kMostPosted = 4096;  ///< receives, whatever the provider takes
constexpr uint32_t kMostGathered = 64;

using Hold = std::scoped_lock<base::SpinLock>;

WireLimits limits_for(OfiTransport& transport) {
  return {.stamp = transport.stamp(),
          .ranks = static_cast<uint32_t>(transport.job().size()),
          .self = static_cast<uint32_t>(transport.self().value),
          .most_length = transport.max_inline(),
          .most_packet = transport.geometry().packet_bytes,
          .packet_words = sizeof(PacketRef),
          .tag_bytes = transport.tag_bytes()};
}

/// Where there is one size of receives, it is that of the largest message.
SizeClasses classes_for(ReceiveStrategy strategy, uint32_t batch_bytes, uint32_t frame_bytes,
                        uint32_t packet_bytes) {
  return strategy == ReceiveStrategy::sized ? SizeClasses(batch_bytes, frame_bytes, packet_bytes)
                                            : SizeClasses(frame_bytes + packet_bytes);
}

}  // namespace

Engine::Engine(OfiTransport& transport, uint32_t number, const Info& info, fid_fabric& fabric)
    : transport_(transport),
      number_(number),
      limits_(limits_for(transport)),
      frame_bytes_(static_cast<uint32_t>(sizeof(WireHeader)) + limits_.most_length +
                   limits_.tag_bytes),
      batch_bytes_(std::min(frame_bytes_ + limits_.most_packet, kBatchBytes)),
      classes_(classes_for(transport.receive_strategy(), batch_bytes_, frame_bytes_,
                           limits_.most_packet)),
      effort_(transport.effort()),
      most_ahead_(static_cast<int32_t>(transport.geometry().lane_cells +
                                       transport.geometry().control_cells +
                                       transport.geometry().packets + kMostAboutReads + 1)),
      pool_(frame_bytes_, &endpoint_),
      batches_(batch_bytes_, &endpoint_),
      receives_(make_receive_pool(
          endpoint_, transport.receive_setup(classes_, static_cast<uint32_t>(std::min<std::size_t>(
                                                           info->rx_attr->size, kMostPosted))))),
      channels_(static_cast<std::size_t>(transport.job().size())),
      closed_(channels_.size(), false),
      reads_(kMostReads),
      endpoint_(info, fabric,
                info->tx_attr->size + kMostReads +
                    std::min<std::size_t>(info->rx_attr->size, kMostPosted),
                receives_->least_room(),
                limits_.tag_bytes == 0 ? how_to_read(*info) : Reads::never) {
  returned_.reserve(transport.geometry().packets);
  in_hands_.resize(transport.geometry().packets);
  ended_reads_.reserve(kMostReads);
  for (Read& one : reads_) free_reads_.push_back(&one);
  if (endpoint_.reads() == Reads::by_messages) ::randombytes_buf(&next_tag_, sizeof next_tag_);
  packets_descriptor_ = endpoint_.enter(transport.packet_area());
  receives_->start();
  // Later there may be none left to be told of, and a rank that cannot send cannot say why.
  if (endpoint_.registers()) pool_.prepare();
  self_bell_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  bell_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  if (!self_bell_ || !bell_ ||
      ::epoll_ctl(bell_.get(), EPOLL_CTL_ADD, self_bell_.get(), &event) != 0)
    throw Error(Errc::no_memory,
                fmt::format("ofi: no doorbell: {}{}", std::strerror(errno), files_remark()));
}

Engine::~Engine() {
  end_offers();
  endpoint_.close();  // before memory goes that it reads and writes, and what it was told of that
  for (Read& one : reads_) one.into.reset();
}

// ---- sending ----

Post Engine::send(WireKind kind, Peer& peer, uint32_t to_port, std::span<const std::byte> header,
                  std::span<const std::byte> payload) noexcept {
  const bool control = kind == WireKind::control;
  const uint32_t cells = FrameQueue::cells_of(header.size() + payload.size());
  const Hold hold(lock_);
  // relaxed: whoever misses a death now meets it at the next call.
  if (peer.down.load(std::memory_order_relaxed)) [[unlikely]]
    return Post::done;
  Channel* const to = channel(peer, to_port % peer.ports());
  if (to == nullptr || (!has_credit(*to, control, cells) && !await_credit(*to, control, cells)))
    return Post::retry;
  OutFrame* const frame = make_frame(*to, kind, header, payload);
  if (frame == nullptr) [[unlikely]]
    return Post::retry;
  take_along(*to, *frame);
  append(*to, *frame);
  (control ? to->control_sent : to->messages_sent) += cells;
  if (sends_left_ == 0) [[unlikely]]
    step();
  return Post::done;
}

Post Engine::send_packet(Peer& peer, uint32_t to_port, std::span<const std::byte> header,
                         PacketPart part) noexcept {
  const uint32_t cells = FrameQueue::cells_of(sizeof(PacketRef) + header.size());
  const Hold hold(lock_);
  if (peer.down.load(std::memory_order_relaxed)) [[unlikely]] {  // relaxed: under the lock
    push_returned_locked(part.index);
    return Post::posted;
  }
  Channel* const to = channel(peer, to_port % peer.ports());
  if (to == nullptr || (!has_credit(*to, false, cells) && !await_credit(*to, false, cells)))
    return Post::retry;
  OutFrame* const frame = make_frame(*to, WireKind::packet, header, {});
  if (frame == nullptr) return Post::retry;
  to->messages_sent += cells;
  transport_.book().lend(part.index, peer.rank().value, static_cast<uint16_t>(number_));
  frame->header().index = part.index;
  frame->header().bytes = part.bytes;
  frame->packet = transport_.packet(part.index).subspan(part.offset, part.bytes);
  take_along(*to, *frame);
  append(*to, *frame);
  if (sends_left_ == 0) [[unlikely]]
    step();
  return Post::posted;
}

Post Engine::send_to_self(WireKind kind, Peer& self, uint32_t from,
                          std::span<const std::byte> header,
                          std::span<const std::byte> payload) noexcept {
  const Hold hold(lock_);
  Channel* const mine = channel(self, from);
  if (mine == nullptr || !open_queues(*mine)) return Post::retry;
  FrameQueue& queue = kind == WireKind::control ? mine->control : mine->messages;
  if (!queue.push(kind == WireKind::packet, header, payload)) return Post::retry;
  ring_if_armed();
  return Post::done;
}

bool Engine::has_credit(const Channel& to, bool control, uint32_t cells) noexcept {
  return control ? to.control_sent + cells <= to.control_allowed
                 : to.messages_sent + cells <= to.messages_allowed;
}

/// Looks whether credit has come: for those who only send, and do not poll.
bool Engine::await_credit(Channel& to, bool control, uint32_t cells) noexcept {
  step();
  if (has_credit(to, control, cells)) return true;
  to.starved = true;
  watch(to);
  suspect(to);
  return false;
}

OutFrame* Engine::make_frame(Channel& to, WireKind kind, std::span<const std::byte> first,
                             std::span<const std::byte> second) noexcept {
  OutFrame* const frame = pool_.take();
  if (frame == nullptr) [[unlikely]]
    return nullptr;
  const std::size_t length = first.size() + second.size();
  frame->channel = &to;
  frame->packet = {};
  frame->length = static_cast<uint32_t>(sizeof(WireHeader) + length);
  frame->under_way = frame->kept = frame->is_batch = frame->abandoned = frame->stands_in = false;
  frame->is_answer = false;
  std::byte* const at = frame->bytes();
  const WireHeader header{.stamp = limits_.stamp,
                          .source = limits_.self,
                          .sequence = 0,
                          .ack = 0,
                          .length = static_cast<uint32_t>(length),
                          .index = 0,
                          .bytes = 0,
                          .port = static_cast<uint16_t>(number_),
                          .kind = kind,
                          .flags = 0};
  std::memcpy(at, &header, sizeof header);
  base::copy_bytes(at + sizeof header, first.data(), first.size());
  base::copy_bytes(at + sizeof header + first.size(), second.data(), second.size());
  return frame;
}

bool Engine::post(Channel& to, WireKind kind, std::span<const std::byte> first,
                  std::span<const std::byte> second) noexcept {
  OutFrame* const frame = make_frame(to, kind, first, second);
  if (frame == nullptr) [[unlikely]]
    return false;
  append(to, *frame);
  return true;
}

/// Packets that go back do so with what goes there anyway: a frame of their own costs both ends as
/// much as any other.
void Engine::take_along(Channel& to, OutFrame& frame) noexcept {
  if (to.returns.empty()) return;
  WireHeader& header = frame.header();
  const uint32_t most =
      limits_.most_length - (header.kind == WireKind::packet ? limits_.packet_words : 0);
  const std::size_t count = std::min(
      {to.returns.size(), std::size_t{kMostAlong}, (most - header.length) / sizeof(uint32_t)});
  const auto numbers = std::as_bytes(std::span(to.returns).last(count));
  base::copy_bytes(frame.bytes() + frame.length, numbers.data(), numbers.size());
  frame.length += static_cast<uint32_t>(numbers.size());
  header.length += static_cast<uint32_t>(numbers.size());
  header.flags = static_cast<uint8_t>(count);
  to.returns.resize(to.returns.size() - count);
}

/// The first goes at once, and a packet; what follows on its heels waits for the next step, or for
/// more, and goes with it: a system call at each end costs more than dozens of short frames.
void Engine::append(Channel& to, OutFrame& frame) noexcept {
  to.outbox.append(frame);
  watch(to);
  const uint64_t waiting = to.outbox.unsent_count();
  if (waiting == 1) {
    if (!frame.packet.empty() || base::now_ns() - to.sent_ns >= kGatherNs) {
      pump(to);
      to.sent_ns = base::now_ns();  // the call itself may take as long
    } else {
      enqueue(to);
      transport_.note_gathering();
    }
  } else if (waiting >= kMostGathered || !frame.packet.empty()) {
    pump(to);
  }
}

/// Gives the provider what it takes of what was not sent yet. True: something.
bool Engine::pump(Channel& to) noexcept {
  if (to.resume_ns != 0) [[unlikely]] {
    if (base::now_ns() < to.resume_ns) return enqueue(to), false;
    to.resume_ns = 0;
  }
  bool moved = false;
  while (OutFrame* const next = to.outbox.next()) {
    to.waits_turn = !may_hand_over();
    if (to.waits_turn) [[unlikely]]
      return enqueue(to), moved;
    std::size_t count = 1;
    OutFrame& one = gather(to, *next, count);
    if (!hand_over(to, one)) {
      if (&one != next) free(one);
      enqueue(to);
      return moved;
    }
    to.outbox.advance(count);
    --sends_left_;
    moved = true;
  }
  return moved;
}

OutFrame& Engine::gather(Channel& to, OutFrame& first, std::size_t& count) noexcept {
  const auto fits = [&](const OutFrame* one, std::size_t used) {
    return one != nullptr && !one->under_way && one->packet.empty() &&
           used + one->length + limits_.tag_bytes <= batch_bytes_;
  };
  if (!fits(&first, 0) || !fits(first.next, first.length + limits_.tag_bytes)) return first;
  OutFrame* const batch = batches_.take();
  if (batch == nullptr) return first;
  std::size_t used = 0;
  count = 0;
  for (OutFrame* one = &first; fits(one, used); one = one->next, ++count) {
    seal(to, *one);
    const std::size_t length = one->length + limits_.tag_bytes;
    base::copy_bytes(batch->bytes() + used, one->bytes(), length);
    used += length;
  }
  batch->channel = &to;
  batch->packet = {};
  batch->length = static_cast<uint32_t>(used);
  batch->under_way = batch->kept = batch->abandoned = batch->stands_in = batch->is_answer = false;
  batch->is_batch = true;
  return *batch;
}

/// The last words of a frame before it goes: how far the other direction has come, and the tag.
void Engine::seal(const Channel& to, OutFrame& frame) noexcept {
  frame.header().ack = static_cast<uint32_t>(to.expected);
  if (limits_.tag_bytes == 0) [[likely]]
    return;
  const auto tag = transport_.frame_key()->tag(
      {static_cast<uint32_t>(to.peer.rank().value), to.port, frame.number, to.peer.salt()},
      {frame.bytes(), frame.length}, frame.packet);
  std::memcpy(frame.bytes() + frame.length, tag.data(), tag.size());
}

/// Gives a frame to the provider. A short one is gone with that: no completion costs anything, and
/// if it gets lost, the peer's answer to a question tells.
bool Engine::hand_over(Channel& to, OutFrame& frame) noexcept {
  if (!frame.is_batch) seal(to, frame);
  const std::size_t length = frame.length + (frame.is_batch ? 0 : limits_.tag_bytes);
  const bool injects = frame.packet.empty() && length <= endpoint_.most_injected();
  const iovec pieces[] = {{frame.bytes(), length},
                          {const_cast<std::byte*>(frame.packet.data()), frame.packet.size()}};
  void* descriptors[] = {frame.descriptor, packets_descriptor_};
  const ssize_t answer =
      injects ? endpoint_.inject({frame.bytes(), length}, to.address)
              : endpoint_.send(pieces, descriptors, frame.packet.empty() ? 1 : 2, to.address,
                               classes_.class_of(length + frame.packet.size()), frame.context);
  if (answer != 0) [[unlikely]] {
    if (answer != -FI_EAGAIN) note_trouble(to, static_cast<int>(-answer));
    // Tags are dear: not for each look at a connection that is being made.
    else if (limits_.tag_bytes != 0)
      to.resume_ns = base::now_ns() + kTaggedRestNs;
    return false;
  }
  if (injects) {
    to.note_moved();
    if (!frame.kept) free(frame);
    return true;
  }
  frame.under_way = true;
  ++to.under_way;
  ++under_way_;
  if (!frame.packet.empty()) ++in_hands_[frame.header().index];
  return true;
}

/// A provider's send has ended: well, or with an error.
void Engine::note_sent(OutFrame& frame, int error) noexcept {
  Channel& to = *frame.channel;
  frame.under_way = false;
  if (!frame.abandoned) {
    --to.under_way;
    --(to.given_up != 0 ? to.given_up : under_way_);
  }
  if (frame.is_answer) return end_answer(frame, error);
  // Of a peer that died meanwhile, it goes back to the pool: see drop_outbox.
  if (!frame.packet.empty() && --in_hands_[frame.header().index] == 0 &&
      transport_.book().is_lent(frame.header().index, transport_.self().value,
                                static_cast<uint16_t>(number_)))
    push_returned_locked(frame.header().index);
  if (!frame.kept) free(frame);
  if (error != 0) [[unlikely]] {
    to.outbox.rewind();
    note_trouble(to, error);
  } else {
    to.note_moved();
  }
  if (to.outbox.has_unsent() || !to.returns.empty()) enqueue(to);
}

/// The connection broke, it seems: the provider makes a new one, or nobody is there any more.
void Engine::note_trouble(Channel& to, int error) noexcept {
  const uint64_t now = base::now_ns();
  to.resume_ns = now + kRestNs;
  if (to.stuck_since_ns == 0) to.stuck_since_ns = now - std::min(now - 1, kPatienceNs);
  to.peer.trouble.store(error, std::memory_order_relaxed);  // relaxed: for a sentence
}

bool Engine::send_report(Channel& to) noexcept {
  const bool asks = (to.report_due & kAsks) != 0;
  const ReportBody body{to.messages.consumed(), to.control.consumed(), to.question + (asks ? 1 : 0),
                        to.to_answer};
  OutFrame* const frame = make_frame(to, WireKind::report, bytes_of(body), {});
  if (frame == nullptr) return false;
  frame->header().flags = to.report_due & (kAsks | kAnswers);
  Outbox::number(*frame, to.reports_sent);
  if (!hand_over(to, *frame)) {
    free(*frame);
    return false;
  }
  ++to.reports_sent;
  if (asks) {
    to.question = body.question;
    to.asked_before = to.outbox.first_unsent();
    to.asked_ns = base::now_ns();
  }
  to.messages_reported = body.messages;
  to.control_reported = body.control;
  to.report_due = 0;
  return true;
}

/// Puts the numbers of packets to be given back into frames.
bool Engine::send_returns(Channel& to) noexcept {
  const std::size_t most = transport_.max_inline() / sizeof(uint32_t);
  bool moved = false;
  while (!to.returns.empty()) {
    const std::size_t count = std::min(most, to.returns.size());
    if (!post(to, WireKind::returns, std::as_bytes(std::span(to.returns).last(count)), {})) break;
    to.returns.resize(to.returns.size() - count);
    moved = true;
  }
  return moved;
}

/// The peer is down. A packet that the provider still reads comes back when it lets go of it.
void Engine::drop_outbox(Channel& one) noexcept {
  one.outbox.for_each([&](OutFrame& frame) {
    const auto port = static_cast<uint16_t>(number_);
    if (!(frame.under_way || frame.stands_in) || frame.packet.empty() ||
        in_hands_[frame.header().index] == 0 ||
        !transport_.book().is_lent(frame.header().index, one.peer.rank().value, port))
      return;
    transport_.book().lend(frame.header().index, transport_.self().value, port);
  });
  // What a provider never lets go of is not to keep others waiting.
  under_way_ -= one.under_way - std::exchange(one.given_up, one.under_way);
  one.outbox.clear([this](OutFrame& frame) { free(frame); });
  drop_answers(one, nullptr, false);
  one.returns.clear();
  one.starved = false;
}

void Engine::enqueue(Channel& one) noexcept {
  if (!std::exchange(one.busy, true)) busy_.push_back(&one);
}

void Engine::watch(Channel& one) noexcept {
  if (std::exchange(one.watched, true)) return;
  one.looks = one.unanswered = 0;
  one.acknowledged_then = one.outbox.acknowledged();
  one.moved_ns = transport_.awake_ns();
  watched_.push_back(&one);
}

/// Of a channel that does not get on: asks in time whether its peer is there.
void Engine::suspect(Channel& to) noexcept {
  const uint64_t now = base::now_ns();
  if (to.stuck_since_ns == 0) to.stuck_since_ns = now;
  if (now - to.stuck_since_ns < kPatienceNs) return;
  if (transport_.is_over_tcp() && to.probe.is_refused(to.peer.address(to.port), now))
    transport_.mark_down(to.peer, "refuses connections: its process has ended");
}

// ---- steps ----

void Engine::progress() noexcept {
  // relaxed: one writer; the keeper only sees that it moves.
  polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  {
    const std::unique_lock hold(lock_, std::try_to_lock);
    if (hold) step();
  }
  meet_strangers();
}

/// Receives, and gets on with what waits; `may_come`: another step will follow soon. True:
/// something happened.
bool Engine::step(bool may_come) noexcept {
  if (look_is_due_.load(std::memory_order_relaxed)) [[unlikely]]  // relaxed: as in look_after
    look_after_locked();
  const bool received = receive();
  bool moved = received;
  sends_left_ = effort_.sends;
  std::size_t served = 0;
  for (std::size_t i = 0; i < busy_.size();) {
    Channel& one = *busy_[i];
    if (sends_left_ != 0) served = i;
    if (may_come && may_wait(one) && base::ticks() - one.returns_since < put_off_ticks_) {
      ++i;
      continue;
    }
    moved |= serve(one);
    // What the provider still has in its hands comes back here when it lets go of it.
    if (one.report_due == 0 && one.returns.empty() && one.outbox.next() == nullptr &&
        one.unanswered_reads == 0) {
      one.busy = false;
      busy_[i] = busy_.back();
      busy_.pop_back();
    } else {
      ++i;
    }
  }
  // Those that came after the last that was let send begin next time.
  if (sends_left_ == 0 && served + 1 < busy_.size()) [[unlikely]]
    std::rotate(busy_.begin(), busy_.begin() + static_cast<std::ptrdiff_t>(served) + 1,
                busy_.end());
  return moved;
}

/// A few packets that go back do so with the next, with what is sent there, or when neither comes
/// soon: each frame costs both ends a system call, and a sender's packets are many.
bool Engine::may_wait(const Channel& one) const noexcept {
  return !one.returns.empty() && one.returns.size() < returns_at_once(one) && !owes_report(one) &&
         !one.outbox.has_unsent();
}

/// Whether the sender should hear how far its frames were consumed: before the rest of its credit
/// is gone. Where it is asked for, or owed, `report_due` says so.
bool Engine::owes_report(const Channel& from) const noexcept {
  const Geometry& mine = transport_.geometry();
  return from.report_due != 0 ||
         from.messages.consumed() - from.messages_reported >= mine.lane_cells / 4 ||
         from.control.consumed() - from.control_reported >= mine.control_cells / 4;
}

/// Sends what there is to say on a channel. True: something went out.
bool Engine::serve(Channel& one) noexcept {
  // relaxed: under the lock; missed now, met at the next step.
  if (one.peer.down.load(std::memory_order_relaxed)) [[unlikely]] {
    drop_outbox(one);
    // One that left waits for the answer to that.
    if (!one.peer.departed.load(std::memory_order_relaxed)) one.report_due = 0;  // relaxed: above
    if (one.report_due == 0) return false;
    if (send_report(one)) return true;
    const uint64_t now = base::now_ns();
    if (one.stuck_since_ns == 0) one.stuck_since_ns = now;
    if (now - one.stuck_since_ns > kPatienceNs) one.report_due = 0;
    return false;
  }
  bool moved = send_returns(one);
  moved |= pump(one);
  moved |= one.unanswered_reads != 0 && send_answers(one);
  if (owes_report(one)) {
    if (send_report(one)) {
      moved = true;
    } else {
      one.report_due |= Channel::kOwed;
      enqueue(one);
    }
  }
  const bool has_more = one.report_due != 0 || !one.returns.empty() || one.outbox.has_unsent() ||
                        one.unanswered_reads != 0;
  if (one.busy && !moved && has_more && may_hand_over()) suspect(one);
  return moved;
}

void Engine::note_consumed(Channel& from) noexcept {
  const Geometry& mine = transport_.geometry();
  if (from.messages.consumed() - from.messages_noted < mine.lane_cells / 4 &&
      from.control.consumed() - from.control_noted < mine.control_cells / 4)
    return;
  from.messages_noted = from.messages.consumed();
  from.control_noted = from.control.consumed();
  if (from.peer.rank() == transport_.self()) return;
  const Hold hold(lock_);
  if (!from.busy) serve(from);
}

// ---- channels ----

Channel* Engine::channel(Peer& peer, uint32_t port) noexcept {
  auto& ports = channels_[static_cast<std::size_t>(peer.rank().value)];
  if (ports && ports[port]) [[likely]]
    return ports[port].get();
  try {
    if (!ports) ports = std::make_unique<std::unique_ptr<Channel>[]>(peer.ports());
    const std::size_t count = all_.size() + 1;
    if (all_.capacity() < count)
      for (auto* const list : {&all_, &busy_, &watched_, &inbound_}) list->reserve(2 * count);
    auto made = std::make_unique<Channel>(peer, port);
    made->messages_allowed = peer.geometry().lane_cells;
    made->control_allowed = peer.geometry().control_cells;
    if (peer.rank() != transport_.self()) {
      made->returns.reserve(peer.geometry().packets);
      made->address = endpoint_.insert(peer.address(port));
    }
    ports[port] = std::move(made);
    all_.push_back(ports[port].get());
    return ports[port].get();
  } catch (const Error& failure) {
    transport_.mark_down(peer, failure.what());
  } catch (const std::bad_alloc&) {
  }
  return nullptr;
}

}  // namespace weft::fabric::ofi
