#include "fabric/ofi/engine.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "fabric/ofi/ofi_transport.hpp"
#include "weft/base/clock.hpp"

namespace weft::fabric::ofi {

namespace {

constexpr std::size_t kBatch = 16;             ///< completions read by one call
constexpr int kBatchesPerStep = 4;             ///< so that a poll ends
constexpr std::size_t kReturnsAtOnce = 8;      ///< packets that are not kept for the next poll
constexpr std::size_t kMostEarly = 1 << 16;    ///< frames that may have overtaken one
constexpr uint64_t kPatienceNs = 200'000'000;  ///< before a peer that takes nothing is suspected
constexpr std::size_t kMostSlots = 256;

using Hold = std::scoped_lock<base::SpinLock>;

}  // namespace

Engine::Engine(OfiTransport& transport, uint32_t number, const Info& info, fid_fabric& fabric)
    : transport_(transport),
      number_(number),
      slot_bytes_(static_cast<uint32_t>(sizeof(WireHeader)) + transport.max_inline()),
      receive_bytes_(slot_bytes_ + transport.geometry().packet_bytes),
      slots_(std::min(info->tx_attr->size, kMostSlots)),
      receives_(std::min<std::size_t>(info->rx_attr->size, transport.receives())),
      channels_(static_cast<std::size_t>(transport.job().size())),
      endpoint_(info, fabric, slots_.size() + receives_.size() + kBatch) {
  slot_memory_ = std::make_unique<std::byte[]>(slots_.size() * slot_bytes_);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].buffer = slot_memory_.get() + i * slot_bytes_;
    free_.push_back(&slots_[i]);
  }
  receive_memory_ = std::make_unique<std::byte[]>(receives_.size() * receive_bytes_);
  for (std::size_t i = 0; i < receives_.size(); ++i) {
    receives_[i].buffer = receive_memory_.get() + i * receive_bytes_;
    post_receive(receives_[i]);
  }
  self_bell_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  bell_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  if (!self_bell_ || !bell_ ||
      ::epoll_ctl(bell_.get(), EPOLL_CTL_ADD, self_bell_.get(), &event) != 0)
    throw Error(Errc::no_memory, fmt::format("no doorbell: {}", std::strerror(errno)));
}

Engine::~Engine() = default;

// ---- sending ----

Post Engine::send(WireKind kind, Peer& peer, uint32_t to_port, std::span<const std::byte> header,
                  std::span<const std::byte> payload) noexcept {
  const std::size_t length = header.size() + payload.size();
  const bool control = kind == WireKind::control;
  const uint32_t cells = FrameQueue::cells_of(length);
  const Hold hold(lock_);
  // relaxed: whoever misses a death now meets it at the next call.
  if (peer.down.load(std::memory_order_relaxed)) [[unlikely]]
    return Post::done;
  Channel& to = channel(peer, to_port % peer.ports());
  if (!has_credit(to, control, cells) && !await_credit(to, control, cells)) return Post::retry;
  (control ? to.control_sent : to.messages_sent) += cells;
  post(to, header_for(kind, length), header, payload, {});
  return Post::done;
}

Post Engine::send_packet(Peer& peer, uint32_t to_port, std::span<const std::byte> header,
                         uint32_t index, uint32_t bytes) noexcept {
  const uint32_t cells = FrameQueue::cells_of(sizeof(FrameQueue::PacketRef) + header.size());
  const Hold hold(lock_);
  if (peer.down.load(std::memory_order_relaxed)) [[unlikely]] {  // relaxed: under the lock
    transport_.book().lend(index, transport_.self().value, static_cast<uint16_t>(number_));
    push_returned_locked(index);
    return Post::posted;
  }
  Channel& to = channel(peer, to_port % peer.ports());
  if (!has_credit(to, false, cells) && !await_credit(to, false, cells)) return Post::retry;
  to.messages_sent += cells;
  transport_.book().lend(index, peer.rank().value, static_cast<uint16_t>(number_));
  WireHeader frame = header_for(WireKind::packet, header.size());
  frame.index = index;
  frame.bytes = bytes;
  post(to, frame, header, {}, transport_.packet(index).first(bytes));
  return Post::posted;
}

Post Engine::send_to_self(WireKind kind, Peer& self, uint32_t from,
                          std::span<const std::byte> header,
                          std::span<const std::byte> payload) noexcept {
  const Hold hold(lock_);
  Channel& mine = channel(self, from);
  open_queues(mine);
  FrameQueue& queue = kind == WireKind::control ? mine.control : mine.messages;
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
  suspect(to);
  return false;
}

