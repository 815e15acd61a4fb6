// What comes from the network: checked, brought into order, put into the queues.
#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "fabric/ofi/engine.hpp"
#include "fabric/ofi/ofi_transport.hpp"
#include "fabric/packet_ref.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/copy.hpp"

namespace weft::fabric::ofi {

namespace {

constexpr uint32_t kBatch = 16;               ///< completions read by one call
constexpr std::size_t kMostStrangers = 1024;  ///< frames kept while their senders are met
constexpr std::size_t kMostStrangerBytes = std::size_t{4} << 20;
constexpr std::size_t kMostEarlyBytes = std::size_t{4} << 20;  ///< of a lane

using Hold = std::scoped_lock<base::SpinLock>;

}  // namespace

bool Engine::open_queues(Channel& from) noexcept {
  if (from.control.is_open()) [[likely]]
    return true;
  try {
    if (!from.messages.is_open()) from.messages.open(transport_.geometry().lane_cells);
    from.control.open(transport_.geometry().control_cells);
  } catch (const std::bad_alloc&) {
    return false;
  }
  inbound_.push_back(&from);
  // release: pairs with inbound_count's acquire.
  inbound_count_.store(inbound_.size(), std::memory_order_release);
  return true;
}

void Engine::list_inbound(std::vector<Channel*>& known) noexcept {
  const Hold hold(lock_);
  known = inbound_;
}

bool Engine::receive() noexcept {
  receives_->post_waiting();
  if (const int error = endpoint_.take_refusal(); error != 0) [[unlikely]]
    transport_.note_trouble(error);
  bool moved = false;
  std::array<fi_cq_data_entry, kBatch> entries;
  for (uint32_t left = effort_.receives; left != 0;) {
    const uint32_t most = std::min(left, kBatch);
    const ssize_t count = endpoint_.read(std::span(entries).first(most));
    if (count == -FI_EAVAIL) [[unlikely]] {
      read_error();
      moved = true;
      --left;
      continue;
    }
    if (count <= 0) {
      if (count < 0 && count != -FI_EAGAIN) [[unlikely]]
        transport_.note_trouble(static_cast<int>(-count));
      if (transport_.death_count() != 0) [[unlikely]]
        empty_ns_ = base::now_ns();
      return moved;
    }
    moved = true;
    for (const auto& entry : std::span(entries).first(static_cast<std::size_t>(count))) {
      Read* const read =
          (entry.flags & (FI_READ | FI_TAGGED)) != 0 ? read_of(entry.op_context) : nullptr;
      if (read != nullptr) {
        end_read(*read, (entry.flags & FI_READ) != 0 || entry.len == read->bytes);
      } else if ((entry.flags & (FI_RECV | FI_MULTI_RECV)) != 0) {
        if ((entry.flags & FI_RECV) != 0) {
          const auto bytes = receives_->landed(entry);
          if (bytes.data() != nullptr) take(bytes);
        }
        receives_->finish(entry);
      } else {
        note_sent(*static_cast<OutFrame*>(entry.op_context), 0);
      }
    }
    // To hear that there is nothing left costs a system call, too.
    if (static_cast<uint32_t>(count) < most) break;
    left -= static_cast<uint32_t>(count);
  }
  return moved;
}

void Engine::read_error() noexcept {
  fi_cq_err_entry error;
  if (!endpoint_.read_error(error) || error.op_context == nullptr) return;
  // What a failed operation was does not stand in the error everywhere.
  if (receives_->fail(error)) {
    // What did not fit its buffer is of nobody who speaks as we do. (Else a connection broke.)
    if (error.err == FI_ETRUNC || error.err == FI_EMSGSIZE) transport_.count_stray();
  } else if (Read* const read = read_of(error.op_context); read != nullptr) {
    end_read(*read, false);
  } else {
    note_sent(*static_cast<OutFrame*>(error.op_context), error.err != 0 ? error.err : FI_EIO);
  }
}

/// What came from the network as one. Nothing in it is believed before it was looked at.
void Engine::take(std::span<const std::byte> bytes) noexcept {
  do {
    const auto frame = decode(bytes, limits_);
    if (!frame) return transport_.count_stray();
    if (!take_frame(*frame)) put_aside(bytes.first(frame->bytes));
    bytes = bytes.subspan(frame->bytes);
  } while (!bytes.empty());
}

/// Keeps what came from a rank that was not met yet. What is not kept is sent again.
void Engine::put_aside(std::span<const std::byte> bytes) noexcept {
  if (strangers_.size() >= kMostStrangers || stranger_bytes_ + bytes.size() > kMostStrangerBytes)
    return;
  try {
    strangers_.emplace_back(bytes.begin(), bytes.end());
    stranger_bytes_ += bytes.size();
    has_strangers_.store(true, std::memory_order_relaxed);  // relaxed: whether to look
    ring_if_armed();
  } catch (const std::bad_alloc&) {
  }
}

/// False: of a rank that was not met yet.
bool Engine::take_frame(const Decoded& frame) noexcept {
  const WireHeader& header = frame.header;
  Peer* const peer = transport_.find(Rank{static_cast<int32_t>(header.source)});
  if (peer == nullptr) [[unlikely]] {
    // Nothing is kept, or asked about whoever says that he is somebody, unless he is of this job.
    const auto number = static_cast<uint64_t>(int64_t{ahead_of(header.sequence, 0)});
    if (!is_genuine(frame, number)) return transport_.count_stray(), true;
    return false;
  }
  if (!peer->known() || header.port >= peer->ports()) return transport_.count_stray(), true;
  Channel* const from = channel(*peer, header.port);
  if (from == nullptr) return true;  // no memory: it is sent again
  const bool departed = peer->departed.load(std::memory_order_relaxed);  // relaxed: under the lock
  if (is_closed(*peer) && !departed) return true;
  const bool is_report = header.kind == WireKind::report;
  const uint64_t next = is_report ? from->report_expected : from->expected;
  const int32_t ahead = ahead_of(header.sequence, static_cast<uint32_t>(next));
  if (!is_genuine(frame, next + static_cast<uint64_t>(int64_t{ahead})))
    return transport_.count_stray(), true;
  if (ahead < 0) return transport_.count_repeat(), true;  // or another report said more
  peer->note_heard(transport_.awake_ns());
  if (!from->outbox.may_acknowledge(header.ack))
    return refuse(*from, "it acknowledges what was not sent"), true;
  from->outbox.acknowledge(header.ack, [this](OutFrame& sent) { free(sent); });
  if (!is_report) {
    take_numbered(*from, frame, ahead);
  } else {
    from->report_expected = next + static_cast<uint64_t>(ahead) + 1;
    if (!take_report(*from, frame)) refuse(*from, "a report of more than was sent");
  }
  return true;
}

/// Whether it has the tag that it must have, where tags are wanted.
bool Engine::is_genuine(const Decoded& frame, uint64_t number) const noexcept {
  if (limits_.tag_bytes == 0) [[likely]]
    return true;
  const auto tag = transport_.frame_key()->tag({limits_.self, number_, number, transport_.salt()},
                                               frame.head, frame.packet);
  return FrameKey::is_same(tag, frame.tag);
}

void Engine::take_numbered(Channel& from, const Decoded& frame, int32_t ahead) noexcept {
  if (ahead > 0) [[unlikely]] {
    if (ahead >= most_ahead_) return refuse(from, "a number out of range");
    return keep_early(from, frame, from.expected + static_cast<uint64_t>(ahead));
  }
  Admitted answer = admit(from, frame);
  if (answer == Admitted::yes) ++from.expected;
  while (answer == Admitted::yes && !from.early.empty()) [[unlikely]] {
      const auto next = from.early.find(from.expected);
      if (next == from.early.end()) break;
      // A copy that memory ran out for is none; that frame is sent again.
      const auto kept = decode(next->second, limits_);
      answer = kept ? admit(from, *kept) : Admitted::not_now;
      from.early_bytes -= next->second.size();
      from.early.erase(next);
      if (answer == Admitted::yes) ++from.expected;
    }
  if (answer == Admitted::nonsense) refuse(from, "more than it may");
}

/// What is not kept is sent again.
void Engine::keep_early(Channel& from, const Decoded& frame, uint64_t number) noexcept {
  if (from.early_bytes + frame.bytes > kMostEarlyBytes) return;
  try {
    auto& kept = from.early[number];
    if (!kept.empty()) return;
    kept.reserve(frame.bytes);
    for (const auto piece : {frame.head, frame.tag, frame.packet})
      kept.insert(kept.end(), piece.begin(), piece.end());
    from.early_bytes += frame.bytes;
  } catch (const std::bad_alloc&) {
  }
}

/// False: nonsense.
bool Engine::take_report(Channel& to, const Decoded& frame) noexcept {
  ReportBody consumed;
  std::memcpy(&consumed, frame.body.data(), sizeof consumed);
  if (consumed.messages > to.messages_sent || consumed.control > to.control_sent) return false;
  const Geometry& theirs = to.peer.geometry();
  to.messages_allowed = std::max(to.messages_allowed, consumed.messages + theirs.lane_cells);
  to.control_allowed = std::max(to.control_allowed, consumed.control + theirs.control_cells);
  to.starved = false;
  to.note_moved();
  const uint8_t flags = frame.header.flags;
  if ((flags & kAsks) != 0) {
    to.to_answer = consumed.question;
    to.report_due |= kAnswers;
    enqueue(to);
  }
  if ((flags & kAnswers) != 0 && consumed.answered == to.question) {
    to.unanswered = to.looks = 0;
    // What was sent before we asked should have come before the question.
    if (ahead_of(static_cast<uint32_t>(to.asked_before), frame.header.ack) > 0) {
      to.outbox.rewind();
      enqueue(to);
    }
  }
  ring_if_armed();
  return true;
}

Engine::Admitted Engine::admit(Channel& from, const Decoded& frame) noexcept {
  if (is_closed(from.peer) && frame.header.kind != WireKind::leave)
    return Admitted::yes;  // of one that left
  for (std::size_t i = 0; i < frame.return_count(); ++i)
    if (!is_lent(from, frame.returned(i))) return Admitted::nonsense;
  const Admitted answer = admit_body(from, frame);
  if (answer != Admitted::yes) return answer;
  for (std::size_t i = 0; i < frame.return_count(); ++i) {
    const uint32_t index = frame.returned(i);
    if (!is_lent(from, index)) return Admitted::nonsense;  // it was there twice
    push_returned_locked(index);
  }
  return Admitted::yes;
}

Engine::Admitted Engine::admit_body(Channel& from, const Decoded& frame) noexcept {
  const WireKind kind = frame.header.kind;
  switch (kind) {
    case WireKind::message:
    case WireKind::control: {
      if (!open_queues(from)) return Admitted::not_now;
      FrameQueue& queue = kind == WireKind::control ? from.control : from.messages;
      if (!queue.push(false, frame.body, {})) return Admitted::nonsense;
      ring_if_armed();
      return Admitted::yes;
    }
    case WireKind::packet:
      return admit_packet(from, frame);
    case WireKind::returns:
      return Admitted::yes;
    case WireKind::read:
      return admit_read(from, frame);
    case WireKind::unread:
      admit_unread(from, frame);
      return Admitted::yes;
    case WireKind::leave:
      from.report_due |= kAnswers;
      enqueue(from);
      transport_.mark_left(from.peer);
      return Admitted::yes;
    case WireKind::report:
      break;
  }
  return Admitted::nonsense;
}

Engine::Admitted Engine::admit_packet(Channel& from, const Decoded& frame) noexcept {
  Peer& peer = from.peer;
  // Wherever it lies with its owner, here it begins at the front.
  const PacketPart part{frame.header.index, frame.header.bytes};
  const PacketRef ref(part);
  if (!open_queues(from)) return Admitted::not_now;
  if (part.index >= peer.geometry().packets || peer.set_lent(part.index, true))
    return Admitted::nonsense;
  if (part.bytes != 0)
    base::copy_bytes(peer.packet(part.index).data(), frame.packet.data(), frame.packet.size());
  if (!from.messages.push(true, std::as_bytes(std::span(&ref, 1)), frame.body))
    return Admitted::nonsense;
  ring_if_armed();
  return Admitted::yes;
}

bool Engine::is_lent(const Channel& to, uint32_t index) const noexcept {
  const LoanBook& book = transport_.book();
  return index < book.packets() &&
         book.is_lent(index, to.peer.rank().value, static_cast<uint16_t>(number_));
}

/// What a peer sends makes no sense: nothing more of it is believed.
void Engine::refuse(Channel& from, std::string_view what) noexcept {
  closed_[static_cast<std::size_t>(from.peer.rank().value)] = true;
  transport_.mark_down(from.peer, fmt::format("sent nonsense: {}", what));
}

/// Asks for the addresses of those who wrote first, outside the lock.
void Engine::meet_strangers() noexcept {
  if (!has_strangers()) [[likely]]
    return;
  std::vector<std::vector<std::byte>> frames;
  {
    const Hold hold(lock_);
    frames.swap(strangers_);
    stranger_bytes_ = 0;
    has_strangers_.store(false, std::memory_order_relaxed);  // relaxed: as above
  }
  for (const auto& bytes : frames) {
    WireHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    (void)transport_.known_or_met(Rank{static_cast<int32_t>(header.source)});
    const Hold hold(lock_);
    take(bytes);
  }
}

}  // namespace weft::fabric::ofi
