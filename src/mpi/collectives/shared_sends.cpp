#include "mpi/collectives/shared_sends.hpp"

#include <algorithm>

#include "mpi/collectives/node_map.hpp"
#include "mpi/messages.hpp"
#include "mpi/process.hpp"

namespace weft::mpi {

int64_t SharedSends::most_bytes() { return static_cast<int64_t>(runtime().shared_bytes()); }

bool SharedSends::may_reach_all(const Team& team) {
  // Beyond, a tree's levels are less than what a root does for each.
  constexpr int kMostReaders = 64;
  return team.size > 2 && team.size <= kMostReaders && most_bytes() >= 16 * kLeastBytes &&
         on_one_node(team);
}

SharedSends::SharedSends(const Team& team, const Block& block) {
  const int64_t bytes = block.bytes();
  if (team.size < 3 || bytes < kLeastBytes || bytes > most_bytes() || !on_one_node(team)) return;
  // relaxed: as in Posts::post_send. Poison goes by itself.
  if (team.died().load(std::memory_order_relaxed)) [[unlikely]]
    return;
  const Packed packed(block, true);
  const Block run = bytes_at(packed.at(), bytes);
  const int count = std::min(team.size - 1, static_cast<int>(kMost));
  int to[kAtOnce];
  for (int begin = 0; begin < count; begin += kAtOnce) {
    const int some = std::min(count - begin, kAtOnce);
    for (int i = 0; i < some; ++i) to[i] = team.at((team.rank + 1 + begin + i) % team.size);
    went_[begin / kAtOnce] =
        send_shared(*team.comm, Plane::collective, {to, static_cast<std::size_t>(some)}, team.tag,
                    run.at, run.count, *run.type);
  }
}

}  // namespace weft::mpi
