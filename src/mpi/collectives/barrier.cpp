// Barriers: signals to ever more distant ranks; on several nodes, only their leaders cross.
#include <bit>

#include "mpi/collectives/algorithms.hpp"

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

/// A node's ranks tell their leader, the leaders tell each other, and each its node.
Schedule barrier_by_nodes(Team team, const NodeMap& map) {
  const Team node = map.node(*team.comm, team.tag);
  Step<8> step;
  if (node.rank != 0) {
    step.send_signal(node, 0);
    step.recv_signal(node, 0);
    co_await step;
    co_return;
  }
  for (int i = 1; i < node.size; ++i) {
    if (step.full()) co_await step;
    step.recv_signal(node, i);
  }
  co_await step;
  const std::vector<int> leaders = map.leaders(team.rank);
  const Schedule across = disseminate(
      {team.comm, team.tag, map.mine, static_cast<int>(leaders.size()), leaders.data()});
  co_await part(across);
  for (int i = 1; i < node.size; ++i) {
    if (step.full()) co_await step;
    step.send_signal(node, i);
  }
  co_await step;
}

}  // namespace

Schedule barrier(const Team& team, const NodeMap* levels) {
  if (team.size <= 1) return nothing();
  return levels != nullptr ? barrier_by_nodes(team, *levels) : disseminate(team);
}

}  // namespace weft::mpi
