// What weft's frames look like: the packet types and the fixed parts of each.
//
// Every frame starts with a Header. Both ends run the same build on the same kind of machine;
// the sizes are fixed by static_assert, and whatever comes in is checked before it is believed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "weft/comm/matcher.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::comm {

/// What a frame is for; the one switch of the message path (000 §3.3, Alg. 3.3).
enum class PacketType : uint8_t {
  // In the message ring, in order:
  eager = 1,      ///< the message itself, inline or in a packet
  ready_to_send,  ///< RTS: a large message waits at the sender; body RendezvousBody
  data,           ///< one fragment of a large transfer, in a packet; body DataBody
  put,            ///< remote write of up to a packet; body PutBody, then or by packet the bytes
  put_large,      ///< as ready_to_send, into a region; body RendezvousBody + PutBody
  get,            ///< remote read; body RendezvousBody (where to write) + PutBody (from where)
  signal,         ///< a put's bytes are in place already: only tell
  enveloped,      ///< eager, for a Matcher; its header holds an Envelope
  announced,      ///< the same, a large message that waits; body RendezvousBody
  probe,          ///< who waits for whom (probes.hpp); body ProbeBody; for no endpoint
  // In the control ring:
  ready_to_receive,  ///< RTR: send fragments to this operation; body Handle of the receiver
  share,             ///< send fragments, from the end of what was announced; body ShareBody
  readable,          ///< what a get wants can be read over the network; body RendezvousBody
  finished,          ///< the operation named by `token` ended, with `flags` as its Errc
};

/// Names an operation of the rank that made it: its place in the table and how often that place
/// was used before, so that a late or forged answer meets nothing.
struct Handle {
  uint32_t index = 0;
  uint32_t generation = 0;
};

struct Header {
  PacketType type;
  uint8_t flags = 0;        ///< finished: Errc; put: kTellTarget; ready_to_receive: kReadFailed;
                            ///< probe: kIsEnding
  uint16_t endpoint = 0;    ///< number of the endpoint at both ends
  uint32_t tag = 0;         ///< of the message, or the signal of a put
  uint32_t bytes = 0;       ///< payload of this frame (inline or packet)
  uint16_t reply_port = 0;  ///< the sender's port, for answers
  uint16_t reserved = 0;
};
static_assert(sizeof(Header) == 16);

/// The header as it lies in a frame: two words, put together in registers. (Field by field it
/// would be stored narrow and loaded wide again, which the store buffer cannot forward.)
[[nodiscard]] inline fabric::ShortHeader pack(const Header& h) noexcept {
  return {{uint64_t{static_cast<uint8_t>(h.type)} | uint64_t{h.flags} << 8 |
               uint64_t{h.endpoint} << 16 | uint64_t{h.tag} << 32,
           uint64_t{h.bytes} | uint64_t{h.reply_port} << 32}};
}
static_assert(sizeof(fabric::ShortHeader) == sizeof(Header));

/// The same, of a packed header without them and a tag and a length.
[[nodiscard]] inline fabric::ShortHeader pack_short(const fabric::ShortHeader& rest, uint32_t tag,
                                                    std::size_t bytes) noexcept {
  return {{rest.words[0] | uint64_t{tag} << 32, rest.words[1] | static_cast<uint32_t>(bytes)}};
}

/// Takes it apart again.
[[nodiscard]] inline Header unpack(fabric::ShortHeader packed) noexcept {
  const auto& words = packed.words;
  return {.type = static_cast<PacketType>(words[0]),
          .flags = static_cast<uint8_t>(words[0] >> 8),
          .endpoint = static_cast<uint16_t>(words[0] >> 16),
          .tag = static_cast<uint32_t>(words[0] >> 32),
          .bytes = static_cast<uint32_t>(words[1]),
          .reply_port = static_cast<uint16_t>(words[1] >> 32)};
}
/// The same from a frame; `from` has at least the header's bytes.
[[nodiscard]] inline Header unpack(const std::byte* from) noexcept {
  fabric::ShortHeader packed;
  std::memcpy(&packed, from, sizeof packed);
  return unpack(packed);
}

inline constexpr uint8_t kTellTarget = 1;
inline constexpr uint8_t kReadFailed = 1;  ///< of what was offered; packets shall bring it

inline constexpr uint8_t kIsEnding = 1;  ///< its sender ends its runtime

