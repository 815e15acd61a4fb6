// Allgather: Bruck's logarithm of steps through a copy, around a ring, everything at once, two
// levels; few bytes as an Allreduce.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "mpi/collectives/algorithms.hpp"
#include "mpi/collectives/board.hpp"
#include "mpi/collectives/node_board.hpp"
#include "mpi/collectives/reduction.hpp"
#include "mpi/collectives/settings.hpp"
#include "mpi/collectives/shared_sends.hpp"

namespace weft::mpi {
namespace {

constexpr int64_t kBruckBytes = 16 << 10;    // of all blocks together: up to this
constexpr int64_t kLinearBytes = 256 << 10;  // of a block, on one node: up to this

/// Part `p`, then p + 1, … around the ring.
int64_t bytes_from(const Parts& all, int size, int first, int count) {
  if (all.counts.null()) return count * all[0].bytes();
  int64_t sum = 0;
  for (int i = 0; i < count; ++i) sum += all[(first + i) % size].bytes();
  return sum;
}

/// What a rank has, beginning with its own block, doubles with each step.
Schedule all_gather_bruck(Team team, Parts all) {
  const int me = team.rank;
  const int size = team.size;
  Scratch room;
  std::byte* have = room.bytes(bytes_from(all, size, 0, size));
  int64_t bytes = all[me].bytes();
  copy(all[me], bytes_at(have, bytes));
  Step<2> step;
  for (int blocks = 1; blocks < size; blocks *= 2) {
    const int more = std::min(blocks, size - blocks);
    const int from = (me + blocks) % size;
    const int64_t coming = bytes_from(all, size, from, more);
    step.recv(team, from, bytes_at(have + bytes, coming));
    step.send(team, (me - blocks + size) % size, bytes_at(have, bytes_from(all, size, me, more)));
    co_await step;
    bytes += coming;
  }
  int64_t at = all[me].bytes();
  for (int i = 1; i < size; ++i) {
    const Block to = all[(me + i) % size];
    copy(bytes_at(have + at, to.bytes()), to);
    at += to.bytes();
  }
}

Schedule all_gather_ring(Team team, Parts all) {
  const int right = (team.rank + 1) % team.size;
  const int left = (team.rank - 1 + team.size) % team.size;
  Step<2> step;
  for (int i = 0; i < team.size - 1; ++i) {
    step.recv(team, left, all[(left - i + team.size) % team.size]);
    step.send(team, right, all[(team.rank - i + team.size) % team.size]);
    co_await step;
  }
}

/// Everybody's block to everybody, several at once, as in all_to_all_straight.
Schedule all_gather_straight(Team team, Parts all) {
  Step<16> step;
  const SharedSends sent(team, all[team.rank]);
  for (int distance = 1; distance < team.size; ++distance) {
    if (step.full(2)) co_await step;
    const int from = (team.rank - distance + team.size) % team.size;
    step.recv(team, from, all[from]);
    if (sent.left(distance)) step.send(team, (team.rank + distance) % team.size, all[team.rank]);
  }
  co_await step;
}

/// Segments of blocks with holes, which come to a room, as many as a step receives, and are
/// unpacked from there.
class SegmentsAside {
 public:
  SegmentsAside(const Parts& all, int ranks, int64_t segment) : all_(all), segment_(segment) {
    bool apart = false;
    for (int rank = 0; rank < ranks; ++rank) apart = apart || has_holes(all[rank]);
    if (apart) room_ = scratch_.bytes((kMost + 1) * segment);
  }
  /// What this rank sends. Until the next call.
  Block mine(int rank, int64_t begin) {
    const Block run = run_of(rank, begin, kMost);
    const Block block = all_[rank];
    if (run.count != 0 && has_holes(block)) {
      block.type->pack(block.at, block.count, begin, {run.at, static_cast<std::size_t>(run.count)});
    }
    return run;
  }
  /// Where it comes to.
  Block coming(int rank, int64_t begin) {
    const Block run = run_of(rank, begin, count_);
    if (run.count != 0 && has_holes(all_[rank])) came_[count_++] = {rank, begin, run};
    return run;
  }
  /// After the step.
  void unpack(bool has_come) {
    for (const Came& one : std::span(came_, static_cast<std::size_t>(std::exchange(count_, 0)))) {
      const Block block = all_[one.rank];
      if (has_come)
        block.type->unpack(block.at, block.count, one.begin,
                           {one.run.at, static_cast<std::size_t>(one.run.count)});
    }
  }

  static constexpr int kMost = 16;

 private:
  struct Came {
    int rank;
    int64_t begin;
    Block run;
  };
  static bool has_holes(const Block& block) {
    return block.count != 0 && !block.type->contiguous();
  }
  [[nodiscard]] Block run_of(int rank, int64_t begin, int place) const {
    const Block block = all_[rank];
    const int64_t bytes = std::clamp<int64_t>(block.bytes() - begin, 0, segment_);
    return bytes_at(has_holes(block) ? room_ + place * segment_ : block.at + begin, bytes);
  }

