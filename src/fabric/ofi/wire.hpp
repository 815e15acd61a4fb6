// What the ofi transport's frames look like on the network: a fixed header, then the bytes, then a
// tag if the job wants one, then a packet. What the provider carries as one message is a frame, or
// several.
//
// Both ends run the same build on the same kind of machine. Nothing of a frame is believed before
// `decode` let it pass; what only the receiving engine can judge (numbers, credit, which packets
// are lent) it judges itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace weft::fabric::ofi {

enum class WireKind : uint8_t {
  message = 1,  ///< header and payload of a message
  packet,       ///< a message's header, then the used bytes of packet `index`
  control,      ///< a control frame
  // Between the engines, offered to no sink:
  returns,  ///< numbers of the receiver's packets that come back: uint32_t each
  read,     ///< please send what you offered: ReadBody
  unread,   ///< what was asked for under this tag, uint64_t, is not on its way to you
  leave,    ///< the sender ends its transport, and all it sent has arrived
  report,   ///< how much was consumed: ReportBody. Numbered apart from the others, and not kept
};

/// So many of the receiver's packets, at most, come back with a frame that carries something else:
/// their numbers follow its body, and count in its length.
inline constexpr uint8_t kMostAlong = 8;
/// Whether frames of this kind may carry them.
constexpr bool takes_along(WireKind kind) noexcept { return kind <= WireKind::control; }

/// What a report is for, besides.
enum WireFlags : uint8_t {
  kAsks = 1,     ///< please answer
  kAnswers = 2,  ///< does
};

struct WireHeader {
  uint32_t stamp;     ///< of the job; what has another one is not of it
  uint32_t source;    ///< the sending rank
  uint32_t sequence;  ///< number of the frame on its lane, from 0: the lower half
  uint32_t ack;       ///< of the lane's other direction: all numbers below it have arrived
  uint32_t length;    ///< bytes that follow, a packet's not among them
  uint32_t index;     ///< number of the packet
  uint32_t bytes;     ///< of the packet
  uint16_t port;      ///< the sending port
  WireKind kind;
  uint8_t flags;  ///< of a report, WireFlags; of what takes_along, how many numbers
};
static_assert(sizeof(WireHeader) == 32);

/// In cells, since the lane was made; they only grow, so that a late one does no harm.
struct ReportBody {
  uint64_t messages;
  uint64_t control;
  uint32_t question;  ///< number of the one that it asks
  uint32_t answered;  ///< number of the one that it answers
};
static_assert(sizeof(ReportBody) == 24);

/// What was offered under `key`, from `offset` on, shall come as one message with this tag, and
/// nothing in it but that. Of no bytes: is what has that tag on its way?
struct ReadBody {
  uint64_t key;
  uint64_t offset;
  uint64_t bytes;
  uint64_t tag;
};
static_assert(sizeof(ReadBody) == 32);

/// Of what is sent as it lies.
std::span<const std::byte> bytes_of(const auto& body) noexcept {
  return std::as_bytes(std::span(&body, 1));
}

/// Of two numbers of a lane, how far `a` is ahead of `b`; they wrap.
constexpr int32_t ahead_of(uint32_t a, uint32_t b) noexcept { return static_cast<int32_t>(a - b); }

/// What the receiver knows before it looks.
struct WireLimits {
  uint32_t stamp;
  uint32_t ranks;         ///< of the job
  uint32_t self;          ///< nobody else sends as this rank
  uint32_t most_length;   ///< of a header with its payload, and the numbers that go along
  uint32_t most_packet;   ///< bytes of a packet
  uint32_t packet_words;  ///< bytes that a packet's header must leave of most_length
  uint32_t tag_bytes;     ///< of the tag between body and packet; 0: there is none
};

struct Decoded {
  WireHeader header;
  std::span<const std::byte> head;  ///< header and body, as they came
  std::span<const std::byte> body;
  std::span<const std::byte> returns;  ///< numbers of packets that come back
  std::span<const std::byte> tag;
  std::span<const std::byte> packet;
  std::size_t bytes;  ///< of all of it; then comes the next

  [[nodiscard]] std::size_t return_count() const noexcept {
    return returns.size() / sizeof(uint32_t);
  }
  [[nodiscard]] uint32_t returned(std::size_t which) const noexcept {
    uint32_t index;
    std::memcpy(&index, returns.data() + which * sizeof index, sizeof index);
    return index;
  }
};

/// The first frame in `bytes`, or nothing if it is none of this job's. Pure.
[[nodiscard]] std::optional<Decoded> decode(std::span<const std::byte> bytes,
                                            const WireLimits& limits) noexcept;

}  // namespace weft::fabric::ofi
