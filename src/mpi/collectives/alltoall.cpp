// All-to-all: Bruck's algorithm for tiny blocks, many at once, one partner after the other, in
// place; over several nodes what is short by agents.
#include <algorithm>
#include <vector>

#include "mpi/collectives/agents.hpp"
#include "mpi/collectives/algorithms.hpp"
#include "mpi/collectives/node_board.hpp"
#include "mpi/collectives/settings.hpp"

namespace weft::mpi {
namespace {

// Bruck's: of a block up to so much, of so many ranks; where all are on one node, and over nodes.
constexpr int64_t kBruckBlock = 256;
constexpr int kBruckRanks = 17;
constexpr int64_t kBruckFarBlock = 4 << 10;
constexpr int kBruckFarRanks = 8;
// Many at once, of blocks up to so much; on one node, and over nodes.
constexpr int64_t kAtOnceBytes = 128 << 10;
constexpr int64_t kAtOnceFarBytes = 32 << 10;
// By nodes: of a block up to this, or what two nodes' ranks have this much room for; where blocks
// may be unlike, among so many nodes, since there may be few.
constexpr int64_t kNodesBlock = 8 << 10;
constexpr int64_t kNodesRoom = (4 << 20) - 64;
constexpr std::size_t kNodesOfUnlike = 64;

/// In step k (a power of two) the blocks whose distance has bit k travel k ranks on: each gets home
/// in as many hops as its distance has bits.
Schedule all_to_all_bruck(Team team, Parts out, Parts in, int64_t bytes) {
  const int size = team.size;
  const int me = team.rank;
  Scratch room;
  std::byte* blocks = room.bytes(bytes * size * 3);
  std::byte* going = blocks + bytes * size;
  std::byte* coming = going + bytes * size;
  const auto block = [bytes](std::byte* at, int i) { return bytes_at(at + i * bytes, bytes); };
  for (int i = 0; i < size; ++i) copy(out[(me + i) % size], block(blocks, i));
  Step<2> step;
  for (int bit = 1; bit < size; bit *= 2) {
    int some = 0;
    for (int i = bit; i < size; ++i) {
      if ((i & bit) != 0) copy(block(blocks, i), block(going, some++));
    }
    step.recv(team, (me - bit + size) % size, bytes_at(coming, some * bytes));
    step.send(team, (me + bit) % size, bytes_at(going, some * bytes));
    co_await step;
    some = 0;
    for (int i = bit; i < size; ++i) {
      if ((i & bit) != 0) copy(block(coming, some++), block(blocks, i));
    }
  }
  // The block at distance i came from i ranks before.
  for (int i = 0; i < size; ++i) copy(block(blocks, i), in[(me - i + size) % size]);
}

/// Up to `Width` exchanges at once, by distance: what goes d ranks on, and what comes from d ranks
/// before. Nobody waits in a circle: of what has not ended, the smallest distance is posted on both
/// sides, since only smaller ones could keep a side from it.
template <uint32_t Width>
Schedule all_to_all_straight(Team team, Parts out, Parts in) {
  // Of an inter-communicator: no block of one's own, and the sides may differ in size.
  const bool inter = team.comm->inter;
  const int round = inter ? std::max(team.size, team.comm->size()) : team.size;
  Step<2 * Width> step;
  for (int distance = inter ? 0 : 1; distance < round; ++distance) {
    if (step.full(2)) co_await step;
    const int from = (team.rank - distance + round) % round;
    const int to = (team.rank + distance) % round;
    if (from < team.size) step.recv(team, from, in[from]);
    if (to < team.size) step.send(team, to, out[to]);
  }
  co_await step;
  if (!inter) copy(out[team.rank], in[team.rank]);
}

/// In place: `out` is a part of `in`, or all of it. A tournament: in each round everybody has one
/// partner, who has the same (or none).
Schedule all_to_all_in_turns(Team team, Parts out, Parts in) {
  Step<2> step;
  for (int round = 0; round < team.size; ++round) {
    const int partner = (round - team.rank + team.size) % team.size;
    if (partner == team.rank) continue;
    const Block block = out[partner];
    Scratch room;
    const Block going = bytes_at(room.bytes(block.bytes()), block.bytes());
    copy(block, going);
    step.recv(team, partner, in[partner]);
    step.send(team, partner, going);
    co_await step;
  }
}

/// Parts of which some are left out: they have no bytes there.
struct SomeParts {
  template <class Keep>
  SomeParts(const Parts& all, int size, Keep keep) : parts(all) {
    for (int i = 0; i < size; ++i) {
      const auto place = static_cast<std::size_t>(i);
      const bool equal = all.counts.null();
      counts.push_back(!keep(i) ? 0 : equal ? all.count : all.counts[place]);
      if (equal) places.push_back(i * all.count);
    }
    parts.counts = Counts(counts.data());
    if (!places.empty()) parts.places = Counts(places.data());
  }
  SomeParts(const SomeParts&) = delete;
  SomeParts& operator=(const SomeParts&) = delete;

