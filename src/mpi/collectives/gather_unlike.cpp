// Gatherv and Scatterv: straight, or over several nodes what is short by a leader of each. Only the
// root knows all sizes, so that messages say what is in them.
#include <deque>
#include <vector>

#include "mpi/collectives/algorithms.hpp"
#include "mpi/collectives/bundle.hpp"
#include "mpi/collectives/node_map.hpp"
#include "mpi/collectives/settings.hpp"

namespace weft::mpi {
namespace {

constexpr int64_t kLimit = 4 << 10;  // of a block: up to this by leaders, what is larger straight

/// The nodes that are not the root's: one message for each between its leader and the root.
struct FarNodes {
  FarNodes(const NodeMap& map, int root) {
    const int home = map.node_of[static_cast<std::size_t>(root)];
    for (int i = 0; i < static_cast<int>(map.nodes.size()); ++i) {
      if (i == home) continue;
      nodes.push_back(&map.nodes[static_cast<std::size_t>(i)]);
      bundles.emplace_back(nodes.back()->size(), kLimit);
    }
  }
  [[nodiscard]] const std::vector<int>& ranks(std::size_t i) const noexcept { return *nodes[i]; }

  std::vector<const std::vector<int>*> nodes;
  std::deque<Bundle> bundles;  ///< with what each has; at the root
};

bool is_near(const NodeMap& map, int root) {
  return map.node_of[static_cast<std::size_t>(root)] == map.mine;
}

/// At the root.
Schedule gather_from_leaders(Team team, const NodeMap& map, Block mine, Parts all) {
  FarNodes far(map, team.rank);
  {
    BigStep step(static_cast<uint32_t>(far.nodes.size() + map.nodes[map.mine].size()));
    for (std::size_t i = 0; i < far.nodes.size(); ++i)
      step.recv(team, far.ranks(i).front(), far.bundles[i].room());
    for (const int rank : map.nodes[map.mine]) {
      if (rank != team.rank) step.recv(team, rank, all[rank]);
    }
    co_await step;
  }
  Trouble trouble;
  Step<16> step;
  for (std::size_t i = 0; i < far.nodes.size(); ++i) {
    for (const int rank : far.ranks(i)) {
      const Bundle::Item item = far.bundles[i].next();
      take_block(item, all[rank], team.comm->process(rank), trouble);
      if (item.straight_bytes(all[rank].bytes()) <= kLimit) continue;
      if (step.full()) co_await step;
      step.recv(team, rank, all[rank]);
    }
  }
  co_await step;
  co_await trouble;
  if (mine.type != nullptr) copy(mine, all[team.rank]);
}

/// On other nodes than the root's.
Schedule gather_by_leader(Team team, const NodeMap& map, Block mine, int root) {
  const Team node = map.node(*team.comm, team.tag);
  Bundle own(1, kLimit);
  own.add(mine);
  Step<2> last;
  Bundle whole(node.rank == 0 ? static_cast<std::size_t>(node.size) : 0, kLimit);
  if (node.rank != 0) {
    last.send(node, 0, own.message());
  } else {
    std::deque<Bundle> come;
    BigStep step(static_cast<uint32_t>(node.size));
    for (int i = 1; i < node.size; ++i) come.emplace_back(1, kLimit);
    for (int i = 1; i < node.size; ++i)
      step.recv(node, i, come[static_cast<std::size_t>(i - 1)].room());
    co_await step;
    whole.add(own);
    for (Bundle& each : come) whole.add(each);
    last.send(team, root, whole.message());
  }
  if (mine.bytes() > kLimit) last.send(team, root, mine);
  co_await last;
}

/// At the root.
Schedule scatter_to_leaders(Team team, const NodeMap& map, Parts all, Block mine) {
  FarNodes far(map, team.rank);
  for (std::size_t i = 0; i < far.nodes.size(); ++i) {
    for (const int rank : far.ranks(i)) far.bundles[i].add(all[rank]);
  }
  Step<16> step;
  for (std::size_t i = 0; i < far.nodes.size(); ++i) {
    if (step.full()) co_await step;
    step.send(team, far.ranks(i).front(), far.bundles[i].message());
  }
  for (const int rank : map.nodes[map.mine]) {
    if (step.full()) co_await step;
    if (rank != team.rank) step.send(team, rank, all[rank]);
  }
  for (const auto* ranks : far.nodes) {
    for (const int rank : *ranks) {
      if (step.full()) co_await step;
      if (all[rank].bytes() > kLimit) step.send(team, rank, all[rank]);
    }
  }
  co_await step;
  if (mine.type != nullptr) copy(all[team.rank], mine);
}

/// On other nodes than the root's.
Schedule scatter_by_leader(Team team, const NodeMap& map, Block mine, int root) {
  const Team node = map.node(*team.comm, team.tag);
  Bundle own(1, kLimit);
  if (node.rank != 0) {
    Step<1> step;
    step.recv(node, 0, own.room());
    co_await step;
  } else {
    Bundle whole(static_cast<std::size_t>(node.size), kLimit);
    BigStep step(static_cast<uint32_t>(node.size));
    step.recv(team, root, whole.room());
    co_await step;
    own.add(whole.next());
    std::deque<Bundle> going;
    for (int i = 1; i < node.size; ++i) going.emplace_back(1, kLimit).add(whole.next());
    for (int i = 1; i < node.size; ++i)
      step.send(node, i, going[static_cast<std::size_t>(i - 1)].message());
    co_await step;
  }
  Trouble trouble;
  const Bundle::Item item = own.next();
  take_block(item, mine, team.comm->process(root), trouble);
  if (item.straight_bytes(mine.bytes()) > kLimit) {
    Step<1> step;
    step.recv(team, root, mine);
    co_await step;
  }
  co_await trouble;
}

}  // namespace

Schedule gather_unlike(const Team& team, const NodeMap* levels, const Block& mine, const Parts& all,
                       int root) {
  if (levels == nullptr || choices().gather != GatherBy::automatic)
    return gather_straight(team, mine, all, root);
  if (team.rank == root) return gather_from_leaders(team, *levels, mine, all);
  return is_near(*levels, root) ? gather_straight(team, mine, all, root)
                                : gather_by_leader(team, *levels, mine, root);
}

Schedule scatter_unlike(const Team& team, const NodeMap* levels, const Parts& all,
                        const Block& mine, int root) {
  if (levels == nullptr || choices().gather != GatherBy::automatic)
    return scatter_straight(team, all, mine, root);
  if (team.rank == root) return scatter_to_leaders(team, *levels, all, mine);
  return is_near(*levels, root) ? scatter_straight(team, all, mine, root)
                                : scatter_by_leader(team, *levels, mine, root);
}

}  // namespace weft::mpi
