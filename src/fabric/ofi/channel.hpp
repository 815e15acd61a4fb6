// One port's two lanes with one port of a peer: what is sent there, and what comes from there.
//
// Owner and lifetime: made by an Engine on first use, ends with it.
// Who may call: the holder of the engine's lock; the members of the polling thread are marked.
//
// Invariants
//  1. messages_sent ≤ messages_allowed, likewise control, both in cells: the peer's queues have
//     room for all that is under way, so the outbox is bounded as well.
//  2. What comes is admitted by number, each once. What came too early (a connection broke, or the
//     provider finished a large receive after a small one that was sent later) waits in `early`,
//     within bounds; what came before, or is dropped there, is sent again or not needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "fabric/ofi/endpoint.hpp"
#include "fabric/ofi/frame_queue.hpp"
#include "fabric/ofi/outbox.hpp"
#include "fabric/ofi/peer.hpp"
#include "fabric/ofi/probe.hpp"
#include "fabric/ofi/wire.hpp"

namespace weft::fabric::ofi {

struct Channel {
  static constexpr uint8_t kOwed = 4;  ///< of report_due: what was consumed, no more

  Channel(Peer& the_peer, uint32_t the_port) : peer(the_peer), port(the_port) {}

  Peer& peer;
  const uint32_t port;  ///< the peer's
  fi_addr_t address = FI_ADDR_NOTAVAIL;

  // ---- there ----
  Outbox outbox;
  uint64_t messages_sent = 0, messages_allowed = 0;
  uint64_t control_sent = 0, control_allowed = 0;
  uint64_t reports_sent = 0;
  uint32_t under_way = 0;  ///< frames in the provider's hands, but for abandoned ones
  uint32_t given_up = 0;   ///< of these: the peer is down, and the engine does not count them
  uint32_t reads = 0;      ///< of its memory, in the provider's hands
  uint8_t report_due = 0;  ///< WireFlags that the next report shall have, or kOwed; 0: none is due
  bool busy = false;       ///< among the engine's channels that have something to send
  bool watched = false;    ///< among those that wait for an answer
  bool waits_turn =
      false;             ///< the provider had all that it may have, of others' too, at its last try
  bool starved = false;  ///< somebody was refused for want of credit
  uint64_t sent_ns = 0;  ///< when something was sent at once
  uint64_t stuck_since_ns = 0;  ///< nothing gets on since; 0: it does
  uint64_t resume_ns = 0;       ///< after an error, not before; 0: at once
  bool is_cut = false;          ///< the peer is down, and its connections were shut for reads
  uint64_t no_reads_ns = 0;     ///< the provider takes no read since, in time awake; 0: it does
  ConnectProbe probe;
  /// It gets on.
  void note_moved() noexcept {
    if (std::exchange(stuck_since_ns, 0) != 0) probe.forget();
  }

  // what we ask
  uint32_t question = 0;           ///< number of the last one
  uint64_t asked_before = 0;       ///< the first number that was not sent when we asked it
  uint64_t asked_ns = 0;           ///< when that was
  uint32_t unanswered = 0;         ///< questions since the last answer
  uint32_t looks = 0;              ///< of the keeper's, since it last asked or something got on
  uint64_t acknowledged_then = 0;  ///< when the keeper looked last
  uint64_t moved_ns = 0;           ///< when something got on, or nothing was to; in time awake
  uint32_t held = 0;               ///< looks at what the provider does not let go of
  uint32_t replacements = 0;       ///< of such frames, since something got on

  // ---- from there ----
  uint64_t expected = 0;         ///< the next number
  uint64_t report_expected = 0;  ///< the next report's
  uint32_t to_answer = 0;        ///< number of the question
  std::map<uint64_t, std::vector<std::byte>> early;
  std::size_t early_bytes = 0;
  std::vector<uint32_t> returns;  ///< packets to give back; room for all that the peer has
  OutFrame* answers = nullptr;    ///< to its reads (Engine::Answer), the oldest first
  uint32_t unanswered_reads = 0;  ///< of these, what the provider does not have yet
  uint64_t unread_first = 0;      ///< number of what was said first, of those that
  uint32_t unread_count = 0;      ///< were said since, and are not known to have been heard
  uint64_t no_answers_ns = 0;     ///< it takes none since, in time awake; 0: it does
  uint64_t returns_since = 0;     ///< ticks: the first of them
  uint64_t messages_reported = 0, control_reported = 0;

  // pushed to under the lock, popped by the polling thread
  FrameQueue messages, control;

  // ---- the polling thread's own ----
  uint64_t messages_noted = 0, control_noted = 0;  ///< consumed when credit was last thought of
};

}  // namespace weft::fabric::ofi
