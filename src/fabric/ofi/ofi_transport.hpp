// The transport between nodes, over libfabric: frames through reliable datagram endpoints.
//
// Purpose: owns the packets, the engines (one endpoint for each port), what is known of peers, and
// the keeper, a thread that gets on with what is under way while nobody polls.
// Owner and lifetime: made by make_ofi_transport, collectively; outlives its ports.
// Who may call: anyone, anything.
// Locks, in this order: meeting_ (held while the launcher is asked), an engine's, setup_.
//
// Invariants
//  1. A Peer, once published in peers_, stays until the transport ends, dead or not.
//  2. deaths_ only grows, `down` is set before; each port reports each entry once, after it offered
//     what had come.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fabric/exposure.hpp"
#include "fabric/loans.hpp"
#include "fabric/ofi/engine.hpp"
#include "fabric/ofi/frame_key.hpp"
#include "fabric/ofi/pages.hpp"
#include "fabric/ofi/peer.hpp"
#include "weft/fabric/job.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::fabric::ofi {

/// What is decided before it is made.
struct OfiSetup {
  Geometry geometry;
  uint32_t inline_cells = 4;
  uint32_t exposures = 1024;
  ReceiveStrategy receive = ReceiveStrategy::single;
  uint32_t receives = 64;  ///< most of one size that are posted
  uint64_t receive_memory = 1 << 20;
  Effort effort = {};
  bool is_tagged = false;   ///< fabric.security=mac
  bool reads = true;        ///< peers' memory, where the provider can and frames have no tags
  uint64_t silence_ns = 0;  ///< after so long without a word a peer is dead; 0: never
  std::span<std::byte> packets = {};  ///< where they lie; empty: in pages of its own
};

class OfiTransport final : public Transport {
 public:
  OfiTransport(Job& job, const OfiSetup& setup);
  ~OfiTransport() override;

  [[nodiscard]] std::string_view name() const noexcept override { return "ofi"; }
  [[nodiscard]] const Geometry& geometry() const noexcept override {
    return setup_values_.geometry;
  }
  [[nodiscard]] bool reaches(Rank rank) const noexcept override {
    return rank.value >= 0 && rank.value < job_.size();
  }
  [[nodiscard]] bool is_far(Rank rank) const noexcept override { return rank != self_; }
  [[nodiscard]] std::span<std::byte> packet_area() noexcept override { return packet_area_; }
  std::unique_ptr<Port> open_port(uint32_t number) override;

  bool can_read(Rank peer) noexcept override { return peer == self_; }
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
  /// Its own alone: nobody maps memory over a network.
  std::optional<std::span<std::byte>> map_peer(const MemoryKey& key) noexcept override {
    if (key.segment == 0 || key.owner != self_.value) return std::nullopt;
    return exposures_.resolve(key);
  }

  void peer_died(Rank peer, std::string_view cause) noexcept override;

  // ---- for Engine and OfiPort ----

  [[nodiscard]] Job& job() noexcept { return job_; }
  [[nodiscard]] Rank self() const noexcept { return self_; }
  [[nodiscard]] bool is_forks_copy() const noexcept;
  [[nodiscard]] uint32_t stamp() const noexcept { return stamp_; }
  /// Null: frames have no tags.
  [[nodiscard]] const FrameKey* frame_key() const noexcept { return frame_key_.get(); }
  /// In the tags of what is sent to this rank.
  [[nodiscard]] const FrameKey::Salt& salt() const noexcept { return salt_; }
  [[nodiscard]] uint32_t tag_bytes() const noexcept {
    return frame_key_ ? uint32_t{FrameKey::kTagBytes} : 0;
  }
  [[nodiscard]] ReceiveStrategy receive_strategy() const noexcept { return setup_values_.receive; }
  /// Over TCP the kernel holds what comes meanwhile.
  static constexpr uint32_t kReceivesAtFirst = 16;
  [[nodiscard]] ReceiveSetup receive_setup(const SizeClasses& classes,
                                           uint32_t most_posted) const noexcept {
    return {setup_values_.receive,
            setup_values_.receives,
            setup_values_.receive_memory,
            most_posted,
            classes,
            is_over_tcp_ ? kReceivesAtFirst : 0};
  }
  [[nodiscard]] const Effort& effort() const noexcept { return setup_values_.effort; }
  [[nodiscard]] uint32_t max_inline() const noexcept { return max_inline_; }
  [[nodiscard]] bool is_over_tcp() const noexcept { return is_over_tcp_; }
  [[nodiscard]] LoanBook& book() noexcept { return book_; }
  [[nodiscard]] Engine& engine(uint32_t port) noexcept { return *engines_[port]; }
  [[nodiscard]] std::span<std::byte> packet(uint32_t index) noexcept {
    return packet_area().subspan(std::size_t{index} * geometry().packet_bytes,
                                 geometry().packet_bytes);
  }
  [[nodiscard]] Peer* find(Rank rank) const noexcept {
    // acquire: pairs with meet's release; the Peer is complete.
    return peers_[rank.value].load(std::memory_order_acquire);
  }
  /// Asks for the peer's address on first use. One that has none is down, with a death to report.
  [[nodiscard]] Peer& known_or_met(Rank rank) noexcept {
    Peer* const peer = find(rank);
    return peer ? *peer : meet(rank);
  }
  /// Ends what is said to a peer; `why` follows its name. Only the first time.
  void mark_down(Peer& peer, std::string_view why) noexcept;
  /// It ended its transport in order.
  void mark_left(Peer& peer) noexcept;
  /// The provider's last error that was of no peer.
  void note_trouble(int error) noexcept {
    trouble_.store(error, std::memory_order_relaxed);  // relaxed: for a sentence
  }
  /// Something came that is of nobody of this job.
  void count_stray() noexcept { strays_.fetch_add(1, std::memory_order_relaxed); }
  /// A frame came again: its sender could not know that it had arrived, or somebody recorded it.
  void count_repeat() noexcept { repeats_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] uint64_t repeats() const noexcept {
    return repeats_.load(std::memory_order_relaxed);  // relaxed: a count
  }
  [[nodiscard]] uint64_t strays() const noexcept {
    return strays_.load(std::memory_order_relaxed);  // relaxed: a count
  }

