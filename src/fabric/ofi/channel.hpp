// One port's two lanes with one port of a peer: what is sent there, and what comes from there.
//
// Owner and lifetime: made by an Engine on first use, ends with it.
// Who may call: the holder of the engine's lock; the members of the polling thread are marked.
//
// Invariants
//  1. What is sent on it has consecutive sequence numbers. Frames that were numbered and that the
//     provider did not take yet are in `backlog`, in order.
//  2. messages_sent ≤ messages_allowed, likewise control, both in cells: the peer's queues have
//     room for all that is under way. So `backlog` is bounded as well.
//  3. What comes is admitted by sequence number. What came too early (providers may finish a large
//     receive after a small one that was sent later) waits in `early`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "fabric/ofi/endpoint.hpp"
#include "fabric/ofi/frame_queue.hpp"
#include "fabric/ofi/peer.hpp"
#include "fabric/ofi/probe.hpp"
#include "fabric/ofi/wire.hpp"

namespace weft::fabric::ofi {

/// A numbered frame that the provider did not take yet.
struct Pending {
  std::vector<std::byte> bytes;       ///< header and what follows
  std::span<const std::byte> packet;  ///< where it lies; it is lent
};

struct Channel {
  Channel(Peer& the_peer, uint32_t the_port) : peer(the_peer), port(the_port) {}

  Peer& peer;
  const uint32_t port;  ///< the peer's
  fi_addr_t address = FI_ADDR_NOTAVAIL;

  // ---- there ----
  uint32_t next_sequence = 0;
  uint64_t messages_sent = 0, messages_allowed = 0;
  uint64_t control_sent = 0, control_allowed = 0;
  std::deque<Pending> backlog;
  bool queued = false;          ///< among the engine's channels that have something to do
  uint32_t under_way = 0;       ///< sends in the provider's hands
  bool says_leave = false;      ///< `leave` was posted
  bool left = false;            ///< the peer answered `leave`
  uint64_t stuck_since_ns = 0;  ///< nothing was taken since; 0: it goes on
  ConnectProbe probe;

  // ---- from there ----
  uint32_t expected = 0;  ///< the next sequence number
  std::map<uint32_t, std::vector<std::byte>> early;
  std::vector<uint32_t> returns;  ///< packets to give back
  uint64_t messages_reported = 0, control_reported = 0;

  // pushed to under the lock, popped by the polling thread
  FrameQueue messages, control;

  // ---- the polling thread's own ----
  uint64_t messages_noted = 0, control_noted = 0;  ///< consumed when credit was last thought of
};

}  // namespace weft::fabric::ofi
