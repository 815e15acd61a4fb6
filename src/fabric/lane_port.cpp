#include "fabric/lane_port.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <mutex>

#include "fabric/packet_ref.hpp"
#include "fabric/returns.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/small_copy.hpp"

namespace weft::fabric {

namespace {

/// What a frame of open packets carries before its header.
struct OpenPacketRef {
  uint32_t bytes;  ///< of all packets
  uint32_t count;
  uint64_t origin;
  uint32_t indices[OpenLoan::kMost];
  uint32_t ticket;  ///< to give back instead of `indices`, if it is one
  uint32_t offset;  ///< of a single one
};
static_assert(sizeof(OpenPacketRef) == 40);

constexpr uint32_t kQuantum = 64;    ///< messages, and control frames, that one lane may deliver
                                     ///< before the next's turn
constexpr uint32_t kBeforeRuns = 2;  ///< frames of one poll that come one by one
constexpr int kLooksOfLinger = 4;
/// How long nobody looks at a lane that had no more behind frames of several cells. Whoever is as
/// fast as the sender would fetch each frame's first line while it is being written.
constexpr double kRestNs = 200;
constexpr int kCloseTurns = 4;  ///< that yielded, in a row, before it rests
constexpr uint32_t kPollsPerLook = 256;
constexpr uint64_t kLookEveryNs = 100'000'000;

bool is_ticket(uint32_t number, const Geometry& geometry) noexcept {
  return number >= geometry.packets && number - geometry.packets < kTickets;
}

}  // namespace

// ---- sending ----

inline OutLane* LanePort::lane_to(Peer& peer, uint32_t to_port, Post& answer) noexcept {
  OutLane& lane = peer.lane(to_port);
  // acquire: pairs with open_lane's release; the lane is set up.
  if (lane.open.load(std::memory_order_acquire)) [[likely]]
    return &lane;
  // relaxed: whoever misses a death now meets it at the next call.
  if (!peer.down.load(std::memory_order_relaxed) &&
      transport_.open_lane(peer, to_port % peer.ports()))
    return &lane;
  answer = peer.down.load(std::memory_order_relaxed) ? Post::done : Post::retry;
  return nullptr;
}

inline void LanePort::ring_if_asleep(Peer& peer, OutLane& lane, uint32_t to_port) noexcept {
  const uint32_t seen = sleeper_of(*lane.port, lane.fence);
  if (seen != 0) [[unlikely]]
    transport_.ring_port(peer, to_port % peer.ports(), seen);
}

// As Endpoint::send: the usual case calls nobody. A small frame to a known peer, sent by the thread
// that mostly does.
Post LanePort::try_send_short(Address to, ShortHeader header,
                              std::span<const std::byte> payload) noexcept {
  Peer* const peer = transport_.find(to.rank);
  if (payload.size() > kOneCellBytes - sizeof header || peer == nullptr || to.port >= peer->ports())
      [[unlikely]]
    return send_short_otherwise(to, header, payload);
  OutLane& lane = peer->lane_below(to.port);
  const base::BiasedLock::Mark mark = lane.lock.enter_as_favoured();
  if (mark == nullptr) [[unlikely]]
    return send_short_otherwise(to, header, payload);
  // acquire: as in lane_to. A lane to the dead is not open (LaneTransport's invariant 2).
  Cell* const cell =
      lane.open.load(std::memory_order_acquire) ? lane.messages.claim_one() : nullptr;
  if (cell == nullptr) [[unlikely]] {
    base::BiasedLock::leave_as_favoured(mark);
    return send_short_otherwise(to, header, payload);
  }
  std::byte* const bytes = cell->bytes + kWordBytes;
  std::memcpy(bytes, &header.words[0], sizeof header.words[0]);
  std::memcpy(bytes + sizeof header.words[0], &header.words[1], sizeof header.words[1]);
  base::copy_in_line(bytes + sizeof header, payload.data(), payload.size());
  lane.messages.publish(cell, 1, sizeof header + payload.size(), FrameKind::inlined, number_);
  base::BiasedLock::leave_as_favoured(mark);
  const uint32_t seen = sleeper_of(*lane.port, lane.fence);
  if (seen == 0) [[likely]]
    return Post::done;
  return done_and_ring(to, seen);
}

Post LanePort::done_and_ring(Address to, uint32_t seen) noexcept {
  transport_.ring_port(*transport_.find(to.rank), to.port, seen);
  return Post::done;
}

Post LanePort::send_short_otherwise(Address to, ShortHeader header,
                                    std::span<const std::byte> payload) noexcept {
  return try_send(to.rank, to.port, header.bytes(), payload);
}

Post LanePort::try_send(Rank to, uint32_t to_port, std::span<const std::byte> header,
                        std::span<const std::byte> payload) noexcept {
  const std::size_t length = header.size() + payload.size();
  WEFT_CHECK(length <= max_inline_, "a frame within max_inline");
  Peer& peer = transport_.known_or_met(to);
  Post answer = Post::done;
  OutLane* const lane = lane_to(peer, to_port, answer);
  if (lane == nullptr) [[unlikely]]
    return answer;
  const uint32_t cells = cells_of(length);
  {
    const base::BiasedLock::Hold hold(lane->lock);
    // relaxed: under the lane's lock, as LaneTransport's invariant 2 needs.
    if (peer.down.load(std::memory_order_relaxed)) [[unlikely]]
      return Post::done;
    Cell* const cell = lane->messages.claim(cells);
    if (cell == nullptr) return Post::retry;
    std::byte* const bytes = cell->bytes + kWordBytes;
    base::small_copy(bytes, header.data(), header.size());
    base::small_copy(bytes + header.size(), payload.data(), payload.size());
    lane->messages.publish(cell, cells, length, FrameKind::inlined, number_);
  }
  ring_if_asleep(peer, *lane, to_port);
  return Post::done;
}

Post LanePort::try_control(Rank to, uint32_t to_port, std::span<const std::byte> header) noexcept {
  WEFT_CHECK(header.size() <= max_inline_, "a control frame within max_control");
  Peer& peer = transport_.known_or_met(to);
  Post answer = Post::done;
  OutLane* const lane = lane_to(peer, to_port, answer);
  if (lane == nullptr) [[unlikely]]
    return answer;
  const uint32_t cells = cells_of(header.size());
  {
    const base::BiasedLock::Hold hold(lane->lock);
    if (peer.down.load(std::memory_order_relaxed)) [[unlikely]]
      return Post::done;  // as above
    Cell* const cell = lane->control.claim(cells);
    if (cell == nullptr) return Post::retry;
    base::small_copy(cell->bytes + kWordBytes, header.data(), header.size());
    lane->control.publish(cell, cells, header.size(), FrameKind::inlined, number_);
  }
  ring_if_asleep(peer, *lane, to_port);
  return Post::done;
}

Post LanePort::try_send_packet(Rank to, uint32_t to_port, std::span<const std::byte> header,
                               PacketPart part) noexcept {
  const PacketRef ref(part);
  WEFT_CHECK(ref.part(transport_.geometry()) == part, "a part of a packet of this rank's area");
  return lend(to, to_port, FrameKind::packet, std::as_bytes(std::span(&ref, 1)), header,
              {&part.index, 1});
}

Post LanePort::try_send_open(Rank to, uint32_t to_port, std::span<const std::byte> header,
                             const OpenSend& packets) noexcept {
  const Geometry& mine = transport_.geometry();
  const std::span<const uint32_t> indices = packets.indices;
  WEFT_CHECK(indices.size() <= OpenLoan::kMost &&
                 indices.size() == (packets.bytes + mine.packet_bytes - 1) / mine.packet_bytes,
             "as many packets as the bytes fill");
  WEFT_CHECK(packets.offset == 0 ||
                 (indices.size() == 1 && PacketRef::is_within(packets.offset, packets.bytes, mine)),
             "bytes within one packet");
  for (const uint32_t index : indices)
    WEFT_CHECK(index < mine.packets, "packets of this rank's area");
  OpenPacketRef ref{packets.bytes,
                    static_cast<uint32_t>(indices.size()),
                    transport_.origin_for_peers(packets.origin),
                    {},
                    packets.ticket,
                    packets.offset};
  std::copy(indices.begin(), indices.end(), ref.indices);
  const bool has_ticket = packets.ticket != OpenSend::kNoTicket;
  WEFT_CHECK(!has_ticket || is_ticket(packets.ticket, mine), "a ticket of this rank's");
  return lend(to, to_port, FrameKind::open_packet, std::as_bytes(std::span(&ref, 1)), header,
              has_ticket ? std::span(&packets.ticket, 1) : indices);
}

Post LanePort::lend(Rank to, uint32_t to_port, FrameKind kind, std::span<const std::byte> before,
                    std::span<const std::byte> header, std::span<const uint32_t> indices) noexcept {
  const std::size_t length = before.size() + header.size();
  WEFT_CHECK(length <= max_inline_, "a packet frame within its bounds");
  Peer& peer = transport_.known_or_met(to);
  Post answer = Post::done;
  OutLane* const lane = lane_to(peer, to_port, answer);
  if (lane == nullptr && answer == Post::retry) return answer;
  const uint32_t cells = cells_of(length);
  bool dead = lane == nullptr;
  if (!dead) {
    const base::BiasedLock::Hold hold(lane->lock);
    dead = peer.down.load(std::memory_order_relaxed);  // relaxed: under the lock, as above
    if (!dead) [[likely]] {
      Cell* const cell = lane->messages.claim(cells);
      if (cell == nullptr) return Post::retry;
      std::byte* const bytes = cell->bytes + kWordBytes;
      base::small_copy(bytes, before.data(), before.size());
      base::small_copy(bytes + before.size(), header.data(), header.size());
      for (const uint32_t index : indices) transport_.book().lend(index, to.value, number_);
      lane->messages.publish(cell, cells, length, kind, number_);
    }
  }
  if (dead) [[unlikely]] {  // they come back the way every packet does
    for (const uint32_t index : indices) {
      transport_.book().lend(index, transport_.self().value, number_);
      give_back({transport_.self().value, number_, index});
    }
    return Post::posted;
  }
  ring_if_asleep(peer, *lane, to_port);
  return Post::posted;
}

void LanePort::give_back_all(Loan loan, std::span<const uint32_t> indices) noexcept {
  if (indices.empty()) return;
  Peer* const owner = transport_.find(Rank{loan.owner});
  WEFT_CHECK(owner != nullptr && owner->attached() && loan.port < owner->ports(),
             "a loan that a frame delivered");
  const SegmentView& view = owner->view();
  PortControl& port = view.port(loan.port);
  push_returned(port.returned, view.links(), indices);
  // A read-modify-write that succeeded is a fence on x86 only; ask as every sender does.
  const bool fence =
      view.header().has_membarrier == 0 || transport_.own().header().has_membarrier == 0;
  const uint32_t seen = sleeper_of(port, fence);
  if (seen != 0) [[unlikely]]
    transport_.ring_port(*owner, loan.port, seen);
}

// ---- polling ----

LanePort::LanePort(LaneTransport& transport, uint32_t number, const BellPipe& pipe, int deaths_fd)
    : transport_(transport),
      number_(static_cast<uint16_t>(number)),
      max_inline_(static_cast<uint32_t>(transport.inline_cells() * sizeof(Cell) - kWordBytes)),
      rest_ticks_(base::to_ticks(kRestNs)),
      control_(transport.own().port(number)),
      active_seen_(transport.own().layout().active_words, 0),
      bell_(control_, pipe, deaths_fd) {}

LanePort::~LanePort() { transport_.forget_port(number_); }

uint32_t LanePort::poll(Sink& sink, uint32_t budget) {
  // acquire: pairs with open_lane's release; the lane's bit is set.
  if (control_.activations.load(std::memory_order_acquire) != activations_seen_) [[unlikely]]
    discover();
  uint32_t taken = drain_returns(sink);
  uint32_t messages = 0;
  const std::size_t count = lanes_.size();
  for (std::size_t i = 0; i < count && messages < budget; ++i) {
    if (turn_ >= count) turn_ = 0;
    const uint32_t before = messages;
    InLane& lane = lanes_[turn_++];
    taken += serve(lane, sink, std::min(budget - messages, kQuantum), messages);
    note_yield(lane, messages != before);
  }
  if (++polls_ % kPollsPerLook == 0 || look_now_ || !downs_.empty() ||
      transport_.death_count() != deaths_seen_) [[unlikely]]
    housekeeping(sink);
  return taken;
}

uint32_t LanePort::linger(Sink& sink, uint32_t budget) {
  uint32_t taken = 0;
  uint32_t messages = 0;
  for (int look = 0; look < kLooksOfLinger && taken == 0 && last_lane_ != nullptr; ++look) {
    base::settle();
    if (last_lane_->rests_until != 0 || last_lane_->messages.is_empty()) continue;
    taken = serve(*last_lane_, sink, std::min(budget, kQuantum), messages);
    note_yield(*last_lane_, messages != 0);
  }
  return taken;
}

inline void LanePort::let_rest(InLane& lane) noexcept {
  if (lane.close_turns < kCloseTurns || armed_) return;
  lane.rests_until = base::ticks() + rest_ticks_;
}

bool LanePort::rests() const noexcept {
  return std::ranges::any_of(
      lanes_, [](const InLane& lane) { return lane.rests_until != 0 && !lane.broken; });
}

inline void LanePort::note_yield(InLane& lane, bool yielded) noexcept {
  burst_ = 0;
  if (!yielded || lane.broken) return;
  last_lane_ = &lane;
  burst_ = lane.rests_until != 0 ? 0 : kQuantum;
}

ShortFrame LanePort::take_short(ShortFilter wanted, std::span<std::byte> into) noexcept {
  // Where the last message came from, the next may be: a look at one cell. Everything else (other
  // lanes, control frames, returns, deaths) has its turn as soon as there is none, or it is not
  // wanted, and after a quantum in any case.
  if (burst_ == 0) [[unlikely]]
    return {.source = {}, .bytes = ShortFrame::kNone, .first_word = 0};
  RingConsumer& messages = last_lane_->messages;
  std::size_t length = 0;
  const std::byte* bytes = nullptr;
  if (messages.peek_inlined(0, bytes, length) == RingConsumer::Next::one) [[likely]] {
    uint64_t first_word;
    std::memcpy(&first_word, bytes, sizeof first_word);
    // A huge number if there is no whole header.
    const std::size_t payload = length - sizeof(ShortHeader);
    if (payload <= into.size() && (first_word & wanted.mask) == wanted.first) [[likely]] {
      base::copy_in_line(into.data(), bytes + sizeof(ShortHeader), payload);
      messages.consume_ones(1);
      --burst_;
      return {last_lane_->peer->rank(), static_cast<uint32_t>(payload), first_word};
    }
  }
  return take_longer(wanted, into);
}

/// The same for a frame of several cells, or none. Out of line: short ones are not to pay for it.
ShortFrame LanePort::take_longer(ShortFilter wanted, std::span<std::byte> into) noexcept {
  ShortFrame frame{.source = {}, .bytes = ShortFrame::kNone, .first_word = 0};
  RingConsumer& messages = last_lane_->messages;
  std::size_t length = 0;
  const std::byte* bytes = nullptr;
  const RingConsumer::Next next = messages.peek_inlined(0, bytes, length);
  if (next == RingConsumer::Next::longer && length <= max_inline_) {
    std::memcpy(&frame.first_word, bytes, sizeof frame.first_word);
    const std::size_t payload = length - sizeof(ShortHeader);
    if ((frame.first_word & wanted.mask) == wanted.first) {
      frame.bytes = ShortFrame::kLonger;
      if (payload > into.size()) return frame;
      std::memcpy(into.data(), bytes + sizeof(ShortHeader), payload);
      messages.consume(cells_of(length));
      --burst_;
      frame.source = last_lane_->peer->rank();
      frame.bytes = static_cast<uint32_t>(payload);
      return frame;
    }
  }
  messages.publish_head();
  burst_ = 0;  // and `poll` begins one with the lane that yields a message
  return frame;
}

namespace {

/// A frame without a packet, taken apart.
struct Short {
  uint64_t words[2];
  std::span<const std::byte> payload;