WireHeader Engine::header_for(WireKind kind, std::size_t length) const noexcept {
  return {.stamp = transport_.stamp(),
          .source = static_cast<uint32_t>(transport_.self().value),
          .sequence = 0,
          .length = static_cast<uint32_t>(length),
          .index = 0,
          .bytes = 0,
          .port = static_cast<uint16_t>(number_),
          .kind = kind,
          .reserved8 = 0,
          .reserved = 0};
}

void Engine::post(Channel& to, WireHeader header, std::span<const std::byte> first,
                  std::span<const std::byte> second, std::span<const std::byte> packet) {
  header.sequence = to.next_sequence++;
  if (to.backlog.empty() && post_now(to, header, first, second, packet) != Sent::not_now) [[likely]]
    return;
  const auto raw = std::as_bytes(std::span(&header, 1));
  Pending later{{raw.begin(), raw.end()}, packet};
  later.bytes.insert(later.bytes.end(), first.begin(), first.end());
  later.bytes.insert(later.bytes.end(), second.begin(), second.end());
  to.backlog.push_back(std::move(later));
  enqueue(to);
}

Engine::Sent Engine::post_now(Channel& to, const WireHeader& header,
                              std::span<const std::byte> first, std::span<const std::byte> second,
                              std::span<const std::byte> packet) noexcept {
  if (to.address == FI_ADDR_NOTAVAIL) [[unlikely]]
    return Sent::never;
  if (free_.empty()) return Sent::not_now;
  Slot& slot = *free_.back();
  std::byte* at = slot.buffer;
  for (const auto piece : {std::as_bytes(std::span(&header, 1)), first, second}) {
    if (!piece.empty()) std::memcpy(at, piece.data(), piece.size());
    at += piece.size();
  }
  const iovec pieces[] = {{slot.buffer, static_cast<std::size_t>(at - slot.buffer)},
                          {const_cast<std::byte*>(packet.data()), packet.size()}};
  const ssize_t answer = endpoint_.send(pieces, packet.empty() ? 1 : 2, to.address, slot.context);
  if (answer == 0) [[likely]] {
    slot.channel = &to;
    free_.pop_back();
    ++to.under_way;
    return Sent::yes;
  }
  if (answer == -FI_EAGAIN) return Sent::not_now;
  transport_.mark_down(to.peer,
                       fmt::format("cannot be sent to: {}", error_text(static_cast<int>(answer))));
  return Sent::never;
}

void Engine::enqueue(Channel& one) {
  if (std::exchange(one.queued, true)) return;
  busy_.push_back(&one);
}

/// Of a channel that does not get on: asks in time whether its peer is there.
void Engine::suspect(Channel& to) noexcept {
  const uint64_t now = base::now_ns();
  if (to.stuck_since_ns == 0) to.stuck_since_ns = now;
  if (now - to.stuck_since_ns < kPatienceNs) return;
  // relaxed: under the lock. It waits for our last answer no longer than this.
  if (to.peer.departed.load(std::memory_order_relaxed)) return to.backlog.clear();
  if (to.probe.is_refused(to.peer.address(to.port), now))
    transport_.mark_down(to.peer, "refuses connections: its process has ended");
}

// ---- channels ----

Channel& Engine::channel(Peer& peer, uint32_t port) {
  auto& ports = channels_[static_cast<std::size_t>(peer.rank().value)];
  if (!ports) [[unlikely]]
    ports = std::make_unique<std::unique_ptr<Channel>[]>(peer.ports());
  auto& entry = ports[port];
  if (entry) [[likely]]
    return *entry;
  entry = std::make_unique<Channel>(peer, port);
  all_.push_back(entry.get());
  entry->messages_allowed = peer.geometry().lane_cells;
  entry->control_allowed = peer.geometry().control_cells;
  if (peer.rank() == transport_.self()) return *entry;
  try {
    entry->address = endpoint_.insert(peer.address(port));
  } catch (const Error& failure) {
    transport_.mark_down(peer, failure.what());
  }
  return *entry;
}

void Engine::open_queues(Channel& from) {
  if (from.messages.is_open()) return;
  from.messages.open(transport_.geometry().lane_cells);
  from.control.open(transport_.geometry().control_cells);
  inbound_.push_back(&from);
  // release: pairs with inbound_count's acquire.
  inbound_count_.store(inbound_.size(), std::memory_order_release);
}

void Engine::list_inbound(std::vector<Channel*>& known) noexcept {
  const Hold hold(lock_);
  known = inbound_;
}

// ---- progress ----

