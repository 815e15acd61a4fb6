#include "fabric/ofi/ofi_port.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "fabric/packet_ref.hpp"

namespace weft::fabric::ofi {

namespace {

constexpr uint32_t kQuantum = 64;  ///< messages, and control frames, that one lane may deliver
                                   ///< before the next's turn

}  // namespace

OfiPort::OfiPort(OfiTransport& transport, uint32_t number)
    : transport_(transport),
      engine_(transport.engine(number)),
      number_(number),
      max_inline_(transport.max_inline()),
      scratch_(std::make_unique<std::byte[]>(max_inline_)) {
  reads_.reserve(Engine::kMostReads);
}

// ---- sending ----

Post OfiPort::try_send(Rank to, uint32_t to_port, std::span<const std::byte> header,
                       std::span<const std::byte> payload) noexcept {
  return send(WireKind::message, to, to_port, header, payload);
}

Post OfiPort::try_control(Rank to, uint32_t to_port, std::span<const std::byte> header) noexcept {
  return send(WireKind::control, to, to_port, header, {});
}

Post OfiPort::send(WireKind kind, Rank to, uint32_t to_port, std::span<const std::byte> header,
                   std::span<const std::byte> payload) noexcept {
  WEFT_CHECK(header.size() + payload.size() <= max_inline_, "a frame within max_inline");
  Peer& peer = transport_.known_or_met(to);
  if (to == transport_.self()) [[unlikely]]
    return transport_.engine(to_port % peer.ports())
        .send_to_self(kind, peer, number_, header, payload);
  return engine_.send(kind, peer, to_port, header, payload);
}

Post OfiPort::try_send_packet(Rank to, uint32_t to_port, std::span<const std::byte> header,
                              PacketPart part) noexcept {
  const PacketRef ref(part);
  WEFT_CHECK(sizeof ref + header.size() <= max_inline_ && ref.part(transport_.geometry()) == part,
             "a packet frame within its bounds");
  Peer& peer = transport_.known_or_met(to);
  if (to != transport_.self()) [[likely]]
    return engine_.send_packet(peer, to_port, header, part);
  const Post answer =
      transport_.engine(to_port % peer.ports())
          .send_to_self(WireKind::packet, peer, number_, std::as_bytes(std::span(&ref, 1)), header);
  return answer == Post::done ? Post::posted : answer;
}

void OfiPort::give_back(Loan loan) noexcept {
  if (loan.owner == transport_.self().value) {
    transport_.engine(loan.port).push_returned(loan.index);
    return;
  }
  Peer* const owner = transport_.find(Rank{loan.owner});
  WEFT_CHECK(owner != nullptr && owner->known() && loan.port < owner->ports() &&
                 loan.index < owner->geometry().packets,
             "a loan that a frame delivered");
  if (engine_.give_back(*owner, loan.port, loan.index)) [[likely]]
    return;
  for (uint32_t port = 0; port < transport_.geometry().ports; ++port)
    if (transport_.engine(port).give_back(*owner, loan.port, loan.index)) return;
  WEFT_CHECK(false, "a lane by which the packet came");
}

ReadOffer OfiPort::offer(Rank peer, std::span<const std::byte> memory) noexcept {
  if (peer == transport_.self() || memory.empty()) return {};
  return engine_.offer(transport_.known_or_met(peer), memory);
}

Post OfiPort::try_read(Address from, uint64_t address, uint64_t key, uint64_t offset,
                       std::span<std::byte> into, uint64_t token) noexcept {
  Peer& peer = transport_.known_or_met(from.rank);
  return engine_.begin_read(peer, from.port, address + offset, key, into, token);
}

// ---- polling ----

uint32_t OfiPort::poll(Sink& sink, uint32_t budget) {
  engine_.progress();
  uint32_t taken = engine_.has_returned() ? drain_returned(sink) : 0;
  if (engine_.has_reads()) taken += drain_reads(sink);
  if (engine_.inbound_count() != channels_.size()) [[unlikely]]
    engine_.list_inbound(channels_);
  uint32_t messages = 0;
  const std::size_t count = channels_.size();
  for (std::size_t i = 0; i < count && messages < budget; ++i) {
    if (turn_ >= count) turn_ = 0;
    Channel& channel = *channels_[turn_++];
    if (channel.messages.is_empty() && channel.control.is_empty()) continue;
    const uint32_t before = messages;
    taken += serve(channel, sink, std::min(budget - messages, kQuantum), messages);
    last_ = &channel;
    burst_ = messages != before ? kQuantum : 0;
  }
  if (!deaths_.empty() || transport_.death_count() != deaths_seen_) [[unlikely]]
    look_at_deaths(sink);
  return taken;
}

ShortFrame OfiPort::take_short(ShortFilter wanted, std::span<std::byte> into) noexcept {
  constexpr ShortFrame kNothing{.source = {}, .bytes = ShortFrame::kNone, .first_word = 0};
  if (burst_ == 0) return kNothing;
  FrameQueue& messages = last_->messages;
  if (!messages.is_empty()) {
    FrameQueue::Word word;
    const auto bytes = messages.front(word, scratch_.get());
    uint64_t first_word = 0;
    if (bytes.size() >= sizeof(ShortHeader))
      std::memcpy(&first_word, bytes.data(), sizeof first_word);
    // A huge number if there is no whole header.
    const std::size_t payload = bytes.size() - sizeof(ShortHeader);
    if (word.is_packet == 0 && payload <= into.size() &&
        (first_word & wanted.mask) == wanted.first) {
      if (payload != 0) std::memcpy(into.data(), bytes.data() + sizeof(ShortHeader), payload);
      messages.pop(word);
      --burst_;
      engine_.note_consumed(*last_);
      return {last_->peer.rank(), static_cast<uint32_t>(payload), first_word};
    }
  }
  burst_ = 0;
  return kNothing;
}

uint32_t OfiPort::serve(Channel& channel, Sink& sink, uint32_t budget, uint32_t& messages) {
  FrameQueue::Word word;
  uint32_t control = 0;
  for (; control < kQuantum && !channel.control.is_empty(); ++control) {
    const auto bytes = channel.control.front(word, scratch_.get());
    sink.on_control({channel.peer.rank(), bytes, {}, {}});
    channel.control.pop(word);
  }
  uint32_t taken = 0;
  for (; taken < budget && !channel.messages.is_empty(); ++taken) {
    const auto bytes = channel.messages.front(word, scratch_.get());
    if (offer(channel, sink, word, bytes) == Taken::hold) break;
    channel.messages.pop(word);
  }
  messages += taken;
  if (taken + control != 0) engine_.note_consumed(channel);
  return taken + control;
}

Taken OfiPort::offer(Channel& channel, Sink& sink, const FrameQueue::Word& word,
                     std::span<const std::byte> bytes) {
  const Rank source = channel.peer.rank();
  if (word.is_packet == 0) {
    if (bytes.size() < sizeof(ShortHeader)) return sink.on_frame({source, bytes, {}, {}});
    ShortHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    return sink.on_short(source, header, bytes.subspan(sizeof header));
  }
  PacketRef ref;
  std::memcpy(&ref, bytes.data(), sizeof ref);
  const bool is_own = source == transport_.self();
  const Geometry& owners = is_own ? transport_.geometry() : channel.peer.geometry();
  const std::optional<PacketPart> part = ref.part(owners);
  WEFT_CHECK(part.has_value(), "a part that was looked at when it was sent, or admitted");
  const auto packet = is_own ? transport_.packet(part->index) : channel.peer.packet(part->index);
  return sink.on_frame({source,
                        bytes.subspan(sizeof ref),
                        packet.subspan(part->offset, part->bytes),
                        {source.value, static_cast<uint16_t>(channel.port), part->index}});
}

uint32_t OfiPort::drain_returned(Sink& sink) {
  returned_.clear();
  engine_.take_returned(returned_);
  if (!returned_.empty()) sink.on_returned(returned_);
  return static_cast<uint32_t>(returned_.size());
}

uint32_t OfiPort::drain_reads(Sink& sink) {
  reads_.clear();
  engine_.take_reads(reads_);
  for (const auto& [token, ok] : reads_) sink.on_read(token, ok);
  return static_cast<uint32_t>(reads_.size());
}

// ---- deaths ----

void OfiPort::look_at_deaths(Sink& sink) {
  for (const std::size_t count = transport_.death_count(); deaths_seen_ < count; ++deaths_seen_)
    deaths_.push_back(transport_.death(deaths_seen_));
  std::erase_if(deaths_,
                [&](const OfiTransport::Death& death) { return report_down(death, sink); });
  engine_.expect_end(!deaths_.empty());
}

bool OfiPort::report_down(const OfiTransport::Death& death, Sink& sink) {
  if (death.at_ns != 0 && !engine_.is_drained(death.at_ns)) return false;
  engine_.close(*death.peer);
  engine_.list_inbound(channels_);                // a lane that was opened just before
  for (const Channel* const channel : channels_)  // everything that came is offered first
    if (&channel->peer == death.peer &&
        (!channel->messages.is_empty() || !channel->control.is_empty()))
      return false;
  if (engine_.has_returned()) drain_returned(sink);
  returned_.clear();
  engine_.sweep(*death.peer, returned_);
  if (!returned_.empty()) sink.on_returned(returned_);
  sink.on_peer_down(death.peer->rank(), death.cause);
  return true;
}

}  // namespace weft::fabric::ofi
