// Scans: recursive doubling; what came from lower ranks is kept beside what all of a run combine
// to.
#include "mpi/collectives/algorithms.hpp"

namespace weft::mpi {

Schedule scan(Team team, Reduction reduction, const void* from, void* to) {
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

Schedule exclusive_scan(Team team, Reduction reduction, const void* from, void* to) {
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

}  // namespace weft::mpi
