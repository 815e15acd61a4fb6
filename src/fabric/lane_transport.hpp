// The lane engine: the one transport behind `self`, `local` and `shm`, over a Backing.
//
// Purpose: owns this rank's segment, finds peers' on first use, notices their deaths.
// Owner and lifetime: made by the providers' functions, collectively; outlives its ports.
// Who may call: anyone, anything.
// Progress: find() and what LanePort does with it are wait-free but for the lane's spin lock;
// everything that meets a peer, a port or an allocation for the first time takes `setup_`, may
// make system calls and may block in Job::get.
//
// Invariants
//  1. A Peer, once published in peers_, stays until the transport ends, dead or not.
//  2. A death is entered in deaths_ only after `down` was set and every open lane to the peer was
//     closed under its lock: no sender of this process is then between its look at `open` or `down`
//     and its publish. Closed lanes of a peer that is down stay closed.
//  3. deaths_ only grows; each port reports each entry once.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fabric/backing.hpp"
#include "fabric/exposure.hpp"
#include "fabric/lane_setup.hpp"
#include "fabric/layout.hpp"
#include "fabric/loans.hpp"
#include "fabric/peer.hpp"
#include "weft/fabric/job.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::fabric {

class LanePort;

class LaneTransport final : public Transport {
 public:
  LaneTransport(Job& job, const LaneSetup& setup, std::unique_ptr<Backing> backing);
  ~LaneTransport() override;

  /// The segment of a rank with this set-up.
  static Layout layout_for(const LaneSetup& setup);

  [[nodiscard]] std::string_view name() const noexcept override { return backing_->name(); }
  [[nodiscard]] const Geometry& geometry() const noexcept override { return options_.geometry; }
  [[nodiscard]] bool reaches(Rank rank) const noexcept override;
  [[nodiscard]] std::span<std::byte> packet_area() noexcept override;
  std::unique_ptr<Port> open_port(uint32_t number) override;
  void peer_died(Rank peer, std::string_view cause) noexcept override;
  [[nodiscard]] std::atomic<uint32_t>* written(Rank to, uint32_t index,
                                               bool follows) noexcept override;

  bool can_read(Rank peer) noexcept override;
  [[nodiscard]] std::string why_not_read(Rank peer) const override;
  Errc read_memory(Rank peer, uint64_t address, std::span<std::byte> local) noexcept override;
  Errc write_memory(Rank peer, uint64_t address,
                    std::span<const std::byte> local) noexcept override;

  std::span<std::byte> allocate_shared(std::size_t bytes) override;
  bool release_shared(std::span<std::byte> memory) noexcept override;
  MemoryKey expose(std::span<std::byte> memory) override;
  void withdraw(const MemoryKey& key) noexcept override { exposures_.withdraw(key); }
  std::optional<std::span<std::byte>> resolve(const MemoryKey& key) noexcept override {
    return exposures_.resolve(key);
  }
  std::optional<std::span<std::byte>> map_peer(const MemoryKey& key) noexcept override;

  // ---- for LanePort ----

  /// The peer if it was met before, else nullptr.
  [[nodiscard]] Peer* find(Rank rank) const noexcept {
    // acquire: pairs with meet's release; the Peer is complete.
    return peers_[rank.value].load(std::memory_order_acquire);
  }
  /// Attaches on first use. A peer that cannot be attached is down, with a death to report.
  Peer& meet(Rank rank) noexcept;
  [[nodiscard]] Peer& known_or_met(Rank rank) noexcept {
    Peer* const peer = find(rank);
    return peer ? *peer : meet(rank);
  }
  /// Opens this process's lane to a port; false: the port is not open yet, or the peer is down.
  bool open_lane(Peer& peer, uint32_t port) noexcept;
  /// Rings for the sleep `seen` of the peer's port.
  void ring_port(Peer& peer, uint32_t port, uint32_t seen) noexcept;
  /// Whether there are sleepers that could not be rung for.
  [[nodiscard]] bool has_unrung() const noexcept {
    return unrung_.load(std::memory_order_relaxed) != 0;  // relaxed: looked at again and again
  }
  /// Rings for them; true if none is left.
  [[nodiscard]] bool ring_again() noexcept;
  /// Looks whether somebody died or left; `thorough` also asks peers that ended in order.
  void look_for_deaths(bool thorough) noexcept;
  void mark_down(Peer& peer, std::string cause) noexcept;

