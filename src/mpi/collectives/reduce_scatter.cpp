// Reduce_scatter: reduced at one rank and scattered, or each part sent to its owner, who combines.
#include <algorithm>
#include <memory>
#include <vector>

#include "mpi/collectives/algorithms.hpp"
#include "mpi/collectives/incoming.hpp"
#include "mpi/collectives/node_board.hpp"
#include "mpi/collectives/settings.hpp"
#include "mpi/collectives/shown_vectors.hpp"

namespace weft::mpi {
namespace {

constexpr int64_t kScatterBytes = 16
                                  << 10;  // of the vector: up to this, of many ranks, at one rank
constexpr int kManyRanks = 5;
constexpr int64_t kAheadBytes = 32 << 10;  // of a part: up to this all are sent before any comes

/// Where the parts begin, in elements.
std::vector<MPI_Count> begins_of(const Parts& parts, int size) {
  std::vector<MPI_Count> begins;
  begins.reserve(static_cast<std::size_t>(size));
  int64_t sum = 0;
  for (int i = 0; i < size; ++i) {
    begins.push_back(sum);
    sum += parts.count_of(i);
  }
  return begins;
}

Schedule reduce_then_scatter(Team team, const NodeMap* levels, Reduction reduction,
                             const void* from, void* to, Parts parts) {
  Scratch room;
  std::byte* all = nullptr;
  std::vector<MPI_Count> begins;
  if (team.rank == 0) {
    all = room.elements(reduction.count, *reduction.type, reduction.phase);
    begins = begins_of(parts, team.size);
  }
  const Schedule up = reduce(team, levels, reduction, from, all, 0);
  co_await part(up);
  Parts scattered{.base = all, .count = parts.count, .type = reduction.type};
  scattered.counts = parts.counts;
  scattered.places = Counts(begins.data());
  const Block mine{static_cast<std::byte*>(to), parts.count_of(team.rank), reduction.type};
  const Schedule down = parts.counts.null() ? scatter(team, levels, scattered, mine, 0)
                                            : scatter_straight(team, scattered, mine, 0);
  co_await part(down);
}

/// Contributions come one after the other, from ever more distant ranks, and are combined at once.
Schedule combine_as_they_come(Team team, Reduction reduction, const void* from, void* to,
                              Parts parts) {
  const std::vector<MPI_Count> begins = begins_of(parts, team.size);
  const auto part = [&](int rank) {
    return reduction.part(from, begins[static_cast<std::size_t>(rank)], parts.count_of(rank));
  };
  const int64_t count = parts.count_of(team.rank);
  Incoming theirs(reduction, count);
  Scratch own_room;
  // In place the result must wait until all of the vector has gone.
  auto* mine = static_cast<std::byte*>(to);
  if (from == to) mine = own_room.elements(count, *reduction.type, reduction.phase);
  // Short parts go ahead, some at once; longer ones would have to be put aside where they come too
  // early. Nobody waits in a circle: who is least far finds all that it waits for under way. With
  // sends out nothing may throw: so only what is combined as it comes.
  constexpr int kAtOnce = 16;
  int64_t longest = 0;
  for (int rank = 0; rank < team.size; ++rank) longest = std::max(longest, parts.count_of(rank));
  const bool ahead =
      longest * reduction.type->size() <= kAheadBytes && theirs.comes_combined(longest);
  const int width = ahead ? kAtOnce : 1;
  Step<kAtOnce> sends;
  Step<1> receive;
  for (int distance = 1; distance < team.size; ++distance) {
    const int sender = (team.rank - distance + team.size) % team.size;
    theirs.recv_with(receive, team, sender, distance == 1 ? part(team.rank).at : mine, mine, count,
                     true);
    if ((distance - 1) % width == 0) {
      const int end = std::min(distance + width, team.size);
      for (int next = distance; next < end; ++next) {
        const int receiver = (team.rank + next) % team.size;
        sends.send(team, receiver, part(receiver));
      }
    }
    const bool has_come = co_await receive;
    if (distance % width == 0) co_await sends;
    theirs.combine(has_come);
  }
  co_await sends;
  if (mine != to) copy(reduction.part(mine, 0, count), reduction.part(to, 0, count));
}

/// All contributions, then combined in the order of ranks: side by side, or each in a room of its
/// own where they would interlace.
Schedule combine_in_order(Team team, Reduction reduction, const void* from, void* to, Parts parts) {
  const std::vector<MPI_Count> begins = begins_of(parts, team.size);
  const auto part = [&](int rank) {
    return reduction.part(from, begins[static_cast<std::size_t>(rank)], parts.count_of(rank));
  };
  const int64_t count = parts.count_of(team.rank);
  const auto ranks = static_cast<std::size_t>(team.size);
  const bool apart = reduction.interlaces();
  const auto rooms = std::make_unique<Scratch[]>(apart ? ranks : 1);
  std::byte* const all =
      apart ? nullptr : rooms[0].elements(count * team.size, *reduction.type, reduction.phase);
  std::vector<std::byte*> blocks;
  for (std::size_t i = 0; i < ranks; ++i) {
    blocks.push_back(apart ? rooms[i].elements(count, *reduction.type, reduction.phase)
                           : reduction.element(all, static_cast<int64_t>(i) * count));
  }
  const auto of_rank = [&](int rank) {
    return reduction.part(blocks[static_cast<std::size_t>(rank)], 0, count);
  };
  copy(part(team.rank), of_rank(team.rank));
  Step<16> step;
  for (int distance = 1; distance < team.size; ++distance) {
    if (step.full(2)) co_await step;
    const int sender = (team.rank - distance + team.size) % team.size;
    const int receiver = (team.rank + distance) % team.size;
    step.recv(team, sender, of_rank(sender));
    step.send(team, receiver, part(receiver));
  }
  const bool have_come = co_await step;
  for (int rank = 1; have_come && rank < team.size; ++rank) {
    reduction.fold(of_rank(rank - 1).at, of_rank(rank).at, count);
  }
  copy(of_rank(team.size - 1), reduction.part(to, 0, count));
}

/// Whether all goes to one rank and from there.
ReduceScatterBy way_of(const Team& team, const Reduction& reduction) {
  ReduceScatterBy by = choices().reduce_scatter;
  if (by == ReduceScatterBy::automatic) {
    by = team.size >= kManyRanks && reduction.bytes() <= kScatterBytes
             ? ReduceScatterBy::reduce_then_scatter
             : ReduceScatterBy::pairwise;
  }
  // A rank's own elements overlap nothing, but all of a vector may, which is given only.
  return reduction.interlaces() ? ReduceScatterBy::pairwise : by;
}

/// This rank's part of all vectors of an exchange, combined as messages would have done it.
Trouble combine_shown_parts(const Team& team, const Reduction& reduction, const void* from,
                            void* to, const Parts& parts) {
  int64_t begin = 0;
  for (int rank = 0; rank < team.rank; ++rank) begin += parts.count_of(rank);
  Reduction mine = reduction;
  mine.count = parts.count_of(team.rank);
  const std::byte* const own = reduction.element(from, begin);
  // Of two, theirs come first, as by messages. In place the result may lie over this rank's part.
  if (team.size == 2 && !reduction.interlaces()) return combine_of_two(team, mine, own, to, true);
  const ShownVectors shown(team, mine, own, team.size == 2 ? 0 : begin,
                           team.size == 2 ? mine.count : reduction.count);
  if (!shown.are_whole()) return shown.trouble();
  int at = 0;
  if (way_of(team, reduction) == ReduceScatterBy::reduce_then_scatter) {
    fold_as_reduce(team, reduction.bytes(), mine, shown.data());
  } else if (reduction.op->commutative) {  // combine_as_they_come
    at = team.rank;
    for (int distance = 1; distance < team.size; ++distance) {
      const int sender = (team.rank - distance + team.size) % team.size;
      mine.fold(shown[sender], shown[at], mine.count);
    }
  } else {  // combine_in_order
    at = team.size - 1;
    for (int rank = 1; rank < team.size; ++rank)
      mine.fold(shown[rank - 1], shown[rank], mine.count);
  }
  copy(mine.whole(shown[at]), mine.whole(to));
  return {};
}

/// Of one node: each shows all others its vector, or of two ranks, the other one its part.
Schedule reduce_scatter_exchanged(Team team, const NodeMap* levels, Reduction reduction,
                                  const void* from, void* to, Parts parts) {
  Block mine = reduction.whole(from);
  if (team.size == 2) {
    const int other = 1 - team.rank;
    mine = reduction.part(from, other == 0 ? 0 : parts.count_of(0), parts.count_of(other));
  }
  if (team.board->exchange(team.tag, mine)) {
    co_await combine_shown_parts(team, reduction, from, to, parts);
  } else {
    team.board = nullptr;
    const Schedule by_messages = reduce_scatter(team, levels, reduction, from, to, parts);
    co_await part(by_messages);
  }
}

}  // namespace

Schedule reduce_at_owners(const Team& team, const Reduction& reduction, const void* from, void* to,
                          const Parts& parts) {
  return reduction.op->commutative ? combine_as_they_come(team, reduction, from, to, parts)
                                   : combine_in_order(team, reduction, from, to, parts);
}

Schedule reduce_scatter(const Team& team, const NodeMap* levels, const Reduction& reduction,
                        const void* from, void* to, const Parts& parts) {
  if (reduction.bytes() == 0) return nothing();
  if (team.size == 1) {
    if (from != to) copy(reduction.whole(from), reduction.whole(to));
    return nothing();
  }
  if (team.board != nullptr)
    return reduce_scatter_exchanged(team, levels, reduction, from, to, parts);
  if (way_of(team, reduction) == ReduceScatterBy::reduce_then_scatter) {
    return reduce_then_scatter(team, levels, reduction, from, to, parts);
  }
  return reduce_at_owners(team, reduction, from, to, parts);
}

}  // namespace weft::mpi
