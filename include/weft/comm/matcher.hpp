// Matching by somebody else: what an endpoint of Arrival::matcher hands its messages to, with the
// envelope that its user gave them. For rooms above that have an order of their own (MPI).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/base/types.hpp"

namespace weft {

/// What travels with each message: all of it the user's, carried and not looked at.
struct Envelope {
  uint32_t tag = 0;
  uint32_t sequence = 0;
  uint16_t context = 0;
  uint8_t kind = 0;
};

/// A message that waits at its sender (rendezvous). Plain data, kept as long as is convenient; ends
/// in exactly one Endpoint::fetch.
struct Announcement {
  Rank source{};
  uint16_t reply_port = 0;
  uint32_t operation = 0;   ///< the sender's record, and
  uint32_t generation = 0;  ///< its use
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t key = 0;  ///< with which it is read over the network
};

/// An eager message, as it arrives: the payload is valid during the call only.
struct Delivery {
  Rank source;
  Envelope envelope;
  std::span<const std::byte> payload;
};

/// Meets arriving messages with whatever waits for them.
///
/// Who calls: whoever progresses, under the lock of the device that the message came by: one at a
/// time for each device, in the order in which they were sent there; at the same time for several
/// devices. It must not block, wait or throw. It may post; a retry there is for later
/// (Endpoint::try_again_later).
class Matcher {
 public:
  /// False: no room now; the message, and all behind it in its lane, is offered again later.
  virtual bool arrive(const Delivery& message) noexcept = 0;
  virtual bool announced(const Envelope& envelope, const Announcement& message) noexcept = 0;
  /// After Endpoint::try_again_later: tries what was answered retry; true: nothing of it is left.
  virtual bool try_again() noexcept = 0;
  /// `peer` died; all that it sent before was offered. Once a peer.
  virtual void peer_down(Rank peer) noexcept = 0;

 protected:
  ~Matcher() = default;
};

}  // namespace weft