void Engine::progress() noexcept {
  // relaxed: one writer; the keeper only sees that it moves.
  polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const std::unique_lock hold(lock_, std::try_to_lock);
  if (hold) step();
}

bool Engine::keep() noexcept {
  const uint64_t polls = polls_.load(std::memory_order_relaxed);  // relaxed: a hint
  if (std::exchange(keeper_saw_, polls) != polls) return false;   // somebody polls
  const std::unique_lock hold(lock_, std::try_to_lock);
  if (!hold) return false;
  const bool idle = busy_.empty() && unposted_.empty() && free_.size() == slots_.size();
  if (idle && armed_ && endpoint_.wait_fd() >= 0) return false;  // its sleeper will be woken
  return step();
}

/// Receives, and gets on with what waits. True: something happened.
bool Engine::step() {
  bool moved = receive();
  for (std::size_t i = 0; i < busy_.size();) {
    Channel& one = *busy_[i];
    moved |= serve(one);
    if (one.backlog.empty()) {
      one.queued = false;
      busy_[i] = busy_.back();
      busy_.pop_back();
    } else {
      ++i;
    }
  }
  return moved;
}

bool Engine::serve(Channel& one) {
  // relaxed, twice: under the lock; missed now, met at the next step.
  if (one.peer.down.load(std::memory_order_relaxed) &&
      !one.peer.departed.load(std::memory_order_relaxed)) {
    one.backlog.clear();
    one.returns.clear();
    return false;
  }
  bool moved = false;
  while (!one.backlog.empty()) {
    const Pending& next = one.backlog.front();
    WireHeader header;
    std::memcpy(&header, next.bytes.data(), sizeof header);
    const auto rest = std::span(next.bytes).subspan(sizeof header);
    if (post_now(one, header, rest, {}, next.packet) == Sent::not_now) {
      suspect(one);
      return moved;
    }
    one.backlog.pop_front();
    one.stuck_since_ns = 0;
    one.probe.forget();
    moved = true;
  }
  if (one.messages.is_open() && (one.messages.consumed() != one.messages_reported ||
                                 one.control.consumed() != one.control_reported)) {
    const CreditBody body{one.messages_reported = one.messages.consumed(),
                          one.control_reported = one.control.consumed()};
    post(one, header_for(WireKind::credit, sizeof body), std::as_bytes(std::span(&body, 1)), {},
         {});
    moved = true;
  }
  const std::size_t most = transport_.max_inline() / sizeof(uint32_t);
  while (!one.returns.empty()) {
    const std::size_t count = std::min(most, one.returns.size());
    const auto numbers = std::as_bytes(std::span(one.returns).last(count));
    post(one, header_for(WireKind::returns, numbers.size()), numbers, {}, {});
    one.returns.resize(one.returns.size() - count);
    moved = true;
  }
  return moved;
}

bool Engine::receive() {
  while (!unposted_.empty()) {
    Receive* const one = unposted_.back();
    unposted_.pop_back();
    const std::size_t before = unposted_.size();
    post_receive(*one);
    if (unposted_.size() != before) break;
  }
  bool moved = false;
  std::array<fi_cq_msg_entry, kBatch> entries;
  for (int batch = 0; batch < kBatchesPerStep; ++batch) {
    const ssize_t count = endpoint_.read(entries);
    if (count == -FI_EAVAIL) [[unlikely]] {
      read_error();
      moved = true;
      continue;
    }
    if (count <= 0) return moved;
    moved = true;
    for (const auto& entry : std::span(entries).first(static_cast<std::size_t>(count))) {
      if ((entry.flags & FI_RECV) != 0) {
        auto& from = *static_cast<Receive*>(entry.op_context);
        take({from.buffer, std::min<std::size_t>(entry.len, receive_bytes_)});
        post_receive(from);
      } else {
        auto& slot = *static_cast<Slot*>(entry.op_context);
        --slot.channel->under_way;
        slot.channel->stuck_since_ns = 0;
        free_.push_back(&slot);
      }
    }
    if (count < static_cast<ssize_t>(entries.size())) return moved;
  }
  return moved;
}

void Engine::post_receive(Receive& one) noexcept {
  if (endpoint_.receive({one.buffer, receive_bytes_}, one.context) != 0) unposted_.push_back(&one);
}

