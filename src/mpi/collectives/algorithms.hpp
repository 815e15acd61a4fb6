// The algorithms of collectives, over teams. Everything given must live until the schedule is over.
#pragma once

#include <cstdint>

#include "mpi/collectives/blocks.hpp"
#include "mpi/collectives/node_map.hpp"
#include "mpi/collectives/promise.hpp"
#include "mpi/collectives/reduction.hpp"
#include "mpi/collectives/team.hpp"

namespace weft::mpi {

/// Whether vectors go straight to the root and from there, rather than along a tree, whose depth is
/// waited for at every level: short ones of few ranks, and longer ones where ranks take turns,
/// unless the root had so much to do that the others' cores stood still.
[[nodiscard]] bool goes_straight(const Team& team, int64_t bytes);

// Each picks an algorithm by size; roots are members of the team. `levels`: node_levels of the
// communicator if the team is everybody, or nullptr.

Schedule barrier(const Team& team, const NodeMap* levels);
Schedule broadcast(const Team& team, const NodeMap* levels, const Block& data, int root);
/// Down a tree, on each level, whatever the size: for ranks that may not all know it after a death.
Schedule broadcast_by_trees(Team team, const NodeMap* levels, Block data, int root);
/// `mine` is nullptr-typed (in place) or what this rank gives; `all` is looked at by the root only.
Schedule gather(const Team& team, const NodeMap* levels, const Block& mine, const Parts& all,
                int root);
Schedule scatter(const Team& team, const NodeMap* levels, const Parts& all, const Block& mine,
                 int root);
// With blocks of unlike sizes, which only the root knows all of.
Schedule gather_unlike(const Team& team, const NodeMap* levels, const Block& mine, const Parts& all,
                       int root);
Schedule scatter_unlike(const Team& team, const NodeMap* levels, const Parts& all,
                        const Block& mine, int root);
Schedule gather_straight(Team team, Block mine, Parts all, int root);
Schedule scatter_straight(Team team, Parts all, Block mine, int root);
/// Everybody's block is in its place of `all` already.
Schedule all_gather(const Team& team, const NodeMap* levels, const Parts& all);
/// The same of at most Board::kBytes in all: few ranks of one node exchange by their board; else an
/// Allreduce of everybody's block among zeros.
Schedule all_gather_shown(const Team& team, const NodeMap* levels, const Parts& all);
/// Block i of `out` to rank i, whose block goes to part i of `in`. `most_bytes`: of one block,
/// where all ranks know it and blocks are equal; or else -1.
Schedule all_to_all(const Team& team, const NodeMap* levels, const Parts& out, const Parts& in,
                    int64_t most_bytes);
/// The same with what is sent in the place of what is received.
Schedule all_to_all_in_place(const Team& team, const NodeMap* levels, const Parts& data,
                             int64_t most_bytes);

// Reductions. `from` and `to` may be the same: in place. `to` needs room on the root only.
Schedule reduce(const Team& team, const NodeMap* levels, const Reduction& reduction,
                const void* from, void* to, int root);
Schedule all_reduce(const Team& team, const NodeMap* levels, const Reduction& reduction,
                    const void* from, void* to);
/// Part i of the vector at `from`, combined, to rank i's `to`. `parts` tells counts alone.
Schedule reduce_scatter(const Team& team, const NodeMap* levels, const Reduction& reduction,
                        const void* from, void* to, const Parts& parts);
/// The same, each part straight to its owner, who combines, whatever the size.
Schedule reduce_at_owners(const Team& team, const Reduction& reduction, const void* from, void* to,
                          const Parts& parts);
Schedule scan(const Team& team, const NodeMap* levels, const Reduction& reduction, const void* from,
              void* to);
Schedule exclusive_scan(const Team& team, const NodeMap* levels, const Reduction& reduction,
                        const void* from, void* to);

}  // namespace weft::mpi
