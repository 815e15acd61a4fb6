// Short blocks between nodes in few messages.
#pragma once

#include <cstdint>
#include <vector>

#include "mpi/collectives/blocks.hpp"
#include "mpi/collectives/node_map.hpp"
#include "mpi/collectives/promise.hpp"
#include "mpi/collectives/team.hpp"

namespace weft::mpi {

/// Of everybody's blocks for everybody, `out` to `in`, those of up to `limit` bytes, which is the
/// same on all ranks, for other nodes, and all for the own node. Between two
/// nodes goes one message each way, from the agent that each has for the other: the node's ranks
/// give it what they have for the other node, and get what came from there.
///
/// `straight`: one for each rank; whether its block has not come: this rank's own, and larger ones
/// of other nodes.
/// `in_place`: `out` and `in` are the same; nothing comes from this node then (its ranks' blocks
/// are `straight`, too), and all that goes to others is read before anything is written.
Schedule exchange_by_agents(Team team, const NodeMap& map, Parts out, Parts in, int64_t limit,
                            bool in_place, std::vector<char>& straight);

}  // namespace weft::mpi
