// Short blocks between nodes in few messages.
#pragma once

#include <cstdint>
#include <vector>

#include "mpi/collectives/blocks.hpp"
#include "mpi/collectives/node_map.hpp"
#include "mpi/collectives/promise.hpp"
#include "mpi/collectives/team.hpp"

namespace weft::mpi {

/// Of everybody's blocks for everybody, `out` to `in`, those of up to `limit` bytes for other
/// nodes. Between two nodes goes one message each way, from the agent that each has for the other:
/// the node's ranks give it what they have for the other node, and get what came from there.
///
/// `straight`: one for each rank; whether its block has not come, neither in the same node nor as
/// it is larger. All of `out` is read before anything of `in` is written.
Schedule exchange_by_agents(Team team, const NodeMap& map, Parts out, Parts in, int64_t limit,
                            std::vector<char>& straight);

}  // namespace weft::mpi
