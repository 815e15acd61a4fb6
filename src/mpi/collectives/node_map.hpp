// Which members of a communicator share a node.
#pragma once

#include <vector>

#include "mpi/collectives/team.hpp"
#include "mpi/comm.hpp"

namespace weft::mpi {

/// Immutable. Ranks are the communicator's.
class NodeMap {
 public:
  explicit NodeMap(const Comm& comm);

  std::vector<std::vector<int>> nodes;  ///< in order of their first members; each ascending
  std::vector<int> node_of;             ///< by rank: index in `nodes`
  int mine = 0;                         ///< index in `nodes`
  int place = 0;                        ///< of this process in its node
  bool in_blocks = true;                ///< one node's ranks, one after the other, then the next's

  /// This process' node.
  [[nodiscard]] Team node(Comm& comm, int tag) const noexcept {
    const auto& ranks = nodes[static_cast<std::size_t>(mine)];
    return {&comm, tag, place, static_cast<int>(ranks.size()), ranks.data()};
  }
  /// The place of `rank` in its node.
  [[nodiscard]] int place_of(int rank) const noexcept;
  /// One rank of each node, in the order of nodes: the first; of `with`'s node: `with`.
  [[nodiscard]] std::vector<int> leaders(int with) const;
};

/// The team's members are all on one node, as everybody's, or as what NodeMap::node gives.
[[nodiscard]] bool on_one_node(const Team& team);
/// They are, and there are more of them than processors: each step of an algorithm is a turn of
/// all, and so few steps are worth more than little work for each.
[[nodiscard]] bool take_turns(const Team& team);

/// The map of an intra-communicator. Lives as long as that does.
[[nodiscard]] const NodeMap& node_map(Comm& comm);
/// The same if two levels are worth while: there are several nodes, one of them has several
/// members, and configuration does not forbid it. Or else nullptr.
[[nodiscard]] const NodeMap* node_levels(Comm& comm);

}  // namespace weft::mpi
