// Gather and scatter: straight to and from the root, along a binomial tree in packed form, in two
// levels, or, to scatter little inside a node, by its board.
#include <algorithm>
#include <optional>
#include <vector>

#include "mpi/collectives/algorithms.hpp"
#include "mpi/collectives/node_board.hpp"
#include "mpi/collectives/node_map.hpp"
#include "mpi/collectives/settings.hpp"

namespace weft::mpi {
namespace {

constexpr int64_t kTreeBlock = 2 << 10;  // of one block: up to this a tree
constexpr int kTreeRanks = 4;
constexpr int kNodeRanks = 32;              // all on one node: up to this without a tree
constexpr int64_t kLevelsBlock = 16 << 10;  // of one block: up to this by nodes
constexpr int64_t kOwnFirst = 256 << 10;    // of one block: the root's own up to this first
constexpr int kManyNodes = 32;              // from so many on their leaders form a tree

bool by_levels(const NodeMap* levels, int64_t bytes) {
  return levels != nullptr && bytes <= kLevelsBlock && choices().gather == GatherBy::automatic;
}

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
  // What goes at once is on its way meanwhile; longer ones would wait for an answer.
  // And what may fail does so at the end.
  const bool own_first = mine.type != nullptr && mine.bytes() <= kOwnFirst &&
                         mine.bytes() <= all[root].bytes() && mine.type->contiguous() &&
                         all.type->contiguous();
  if (own_first) copy(mine, all[root]);
  for (int i = 1; i < team.size; ++i) {
    if (step.full()) co_await step;
    const int from = (root + i) % team.size;
    step.recv(team, from, all[from]);
  }
  co_await step;
  if (mine.type != nullptr && !own_first) copy(mine, all[root]);
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

namespace {

/// Of many nodes with little each the leaders form a tree, for which all need as many ranks.
bool leaders_form_tree(const NodeMap& map, int64_t bytes) {
  const std::size_t first = map.nodes.front().size();
  return map.nodes.size() >= static_cast<std::size_t>(kManyNodes) &&
         bytes * static_cast<int64_t>(first) <= kLevelsBlock &&
         std::all_of(map.nodes.begin(), map.nodes.end(),
                     [first](const std::vector<int>& ranks) { return ranks.size() == first; });
}

/// What the ranks of each node have, one after the other, as a part of its own; the same number of
/// bytes each. With room for all of it.
struct ByNode {
  ByNode(const NodeMap& the_map, int64_t each) : map(the_map), bytes(each) {
    MPI_Count at = 0;
    for (const auto& ranks : map.nodes) {
      places.push_back(at);
      sizes.push_back(each * static_cast<MPI_Count>(ranks.size()));
      at += sizes.back();
    }
    parts = {.base = room.bytes(at),
             .type = &byte_type(),
             .counts = Counts(sizes.data()),
             .places = Counts(places.data())};
  }
  ByNode(const ByNode&) = delete;
  ByNode& operator=(const ByNode&) = delete;

  /// Calls `each` with every rank and its bytes.
  template <class Each>
  void for_each(Each each) const {
    const std::byte* at = parts.base;
    for (const auto& ranks : map.nodes) {
      for (const int rank : ranks) {
        each(rank, bytes_at(at, bytes));
        at += bytes;
      }
    }
  }
  const NodeMap& map;
  int64_t bytes;
  std::vector<MPI_Count> sizes;
  std::vector<MPI_Count> places;
  Scratch room;
  Parts parts;
};

/// What a leader has room for: its node's blocks, and at the root those of all nodes.
struct LeadersRoom {
  LeadersRoom(const NodeMap& map, int ranks, int64_t bytes, bool is_root)
      : node_bytes(bytes * ranks) {
    if (is_root) {
      whole.emplace(map, bytes);
      parts = whole->parts;
      blocks = parts[map.mine].at;
    } else {
      blocks = room.bytes(node_bytes);
      together = bytes_at(blocks, node_bytes);
    }
  }
  LeadersRoom(const LeadersRoom&) = delete;
  LeadersRoom& operator=(const LeadersRoom&) = delete;

