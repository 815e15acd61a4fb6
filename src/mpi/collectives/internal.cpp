// Collectives for the house's own use, of communicators and of groups that have none yet.
#include <algorithm>
#include <vector>

#include "mpi/collectives.hpp"
#include "mpi/collectives/algorithms.hpp"
#include "mpi/collectives/halving.hpp"

namespace weft::mpi {
namespace {

using Combine = void (*)(uint64_t* mine, const uint64_t* other, int64_t count);

void keep_common(uint64_t* mine, const uint64_t* other, int64_t count) {
  for (int64_t i = 0; i < count; ++i) mine[i] &= other[i];
}
void keep_larger(uint64_t* mine, const uint64_t* other, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    mine[i] = static_cast<uint64_t>(
        std::max(static_cast<int64_t>(mine[i]), static_cast<int64_t>(other[i])));
  }
}

Schedule combine_words(Team team, uint64_t* words, int64_t count, Combine combine) {
  const Pairing pairing(team);
  Scratch room;
  const Block mine = bytes_at(words, count * 8);
  const Block theirs = bytes_at(room.bytes(count * 8), count * 8);
  const auto* other = reinterpret_cast<const uint64_t*>(theirs.at);
  Step<2> step;
  if (pairing.aside) {
    step.send(team, team.rank + 1, mine);
    co_await step;
    step.recv(team, team.rank + 1, mine);
    co_await step;
    co_return;
  }
  if (pairing.doubles(team.rank)) {
    step.recv(team, team.rank - 1, theirs);
    co_await step;
    if (!team.died()) combine(words, other, count);
  }
  for (int distance = 1; distance < pairing.power; distance *= 2) {
    const int partner = pairing.rank_of(pairing.number ^ distance);
    step.recv(team, partner, theirs);
    step.send(team, partner, mine);
    co_await step;
    if (!team.died()) combine(words, other, count);
  }
  if (pairing.doubles(team.rank)) {
    step.send(team, team.rank - 1, mine);
    co_await step;
  }
}

/// The members' ranks in the carrier are made out before the first step.
Schedule combine_of_group(Comm& carrier, Held<Group> members, int tag, uint64_t* words,
                          int64_t count, Combine combine) {
  std::vector<int> ranks;
  ranks.reserve(static_cast<std::size_t>(members->size()));
  for (int i = 0; i < members->size(); ++i) {
    ranks.push_back(carrier.local_group->rank_of(members->process(i)));
  }
  const auto me = std::find(ranks.begin(), ranks.end(), carrier.rank) - ranks.begin();
  // Others of the carrier may be dead.
  std::atomic<bool> died{!co_await Trouble{}};
  const Schedule all =
      combine_words({&carrier, tag, static_cast<int>(me), members->size(), ranks.data(), &died},
                    words, count, combine);
  co_await part(all);
}

Held<Group> hold(const Group& group) { return Held<Group>(const_cast<Group*>(&group)); }
uint64_t* as_words(int64_t* values) noexcept { return reinterpret_cast<uint64_t*>(values); }

}  // namespace

Schedule barrier(Comm& comm, int tag) { return barrier(everybody(comm, tag), node_levels(comm)); }

Schedule broadcast(Comm& comm, int tag, void* buffer, int64_t bytes, int root) {
  return broadcast(everybody(comm, tag), node_levels(comm), bytes_at(buffer, bytes), root);
}

Schedule all_gather(Comm& comm, int tag, const void* mine, int64_t bytes, void* all) {
  const Parts parts{.base = static_cast<std::byte*>(all), .count = bytes, .type = &byte_type()};
  copy(bytes_at(mine, bytes), parts[comm.rank]);
  return all_gather(everybody(comm, tag), node_levels(comm), parts);
}

Schedule all_and(Comm& comm, int tag, uint64_t* words, int64_t count) {
  return combine_words(everybody(comm, tag), words, count, keep_common);
}
Schedule all_max(Comm& comm, int tag, int64_t* values, int64_t count) {
  return combine_words(everybody(comm, tag), as_words(values), count, keep_larger);
}
Schedule group_all_and(Comm& carrier, const Group& members, int tag, uint64_t* words,
                       int64_t count) {
  return combine_of_group(carrier, hold(members), tag, words, count, keep_common);
}
Schedule group_all_max(Comm& carrier, const Group& members, int tag, int64_t* values,
                       int64_t count) {
  return combine_of_group(carrier, hold(members), tag, as_words(values), count, keep_larger);
}

}  // namespace weft::mpi
