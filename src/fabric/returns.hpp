// The return stack: how packets that were lent come back to the port that lent them.
//
// Purpose: any thread of any process gives a packet back; the owner's poll takes all at once.
// Owner and lifetime: head (one per port) and links (one per packet and ticket) lie in the owner's
// segment.
// Who may call: push anyone who holds the loan; take the owner's polling thread of that port.
// Progress: push lock-free, take wait-free. A pusher stopped or killed at any instruction has
// either pushed or not, and stalls nobody.
// Layout: head = number + 1 of the last packet pushed, 0 for empty; links[i] = the head before i.
// Tickets (OpenSend) come back like packets, by numbers behind theirs.
//
// Invariants
//  1. A packet is on at most one stack: only the holder of its loan pushes it, once, alone or with
//     others.
//  2. The owner takes the whole stack by exchange, so that no pop can meet a reused head (no ABA).
//  3. What comes from outside is not believed: the walk visits a packet only if it is a number in
//     range that the owner's own book says is lent from this port, and the book's entry is struck
//     out before the walk goes on, so that it ends (a forged link cannot make it circle).
//
// Source: Treiber's stack; links beside the packets instead of inside, so that returning does not
// touch the packet.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

namespace weft::fabric {

/// Pushes packets, one at least, by one exchange; `links` is the owner's link array.
inline void push_returned(std::atomic<uint32_t>& head, std::atomic<uint32_t>* links,
                          std::span<const uint32_t> indices) noexcept {
  // relaxed, all links: covered by the release
  for (std::size_t i = 1; i < indices.size(); ++i)
    links[indices[i]].store(indices[i - 1] + 1, std::memory_order_relaxed);
  uint32_t before = head.load(std::memory_order_relaxed);  // relaxed: verified by the exchange
  do {
    links[indices.front()].store(before, std::memory_order_relaxed);
    // release: pairs with take_returned's acquire; links, and the reading of the packets, precede.
  } while (!head.compare_exchange_weak(before, indices.back() + 1, std::memory_order_release,
                                       std::memory_order_relaxed));
}

/// Takes the stack: number + 1 of its first packet, or 0.
inline uint32_t take_returned(std::atomic<uint32_t>& head) noexcept {
  if (head.load(std::memory_order_relaxed) == 0) return 0;  // relaxed: only whether to look
  // acquire: pairs with every push's release (a release sequence of read-modify-writes).
  return head.exchange(0, std::memory_order_acquire);
}

}  // namespace weft::fabric