  int64_t node_bytes;
  std::optional<ByNode> whole;  ///< at the root
  Scratch room;                 ///< elsewhere
  std::byte* blocks;            ///< this node's, in the order of its ranks
  Block together{};             ///< the same; at the root, where they are in place: none
  Parts parts{};                ///< at the root: a part for each node
};

/// One rank of each node, the root among them.
struct Leaders {
  Leaders(const Team& team, const NodeMap& map, int root)
      : ranks(map.leaders(root)),
        own(ranks[static_cast<std::size_t>(map.mine)]),
        across{team.comm, team.tag, map.mine, static_cast<int>(ranks.size()), ranks.data()},
        root_node(map.node_of[static_cast<std::size_t>(root)]) {}
  Leaders(const Leaders&) = delete;
  Leaders& operator=(const Leaders&) = delete;

  std::vector<int> ranks;
  int own;  ///< this rank's node's
  Team across;
  int root_node;
};

/// Everybody's block to its node's leader, and from each leader one message to the root.
Schedule gather_by_nodes(Team team, const NodeMap& map, Block mine, Parts all, int root,
                         int64_t bytes) {
  const Leaders leaders(team, map, root);
  const Team node = map.node(*team.comm, team.tag);
  const bool in_place = mine.type == nullptr;
  const Block own = in_place ? all[team.rank] : mine;
  Step<16> step;
  if (team.rank != leaders.own) {
    step.send(node, map.place_of(leaders.own), own);
    co_await step;
    co_return;
  }
  const LeadersRoom has(map, node.size, bytes, team.rank == root);
  for (int i = 0; i < node.size; ++i) {
    const Block place = bytes_at(has.blocks + i * bytes, bytes);
    if (i == node.rank) {
      copy(own, place);
      continue;
    }
    if (step.full()) co_await step;
    step.recv(node, i, place);
  }
  co_await step;
  const Schedule over =
      leaders_form_tree(map, bytes)
          ? gather_tree(leaders.across, has.together, has.parts, leaders.root_node, has.node_bytes)
          : gather_straight(leaders.across, has.together, has.parts, leaders.root_node);
  const bool well = co_await part(over);
  if (!has.whole || !well) co_return;
  has.whole->for_each([&](int rank, const Block& block) {
    if (rank != root || !in_place) copy(block, all[rank]);
  });
}

/// The way back.
Schedule scatter_by_nodes(Team team, const NodeMap& map, Parts all, Block mine, int root,
                          int64_t bytes) {
  const Leaders leaders(team, map, root);
  const Team node = map.node(*team.comm, team.tag);
  Step<16> step;
  if (team.rank != leaders.own) {
    step.recv(node, map.place_of(leaders.own), mine);
    co_await step;
    co_return;
  }
  const LeadersRoom has(map, node.size, bytes, team.rank == root);
  if (has.whole) has.whole->for_each([&](int rank, const Block& block) { copy(all[rank], block); });
  const Schedule over =
      leaders_form_tree(map, bytes)
          ? scatter_tree(leaders.across, has.parts, has.together, leaders.root_node, has.node_bytes)
          : scatter_straight(leaders.across, has.parts, has.together, leaders.root_node);
  co_await part(over);
  for (int i = 0; i < node.size; ++i) {
    const Block place = bytes_at(has.blocks + i * bytes, bytes);
    if (i == node.rank) {
      if (mine.type != nullptr) copy(place, mine);
      continue;
    }
    if (step.full()) co_await step;
    step.send(node, i, place);
  }
  co_await step;
}

}  // namespace

Schedule gather(const Team& team, const NodeMap* levels, const Block& mine, const Parts& all,
                int root) {
  const int64_t bytes = mine.type != nullptr ? mine.bytes() : all[team.rank].bytes();
  if (bytes == 0) return nothing();
  if (by_levels(levels, bytes)) return gather_by_nodes(team, *levels, mine, all, root, bytes);
  return by_tree(team, bytes) ? gather_tree(team, mine, all, root, bytes)
                              : gather_straight(team, mine, all, root);
}

Schedule scatter(const Team& team, const NodeMap* levels, const Parts& all, const Block& mine,
                 int root) {
  const int64_t bytes = mine.type != nullptr ? mine.bytes() : all[team.rank].bytes();
  if (bytes == 0) return nothing();
  if (by_levels(levels, bytes)) return scatter_by_nodes(team, *levels, all, mine, root, bytes);
  if (team.board != nullptr) return scatter_shown(team, all, mine, root);
  return by_tree(team, bytes) ? scatter_tree(team, all, mine, root, bytes)
                              : scatter_straight(team, all, mine, root);
}

}  // namespace weft::mpi
