// Allreduce: recursive doubling, halving and doubling, a ring, a part at each rank, two levels.
#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include "mpi/collectives/algorithms.hpp"
#include "mpi/collectives/even_parts.hpp"
#include "mpi/collectives/halving.hpp"
#include "mpi/collectives/incoming.hpp"
#include "mpi/collectives/node_board.hpp"
#include "mpi/collectives/node_map.hpp"
#include "mpi/collectives/settings.hpp"
#include "mpi/collectives/shown_vectors.hpp"
#include "mpi/process.hpp"

namespace weft::mpi {
namespace {

constexpr int64_t kWholeBytes = 32 << 10;      // of more than four ranks: up to this whole vectors
constexpr int64_t kNearPairBytes = 128 << 10;  // of two ranks of a node: the same
constexpr int64_t kPairBytes = 256 << 10;      // of two ranks of two nodes: the same
constexpr int64_t kRingBytes = 4 << 20;        // from here on, of many ranks, around a ring
constexpr int kRingRanks = 8;
// Where ranks take turns: of more than so many, up to so much, by the first.
constexpr int kPairingRanks = 4;
constexpr int64_t kFirstBytes = 64 << 10;

std::byte* as_bytes(const void* at) noexcept {
  return static_cast<std::byte*>(const_cast<void*>(at));
}

/// Two ranks: each receives where the result goes, and combines what it has with that.
Schedule all_reduce_pair(Team team, Reduction reduction, const void* from, void* to) {
  const int partner = 1 - team.rank;
  Incoming theirs(reduction, reduction.count);
  Step<2> step;
  theirs.recv_beside(step, team, partner, from, to, reduction.count, partner < team.rank);
  step.send(team, partner, reduction.whole(from));
  theirs.combine(co_await step);
}

/// The one that gives its vector away first, and gets the result at the end.
Schedule all_reduce_aside(Team team, Reduction reduction, const void* from, void* to) {
  Step<1> step;
  step.send(team, team.rank + 1, reduction.whole(from));
  co_await step;
  step.recv(team, team.rank + 1, reduction.whole(to));
  co_await step;
}

Schedule all_reduce_doubling(Team team, Reduction reduction, const void* from, void* to) {
  const Pairing pairing(team);
  Incoming theirs(reduction, reduction.count);
  Scratch room;
  std::byte* const place = as_bytes(to);
  std::byte* mine = place;
  // What is sent stays as it is: results come to lie beside it, by turns, the last at its place. A
  // program's function has its operands the usual way around instead.
  const bool beside = reduction.op->predefined && reduction.op->commutative;
  const int steps = std::countr_zero(static_cast<unsigned>(pairing.power));
  const bool doubles = pairing.doubles(team.rank);
  bool as_given = beside && from != to && !doubles;
  std::byte* const aside = beside && (steps > 1 || !as_given)
                               ? room.elements(reduction.count, *reduction.type, reduction.phase)
                               : nullptr;
  std::byte* next = steps % 2 == 1 ? place : aside;
  if (beside && !as_given && steps % 2 == 1) mine = aside;
  Step<2> step;
  if (doubles) {
    theirs.recv_with(step, team, team.rank - 1, from, mine, reduction.count, true);
    theirs.combine(co_await step, mine);
  } else if (!as_given && from != mine) {
    copy(reduction.whole(from), reduction.whole(mine));
  }
  for (int distance = 1; distance < pairing.power; distance *= 2) {
    const int number = pairing.number ^ distance;
    const int partner = pairing.rank_of(number);
    const bool is_lower = number < pairing.number;
    const void* const sent = as_given ? from : mine;
    if (beside) {
      theirs.recv_beside(step, team, partner, sent, next, reduction.count, is_lower);
    } else {
      theirs.recv_onto(step, team, partner, mine, reduction.count, is_lower);
    }
    step.send(team, partner, reduction.whole(sent));
    const bool has_come = co_await step;
    theirs.combine(has_come, mine);
    if (beside && has_come) {
      as_given = false;
      mine = next;
      next = mine == place ? aside : place;
    }
  }
  if (as_given) copy(reduction.whole(from), reduction.whole(to));
  if (doubles) {
    step.send(team, team.rank - 1, reduction.whole(mine));
    co_await step;
  }
  if (mine != place) copy(reduction.whole(mine), reduction.whole(to));
}

/// Rabenseifner's: halves of what is left are exchanged and combined until everybody has a part,
/// and the parts go the way back.
Schedule all_reduce_halving(Team team, Reduction reduction, const void* from, void* to) {
  const Pairing pairing(team);
  Incoming theirs(reduction, reduction.count);
  // The first half may come to its place, and what this rank gives is combined with it there.
  bool straight = from != to && reduction.op->commutative && !pairing.doubles(team.rank);
  if (from != to && !straight) copy(reduction.whole(from), reduction.whole(to));
  Step<2> step;
  if (pairing.doubles(team.rank)) {
    theirs.recv_onto(step, team, team.rank - 1, to, reduction.count, true);
    theirs.combine(co_await step);
  }
  Halves halves(reduction.count);
  for (int distance = 1; distance < pairing.power; distance *= 2) {
    const int number = pairing.number ^ distance;
    const int partner = pairing.rank_of(number);
    halves.halve(pairing.number < number);
    const bool is_lower = number < pairing.number;
    std::byte* const here = reduction.element(to, halves.begin());
    if (straight) {
      theirs.recv_beside(step, team, partner, reduction.element(from, halves.begin()), here,
                         halves.count(), is_lower);
    } else {
      theirs.recv_onto(step, team, partner, here, halves.count(), is_lower);
    }
    step.send(team, partner,
              reduction.part(straight ? from : to, halves.other_begin(), halves.other_count()));
    theirs.combine(co_await step);
    straight = false;
  }
  for (int distance = pairing.power / 2; distance != 0; distance /= 2) {
    const int partner = pairing.rank_of(pairing.number ^ distance);
    step.recv(team, partner, reduction.part(to, halves.other_begin(), halves.other_count()));
    step.send(team, partner, reduction.part(to, halves.begin(), halves.count()));
    co_await step;
    halves.back();
  }
  if (pairing.doubles(team.rank)) {
    step.send(team, team.rank - 1, reduction.whole(to));
    co_await step;
  }
}

/// Parts go around twice: combined on the way, and then as they are. The order in which a part
/// combines is that of the ring, begun anywhere: commutative operations only.
Schedule all_reduce_ring(Team team, Reduction reduction, const void* from, void* to) {
  const int size = team.size;
  const int64_t longest = (reduction.count + size - 1) / size;
  const auto begin = [&](int part) { return std::min(reduction.count, part * longest); };
  const auto part_of = [&](const void* vector, int number) {
    const int part = ((number % size) + size) % size;
    return reduction.part(vector, begin(part), begin(part + 1) - begin(part));
  };
  Incoming theirs(reduction, longest);
  if (from != to) copy(reduction.whole(from), reduction.whole(to));
  const int left = (team.rank - 1 + size) % size;
  const int right = (team.rank + 1) % size;
  Step<2> step;
  for (int i = 0; i < size - 1; ++i) {
    const Block mine = part_of(to, team.rank - 1 - i);
    theirs.recv_onto(step, team, left, mine.at, mine.count, true);
    step.send(team, right, part_of(to, team.rank - i));
    theirs.combine(co_await step);
  }
  for (int i = 0; i < size - 1; ++i) {
    step.recv(team, left, part_of(to, team.rank - i));
    step.send(team, right, part_of(to, team.rank + 1 - i));
    co_await step;
  }
}

/// Each combines a part, and shows it to all others.
Schedule all_reduce_by_parts(Team team, Reduction reduction, const void* from, void* to) {
  const EvenParts even(reduction, team.size);
  const Parts parts = even.of(to);
  const Schedule up = reduce_at_owners(team, reduction, from, parts[team.rank].at, parts);
  co_await part(up);
  const Schedule down = all_gather(team, nullptr, parts);
  co_await part(down);
}

/// To the first and back.
Schedule all_reduce_straight(Team team, Reduction reduction, const void* from, void* to) {
  const Schedule up = reduce(team, nullptr, reduction, from, to, 0);
  co_await part(up);
  const Schedule down = broadcast(team, nullptr, reduction.whole(to), 0);
  co_await part(down);
}

/// Many that take turns. Not of what boards are for: a result shall not depend on there being one.
bool goes_by_first(const Team& team, int64_t bytes) {
  return team.size > kPairingRanks && bytes > static_cast<int64_t>(Board::kBytes) &&
         bytes <= kFirstBytes && goes_straight(team, bytes) && take_turns(team);
}

/// Whole vectors: what goes eagerly. Of two ranks halves are worth while if they do, or much later;
/// on one node, where more goes at once, from a length of its own on.
bool goes_whole(const Team& team, int64_t bytes) {
  const auto eager = static_cast<int64_t>(runtime().eager_bytes());
  if (team.size > 4) return bytes <= std::min(eager, kWholeBytes);
  if (team.size != 2) return bytes <= eager;
  if (on_one_node(team)) return bytes <= kNearPairBytes;
  return bytes <= eager || (bytes > 2 * eager && bytes <= kPairBytes);
}

Schedule pick(const Team& team, const Reduction& reduction, const void* from, void* to) {
  AllreduceBy by = choices().allreduce;
  const bool commutes = reduction.op->commutative;
  if (by == AllreduceBy::ring && !commutes) by = AllreduceBy::automatic;
  if (by == AllreduceBy::automatic) {
    const int64_t bytes = reduction.bytes();
    if (goes_by_first(team, bytes)) return all_reduce_straight(team, reduction, from, to);
    const bool whole = goes_whole(team, bytes);
    if (whole || reduction.count < team.size) {
      by = AllreduceBy::recursive_doubling;
    } else if (goes_by_parts(team, reduction)) {
      by = AllreduceBy::pairwise;
    } else {
      by = commutes && bytes >= kRingBytes && team.size >= kRingRanks ? AllreduceBy::ring
                                                                      : AllreduceBy::rabenseifner;
    }
  }
  if (by == AllreduceBy::pairwise && reduction.bytes() <= static_cast<int64_t>(Board::kBytes))
    by = AllreduceBy::recursive_doubling;  // as by a board
  if (by == AllreduceBy::pairwise) return all_reduce_by_parts(team, reduction, from, to);
  if (by == AllreduceBy::ring) return all_reduce_ring(team, reduction, from, to);
  if (Pairing(team).aside) return all_reduce_aside(team, reduction, from, to);
  if (by == AllreduceBy::rabenseifner) return all_reduce_halving(team, reduction, from, to);
  if (team.size == 2 && from != to && commutes) return all_reduce_pair(team, reduction, from, to);
  return all_reduce_doubling(team, reduction, from, to);
}

/// With as few messages as there can be, one to and one from each but one, and a step less than to
/// a root and back: each half reduces to its first, these exchange, and each tells its half. What
/// lies at `to` takes part.
Schedule all_reduce_sparing(Team team, Reduction reduction, void* to) {
  const int half = team.size / 2;
  const bool upper = team.rank >= half;
  const int first = upper ? half : 0;
  const Team mine{team.comm, team.tag, team.rank - first, upper ? team.size - half : half,
                  team.members + first};
  const Schedule up = reduce(mine, nullptr, reduction, to, to, 0);
  co_await part(up);
  if (mine.rank == 0) {
    Scratch room;
    std::byte* const other = room.elements(reduction.count, *reduction.type, reduction.phase);
    Step<2> step;
    step.recv(team, half - first, reduction.whole(other));
    step.send(team, half - first, reduction.whole(to));
    if (co_await step) reduction.combine_part(as_bytes(to), other, reduction.count, upper);
  }
  const Schedule down = broadcast(mine, nullptr, reduction.whole(to), 0);
  co_await part(down);
}

/// Between nodes messages are dear, and where ranks share few cores, their work is the time.
Schedule across_nodes(const Team& leaders, const Reduction& reduction, void* to) {
  const bool is_short = reduction.bytes() <= static_cast<int64_t>(runtime().eager_bytes());
  if (leaders.size > 2 && is_short && choices().allreduce == AllreduceBy::automatic)
    return leaders.size <= kStraightLeaders ? all_reduce_straight(leaders, reduction, to, to)
                                            : all_reduce_sparing(leaders, reduction, to);
  return pick(leaders, reduction, to, to);
}

/// All of a node show the first their vectors, which it combines. `alone`: there is no other node.
bool reduce_on_board(BoardUse& use, const Team& node, bool alone, const Reduction& reduction,
                     const void* from, void* to) {
  if (node.rank != 0) {
    use.arrive(reduction.whole(from));
    return true;
  }
  if (from != to) copy(reduction.whole(from), reduction.whole(to));
  std::byte* vectors[Board::kMembers] = {as_bytes(to)};
  // A room each: vectors of a type may interlace, one after the other.
  std::unique_ptr<Scratch[]> rooms;
  if (!reduction.type->contiguous())
    rooms = std::make_unique<Scratch[]>(static_cast<std::size_t>(node.size));
  bool fits = true;
  for (int member = 1; member < node.size; ++member) {
    const auto place = static_cast<uint32_t>(member);
    if (!use.await(place)) return false;
    const std::span<std::byte> shown = use.arrived(place);
    vectors[member] = shown.data();
    if (static_cast<int64_t>(shown.size()) != reduction.bytes()) {
      use.note(MPI_ERR_TRUNCATE, place);
      fits = false;
    } else if (rooms != nullptr) {
      vectors[member] = rooms[place].elements(reduction.count, *reduction.type, reduction.phase);
      reduction.type->unpack(vectors[member], reduction.count, 0, shown);
    }
  }
  if (fits && alone) fold_as_all_reduce(node, reduction, vectors);
  if (fits && !alone) fold_as_reduce(node, reduction.bytes(), reduction, vectors);
  return true;
}

/// Inside each node to its leader, between leaders, and back: inside by the node's board if there
/// is one. A use that breaks at its end has the way up done again, by messages: some of the others
/// knew before that it would.
Schedule all_reduce_by_nodes(Team team, const NodeMap& map, Reduction reduction, const void* from,
                             void* to) {
  const Team node = map.node(*team.comm, team.tag);
  BoardUse use(team, 0);
  const bool shown =
      use.works() && reduce_on_board(use, node, map.nodes.size() == 1, reduction, from, to);
  if (!shown) {
    const Schedule up = reduce(node, nullptr, reduction, from, to, 0);
    co_await part(up);
  }
  if (node.rank == 0 && map.nodes.size() > 1) {
    const std::vector<int> leaders = map.leaders(team.rank);
    const Schedule across = across_nodes(
        {team.comm, team.tag, map.mine, static_cast<int>(leaders.size()), leaders.data()},
        reduction, to);
    co_await part(across);
  }
  const bool shared = shown && use.share(reduction.whole(to));
  co_await use.trouble();
  if (shared) co_return;
  if (shown) {
    const Schedule up = reduce(node, nullptr, reduction, node.rank == 0 ? to : from, to, 0);
    co_await part(up);
  }
  const Schedule down = broadcast(node, nullptr, reduction.whole(to), 0);
  co_await part(down);
}

/// The vectors of an exchange. All ranks do so.
Trouble combine_shown(const Team& team, const Reduction& reduction, const void* from, void* to) {
  if (team.size == 2) return combine_of_two(team, reduction, from, to, team.rank == 1);
  const ShownVectors shown(team, reduction, from, 0, reduction.count);
  if (!shown.are_whole()) return shown.trouble();
  fold_as_all_reduce(team, reduction, shown.data());
  copy(reduction.whole(shown[0]), reduction.whole(to));
  return {};
}

/// Of one node: each shows all others its vector, and all combine them, in the same order.
Schedule all_reduce_exchanged(Team team, Reduction reduction, const void* from, void* to) {
  if (team.board->exchange(team.tag, reduction.whole(from))) {
    co_await combine_shown(team, reduction, from, to);
  } else {
    const Schedule by_messages = pick(team, reduction, from, to);
    co_await part(by_messages);
  }
}

}  // namespace

Schedule all_reduce(const Team& team, const NodeMap* levels, const Reduction& reduction,
                    const void* from, void* to) {
  if (reduction.bytes() == 0) return nothing();
  if (team.size == 1) {
    if (from != to) copy(reduction.whole(from), reduction.whole(to));
    return nothing();
  }
  if (team.board != nullptr && team.board->exchanges()) {
    return all_reduce_exchanged(team, reduction, from, to);
  }
  if (team.board != nullptr) levels = &team.board->nodes();
  if (levels != nullptr && (reduction.op->commutative || levels->in_blocks)) {
    return all_reduce_by_nodes(team, *levels, reduction, from, to);
  }
  return pick(team, reduction, from, to);
}

}  // namespace weft::mpi
