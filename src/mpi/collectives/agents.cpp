// Exchanges by agents: ranks to their node's agents, agents to agents, agents to ranks.
#include "mpi/collectives/agents.hpp"

#include <cstddef>
#include <deque>

#include "mpi/collectives/bundle.hpp"

namespace weft::mpi {
namespace {

/// Another node.
struct Other {
  const std::vector<int>& ranks;
  int agent;  ///< for it, here: a place in the node
  int peer;   ///< its agent for this node: a rank
};

/// The three steps of this rank. Messages of a pair follow each other in the order of other nodes.
struct Exchange {
  Exchange(const Team& the_team, const NodeMap& map, int64_t the_limit)
      : team(the_team), node(map.node(*team.comm, team.tag)), limit(the_limit) {
    for (int i = 0; i < static_cast<int>(map.nodes.size()); ++i) {
      const auto& ranks = map.nodes[static_cast<std::size_t>(i)];
      const auto here = static_cast<std::size_t>(map.mine);
      if (i == map.mine) continue;
      others.push_back({ranks, i % node.size, ranks[here % ranks.size()]});
      if (is_mine(others.back())) ++agent_of;
    }
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  Schedule to_agents(Parts out, const Parts* in);
  Schedule between_agents();
  Schedule from_agents();

  [[nodiscard]] bool is_mine(const Other& other) const noexcept { return other.agent == node.rank; }
  /// Room for what all of this node and one other have for each other, or `ranks` of this one.
  Bundle& bundle_of(std::deque<Bundle>& bundles, const Other& other, int ranks) const {
    return bundles.emplace_back(other.ranks.size() * static_cast<std::size_t>(ranks), limit);
  }
  /// With one agent for each other node, and as an agent with everybody here.
  [[nodiscard]] uint32_t most_posts() const noexcept {
    return static_cast<uint32_t>(others.size()) + agent_of * static_cast<uint32_t>(node.size);
  }

  const Team team;
  const Team node;
  const int64_t limit;
  std::vector<Other> others;
  uint32_t agent_of = 0;       ///< so many of them
  std::deque<Bundle> own;      ///< for each other node: what this rank gives, then what it gets
  std::deque<Bundle> across;   ///< for those with this agent: what goes there, by rank here
  std::deque<Bundle> arrived;  ///< what comes from there, by rank there
};

/// And, unless `in` is nullptr, this node's own blocks, of any size.
Schedule Exchange::to_agents(Parts out, const Parts* in) {
  std::deque<Bundle> given;  // of those with this agent: by each other rank here
  BigStep step(most_posts() + 2 * static_cast<uint32_t>(node.size));
  for (const Other& other : others) {
    Bundle& mine = bundle_of(own, other, 1);
    for (const int rank : other.ranks) mine.add(out[rank]);
    for (int i = 1; is_mine(other) && i < node.size; ++i) bundle_of(given, other, 1);
  }
  auto room = given.begin();
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (!is_mine(others[i])) step.send(node, others[i].agent, own[i].message());
    for (int rank = 0; is_mine(others[i]) && rank < node.size; ++rank) {
      if (rank != node.rank) step.recv(node, rank, (room++)->room());
    }
  }
  for (int i = 0; in != nullptr && i < node.size; ++i) {
    const Block to = (*in)[node.at(i)];
    const Block from = out[node.at(i)];
    if (i == node.rank) continue;
    step.recv(node, i, to);
    step.send(node, i, from);
  }
  co_await step;
  auto next = given.begin();
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (!is_mine(others[i])) continue;
    Bundle& together = bundle_of(across, others[i], node.size);
    for (int rank = 0; rank < node.size; ++rank) together.add(rank == node.rank ? own[i] : *next++);
  }
}

Schedule Exchange::between_agents() {
  BigStep step(2 * static_cast<uint32_t>(across.size()));
  for (const Other& other : others) {
    if (is_mine(other)) bundle_of(arrived, other, node.size);
  }
  auto going = across.begin();
  auto coming = arrived.begin();
  for (const Other& other : others) {
    if (!is_mine(other)) continue;
    step.recv(team, other.peer, (coming++)->room());
    step.send(team, other.peer, (going++)->message());
  }
  co_await step;
  across.clear();
}

Schedule Exchange::from_agents() {
  std::deque<Bundle> parted;  // of those with this agent: for each rank here
  BigStep step(most_posts());
  own.clear();
  auto next = arrived.begin();
  for (const Other& other : others) {
    bundle_of(own, other, 1);
    if (!is_mine(other)) continue;
    const std::size_t first = parted.size();
    for (int rank = 0; rank < node.size; ++rank) bundle_of(parted, other, 1);
    for (std::size_t from = 0; from < other.ranks.size(); ++from) {
      for (std::size_t i = first; i < parted.size(); ++i) parted[i].add(next->next());
    }
    ++next;
  }
  arrived.clear();
  auto going = parted.begin();
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (!is_mine(others[i])) {
      step.recv(node, others[i].agent, own[i].room());
      continue;
    }
    for (int rank = 0; rank < node.size; ++rank, ++going) {
      if (rank != node.rank) {
        step.send(node, rank, going->message());
      } else {
        own[i].add(*going);
      }
    }
  }
  co_await step;
}

/// Brings what came to its place, and tells what comes straight: as its sender says, or if that is
/// lost, as is expected.
void take(Exchange& exchange, const Parts& in, std::vector<char>& straight, Trouble& trouble) {
  for (std::size_t i = 0; i < exchange.others.size(); ++i) {
    for (const int rank : exchange.others[i].ranks) {
      const Bundle::Item item = exchange.own[i].next();
      const Block to = in[rank];
      straight[static_cast<std::size_t>(rank)] =
          item.straight_bytes(to.bytes()) > exchange.limit ? 1 : 0;
      take_block(item, to, exchange.team.comm->process(rank), trouble);
    }
  }
}

}  // namespace

Schedule exchange_by_agents(Team team, const NodeMap& map, Parts out, Parts in, int64_t limit,
                            bool in_place, std::vector<char>& straight) {
  Exchange exchange(team, map, limit);
  for (int i = 0; i < exchange.node.size; ++i) {
    const int rank = exchange.node.at(i);
    straight[static_cast<std::size_t>(rank)] = in_place || rank == team.rank ? 1 : 0;
  }
  const Schedule there = exchange.to_agents(out, in_place ? nullptr : &in);
  co_await part(there);
  const Schedule over = exchange.between_agents();
  co_await part(over);
  const Schedule back = exchange.from_agents();
  co_await part(back);
  Trouble trouble;
  take(exchange, in, straight, trouble);
  co_await trouble;
}

}  // namespace weft::mpi