  /// Time in which this process ran, as far as its keeper noticed: who stood still himself does not
  /// take others for silent.
  [[nodiscard]] uint64_t awake_ns() const noexcept {
    return awake_ns_.load(std::memory_order_relaxed);  // relaxed: a stamp
  }
  /// Something waits for the next step. Should nobody poll, the keeper makes one soon.
  void note_gathering() noexcept;
  [[nodiscard]] uint64_t silence_ns() const noexcept { return setup_values_.silence_ns; }

  struct Death {
    Peer* peer;
    std::string cause;
    uint64_t at_ns;  ///< what came until a little later is still offered; 0: all has come
  };
  [[nodiscard]] std::size_t death_count() const noexcept {
    // acquire: pairs with enter_death's release.
    return death_count_.load(std::memory_order_acquire);
  }
  [[nodiscard]] Death death(std::size_t number);

 private:
  struct Allocation {
    Pages pages;
    std::size_t bytes;
    uint32_t segment;
  };
  Peer& meet(Rank rank) noexcept;
  std::unique_ptr<Peer> make_peer(Rank rank, std::string& failure);
  void enter_death(Peer& peer, std::string cause, bool in_order) noexcept;
  void leave() noexcept;
  template <class Done>
  bool leave_until(std::chrono::steady_clock::time_point end, Done done) noexcept;
  void keep() noexcept;
  void meet_aside() noexcept;

  Job& job_;
  const OfiSetup setup_values_;
  const Rank self_;
  const uint32_t stamp_;
  const std::unique_ptr<const FrameKey> frame_key_;
  const FrameKey::Salt salt_;
  const uint32_t max_inline_;
  bool is_over_tcp_ = false;  ///< of the provider; as the constructor leaves it
  const int64_t pid_;
  Pages packets_;  ///< none if they lie elsewhere
  const std::span<std::byte> packet_area_;
  LoanBook book_;
  std::unique_ptr<std::atomic<uint32_t>[]> generations_;
  Exposures exposures_;
  std::unique_ptr<std::atomic<Peer*>[]> peers_;
  std::atomic<uint64_t> strays_{0}, repeats_{0}, awake_ns_{0};
  std::atomic<int> trouble_{0};
  Fid<fid_fabric> fabric_;
  std::vector<std::unique_ptr<Engine>> engines_;

  std::mutex meeting_;        // one first meeting at a time
  mutable std::mutex setup_;  // guards everything to the next blank line
  std::vector<std::unique_ptr<Peer>> met_;
  std::vector<bool> opened_;
  std::vector<Death> deaths_;
  std::map<int32_t, std::string> told_dead_;  ///< by the launcher, and not met yet: why
  std::map<std::byte*, Allocation> allocations_;
  uint32_t segments_ = 0;
  std::atomic<std::size_t> death_count_{0};

  struct Keeper {
    std::mutex lock;
    std::condition_variable told;
    bool ends = false;
    std::atomic<bool> gathering{false};  ///< somebody said so since the last round
    std::atomic<bool> is_quick{false};   ///< the next round is soon
    std::thread thread;
    std::atomic<bool> meets{false};  ///< `meeter` is at it
    std::thread meeter;              ///< the keeper's
  };
  std::unique_ptr<Keeper> keeper_;
};

}  // namespace weft::fabric::ofi
