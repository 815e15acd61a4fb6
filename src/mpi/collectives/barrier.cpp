// Barriers: signals to ever more distant ranks; on several nodes, only their leaders cross.
#include <bit>

#include "mpi/collectives/algorithms.hpp"
#include "mpi/collectives/node_board.hpp"
#include "mpi/collectives/settings.hpp"

namespace weft::mpi {
namespace {

/// Dissemination: in step k everybody knows that 2^k ranks before it have come.
Schedule disseminate(Team team) {
  Step<2> step;
  for (int distance = 1; distance < team.size; distance *= 2) {
    step.recv_signal(team, (team.rank - distance + team.size) % team.size);
    step.send_signal(team, (team.rank + distance) % team.size);
    co_await step;
  }
}

/// All tell the first that they have come.
Schedule come(Team team) {
  Step<8> step;
  if (team.rank != 0) step.send_signal(team, 0);
  for (int i = 1; team.rank == 0 && i < team.size; ++i) {
    if (step.full()) co_await step;
    step.recv_signal(team, i);
  }
  co_await step;
}

/// The first tells all that they may go.
Schedule go(Team team) {
  Step<8> step;
  if (team.rank != 0) step.recv_signal(team, 0);
  for (int i = 1; team.rank == 0 && i < team.size; ++i) {
    if (step.full()) co_await step;
    step.send_signal(team, i);
  }
  co_await step;
}

/// The same by the node's board.
bool come_to_board(BoardUse& use, const Team& node) {
  if (node.rank != 0) {
    use.arrive({});
    return true;
  }
  for (int member = 1; member < node.size; ++member) {
    if (!use.await(static_cast<uint32_t>(member))) return false;
  }
  return true;
}

/// A node's ranks tell their leader, the leaders tell each other, and each its node. Few leaders do
/// so with as few messages as there can be (see all_reduce_by_nodes).
Schedule barrier_by_nodes(Team team, const NodeMap& map) {
  const Team node = map.node(*team.comm, team.tag);
  BoardUse use(team, 0);
  const bool shown = use.works() && come_to_board(use, node);
  if (!shown) {
    const Schedule up = come(node);
    co_await part(up);
  }
  if (node.rank == 0 && map.nodes.size() > 1) {
    const std::vector<int> places = map.leaders(team.rank);
    const Team leaders{team.comm, team.tag, map.mine, static_cast<int>(places.size()),
                       places.data()};
    if (leaders.size <= kStraightLeaders) {
      const Schedule across = come(leaders);
      co_await part(across);
      const Schedule back = go(leaders);
      co_await part(back);
    } else {
      const Schedule across = disseminate(leaders);
      co_await part(across);
    }
  }
  if (shown && use.share({})) co_return;
  if (shown) {
    const Schedule up = come(node);
    co_await part(up);
  }
  const Schedule down = go(node);
  co_await part(down);
}

/// Of one node: each shows all others that it has come.
Schedule barrier_exchanged(Team team) {
  if (team.board->exchange(team.tag, {})) co_return;
  const Schedule by_messages = disseminate(team);
  co_await part(by_messages);
}

}  // namespace

Schedule barrier(const Team& team, const NodeMap* levels) {
  if (team.size <= 1) return nothing();
  if (team.board != nullptr && team.board->exchanges()) return barrier_exchanged(team);
  if (team.board != nullptr) levels = &team.board->nodes();
  return levels != nullptr ? barrier_by_nodes(team, *levels) : disseminate(team);
}

}  // namespace weft::mpi
