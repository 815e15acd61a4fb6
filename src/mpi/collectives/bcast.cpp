// Broadcasts: straight, a binomial tree, scatter and ring, a chain of segments, two levels.
#include <algorithm>
#include <vector>

#include "mpi/collectives/algorithms.hpp"
#include "mpi/collectives/node_board.hpp"
#include "mpi/collectives/node_map.hpp"
#include "mpi/collectives/settings.hpp"
#include "mpi/collectives/shared_sends.hpp"

namespace weft::mpi {
namespace {

constexpr int64_t kTreeBytes = 64 << 10;   // up to this a tree
constexpr int64_t kSplitBytes = 1 << 20;   // up to this scattered, then a chain
constexpr int64_t kSharedBytes = 1 << 20;  // up to this shown to all of a node at once

/// Ranks as seen from the root, and back.
int seen(const Team& team, int root) noexcept { return (team.rank - root + team.size) % team.size; }
int from_root(const Team& team, int root, int place) noexcept { return (place + root) % team.size; }

Schedule broadcast_straight(Team team, Block data, int root) {
  Step<kFewRanks> step;
  if (team.rank != root) {
    step.recv(team, root, data);
    co_await step;
    co_return;
  }
  const SharedSends sent(team, data);
  for (int distance = 1; distance < team.size; ++distance) {
    if (!sent.left(distance)) continue;
    if (step.full()) co_await step;
    step.send(team, (root + distance) % team.size, data);
  }
  co_await step;
}

/// The same of what is long for that, in segments.
Schedule broadcast_in_segments(Team team, Block data, int root) {
  Packed packed(data, team.rank == root);
  const int64_t bytes = data.bytes();
  const int64_t segment = SharedSends::most_bytes();
  const auto at = [&](int64_t begin) {
    return bytes_at(packed.at() + begin, std::min(segment, bytes - begin));
  };
  Step<kFewRanks> step;
  for (int64_t begin = 0; begin < bytes; begin += segment) {
    if (team.rank != root) {
      if (step.full()) co_await step;
      step.recv(team, root, at(begin));
      continue;
    }
    const SharedSends sent(team, at(begin));
    for (int distance = 1; distance < team.size; ++distance) {
      if (!sent.left(distance)) continue;
      if (step.full()) co_await step;
      step.send(team, (root + distance) % team.size, at(begin));
    }
    co_await step;
  }
  co_await step;
  if (team.rank != root) packed.unpack();
}

Schedule broadcast_tree(Team team, Block data, int root) {
  Step<4> step;
  const int place = seen(team, root);
  int distance = 1;
  while (distance < team.size && (place & distance) == 0) distance *= 2;
  if (place != 0) {
    step.recv(team, from_root(team, root, place - distance), data);
    co_await step;
  }
  for (distance /= 2; distance != 0; distance /= 2) {
    if (place + distance >= team.size) continue;
    if (step.full()) co_await step;
    step.send(team, from_root(team, root, place + distance), data);
  }
  co_await step;
}

/// Everybody gets a part, down a tree; then the parts go around a ring.
Schedule broadcast_split(Team team, Block data, int root) {
  const int place = seen(team, root);
  Packed packed(data, place == 0);
  const int64_t bytes = data.bytes();
  const int64_t part = (bytes + team.size - 1) / team.size;
  const auto parts = [&](int first, int count) {
    const int64_t begin = std::min(bytes, first * part);
    return bytes_at(packed.at() + begin, std::min(bytes, (first + count) * part) - begin);
  };
  Step<4> step;
  int distance = 1;  // the subtree below has this many
  while (distance < team.size && (place & distance) == 0) distance *= 2;
  if (place != 0) {
    step.recv(team, from_root(team, root, place - distance),
              parts(place, std::min(distance, team.size - place)));
    co_await step;
  }
  for (distance /= 2; distance != 0; distance /= 2) {
    const int child = place + distance;
    if (child >= team.size) continue;
    if (step.full()) co_await step;
    step.send(team, from_root(team, root, child),
              parts(child, std::min(distance, team.size - child)));
  }
  co_await step;
  const int right = from_root(team, root, (place + 1) % team.size);
  const int left = from_root(team, root, (place - 1 + team.size) % team.size);
  for (int i = 0; i < team.size - 1; ++i) {
    // The root has everything, and its left neighbour need not bring it; nor need it be sent what
    // a subtree holds already, but the ring is as fast as its slowest part.
    if (place != 0) step.recv(team, left, parts((place - 1 - i + team.size) % team.size, 1));
    if (place != team.size - 1) {
      step.send(team, right, parts((place - i + team.size) % team.size, 1));
    }
    co_await step;
  }
  if (place != 0) packed.unpack();
}

/// Segments follow each other from rank to rank: one comes while the one before goes.
Schedule broadcast_chain(Team team, Block data, int root, int64_t segment) {
  const int place = seen(team, root);
  Packed packed(data, place == 0);
  const int64_t bytes = data.bytes();
  const int left = from_root(team, root, place - 1 + (place == 0 ? team.size : 0));
  const int right = from_root(team, root, (place + 1) % team.size);
  const bool sends = place + 1 < team.size;
  const auto at = [&](int64_t begin) {
    return bytes_at(packed.at() + begin, std::min(segment, bytes - begin));
  };
  Step<2> step;
  if (place != 0) {
    step.recv(team, left, at(0));
    co_await step;
  }
  for (int64_t begin = 0; begin < bytes; begin += segment) {
    if (place != 0 && begin + segment < bytes) step.recv(team, left, at(begin + segment));
    if (sends) step.send(team, right, at(begin));
    co_await step;
  }
  if (place != 0) packed.unpack();
}

BcastBy by_size(const Team& team, int64_t bytes) {
  const bool is_shared = bytes >= SharedSends::kLeastBytes && bytes <= kSharedBytes &&
                         SharedSends::may_reach_all(team);
  if (is_shared || goes_straight(team, bytes)) return BcastBy::linear;
  if (team.size == 2 || bytes <= kTreeBytes || take_turns(team)) return BcastBy::binomial;
  return bytes <= kSplitBytes && team.size > 3 ? BcastBy::scatter_allgather : BcastBy::chain;
}

Schedule pick(const Team& team, const Block& data, int root) {
  const int64_t bytes = data.bytes();
  if (team.size <= 1 || bytes == 0) return nothing();
  BcastBy by = choices().bcast;
  if (by == BcastBy::automatic) by = by_size(team, bytes);
  switch (by) {
    case BcastBy::linear:
      return bytes > SharedSends::most_bytes() && SharedSends::may_reach_all(team)
                 ? broadcast_in_segments(team, data, root)
                 : broadcast_straight(team, data, root);
    case BcastBy::scatter_allgather:
      return broadcast_split(team, data, root);
    case BcastBy::chain:
      return broadcast_chain(team, data, root, choices().segment_bytes);
    default:
      return broadcast_tree(team, data, root);
  }
}

/// Across between one rank of each node, the root among them, and then inside.
Schedule broadcast_by_nodes(Team team, const NodeMap& map, Block data, int root) {
  const std::vector<int> leaders = map.leaders(root);
  const int root_node = map.node_of[static_cast<std::size_t>(root)];
  const int leader = leaders[static_cast<std::size_t>(map.mine)];
  if (leader == team.rank && leaders.size() > 1) {
    const Schedule across =
        pick({team.comm, team.tag, map.mine, static_cast<int>(leaders.size()), leaders.data()},
             data, root_node);
    co_await part(across);
  }
  const int place = map.place_of(leader);
  {
    BoardUse use(team, place);
    const bool shared = use.works() && use.share(data);
    co_await use.trouble();
    if (shared) co_return;
  }
  const Schedule inside = pick(map.node(*team.comm, team.tag), data, place);
  co_await part(inside);
}

}  // namespace

bool goes_straight(const Team& team, int64_t bytes) {
  constexpr int64_t kShort = 4 << 10;
  constexpr int64_t kTurnsWork = 16 << 20;  // bytes times ranks squared: below
  if (bytes <= kShort && team.size <= static_cast<int>(kFewRanks) + 1) return true;
  return team.size > 2 && bytes < kTurnsWork / team.size / team.size && take_turns(team);
}

Schedule broadcast_by_trees(Team team, const NodeMap* levels, Block data, int root) {
  if (levels == nullptr) {
    const Schedule all = broadcast_tree(team, data, root);
    co_await part(all);
    co_return;
  }
  const std::vector<int> leaders = levels->leaders(root);
  const int leader = leaders[static_cast<std::size_t>(levels->mine)];
  if (leader == team.rank) {
    const Team across{.comm = team.comm,
                      .tag = team.tag,
                      .rank = levels->mine,
                      .size = static_cast<int>(leaders.size()),
                      .members = leaders.data(),
                      .own_died = team.own_died};
    const Schedule over =
        broadcast_tree(across, data, levels->node_of[static_cast<std::size_t>(root)]);
    co_await part(over);
  }
  Team node = levels->node(*team.comm, team.tag);
  node.own_died = team.own_died;
  const Schedule inside = broadcast_tree(node, data, levels->place_of(leader));
  co_await part(inside);
}

Schedule broadcast(const Team& team, const NodeMap* levels, const Block& data, int root) {
  if (team.board != nullptr) levels = &team.board->nodes();
  if (levels != nullptr && data.bytes() != 0) return broadcast_by_nodes(team, *levels, data, root);
  return pick(team, data, root);
}

}  // namespace weft::mpi