void Engine::read_error() noexcept {
  fi_cq_err_entry error;
  if (!endpoint_.read_error(error) || error.op_context == nullptr) return;
  const auto* const at = static_cast<const Slot*>(error.op_context);
  if (at < slots_.data() || at >= slots_.data() + slots_.size()) {
    // What did not fit its buffer is of nobody who speaks as we do.
    post_receive(*static_cast<Receive*>(error.op_context));
    return;
  }
  auto& slot = *static_cast<Slot*>(error.op_context);
  --slot.channel->under_way;
  free_.push_back(&slot);
  transport_.mark_down(slot.channel->peer, fmt::format("was cut off: {}", error_text(error.err)));
}

// ---- receiving ----

/// One frame from the network. Nothing in it is believed before it was looked at.
void Engine::take(std::span<const std::byte> bytes) {
  WireHeader header;
  if (bytes.size() < sizeof header) return transport_.count_stray();
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::size_t rest = bytes.size() - sizeof header;
  if (header.stamp != transport_.stamp() || header.source >= channels_.size() ||
      header.source == static_cast<uint32_t>(transport_.self().value) || header.length > rest ||
      header.bytes != rest - header.length ||
      (header.bytes != 0 && header.kind != WireKind::packet))
    return transport_.count_stray();
  Peer& peer = transport_.known_or_met(Rank{static_cast<int32_t>(header.source)});
  if (!peer.known() || header.port >= peer.ports()) return transport_.count_stray();
  if (peer.down.load(std::memory_order_relaxed)) return;  // relaxed: under the lock
  Channel& from = channel(peer, header.port);
  const auto body = bytes.subspan(sizeof header);
  if (header.sequence != from.expected) [[unlikely]] {
    const uint32_t ahead = header.sequence - from.expected;
    if (ahead >= kMostEarly ||
        !from.early.try_emplace(header.sequence, bytes.begin(), bytes.end()).second)
      transport_.mark_down(peer, "sent nonsense: a sequence number");
    return;
  }
  bool good = admit(from, header, body);
  ++from.expected;
  while (good && !from.early.empty()) [[unlikely]] {
      const auto next = from.early.find(from.expected);
      if (next == from.early.end()) break;
      const std::vector<std::byte> frame = std::move(next->second);
      from.early.erase(next);
      std::memcpy(&header, frame.data(), sizeof header);
      good = admit(from, header, std::span(frame).subspan(sizeof header));
      ++from.expected;
    }
  if (!good) transport_.mark_down(peer, "sent nonsense");
}

bool Engine::admit(Channel& from, const WireHeader& header, std::span<const std::byte> body) {
  switch (header.kind) {
    case WireKind::message:
    case WireKind::control: {
      if (body.size() > transport_.max_inline()) return false;
      open_queues(from);
      FrameQueue& queue = header.kind == WireKind::control ? from.control : from.messages;
      if (!queue.push(false, body, {})) return false;
      ring_if_armed();
      return true;
    }
    case WireKind::packet:
      return admit_packet(from, header, body);
    case WireKind::credit: {
      CreditBody credit;
      if (body.size() != sizeof credit) return false;
      std::memcpy(&credit, body.data(), sizeof credit);
      if (credit.messages > from.messages_sent || credit.control > from.control_sent) return false;
      const Geometry& theirs = from.peer.geometry();
      from.messages_allowed = std::max(from.messages_allowed, credit.messages + theirs.lane_cells);
      from.control_allowed = std::max(from.control_allowed, credit.control + theirs.control_cells);
      from.stuck_since_ns = 0;
      ring_if_armed();
      return true;
    }
    case WireKind::returns: {
      if (body.size() % sizeof(uint32_t) != 0) return false;
      LoanBook& book = transport_.book();
      for (std::size_t at = 0; at < body.size(); at += sizeof(uint32_t)) {
        uint32_t index;
        std::memcpy(&index, body.data() + at, sizeof index);
        const auto port = static_cast<uint16_t>(number_);
        if (index >= book.packets() || !book.is_lent(index, from.peer.rank().value, port))
          return false;
        push_returned_locked(index);
      }
      return true;
    }
    case WireKind::leave: {
      LeaveBody leave;
      if (body.size() != sizeof leave) return false;
      std::memcpy(&leave, body.data(), sizeof leave);
      post(from, header_for(WireKind::left, 0), {}, {}, {});
      transport_.note_leave(from.peer, leave.lanes);
      return true;
    }
    case WireKind::left:
      from.left = true;
      return true;
  }
  return false;
}

