// Scans: recursive doubling, where what came from lower ranks is kept beside what all of a run
// combine to; and in two levels.
#include <vector>

#include "mpi/collectives/algorithms.hpp"

namespace weft::mpi {
namespace {

Schedule scan_flat(Team team, Reduction reduction, const void* from, void* to) {
  if (reduction.bytes() == 0) co_return;
  Scratch run_room;
  Scratch other_room;
  std::byte* run = run_room.elements(reduction.count, *reduction.type, reduction.phase);
  std::byte* other = other_room.elements(reduction.count, *reduction.type, reduction.phase);
  copy(reduction.whole(from), reduction.whole(run));
  if (from != to) copy(reduction.whole(from), reduction.whole(to));
  Step<2> step;
  for (int distance = 1; distance < team.size; distance *= 2) {
    const int partner = team.rank ^ distance;
    if (partner >= team.size) continue;
    step.recv(team, partner, reduction.whole(other));
    step.send(team, partner, reduction.whole(run));
    if (!co_await step) continue;
    if (partner < team.rank) reduction.fold(other, to, reduction.count);
    reduction.combine(run, other, partner < team.rank);
  }
}

Schedule exclusive_scan_flat(Team team, Reduction reduction, const void* from, void* to) {
  if (reduction.bytes() == 0) co_return;
  Scratch run_room;
  Scratch other_room;
  std::byte* run = run_room.elements(reduction.count, *reduction.type, reduction.phase);
  std::byte* other = other_room.elements(reduction.count, *reduction.type, reduction.phase);
  copy(reduction.whole(from), reduction.whole(run));
  bool has_lower = false;  // rank 0 never has: its buffer stays as it is
  Step<2> step;
  for (int distance = 1; distance < team.size; distance *= 2) {
    const int partner = team.rank ^ distance;
    if (partner >= team.size) continue;
    step.recv(team, partner, reduction.whole(other));
    step.send(team, partner, reduction.whole(run));
    if (!co_await step) continue;
    if (partner < team.rank) {
      if (has_lower) {
        reduction.fold(other, to, reduction.count);
      } else {
        copy(reduction.whole(other), reduction.whole(to));
      }
      has_lower = true;
    }
    reduction.combine(run, other, partner < team.rank);
  }
}

/// Inside each node; then the last rank of each learns what all earlier nodes combine to, and tells
/// its node. Nodes' ranks come in blocks.
Schedule scan_by_nodes(Team team, const NodeMap& map, Reduction reduction, const void* from,
                       void* to, bool inclusive) {
  const Team node = map.node(*team.comm, team.tag);
  const bool is_last = node.rank == node.size - 1;
  Scratch total_room;
  Scratch earlier_room;
  std::byte* total = nullptr;
  if (is_last) {
    total = total_room.elements(reduction.count, *reduction.type, reduction.phase);
    if (!inclusive) copy(reduction.whole(from), reduction.whole(total));  // `to` may be there
  }
  const Schedule inside = inclusive ? scan_flat(node, reduction, from, to)
                                    : exclusive_scan_flat(node, reduction, from, to);
  bool well = co_await part(inside);
  std::byte* const earlier =
      earlier_room.elements(reduction.count, *reduction.type, reduction.phase);
  if (is_last) {
    if (inclusive) {
      copy(reduction.whole(to), reduction.whole(total));
    } else if (well && node.rank != 0) {
      reduction.fold(to, total, reduction.count);
    }
    std::vector<int> last;
    for (const auto& ranks : map.nodes) last.push_back(ranks.back());
    const Team across{team.comm, team.tag, map.mine, static_cast<int>(last.size()), last.data()};
    const Schedule over = exclusive_scan_flat(across, reduction, total, earlier);
    well = co_await part(over);
  }
  if (map.mine == 0) co_return;
  const Schedule down = broadcast(node, nullptr, reduction.whole(earlier), node.size - 1);
  well = co_await part(down);
  if (!well) co_return;  // what came is nobody's
  if (inclusive || node.rank != 0) {
    reduction.fold(earlier, to, reduction.count);
  } else {
    copy(reduction.whole(earlier), reduction.whole(to));
  }
}

bool by_levels(const NodeMap* levels, const Reduction& reduction) {
  return levels != nullptr && levels->in_blocks && !reduction.interlaces() &&
         reduction.bytes() != 0;
}

}  // namespace

Schedule scan(const Team& team, const NodeMap* levels, const Reduction& reduction, const void* from,
              void* to) {
  return by_levels(levels, reduction) ? scan_by_nodes(team, *levels, reduction, from, to, true)
                                      : scan_flat(team, reduction, from, to);
}

Schedule exclusive_scan(const Team& team, const NodeMap* levels, const Reduction& reduction,
                        const void* from, void* to) {
  return by_levels(levels, reduction) ? scan_by_nodes(team, *levels, reduction, from, to, false)
                                      : exclusive_scan_flat(team, reduction, from, to);
}

}  // namespace weft::mpi
