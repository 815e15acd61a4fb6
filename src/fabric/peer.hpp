// What this process keeps of one peer: its mapped segment, and the sending side of its lanes.
//
// Owner and lifetime: made by LaneTransport on first use, ends with it.
// Who may call: the members say so themselves.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fabric/backing.hpp"
#include "fabric/layout.hpp"
#include "fabric/ring.hpp"
#include "weft/base/biased_lock.hpp"
#include "weft/base/cache_line.hpp"

namespace weft::fabric {

/// The sending side of this process's lane to one port of a peer.
///
/// The lock is process-private: a sender that is stopped or killed while it holds it stalls only
/// its own process.
struct alignas(base::kCacheLine) OutLane {
  base::BiasedLock lock{base::BiasedLock::Level::inner};  ///< guards both producers
  bool fence = false;  ///< no membarrier on one side: fence before looking for a sleeper
  /// Release when the rest is set; acquire before use. Not of a peer that is down: then it is
  /// closed again, under `lock`.
  std::atomic<bool> open{false};
  std::atomic<int> bell{kNoBell};
  uint32_t unrung = 0;  ///< the sleep that has still to be ended, 0: none; under the set-up lock
  PortControl* port = nullptr;
  alignas(base::kCacheLine) RingProducer messages;
  alignas(base::kCacheLine) RingProducer control;

  static constexpr int kNoBell = PeerLink::kNoBell;  ///< not opened yet
};
static_assert(sizeof(OutLane) == 3 * base::kCacheLine);

/// One peer.
class Peer {
 public:
  Peer(Rank rank, std::unique_ptr<PeerLink> link, const SegmentView& view)
      : rank_(rank),
        link_(std::move(link)),
        view_(view),
        ports_(view.header().geometry.ports),
        lanes_(std::make_unique<OutLane[]>(ports_)) {}
  /// A peer that cannot be attached: down from the beginning.
  explicit Peer(Rank rank)
      : down(true),
        rank_(rank),
        view_(nullptr, Layout({}, 1, 0)),
        ports_(1),
        lanes_(std::make_unique<OutLane[]>(1)) {}

  [[nodiscard]] bool attached() const noexcept { return link_ != nullptr; }

  [[nodiscard]] Rank rank() const noexcept { return rank_; }
  [[nodiscard]] const SegmentView& view() const noexcept { return view_; }
  [[nodiscard]] PeerLink& link() noexcept { return *link_; }
  [[nodiscard]] uint32_t ports() const noexcept { return ports_; }

  /// The lane to `port` modulo the peer's number of ports.
  [[nodiscard]] OutLane& lane(uint32_t port) noexcept {
    return lanes_[port < ports_ ? port : port % ports_];
  }
  /// The same for `port` < ports().
  [[nodiscard]] OutLane& lane_below(uint32_t port) noexcept { return lanes_[port]; }
  /// True when the peer ended its transport in order.
  [[nodiscard]] bool left() const noexcept {
    // acquire: pairs with the release in LaneTransport's destructor; what it sent before is seen.
    return view_.header().left.load(std::memory_order_acquire) != 0;
  }

  /// Set under no lock, then each lane is closed under its own: after that no sender is in between.
  std::atomic<bool> down{false};

  /// Cross-memory reads: 0 not probed, 1 they work, 2 they do not (`why_not_read` is set). release
  /// after the text; acquire before reading it.
  std::atomic<int> reads{0};
  std::string why_not_read;

  /// Shared allocations of this peer mapped here: by row of its table. Pointers are published with
  /// release and read with acquire; what is replaced goes to `retired` under the set-up lock.
  struct Mapping {
    uint32_t segment;
    std::span<std::byte> memory;
    bool mapped = true;  ///< under the set-up lock
  };
  std::atomic<std::atomic<Mapping*>*> mappings{nullptr};
  std::unique_ptr<std::atomic<Mapping*>[]> mappings_owner;
  std::vector<std::unique_ptr<Mapping>> live, retired;

 private:
  Rank rank_;
  std::unique_ptr<PeerLink> link_;
  SegmentView view_;
  uint32_t ports_;
  std::unique_ptr<OutLane[]> lanes_;
};

}  // namespace weft::fabric
