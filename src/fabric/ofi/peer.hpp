// What this process keeps of one peer: its addresses, and room for its packets.
//
// Owner and lifetime: made by OfiTransport on first use, ends with it.
// Who may call: anyone; the members say what orders them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/ofi/frame_key.hpp"
#include "fabric/ofi/pages.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::fabric::ofi {

/// What a rank publishes for its peers.
struct Card {
  Geometry geometry;
  uint32_t inline_cells = 0;
  uint32_t tag_bytes = 0;
  std::string host;
  std::vector<std::vector<std::byte>> addresses;  ///< one for each port
  bool sorts_by_size = false;  ///< messages to it have their size's number as a tag (SizeClasses)
  FrameKey::Salt salt{};       ///< of this transport: in the tags of all that is sent to it

  [[nodiscard]] std::string text() const;
  /// Throws Error(protocol) if it makes no sense.
  static Card parse(std::string_view text);
};

class Peer {
 public:
  /// `mirror`: packets of a peer are copied to the front of where they lie in its own area, so that
  /// they need no numbers of their own and how many there are stays the flow control.
  Peer(Rank rank, Card card)
      : rank_(rank),
        card_(std::move(card)),
        mirror_(std::size_t{card_.geometry.packets} * card_.geometry.packet_bytes),
        lent_(std::make_unique<std::atomic<bool>[]>(card_.geometry.packets)) {}
  /// A peer that cannot be reached: down from the beginning.
  explicit Peer(Rank rank) : down(true), rank_(rank) { card_.geometry.ports = 1; }

  [[nodiscard]] Rank rank() const noexcept { return rank_; }
  [[nodiscard]] bool known() const noexcept { return !card_.addresses.empty(); }
  [[nodiscard]] const Geometry& geometry() const noexcept { return card_.geometry; }
  [[nodiscard]] uint32_t ports() const noexcept { return card_.geometry.ports; }
  [[nodiscard]] std::span<const std::byte> address(uint32_t port) const noexcept {
    return card_.addresses[port];
  }
  [[nodiscard]] std::span<std::byte> packet(uint32_t index) const noexcept {
    const std::size_t bytes = card_.geometry.packet_bytes;
    return {mirror_.base() + index * bytes, bytes};
  }
  /// Whether packet `index` is lent to this rank, and sets that.
  [[nodiscard]] bool set_lent(uint32_t index, bool lent) noexcept {
    // acq_rel: who gives a packet back has read it before the next one is written there.
    return lent_[index].exchange(lent, std::memory_order_acq_rel);
  }

  [[nodiscard]] const FrameKey::Salt& salt() const noexcept { return card_.salt; }
  [[nodiscard]] const std::string& host() const noexcept { return card_.host; }

  // When something came from it, by the transport's awake_ns. relaxed, all of them: a stamp that
  // is a little old does no harm.
  void note_heard(uint64_t now) noexcept { heard_ns_.store(now, std::memory_order_relaxed); }
  [[nodiscard]] uint64_t heard_ns() const noexcept {
    return heard_ns_.load(std::memory_order_relaxed);
  }
  /// True once in `interval`.
  [[nodiscard]] bool is_time_to_ask(uint64_t now, uint64_t interval) noexcept {
    if (now - asked_ns_.load(std::memory_order_relaxed) < interval) return false;
    asked_ns_.store(now, std::memory_order_relaxed);
    return true;
  }

  /// Nothing is sent to it any more. Set once, under the transport's set-up lock. Engines look
  /// under their own lock; LaneTransport's invariant 2 holds because the sweep of what was lent
  /// takes that lock as well.
  std::atomic<bool> down{false};
  /// It ended in order: what it waits for, still, is an answer to its `leave`.
  std::atomic<bool> departed{false};
  std::atomic<int> trouble{0};  ///< the provider's last error with it

 private:
  Rank rank_;
  Card card_;
  Pages mirror_;
  std::unique_ptr<std::atomic<bool>[]> lent_;
  std::atomic<uint64_t> heard_ns_{0}, asked_ns_{0};
};

}  // namespace weft::fabric::ofi
