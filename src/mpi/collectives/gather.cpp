// Gather and scatter: straight to and from the root, along a binomial tree in packed form, or, to
// scatter little inside a node, by its board.
#include <algorithm>

#include "mpi/collectives/algorithms.hpp"
#include "mpi/collectives/node_board.hpp"
#include "mpi/collectives/node_map.hpp"
#include "mpi/collectives/settings.hpp"

namespace weft::mpi {
namespace {

constexpr int64_t kTreeBlock = 2 << 10;  // of one block: up to this a tree
constexpr int kTreeRanks = 4;
constexpr int kNodeRanks = 32;  // all on one node: up to this without a tree

bool by_tree(const Team& team, int64_t bytes) {
  const GatherBy by = choices().gather;
  if (by != GatherBy::automatic) return by == GatherBy::binomial && team.size > 1;
  if (team.size < kTreeRanks || bytes > kTreeBlock) return false;
  // A level of a tree is a turn of all ranks that share a core; what the root does of a message
  // inside a node takes less.
  return team.size > kNodeRanks || node_map(*team.comm).nodes.size() > 1;
}

/// This rank's place in the tree, and the places from there that are its subtree.
struct Place {
  Place(const Team& of, int the_root)
      : team(of), root(the_root), mine((of.rank - the_root + of.size) % of.size) {
    while (span < team.size && (mine & span) == 0) span *= 2;
  }
  [[nodiscard]] int rank_of(int place) const noexcept { return (place + root) % team.size; }
  [[nodiscard]] int parent() const noexcept { return rank_of(mine - span); }
  /// How many places of the tree `span` wide that begins at `place` there are.
  [[nodiscard]] int64_t members(int place, int width) const noexcept {
    return std::min(width, team.size - place);
  }
  const Team& team;
  int root;
  int mine;
  int span = 1;  ///< of the subtree; at the root: team.size or more
};

/// Each takes its subtrees' blocks, in order of places, and hands them up.
Schedule gather_tree(Team team, Block mine, Parts all, int root, int64_t bytes) {
  const Place place(team, root);
  Scratch room;
  std::byte* blocks = room.bytes(bytes * place.members(place.mine, place.span));
  const bool in_place = mine.type == nullptr;
  copy(in_place ? all[team.rank] : mine, bytes_at(blocks, bytes));
  Step<4> step;
  for (int width = 1; width < place.span; width *= 2) {
    const int child = place.mine + width;
    if (child >= team.size) break;
    if (step.full()) co_await step;
    step.recv(team, place.rank_of(child),
              bytes_at(blocks + width * bytes, bytes * place.members(child, width)));
  }
  co_await step;
  if (place.mine != 0) {
    step.send(team, place.parent(),
              bytes_at(blocks, bytes * place.members(place.mine, place.span)));
    co_await step;
    co_return;
  }
  for (int i = in_place ? 1 : 0; i < team.size; ++i) {
    copy(bytes_at(blocks + i * bytes, bytes), all[place.rank_of(i)]);
  }
}

Schedule scatter_tree(Team team, Parts all, Block mine, int root, int64_t bytes) {
  const Place place(team, root);
  Scratch room;
  std::byte* blocks = room.bytes(bytes * place.members(place.mine, place.span));
  Step<4> step;
  if (place.mine == 0) {
    for (int i = 0; i < team.size; ++i) {
      copy(all[place.rank_of(i)], bytes_at(blocks + i * bytes, bytes));
    }
  } else {
    step.recv(team, place.parent(),
              bytes_at(blocks, bytes * place.members(place.mine, place.span)));
    co_await step;
  }
  for (int width = place.span / 2; width != 0; width /= 2) {
    const int child = place.mine + width;
    if (child >= team.size) continue;
    if (step.full()) co_await step;
    step.send(team, place.rank_of(child),
              bytes_at(blocks + width * bytes, bytes * place.members(child, width)));
  }
  co_await step;
  if (mine.type != nullptr) copy(bytes_at(blocks, bytes), mine);
}

/// All on one node: the root shows all blocks there.
Schedule scatter_shown(Team team, Parts all, Block mine, int root) {
  {
    BoardUse use(team, team.board->nodes().place_of(root));
    bool shown = use.works();
    if (shown && team.rank == root) {
      std::byte blocks[Board::kBytes];
      const int64_t bytes = all[root].bytes();
      for (int i = 0; i < team.size; ++i) copy(all[i], bytes_at(blocks + i * bytes, bytes));
      shown = use.release(bytes_at(blocks, bytes * team.size));
    } else if (shown) {
      const auto blocks = use.released();
      shown = blocks.has_value();
      const std::size_t bytes = shown ? blocks->size() / static_cast<std::size_t>(team.size) : 0;
      if (shown)
        use.take(blocks->subspan(static_cast<std::size_t>(team.rank) * bytes, bytes), mine);
    }
    co_await use.trouble();
    if (shown && team.rank == root && mine.type != nullptr) copy(all[root], mine);
    if (shown) co_return;
  }
  const Schedule by_messages = scatter_straight(team, all, mine, root);
  co_await part(by_messages);
}

}  // namespace

Schedule gather_straight(Team team, Block mine, Parts all, int root) {
  Step<16> step;
  if (team.rank != root) {
    step.send(team, root, mine);
    co_await step;
    co_return;
  }
  for (int i = 1; i < team.size; ++i) {
    if (step.full()) co_await step;
    const int from = (root + i) % team.size;
    step.recv(team, from, all[from]);
  }
  co_await step;
  if (mine.type != nullptr) copy(mine, all[root]);
}

Schedule scatter_straight(Team team, Parts all, Block mine, int root) {
  Step<16> step;
  if (team.rank != root) {
    step.recv(team, root, mine);
    co_await step;
    co_return;
  }
  for (int i = 1; i < team.size; ++i) {
    if (step.full()) co_await step;
    const int to = (root + i) % team.size;
    step.send(team, to, all[to]);
  }
  co_await step;
  if (mine.type != nullptr) copy(all[root], mine);
}

Schedule gather(const Team& team, const Block& mine, const Parts& all, int root) {
  const int64_t bytes = mine.type != nullptr ? mine.bytes() : all[team.rank].bytes();
  if (bytes == 0) return nothing();
  return by_tree(team, bytes) ? gather_tree(team, mine, all, root, bytes)
                              : gather_straight(team, mine, all, root);
}

Schedule scatter(const Team& team, const Parts& all, const Block& mine, int root) {
  const int64_t bytes = mine.type != nullptr ? mine.bytes() : all[team.rank].bytes();
  if (bytes == 0) return nothing();
  if (team.board != nullptr) return scatter_shown(team, all, mine, root);
  return by_tree(team, bytes) ? scatter_tree(team, all, mine, root, bytes)
                              : scatter_straight(team, all, mine, root);
}

}  // namespace weft::mpi
