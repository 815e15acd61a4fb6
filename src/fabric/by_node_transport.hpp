// Two transports as one: `near` for the ranks of this node, `far` for all others.
//
// Purpose: one binary uses shared memory where there is some and the network where there is none
// (docs/design/by-node.md).
// Owner and lifetime: made by make_by_node_transport, collectively; owns both; outlives its ports.
// Who may call: anyone, anything.
// Progress: as that of the side it asks; it has no lock and no state that changes.
//
// Invariants
//  1. is_near_ does not change, and a rank answers about its peer as the peer does about it.
//  2. A packet is lent by one side at a time: it is in at most one of the two loan books. `far`
//     has its packets in the area of `near`, and ends before it.
//  3. What names memory is of `near` alone: a key means the same to whomever it is sent.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/fabric/transport.hpp"

namespace weft::fabric {

class ByNodeTransport final : public Transport {
 public:
  /// `ranks`: how many there are. `near` is for those of `near_ranks`, this one among them. `far`
  /// was given the packet area of `near`; both have the same geometry.
  ByNodeTransport(int ranks, std::span<const Rank> near_ranks, std::unique_ptr<Transport> near,
                  std::unique_ptr<Transport> far);

  [[nodiscard]] std::string_view name() const noexcept override { return "by_node"; }
  [[nodiscard]] const Geometry& geometry() const noexcept override { return near_->geometry(); }
  [[nodiscard]] bool reaches(Rank rank) const noexcept override { return side(rank).reaches(rank); }
  /// False also of what is no rank: `near` has an answer to that.
  [[nodiscard]] bool is_far(Rank rank) const noexcept override {
    const auto index = static_cast<std::size_t>(rank.value);
    return index < is_near_.size() && is_near_[index] == 0;
  }
  [[nodiscard]] std::span<std::byte> packet_area() noexcept override {
    return near_->packet_area();
  }
  std::unique_ptr<Port> open_port(uint32_t number) override;
  [[nodiscard]] std::atomic<uint32_t>* written(Rank to, uint32_t index,
                                               bool follows) noexcept override {
    return side(to).written(to, index, follows);
  }

  bool can_read(Rank peer) noexcept override { return side(peer).can_read(peer); }
  [[nodiscard]] std::string why_not_read(Rank peer) const override {
    return side(peer).why_not_read(peer);
  }
  Errc read_memory(Rank peer, uint64_t address, std::span<std::byte> local) noexcept override {
    return side(peer).read_memory(peer, address, local);
  }
  Errc write_memory(Rank peer, uint64_t address,
                    std::span<const std::byte> local) noexcept override {
    return side(peer).write_memory(peer, address, local);
  }

  std::span<std::byte> allocate_shared(std::size_t bytes) override {
    return near_->allocate_shared(bytes);
  }
  bool release_shared(std::span<std::byte> memory) noexcept override {
    return near_->release_shared(memory);
  }
  MemoryKey expose(std::span<std::byte> memory) override { return near_->expose(memory); }
  void withdraw(const MemoryKey& key) noexcept override { near_->withdraw(key); }
  void peer_died(Rank peer, std::string_view cause) noexcept override {
    side(peer).peer_died(peer, cause);
  }
  std::optional<std::span<std::byte>> resolve(const MemoryKey& key) noexcept override {
    return near_->resolve(key);
  }
  /// Nothing for the memory of far ranks: its segment is of another node.
  std::optional<std::span<std::byte>> map_peer(const MemoryKey& key) noexcept override {
    return is_far(Rank{key.owner}) ? std::nullopt : near_->map_peer(key);
  }

 private:
  [[nodiscard]] Transport& side(Rank rank) const noexcept { return is_far(rank) ? *far_ : *near_; }

  std::vector<uint8_t> is_near_;  ///< by rank
  std::unique_ptr<Transport> near_;
  std::unique_ptr<Transport> far_;  // ends first
};

}  // namespace weft::fabric