  const Parts& all_;
  int64_t segment_;
  Scratch scratch_;
  std::byte* room_ = nullptr;
  Came came_[kMost];
  int count_ = 0;
};

/// The same of blocks that are long for that, a segment of each at a time.
Schedule all_gather_in_segments(Team team, Parts all) {
  const int64_t segment = SharedSends::most_bytes() / 2;  // more would leave the caches
  int64_t longest = 0;
  for (int rank = 0; rank < team.size; ++rank) longest = std::max(longest, all[rank].bytes());
  SegmentsAside segments(all, team.size, segment);
  Step<SegmentsAside::kMost> step;
  for (int64_t begin = 0; begin < longest; begin += segment) {
    const Block mine = segments.mine(team.rank, begin);
    const SharedSends sent(team, mine);
    for (int distance = 1; distance < team.size; ++distance) {
      if (step.full(2)) segments.unpack(co_await step);
      const int from = (team.rank - distance + team.size) % team.size;
      step.recv(team, from, segments.coming(from, begin));
      if (sent.left(distance)) step.send(team, (team.rank + distance) % team.size, mine);
    }
    segments.unpack(co_await step);
  }
}

Schedule pick(const Team& team, const Parts& all) {
  const int64_t bytes = bytes_from(all, team.size, 0, team.size);
  if (team.size <= 1 || bytes == 0) return nothing();
  AllgatherBy by = choices().allgather;
  if (by == AllgatherBy::automatic) {
    // On a node a ring has no shorter ways, and each rank waits for all before it.
    const bool near = node_map(*team.comm).nodes.size() == 1;
    const int64_t each = bytes / team.size;  // the same for all, whatever their blocks
    by = team.size > 2 && bytes <= kBruckBytes                                ? AllgatherBy::bruck
         : near && (each <= kLinearBytes || SharedSends::may_reach_all(team)) ? AllgatherBy::linear
                                                                              : AllgatherBy::ring;
  }
  switch (by) {
    case AllgatherBy::bruck:
      return all_gather_bruck(team, all);
    case AllgatherBy::linear:
      return bytes / team.size > SharedSends::most_bytes() && SharedSends::may_reach_all(team)
                 ? all_gather_in_segments(team, all)
                 : all_gather_straight(team, all);
    default:
      return all_gather_ring(team, all);
  }
}

/// Each node's blocks to its leader, between leaders, and everything to all of the node.
Schedule all_gather_by_nodes(Team team, const NodeMap& map, Parts all) {
  const std::size_t nodes = map.nodes.size();
  std::vector<MPI_Count> sizes(nodes);
  std::vector<MPI_Count> places(nodes);
  int64_t bytes = 0;
  for (std::size_t n = 0; n < nodes; ++n) {
    for (const int rank : map.nodes[n]) sizes[n] += all[rank].bytes();
    places[n] = bytes;
    bytes += sizes[n];
  }
  Scratch room;
  const Parts packed{.base = room.bytes(bytes),
                     .type = &byte_type(),
                     .counts = Counts(sizes.data()),
                     .places = Counts(places.data())};
  const Team node = map.node(*team.comm, team.tag);
  Step<8> step;
  if (node.rank != 0) {
    step.send(node, 0, all[team.rank]);
    co_await step;
  } else {
    std::byte* at = packed[map.mine].at;
    for (int i = 0; i < node.size; ++i) {
      const Block block = all[node.at(i)];
      if (step.full()) co_await step;
      if (i == 0) {
        copy(block, bytes_at(at, block.bytes()));
      } else {
        step.recv(node, i, bytes_at(at, block.bytes()));
      }
      at += block.bytes();
    }
    co_await step;
    const std::vector<int> leaders = map.leaders(team.rank);
    const Schedule across =
        pick({team.comm, team.tag, map.mine, static_cast<int>(nodes), leaders.data()}, packed);
    co_await part(across);
  }
  const Schedule inside = broadcast(node, nullptr, bytes_at(packed.base, bytes), 0);
  co_await part(inside);
  const std::byte* at = packed.base;
  for (const auto& ranks : map.nodes) {
    for (const int rank : ranks) {
      const Block to = all[rank];
      if (rank != team.rank) copy(bytes_at(at, to.bytes()), to);
      at += to.bytes();
    }
  }
}

/// Everybody's block among zeros, combined by OR.
Schedule all_gather_by_or(Team team, const NodeMap* levels, Parts all) {
  std::byte blocks[Board::kBytes] = {};
  const int64_t bytes = bytes_from(all, team.size, 0, team.size);
  const int64_t before = bytes_from(all, team.size, 0, team.rank);
  copy(all[team.rank], bytes_at(blocks + before, all[team.rank].bytes()));
  const Reduction either{
      .op = &op(MPI_BOR), .type = &byte_type(), .handle = MPI_BYTE, .count = bytes};
  const Schedule together = all_reduce(team, levels, either, blocks, blocks);
  co_await part(together);
  const std::byte* at = blocks;
  for (int rank = 0; rank < team.size; ++rank) {
    const Block to = all[rank];
    if (rank != team.rank) copy(bytes_at(at, to.bytes()), to);
    at += to.bytes();
  }
}

/// Of one node: each shows all others its block.
Schedule all_gather_exchanged(Team team, Parts all) {
  if (!team.board->exchange(team.tag, all[team.rank])) {
    team.board = nullptr;
    const Schedule by_messages =
        team.size == 2 ? pick(team, all) : all_gather_by_or(team, nullptr, all);
    co_await part(by_messages);
    co_return;
  }
  Trouble trouble;
  for (int rank = 0; rank < team.size; ++rank) {
    if (rank == team.rank) continue;
    const std::span<const std::byte> shown = team.board->shown_by(rank);
    const Block to = all[rank];
    if (static_cast<int64_t>(shown.size()) != to.bytes()) {
      trouble.note(MPI_ERR_TRUNCATE, team.comm->process(rank));
    } else {
      copy(bytes_at(shown.data(), to.bytes()), to);
    }
  }
  co_await trouble;
}

}  // namespace

Schedule all_gather_shown(const Team& team, const NodeMap* levels, const Parts& all) {
  if (team.board != nullptr && team.board->exchanges()) return all_gather_exchanged(team, all);
  return all_gather_by_or(team, levels, all);
}

Schedule all_gather(const Team& team, const NodeMap* levels, const Parts& all) {
  return levels != nullptr ? all_gather_by_nodes(team, *levels, all) : pick(team, all);
}

}  // namespace weft::mpi