  struct Death {
    Peer* peer;
    std::string cause;
  };
  [[nodiscard]] std::size_t death_count() const noexcept {
    // acquire: pairs with mark_down's release; invariant 2 holds for those counted.
    return death_count_.load(std::memory_order_acquire);
  }
  [[nodiscard]] Death death(std::size_t number);
  void forget_port(uint32_t number) noexcept;

  [[nodiscard]] bool in_process() const noexcept { return backing_->in_process(); }
  /// Where peers may read what an open packet is written from.
  [[nodiscard]] uint64_t origin_for_peers(const std::byte* place) const noexcept;

  [[nodiscard]] const SegmentView& own() const noexcept { return own_; }
  [[nodiscard]] LoanBook& book() noexcept { return book_; }
  [[nodiscard]] Rank self() const noexcept { return self_; }
  [[nodiscard]] uint32_t inline_cells() const noexcept { return options_.inline_cells; }
  [[nodiscard]] Rank rank_of_lane(uint32_t lane) const noexcept { return options_.ranks[lane]; }
  [[nodiscard]] uint32_t lanes() const noexcept { return own_.header().lanes; }

 private:
  struct Allocation {
    std::span<std::byte> memory;
    uint32_t segment;
  };
  [[nodiscard]] Peer* reachable(Rank rank) noexcept;  // met, or met now; nullptr: not among ranks
  [[nodiscard]] bool can_read(Peer& peer) noexcept;
  [[nodiscard]] bool has_ended(Peer& peer) noexcept;
  template <class Copy>
  [[nodiscard]] Errc with_memory_of(Rank rank, Copy copy) noexcept;
  void fill_header();
  void place_packets() noexcept;
  std::unique_ptr<Peer> attach(Rank rank);
  [[nodiscard]] bool fence_towards(const SegmentView& view) const noexcept;
  [[nodiscard]] std::string describe(const Peer& peer) const;
  [[nodiscard]] std::string how_it_ended(const Peer& peer) const;
  Peer::Mapping* map_segment(Peer& peer, const MemoryKey& key) noexcept;
  void enter_death(Peer& peer, std::string cause) noexcept;
  void wake_own_ports() noexcept;
  void note_unrung(const Peer& peer, OutLane& lane, uint32_t sleep) noexcept;
  int ring_first(Peer& peer, uint32_t port, uint32_t seen, Knock what) noexcept;
  void take_the_launchers_word() noexcept;

  Job& job_;
  LaneSetup options_;
  Rank self_;
  uint32_t my_lane_ = 0;
  bool membarrier_ = false;
  int64_t pid_;
  std::unique_ptr<Backing> backing_;
  SegmentView own_;
  LoanBook book_;
  Exposures exposures_;
  std::unique_ptr<std::atomic<Peer*>[]> peers_;

  mutable std::mutex setup_;  // guards everything below, and every first use
  std::vector<std::unique_ptr<Peer>> met_;
  std::vector<LanePort*> ports_;
  std::vector<Death> deaths_;
  std::map<std::byte*, Allocation> allocations_;
  std::array<uint32_t, kSharedRows> shared_uses_{};  // how often each row was given out
  std::map<int, std::string> told_dead_;             // by the launcher, before they were met
  std::atomic<std::size_t> death_count_{0};
  std::atomic<uint32_t> unrung_{0};  // lanes; written under the lock

  std::mutex words_lock_;                            // after `setup_`, or alone
  std::vector<std::pair<Rank, std::string>> words_;  // the launcher's, not taken yet
};

}  // namespace weft::fabric
