// Nodes of a communicator, found on first use.
#include "mpi/collectives/node_map.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "mpi/collectives/settings.hpp"
#include "mpi/process.hpp"
#include "weft/base/topology.hpp"
#include "weft/fabric/job.hpp"

namespace weft::mpi {

NodeMap::NodeMap(const Comm& comm) {
  const fabric::Job& job = runtime().job();
  std::map<int, int> index_of;
  node_of.reserve(static_cast<std::size_t>(comm.size()));
  for (int rank = 0; rank < comm.size(); ++rank) {
    const int node = job.node_of(comm.local_group->process(rank));
    const auto [entry, is_new] = index_of.try_emplace(node, static_cast<int>(nodes.size()));
    if (is_new) nodes.emplace_back();
    in_blocks = in_blocks && (is_new || node_of.back() == entry->second);
    node_of.push_back(entry->second);
    nodes[static_cast<std::size_t>(entry->second)].push_back(rank);
  }
  mine = node_of[static_cast<std::size_t>(comm.rank)];
  place = place_of(comm.rank);
}

int NodeMap::place_of(int rank) const noexcept {
  const auto& ranks = nodes[static_cast<std::size_t>(node_of[static_cast<std::size_t>(rank)])];
  return static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

std::vector<int> NodeMap::leaders(int with) const {
  std::vector<int> chosen;
  chosen.reserve(nodes.size());
  for (const auto& ranks : nodes) chosen.push_back(ranks.front());
  chosen[static_cast<std::size_t>(node_of[static_cast<std::size_t>(with)])] = with;
  return chosen;
}

const NodeMap& node_map(Comm& comm) {
  const std::scoped_lock guard(comm.lock);
  if (comm.nodes == nullptr) comm.nodes = std::make_shared<NodeMap>(comm);
  return *comm.nodes;
}

const NodeMap* node_levels(Comm& comm) {
  if (!choices().node_aware || comm.size() < 3 || runtime().job().node_count() == 1) return nullptr;
  const NodeMap& map = node_map(comm);
  const bool worth_while =
      map.nodes.size() > 1 && map.nodes.size() < static_cast<std::size_t>(comm.size());
  return worth_while ? &map : nullptr;
}

bool on_one_node(const Team& team) {
  if (team.comm->inter) return false;
  const NodeMap& map = node_map(*team.comm);
  return team.members == nullptr
             ? map.nodes.size() == 1
             : team.members == map.nodes[static_cast<std::size_t>(map.mine)].data();
}

bool take_turns(const Team& team) {
  return team.size > base::Topology::machine().processors() && on_one_node(team);
}

}  // namespace weft::mpi