  std::vector<MPI_Count> counts;
  std::vector<MPI_Count> places;
  Parts parts;
};

/// Short blocks for other nodes by agents, the others straight. `in_place`: `out` and `in` are the
/// same.
Schedule all_to_all_by_nodes(Team team, const NodeMap& map, Parts out, Parts in, int64_t limit,
                             bool in_place) {
  std::vector<char> straight(static_cast<std::size_t>(team.size), 1);
  const Schedule far = exchange_by_agents(team, map, out, in, limit, in_place, straight);
  co_await part(far);
  const SomeParts rest_in(in, team.size,
                          [&](int rank) { return straight[static_cast<std::size_t>(rank)] != 0; });
  const SomeParts rest_out(out, team.size, [&](int rank) {
    const bool near = map.node_of[static_cast<std::size_t>(rank)] == map.mine;
    return near ? in_place || rank == team.rank : out[rank].bytes() > limit;
  });
  const Schedule rest = in_place ? all_to_all_in_turns(team, rest_out.parts, rest_in.parts)
                                 : all_to_all_straight<8>(team, rest_out.parts, rest_in.parts);
  co_await part(rest);
}

/// Up to how many bytes a block goes by nodes, the same on all ranks; -1: none does. `bytes`: see
/// all_to_all.
int64_t by_nodes_up_to(const NodeMap* levels, int64_t bytes) {
  if (levels == nullptr || choices().alltoall != AlltoallBy::automatic) return -1;
  if (bytes < 0 && levels->nodes.size() > kNodesOfUnlike) return -1;
  // All that two nodes may have for each other is room at both agents.
  std::size_t most = 0;
  for (const auto& ranks : levels->nodes) most = std::max(most, ranks.size());
  const int64_t room = kNodesRoom / static_cast<int64_t>(most * most);
  const int64_t limit = std::min<int64_t>(kNodesBlock, room - static_cast<int64_t>(sizeof room));
  return limit > 0 && bytes <= limit ? limit : -1;
}

/// Of one node: each shows all others its blocks, or of two ranks, the other one its block.
/// `in_place`: `out` and `in` are the same.
Schedule all_to_all_exchanged(Team team, const NodeMap* levels, Parts out, Parts in, int64_t bytes,
                              bool in_place) {
  const bool of_two = team.size == 2;
  const Block mine = of_two ? out[1 - team.rank] : Block{out.base, out.count * team.size, out.type};
  if (!team.board->exchange(team.tag, mine)) {
    team.board = nullptr;
    const Schedule by_messages = in_place ? all_to_all_in_place(team, levels, in, bytes)
                                          : all_to_all(team, levels, out, in, bytes);
    co_await part(by_messages);
    co_return;
  }
  Trouble trouble;
  for (int rank = 0; rank < team.size; ++rank) {
    if (rank == team.rank) continue;
    const std::span<const std::byte> shown = team.board->shown_by(rank);
    const Block to = in[rank];
    const auto room = static_cast<std::size_t>(to.bytes());
    const auto all = of_two ? shown.size() : room * static_cast<std::size_t>(team.size);
    const auto first = of_two ? 0 : room * static_cast<std::size_t>(team.rank);
    if (shown.size() != all || (of_two && all > room)) {
      trouble.note(MPI_ERR_TRUNCATE, team.comm->process(rank));
      if (!of_two) continue;
    }
    to.type->unpack(to.at, to.count, 0, shown.subspan(first, std::min(all - first, room)));
  }
  if (!in_place) copy(out[team.rank], in[team.rank]);
  co_await trouble;
}

}  // namespace

Schedule all_to_all(const Team& team, const NodeMap* levels, const Parts& out, const Parts& in,
                    int64_t bytes) {
  AlltoallBy by = bytes >= 0 ? choices().alltoall : AlltoallBy::linear;
  if (bytes == 0) return nothing();
  if (team.board != nullptr) return all_to_all_exchanged(team, levels, out, in, bytes, false);
  if (team.comm->inter) by = AlltoallBy::linear;
  if (const int64_t limit = by_nodes_up_to(levels, bytes); limit >= 0)
    return all_to_all_by_nodes(team, *levels, out, in, limit, false);
  if (by == AlltoallBy::automatic) {
    // Fewer steps are worth more messages where ranks take turns on cores: each step is a turn.
    const bool near = node_map(*team.comm).nodes.size() == 1;
    by = bytes <= (near ? kAtOnceBytes : kAtOnceFarBytes) ? AlltoallBy::linear
                                                          : AlltoallBy::pairwise;
    if (team.size >= (near ? kBruckRanks : kBruckFarRanks) &&
        bytes <= (near ? kBruckBlock : kBruckFarBlock))
      by = AlltoallBy::bruck;
  }
  switch (by) {
    case AlltoallBy::bruck:
      return all_to_all_bruck(team, out, in, bytes);
    case AlltoallBy::pairwise:
      return all_to_all_straight<1>(team, out, in);
    default:
      return all_to_all_straight<8>(team, out, in);
  }
}

Schedule all_to_all_in_place(const Team& team, const NodeMap* levels, const Parts& data,
                             int64_t bytes) {
  if (bytes == 0) return nothing();
  if (team.board != nullptr) return all_to_all_exchanged(team, levels, data, data, bytes, true);
  const int64_t limit = by_nodes_up_to(levels, bytes);
  return limit < 0 ? all_to_all_in_turns(team, data, data)
                   : all_to_all_by_nodes(team, *levels, data, data, limit, true);
}

}  // namespace weft::mpi
