// One block to many members of a team: written once for those of this node, who all read it.
#pragma once

#include <cstdint>

#include "mpi/collectives/blocks.hpp"
#include "mpi/collectives/team.hpp"
#include "weft/comm/endpoint.hpp"

namespace weft::mpi {

/// Sends a block to all members but this rank who can read it where this rank writes it, at once;
/// others are the schedule's to send to. Nothing else may be posted for the same members between
/// the two. Nobody is sent blocks that are shorter or longer than is worth while, or what is for
/// one member alone.
class SharedSends {
 public:
  /// Less is copied for each as fast as it is lent.
  static constexpr int64_t kLeastBytes = 4 << 10;
  /// What fits into the packets of one message.
  [[nodiscard]] static int64_t most_bytes();
  /// Whether all of a team, which has several others, are probably reached so: what all ranks know
  /// alike. (They are not where devices race, or a network serves the node.)
  [[nodiscard]] static bool may_reach_all(const Team& team);

  SharedSends(const Team& team, const Block& block);
  /// Whether it is still to be sent to the member `distance` (from 1) behind this rank.
  [[nodiscard]] bool left(int distance) const noexcept {
    const int place = distance - 1;
    return place >= kMost || (went_[place / kAtOnce] >> place % kAtOnce & 1) == 0;
  }

 private:
  static constexpr int kAtOnce = Endpoint::kMostShared;
  static constexpr int kMost = 4 * kAtOnce;
  uint64_t went_[kMost / kAtOnce] = {};
};

}  // namespace weft::mpi
