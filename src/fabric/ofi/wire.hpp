// What the ofi transport's frames look like on the network: a fixed header, then the bytes.
//
// Both ends run the same build on the same kind of machine. Everything is checked by the receiver
// before it is used (Engine::take).
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::fabric::ofi {

enum class WireKind : uint8_t {
  message = 1,  ///< header and payload of a message
  packet,       ///< a message's header, then the used bytes of packet `index`
  control,      ///< a control frame
  // Between the engines, offered to no sink:
  credit,   ///< how much of its lane the receiver has consumed: CreditBody
  returns,  ///< numbers of the receiver's packets that come back: uint32_t each
  leave,    ///< the sender ends its transport: LeaveBody. Nothing follows on this lane
  left,     ///< answers `leave`: all that was sent before has arrived
};

struct WireHeader {
  uint32_t stamp;     ///< of the job; what has another one is not of it
  uint32_t source;    ///< the sending rank
  uint32_t sequence;  ///< of the lane, from 0
  uint32_t length;    ///< bytes that follow, a packet's not among them
  uint32_t index;     ///< number of the packet
  uint32_t bytes;     ///< of the packet
  uint16_t port;      ///< the sending port
  WireKind kind;
  uint8_t reserved8;
  uint32_t reserved;
};
static_assert(sizeof(WireHeader) == 32);

/// In cells, since the lane was made; they only grow, so that a late one does no harm.
struct CreditBody {
  uint64_t messages;
  uint64_t control;
};
static_assert(sizeof(CreditBody) == 16);

struct LeaveBody {
  uint32_t lanes;  ///< on so many lanes it leaves
};
static_assert(sizeof(LeaveBody) == 4);

}  // namespace weft::fabric::ofi