bool Engine::admit_packet(Channel& from, const WireHeader& header,
                          std::span<const std::byte> body) {
  using PacketRef = FrameQueue::PacketRef;
  Peer& peer = from.peer;
  if (header.index >= peer.geometry().packets || header.bytes > peer.geometry().packet_bytes ||
      header.length + sizeof(PacketRef) > transport_.max_inline() ||
      peer.set_lent(header.index, true))
    return false;
  if (header.bytes != 0)
    std::memcpy(peer.packet(header.index).data(), body.data() + header.length, header.bytes);
  const PacketRef ref{header.index, header.bytes};
  open_queues(from);
  if (!from.messages.push(true, std::as_bytes(std::span(&ref, 1)), body.first(header.length)))
    return false;
  ring_if_armed();
  return true;
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
  if (!from.queued) serve(from);
}

// ---- packets that come back ----

void Engine::give_back(Peer& owner, uint32_t port, uint32_t index) noexcept {
  const Hold hold(lock_);
  WEFT_CHECK(owner.set_lent(index, false), "a loan that a frame delivered");
  if (owner.down.load(std::memory_order_relaxed)) return;  // relaxed: under the lock
  Channel& to = channel(owner, port);
  to.returns.push_back(index);
  enqueue(to);
  if (to.returns.size() >= kReturnsAtOnce && to.backlog.empty()) serve(to);
}

void Engine::push_returned(uint32_t index) noexcept {
  const Hold hold(lock_);
  push_returned_locked(index);
}

void Engine::push_returned_locked(uint32_t index) {
  transport_.book().unlend(index);
  returned_.push_back(index);
  has_returned_.store(true, std::memory_order_relaxed);  // as in has_returned
  ring_if_armed();
}

void Engine::take_returned(std::vector<uint32_t>& into) noexcept {
  const Hold hold(lock_);
  into.insert(into.end(), returned_.begin(), returned_.end());
  returned_.clear();
  has_returned_.store(false, std::memory_order_relaxed);  // as above
}

void Engine::sweep(const Peer& peer, std::vector<uint32_t>& into) noexcept {
  const Hold hold(lock_);
  LoanBook& book = transport_.book();
  for (uint32_t index = 0; index < book.packets(); ++index) {
    if (!book.is_lent(index, peer.rank().value, static_cast<uint16_t>(number_))) continue;
    book.unlend(index);
    into.push_back(index);
  }
}

// ---- sleeping ----

void Engine::arm() noexcept {
  const Hold hold(lock_);
  armed_ = true;
  if (endpoint_.wait_fd() < 0) return;  // the keeper rings
  epoll_event event{};
  event.events = EPOLLIN;
  const bool joined = ::epoll_ctl(bell_.get(), EPOLL_CTL_ADD, endpoint_.wait_fd(), &event) == 0 ||
                      errno == EEXIST;
  if (!joined || !endpoint_.may_sleep()) ring();
}

void Engine::disarm() noexcept {
  const Hold hold(lock_);
  armed_ = false;
  if (endpoint_.wait_fd() >= 0)
    ::epoll_ctl(bell_.get(), EPOLL_CTL_DEL, endpoint_.wait_fd(), nullptr);
  uint64_t rings;
  while (::read(self_bell_.get(), &rings, sizeof rings) < 0 && errno == EINTR) {
  }
}

void Engine::ring() const noexcept {
  const uint64_t one = 1;
  while (::write(self_bell_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void Engine::ring_if_armed() noexcept {
  if (armed_) ring();
}

// ---- the end ----

uint32_t Engine::lanes_to(const Peer& peer) noexcept {
  const Hold hold(lock_);
  uint32_t lanes = 0;
  for (const Channel* const one : all_) lanes += &one->peer == &peer && one->next_sequence != 0;
  return lanes;
}

void Engine::leave(Peer& peer, uint32_t lanes, bool open_one) noexcept {
  const Hold hold(lock_);
  if (peer.down.load(std::memory_order_relaxed)) return;  // relaxed: under the lock
  if (open_one) channel(peer, 0);
  for (Channel* const one : all_) {
    if (&one->peer != &peer || (one->next_sequence == 0 && !open_one) || one->says_leave) continue;
    const LeaveBody body{lanes};
    post(*one, header_for(WireKind::leave, sizeof body), std::as_bytes(std::span(&body, 1)), {},
         {});
    one->says_leave = true;
    if (open_one) break;
  }
}

bool Engine::has_left() noexcept {
  const Hold hold(lock_);
  step();
  return std::all_of(all_.begin(), all_.end(), [](const Channel* one) {
    // relaxed, twice: under the lock, and asked again.
    const bool departed = one->peer.departed.load(std::memory_order_relaxed);
    if (one->peer.down.load(std::memory_order_relaxed) && !departed) return true;
    return one->under_way == 0 && one->backlog.empty() &&
           (one->left || departed || !one->says_leave);
  });
}

}  // namespace weft::fabric::ofi