  [[nodiscard]] uint32_t cells() const noexcept {
    return cells_of(sizeof(ShortHeader) + payload.size());
  }
};

/// The frame that begins `ahead` cells behind the next, where all in between are such.
inline RingConsumer::Next peek_short(RingConsumer& messages, uint32_t ahead,
                                     Short& frame) noexcept {
  const std::byte* bytes = nullptr;
  std::size_t length = 0;
  const RingConsumer::Next next = messages.peek_inlined(ahead, bytes, length);
  if (next != RingConsumer::Next::one && next != RingConsumer::Next::longer) return next;
  if (length < sizeof(ShortHeader)) [[unlikely]]
    return RingConsumer::Next::other;
  std::memcpy(&frame.words[0], bytes, sizeof frame.words[0]);
  std::memcpy(&frame.words[1], bytes + sizeof frame.words[0], sizeof frame.words[1]);
  frame.payload = {bytes + sizeof(ShortHeader), length - sizeof(ShortHeader)};
  return next;
}

/// The same, and it has so many cells, one or more, and this first header word.
template <uint32_t Cells>
inline bool peek_alike(RingConsumer& messages, uint32_t ahead, uint64_t first_word,
                       Short& frame) noexcept {
  constexpr auto kNext = Cells == 1 ? RingConsumer::Next::one : RingConsumer::Next::longer;
  return peek_short(messages, ahead, frame) == kNext && frame.words[0] == first_word &&
         (Cells == 1 || frame.cells() == Cells);
}

/// Offers `first` and those that follow and are like it, of so many cells each, at most `most`;
/// false: one of them was held. Those that were taken are given back and added to `taken`.
template <uint32_t Cells>
inline bool offer_run(RingConsumer& messages, Rank source, const Short& first, uint32_t most,
                      Sink& sink, uint32_t& taken) {
  ShortRun run;
  run.source = source;
  run.first_word = first.words[0];
  run.count = 0;
  Short next = first;
  do {
    run.pieces[run.count++] = {next.words[1], next.payload};
  } while (run.count < most &&
           peek_alike<Cells>(messages, run.count * Cells, run.first_word, next));
  const uint32_t now = sink.on_run(run);
  if constexpr (Cells == 1) {
    messages.consume_ones(now);
  } else {
    for (uint32_t i = 0; i < now; ++i) messages.consume(Cells);
  }
  taken += now;
  return now == run.count;
}

/// Offers a frame of several cells, with those that are like it if it has two and `taken` has come
/// to `run_at`; false: it, or one of them, was held.
inline bool offer_longer(RingConsumer& messages, Rank source, const Short& frame, uint32_t most,
                         Sink& sink, uint32_t& run_at, uint32_t& taken) {
  Short second;
  if (frame.cells() == 2 && taken >= run_at) {
    run_at += most;
    if (most > 1 && peek_alike<2>(messages, 2, frame.words[0], second)) {
      const bool all = offer_run<2>(messages, source, frame, most, sink, taken);
      run_at = taken;
      return all;
    }
  }
  if (sink.on_short(source, {{frame.words[0], frame.words[1]}}, frame.payload) == Taken::hold)
      [[unlikely]]
    return false;
  messages.consume(frame.cells());
  ++taken;
  return true;
}

}  // namespace

uint32_t LanePort::serve(InLane& lane, Sink& sink, uint32_t budget, uint32_t& messages) {
  if (lane.broken) [[unlikely]]
    return 0;
  const uint32_t control = lane.control.is_empty() ? 0 : serve_control(lane, sink, kQuantum);
  if (lane.broken) [[unlikely]]
    return control;
  if (lane.rests_until != 0) [[unlikely]] {
    if (base::ticks() < lane.rests_until) return control;
    lane.rests_until = 0;
  }
  uint32_t taken = 0;
  bool longer = false;
  uint32_t run_at = kBeforeRuns;
  const Rank source = lane.peer->rank();
  // What comes after an empty look mostly comes alone, and whoever waits for it has better to do
  // than to look at a cell that is in its sender's cache: the next poll will.
  const bool goes_on = !lane.was_empty;
  if (!goes_on) budget = std::min(budget, 1U);
  lane.was_empty = false;
  while (taken < budget) {
    Short frame, second;
    const RingConsumer::Next next = peek_short(lane.messages, 0, frame);
    const uint32_t most = std::min(budget - taken, ShortRun::kMost);
    if (next == RingConsumer::Next::one) [[likely]] {
      // Runs only where frames come close behind each other: a look at a cell that is not written
      // yet waits for its sender's core, with frames in hand that are due.
      if (taken >= run_at) {
        run_at += most;
        if (most > 1 && peek_alike<1>(lane.messages, 1, frame.words[0], second)) {
          if (!offer_run<1>(lane.messages, source, frame, most, sink, taken)) break;
          run_at = taken;
          continue;
        }
      }
      // Where one comes alone, its receiver has better to do; where two came, a third may have.
      if (taken != 0 || lane.had_more) lane.messages.fetch_second();
      if (sink.on_short(source, {{frame.words[0], frame.words[1]}}, frame.payload) == Taken::hold)
          [[unlikely]]
        break;
      lane.messages.consume_ones(1);
    } else if (next == RingConsumer::Next::longer &&
               sizeof(ShortHeader) + frame.payload.size() <= max_inline_) {
      if (!std::exchange(longer, true)) {
        const int turns = goes_on ? lane.close_turns + 1 : 0;
        lane.close_turns = static_cast<uint8_t>(std::min(turns, kCloseTurns));
      }
      if (!offer_longer(lane.messages, source, frame, most, sink, run_at, taken)) break;
      continue;
    } else if (next == RingConsumer::Next::nothing) {
      if (longer) let_rest(lane);
      break;
    } else if (!serve_other(lane, sink)) {
      break;
    }
    ++taken;
  }
  lane.was_empty = taken == 0;
  lane.had_more = taken == budget && budget > 1;
  lane.messages.publish_head();
  messages += taken;
  return control + taken;
}

uint32_t LanePort::serve_control(InLane& lane, Sink& sink, uint32_t budget) {
  ControlWord word;
  const std::byte* bytes = nullptr;
  uint32_t taken = 0;
  RingConsumer::Peek peek;
  while ((peek = lane.control.peek(word, bytes)) == RingConsumer::Peek::frame && taken < budget) {
    sink.on_control({lane.peer->rank(), {bytes, word.length}, {}, {}});
    lane.control.consume(cells_of(word.length));
    ++taken;
  }
  if (peek == RingConsumer::Peek::nonsense) [[unlikely]]
    break_lane(lane, "sent nonsense");
  lane.control.publish_head();
  return taken;
}

bool LanePort::serve_other(InLane& lane, Sink& sink) {
  ControlWord word;
  const std::byte* bytes = nullptr;
  const RingConsumer::Peek peek = lane.messages.peek(word, bytes);
  if (peek == RingConsumer::Peek::nothing) return false;
  Frame frame{lane.peer->rank(), {bytes, word.length}, {}, {}};
  OpenLoan open;
  if (peek == RingConsumer::Peek::nonsense ||
      (word.kind == FrameKind::packet && !read_packet(lane, word, bytes, frame)) ||
      (word.kind == FrameKind::open_packet && !read_open(lane, word, bytes, frame, open)))
      [[unlikely]] {
    break_lane(lane, "sent nonsense");
    return false;
  }
  // What its owner did not live to write was not sent. acquire: first this, then how far it is.
  const bool down = lane.peer->down.load(std::memory_order_acquire);
  const bool sent = frame.is_whole() || !down;
  if (!sent) {
    give_back_all(frame.loan, frame.indices());  // to one that is taken for dead and is not
  } else if (sink.on_frame(frame) == Taken::hold) {
    return false;
  }
  lane.messages.consume(cells_of(word.length));
  return true;
}

bool LanePort::read_packet(const InLane& lane, const ControlWord& word, const std::byte* bytes,
                           Frame& frame) noexcept {
  PacketRef ref;
  // A peer that could not be attached before it died: its packets died with it.
  if (!lane.peer->attached() || word.length < sizeof ref) return false;
  std::memcpy(&ref, bytes, sizeof ref);
  const Geometry& theirs = lane.peer->view().header().geometry;
  const std::optional<PacketPart> part = ref.part(theirs);
  if (!part || word.port >= theirs.ports) return false;
  frame.head = frame.head.subspan(sizeof ref);
  frame.packet = {lane.peer->view().packet(part->index) + part->offset, part->bytes};
  frame.loan = {lane.peer->rank().value, word.port, part->index};
  return true;
}

/// The same for open packets; `open` is what the frame will point to.
bool LanePort::read_open(const InLane& lane, const ControlWord& word, const std::byte* bytes,
                         Frame& frame, OpenLoan& open) const noexcept {
  OpenPacketRef ref;
  if (!lane.peer->attached() || word.length < sizeof ref) return false;  // as above
  std::memcpy(&ref, bytes, sizeof ref);
  const SegmentView& view = lane.peer->view();
  const Geometry& theirs = view.header().geometry;
  if (word.port >= theirs.ports || (ref.origin == 0) != transport_.in_process() || ref.count == 0 ||
      ref.count > OpenLoan::kMost || ref.bytes > uint64_t{ref.count} * theirs.packet_bytes ||
      ref.bytes <= uint64_t{ref.count - 1} * theirs.packet_bytes ||
      (ref.offset != 0 &&
       (ref.count != 1 || !PacketRef::is_within(ref.offset, ref.bytes, theirs))) ||
      (ref.ticket != OpenSend::kNoTicket && !is_ticket(ref.ticket, theirs)))
    return false;
  for (uint32_t i = 0, left = ref.bytes; i < ref.count; ++i) {
    if (ref.indices[i] >= theirs.packets) return false;
    const uint32_t size = std::min(left, theirs.packet_bytes);
    open.returns[i] = ref.indices[i];
    open.pieces[i] = {view.packet(ref.indices[i]) + ref.offset, size};
    left -= size;
  }
  open.written = &view.written(ref.indices[0]);
  open.origin = ref.origin;
  open.bytes = ref.bytes;
  open.count = open.return_count = ref.count;
  if (ref.ticket != OpenSend::kNoTicket) {
    open.return_count = 1;
    open.returns[0] = ref.ticket;
  }
  frame.head = frame.head.subspan(sizeof ref);
  frame.packet = open.pieces[0];
  frame.loan = {lane.peer->rank().value, word.port, open.returns[0]};
  frame.open = &open;
  return true;
}

void LanePort::break_lane(InLane& lane, std::string_view why) {
  lane.broken = true;
  last_lane_ = nullptr;
  burst_ = 0;
  transport_.mark_down(*lane.peer, fmt::format("rank {} {}", lane.peer->rank().value, why));
}

void LanePort::discover() {
  activations_seen_ = control_.activations.load(std::memory_order_acquire);  // as in poll
  const SegmentView& own = transport_.own();
  const Geometry& g = transport_.geometry();
  for (std::size_t w = 0; w < active_seen_.size(); ++w) {
    // relaxed: the count's acquire covers the bits that were set before it.
    uint64_t fresh = own.active(number_)[w].load(std::memory_order_relaxed) & ~active_seen_[w];
    active_seen_[w] |= fresh;
    for (; fresh != 0; fresh &= fresh - 1) {
      const uint32_t l = static_cast<uint32_t>(w * 64 + std::countr_zero(fresh));
      if (l >= transport_.lanes()) break;
      LaneHeads& heads = own.heads(number_, l);
      last_lane_ = nullptr;  // lanes may move
      burst_ = 0;
      lanes_.push_back(
          {&transport_.known_or_met(transport_.rank_of_lane(l)),
           RingConsumer(own.message_cells(number_, l), g.lane_cells, &heads.messages),
           RingConsumer(own.control_cells(number_, l), g.control_cells, &heads.control)});
    }
  }
}

uint32_t LanePort::drain_returns(Sink& sink) {
  uint32_t next = take_returned(control_.returned);
  if (next == 0) [[likely]]
    return 0;
  std::array<uint32_t, 64> batch;
  uint32_t filled = 0;
  uint32_t total = 0;
  std::atomic<uint32_t>* const links = transport_.own().links();
  // The book ends the walk: what is not lent from this port is nonsense (returns.hpp, 3).
  while (next != 0 && transport_.book().strike(next - 1, number_)) {
    const uint32_t packet = next - 1;
    // relaxed: covered by take_returned's acquire. Read before the sink may lend it again.
    next = links[packet].load(std::memory_order_relaxed);
    batch[filled++] = packet;
    if (filled < batch.size()) continue;
    sink.on_returned({batch.data(), filled});
    total += filled;
    filled = 0;
  }
  if (filled > 0) sink.on_returned({batch.data(), filled});
  return total + filled;
}

// ---- sleep, death ----

void LanePort::arm() noexcept {
  armed_ = true;
  for (InLane& lane : lanes_) lane.rests_until = 0;
  bell_.arm();
  // Who was not rung for sleeps, perhaps while we wait for him.
  if (transport_.has_unrung() && !transport_.ring_again()) [[unlikely]]
    bell_.ring_self();
}

void LanePort::disarm() noexcept {
  armed_ = false;
  switch (bell_.disarm()) {
    case Doorbell::Rung::news:
      look_thoroughly_ = true;
      [[fallthrough]];
    case Doorbell::Rung::nothing:  // perhaps it was a death that woke us
      look_now_ = true;
      break;
    case Doorbell::Rung::frames:
      break;
  }
}

void LanePort::housekeeping(Sink& sink) {
  const uint64_t now = base::now_ns();
  if (now >= next_look_ns_) {
    next_look_ns_ = now + kLookEveryNs;
    look_now_ = look_thoroughly_ = true;
  }
  if (look_now_) transport_.look_for_deaths(look_thoroughly_);
  look_now_ = look_thoroughly_ = false;
  if (transport_.has_unrung()) [[unlikely]]
    (void)transport_.ring_again();
  for (const std::size_t count = transport_.death_count(); deaths_seen_ < count; ++deaths_seen_) {
    auto [peer, cause] = transport_.death(deaths_seen_);
    downs_.push_back({peer, std::move(cause)});
  }
  if (downs_.empty()) return;
  discover();  // a lane that was opened just before the death
  for (std::size_t i = 0; i < downs_.size();)
    if (report_down(downs_[i], sink))
      downs_.erase(downs_.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
}

bool LanePort::report_down(const Down& down, Sink& sink) {
  for (InLane& lane : lanes_) {
    if (lane.peer != down.peer || lane.broken) continue;
    ControlWord word;
    const std::byte* bytes = nullptr;
    if (lane.control.peek(word, bytes) == RingConsumer::Peek::frame ||
        lane.messages.peek(word, bytes) == RingConsumer::Peek::frame)
      return false;  // everything it published is offered first
  }
  drain_returns(sink);
  LoanBook& book = transport_.book();
  std::array<uint32_t, 64> batch;
  uint32_t filled = 0;
  for (uint32_t packet = 0; packet < book.packets(); ++packet) {
    if (!book.is_lent(packet, down.peer->rank().value, number_)) continue;
    book.unlend(packet);
    batch[filled++] = packet;
    if (filled == batch.size()) sink.on_returned({batch.data(), std::exchange(filled, 0)});
  }
  if (filled > 0) sink.on_returned({batch.data(), filled});
  sink.on_peer_down(down.peer->rank(), down.cause);
  return true;
}

}  // namespace weft::fabric
