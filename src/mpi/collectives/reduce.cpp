// Reduce: straight, a binomial tree, halving and gathering, a part at each rank, two levels.
#include <algorithm>
#include <utility>
#include <vector>

#include "mpi/collectives/algorithms.hpp"
#include "mpi/collectives/even_parts.hpp"
#include "mpi/collectives/halving.hpp"
#include "mpi/collectives/incoming.hpp"
#include "mpi/collectives/node_board.hpp"
#include "mpi/collectives/settings.hpp"
#include "mpi/process.hpp"

namespace weft::mpi {
namespace {

constexpr int64_t kReduceTreeBytes = 64 << 10;  // up to this a tree

/// The root takes the vectors of all others, a few at once, and combines them in the order of
/// places, which are ranks seen from `top`.
Schedule reduce_straight(Team team, Reduction reduction, const void* from, void* to, int top) {
  Incoming theirs(reduction, reduction.count);
  Scratch room;
  Step<kFewRanks> step;
  if (team.rank != top) {
    step.send(team, top, reduction.whole(from));
    co_await step;
    co_return;
  }
  if (team.size == 2) {
    theirs.recv_with(step, team, 1 - top, from, to, reduction.count, false);
    theirs.combine(co_await step);
    co_return;
  }
  const int others = std::min<int>(team.size - 1, kFewRanks);
  std::byte* const came = room.elements(others * reduction.count, *reduction.type, reduction.phase);
  if (from != to) copy(reduction.whole(from), reduction.whole(to));
  for (int place = 1; place < team.size;) {
    const int first = place;
    for (; place < team.size && !step.full(); ++place) {
      step.recv(team, (place + top) % team.size,
                reduction.part(came, (place - first) * reduction.count, reduction.count));
    }
    const bool have_come = co_await step;
    for (int next = first; have_come && next < place; ++next) {
      reduction.combine_part(static_cast<std::byte*>(to),
                             reduction.element(came, (next - first) * reduction.count),
                             reduction.count, false);
    }
  }
}

/// Up a tree whose places are ranks seen from `top`. Each takes higher places' vectors to its own,
/// in order. The result is at the top's `to`.
Schedule reduce_tree(Team team, Reduction reduction, const void* from, void* to, int top) {
  const int place = (team.rank - top + team.size) % team.size;
  const auto rank_of = [&](int p) { return (p + top) % team.size; };
  Scratch first_room;
  Incoming theirs(reduction, reduction.count);
  // Addresses do not tell: at the top one may be MPI_BOTTOM, which is null.
  bool is_first = place != 0 || from != to;  // nothing is combined: there is only what is at `from`
  std::byte* mine = is_first ? nullptr : static_cast<std::byte*>(to);
  Step<1> step;
  int distance = 1;
  for (; distance < team.size && (place & distance) == 0; distance *= 2) {
    if (place + distance >= team.size) continue;
    const int child = rank_of(place + distance);
    if (std::exchange(is_first, false)) {
      mine = place == 0 ? static_cast<std::byte*>(to)
                        : first_room.elements(reduction.count, *reduction.type, reduction.phase);
      theirs.recv_beside(step, team, child, from, mine, reduction.count, false);
      theirs.combine(co_await step);
    } else {
      theirs.recv_onto(step, team, child, mine, reduction.count, false);
      theirs.combine(co_await step, mine);
    }
  }
  if (place != 0) {
    step.send(team, rank_of(place - distance), reduction.whole(is_first ? from : mine));
    co_await step;
  } else if (is_first || mine != to) {  // of a team of one, too
    copy(reduction.whole(is_first ? from : mine), reduction.whole(to));
  }
}

Schedule reduce_whole(const Team& team, const Reduction& reduction, ReduceBy by, const void* from,
                      void* to, int top) {
  // The vectors of a type with gaps may interlace where they come to one after the other.
  return by == ReduceBy::linear && reduction.type->contiguous()
             ? reduce_straight(team, reduction, from, to, top)
             : reduce_tree(team, reduction, from, to, top);
}

/// The same with top 0, in the order of ranks, and then to the root.
Schedule reduce_in_order(Team team, Reduction reduction, ReduceBy by, const void* from, void* to,
                         int root) {
  Scratch room;
  void* top_to = to;
  if (team.rank == 0) top_to = room.elements(reduction.count, *reduction.type, reduction.phase);
  const Schedule up = reduce_whole(team, reduction, by, from, top_to, 0);
  co_await part(up);
  Step<1> step;
  if (team.rank == 0) {
    step.send(team, root, reduction.whole(top_to));
  } else if (team.rank == root) {
    step.recv(team, 0, reduction.whole(to));
  }
  co_await step;
}

/// Halves are exchanged and combined; then each step's partner whose number is not the root's way
/// gives what it has.
Schedule reduce_halving(Team team, Reduction reduction, const void* from, void* to, int root) {
  const Pairing pairing(team);
  Incoming theirs(reduction, reduction.count);
  Scratch own_room;
  Step<2> step;
  if (pairing.aside) {
    step.send(team, team.rank + 1, reduction.whole(from));
    co_await step;
    if (team.rank == root) step.recv(team, team.rank + 1, reduction.whole(to));
    co_await step;
    co_return;
  }
  auto* mine = static_cast<std::byte*>(to);
  if (team.rank != root)
    mine = own_room.elements(reduction.count, *reduction.type, reduction.phase);
  if (from != mine) copy(reduction.whole(from), reduction.whole(mine));
  if (pairing.doubles(team.rank)) {
    theirs.recv_onto(step, team, team.rank - 1, mine, reduction.count, true);
    theirs.combine(co_await step);
  }
  Halves halves(reduction.count);
  for (int distance = 1; distance < pairing.power; distance *= 2) {
    const int number = pairing.number ^ distance;
    const int partner = pairing.rank_of(number);
    halves.halve(pairing.number < number);
    theirs.recv_onto(step, team, partner, reduction.element(mine, halves.begin()), halves.count(),
                     number < pairing.number);
    step.send(team, partner, reduction.part(mine, halves.other_begin(), halves.other_count()));
    theirs.combine(co_await step);
  }
  const int goal = pairing.number_of(root);
  for (int distance = pairing.power / 2; distance != 0; distance /= 2) {
    const int partner = pairing.rank_of(pairing.number ^ distance);
    if (((pairing.number ^ goal) & distance) != 0) {
      step.send(team, partner, reduction.part(mine, halves.begin(), halves.count()));
      co_await step;
      co_return;
    }
    step.recv(team, partner, reduction.part(mine, halves.other_begin(), halves.other_count()));
    co_await step;
    halves.back();
  }
  // The root stood aside: its partner has gathered for it.
  if (team.rank != root) {
    step.send(team, root, reduction.whole(mine));
    co_await step;
  }
}

/// Each combines a part, and gives it to the root.
Schedule reduce_by_parts(Team team, Reduction reduction, const void* from, void* to, int root) {
  const EvenParts even(reduction, team.size);
  Scratch room;
  const int64_t mine = even.of(nullptr).counts[static_cast<std::size_t>(team.rank)];
  const Parts parts = even.of(to);
  std::byte* const at = team.rank == root ? parts[team.rank].at
                                          : room.elements(mine, *reduction.type, reduction.phase);
  const Schedule up = reduce_at_owners(team, reduction, from, at, parts);
  co_await part(up);
  const Schedule down =
      gather_straight(team, team.rank == root ? Block{} : reduction.part(at, 0, mine), parts, root);
  co_await part(down);
}

Schedule pick(const Team& team, const Reduction& reduction, const void* from, void* to, int root) {
  ReduceBy by = choices().reduce;
  if (by == ReduceBy::automatic) {
    const int64_t bytes = reduction.bytes();
    const auto eager = static_cast<int64_t>(runtime().eager_bytes());
    // Of two ranks of two nodes halves are worth while if they go eagerly and the whole does not.
    const bool whole = team.size == 2 ? bytes <= eager || bytes > 2 * eager || on_one_node(team)
                                      : bytes <= kReduceTreeBytes;
    by = goes_straight(team, bytes)             ? ReduceBy::linear
         : goes_by_parts(team, reduction)       ? ReduceBy::pairwise
         : whole || reduction.count < team.size ? ReduceBy::binomial
                                                : ReduceBy::rabenseifner;
  }
  // Few bytes go as they do by a board (fold_as_reduce): a result shall not depend on there being
  // one.
  if (by == ReduceBy::pairwise && reduction.bytes() <= static_cast<int64_t>(Board::kBytes))
    by = ReduceBy::binomial;
  if (by == ReduceBy::pairwise) return reduce_by_parts(team, reduction, from, to, root);
  if (by == ReduceBy::rabenseifner) return reduce_halving(team, reduction, from, to, root);
  if (root == 0 || reduction.op->commutative)
    return reduce_whole(team, reduction, by, from, to, root);
  return reduce_in_order(team, reduction, by, from, to, root);
}

/// Inside each node to its leader (the root for its node), and between leaders.
Schedule reduce_by_nodes(Team team, const NodeMap& map, Reduction reduction, const void* from,
                         void* to, int root) {
  const std::vector<int> leaders = map.leaders(root);
  const int leader = leaders[static_cast<std::size_t>(map.mine)];
  Scratch room;
  void* node_to = to;
  if (team.rank == leader && team.rank != root) {
    node_to = room.elements(reduction.count, *reduction.type, reduction.phase);
  }
  const Schedule inside =
      pick(map.node(*team.comm, team.tag), reduction, from, node_to, map.place_of(leader));
  co_await part(inside);
  if (team.rank != leader) co_return;
  const Schedule across =
      pick({team.comm, team.tag, map.mine, static_cast<int>(leaders.size()), leaders.data()},
           reduction, node_to, to, map.node_of[static_cast<std::size_t>(root)]);
  co_await part(across);
}

}  // namespace

Schedule reduce(const Team& team, const NodeMap* levels, const Reduction& reduction,
                const void* from, void* to, int root) {
  if (reduction.bytes() == 0) return nothing();
  if (team.size == 1) {
    if (from != to) copy(reduction.whole(from), reduction.whole(to));
    return nothing();
  }
  if (levels != nullptr && (reduction.op->commutative || levels->in_blocks)) {
    return reduce_by_nodes(team, *levels, reduction, from, to, root);
  }
  return pick(team, reduction, from, to, root);
}

}  // namespace weft::mpi