/// The header of messages for a Matcher: the sequence number lies where others have their length (a
/// frame knows its own), the context where nothing lies.
[[nodiscard]] inline fabric::ShortHeader pack(PacketType type, uint16_t endpoint,
                                              uint16_t reply_port,
                                              const Envelope& envelope) noexcept {
  return {{uint64_t{static_cast<uint8_t>(type)} | uint64_t{envelope.kind} << 8 |
               uint64_t{endpoint} << 16 | uint64_t{envelope.tag} << 32,
           uint64_t{envelope.sequence} | uint64_t{reply_port} << 32 |
               uint64_t{envelope.context} << 48}};
}
/// A frame's header as it lies there; `from` has at least its bytes.
[[nodiscard]] inline fabric::ShortHeader packed_of(std::span<const std::byte> from) noexcept {
  fabric::ShortHeader packed;
  std::memcpy(&packed, from.data(), sizeof packed);
  return packed;
}
[[nodiscard]] inline Envelope unpack_envelope(const fabric::ShortHeader& packed) noexcept {
  return {.tag = static_cast<uint32_t>(packed.words[0] >> 32),
          .sequence = static_cast<uint32_t>(packed.words[1]),
          .context = static_cast<uint16_t>(packed.words[1] >> 48),
          .kind = static_cast<uint8_t>(packed.words[0] >> 8)};
}

/// A transfer too large for a packet: where it lies (or shall lie) at the frame's sender.
struct RendezvousBody {
  Handle operation;  ///< the sender's, to be answered with `finished` or `ready_to_receive`
  uint64_t address;  ///< in the sender's process, or, with a key, of what it offers to be read
  uint64_t bytes;
  uint64_t key;  ///< of that; ReadOffer::kNone: nothing is offered
};
static_assert(sizeof(RendezvousBody) == 32);

/// A place in a region of the frame's receiver.
struct PutBody {
  Handle operation;  ///< the sender's, answered with `finished`; index kNoAnswer: no answer
  uint32_t slot;
  uint32_t generation;
  uint64_t base;
  uint64_t region_bytes;
  uint64_t offset;
  uint32_t segment;
  uint32_t reserved;
};
static_assert(sizeof(PutBody) == 48);
inline constexpr uint32_t kNoAnswer = UINT32_MAX;

/// A fragment's place in the transfer of the receiver's operation.
struct DataBody {
  Handle operation;
  uint64_t offset;
};
static_assert(sizeof(DataBody) == 16);

/// What the sender of a large message may send of it in fragments (shared_copy.hpp).
struct ShareBody {
  fabric::MemoryKey claims;  ///< the receiver's table, and
  uint32_t number;           ///< the place in it, and
  uint32_t generation;       ///< its use
  Handle operation;          ///< the receiver's
  uint64_t bytes;
  uint64_t chunk;  ///< a fragment each, from the back
};
static_assert(sizeof(ShareBody) == 64);

/// The way of a probe so far: its asker, whom that waits for, and so on.
struct ProbeBody {
  uint32_t sequence;  ///< the asker's
  uint32_t hops;      ///< ranks on the way, of which the first are in `path`
  int32_t path[8];
};
static_assert(sizeof(ProbeBody) == 40);

/// Header and bodies back to back, as they go into a frame.
template <class... Body>
struct Bytes {
  std::byte raw[sizeof(Header) + (sizeof(Body) + ... + 0)];
  explicit Bytes(const Header& header, const Body&... bodies) noexcept {
    const fabric::ShortHeader packed = pack(header);
    std::memcpy(raw, &packed, sizeof packed);
    std::size_t at = sizeof packed;
    ((std::memcpy(raw + at, &bodies, sizeof(Body)), at += sizeof(Body)), ...);
  }
  [[nodiscard]] std::span<const std::byte> span() const noexcept { return raw; }
};

/// Takes the header off the front of `from`; false if there are too few bytes.
[[nodiscard]] inline bool take(std::span<const std::byte>& from, Header& into) noexcept {
  if (from.size() < sizeof(Header)) return false;
  into = unpack(from.data());
  from = from.subspan(sizeof(Header));
  return true;
}

/// Takes a T off the front of `from`; false if there are too few bytes.
template <class T>
[[nodiscard]] bool take(std::span<const std::byte>& from, T& into) noexcept {
  if (from.size() < sizeof(T)) return false;
  std::memcpy(&into, from.data(), sizeof(T));
  from = from.subspan(sizeof(T));
  return true;
}

}  // namespace weft::comm
