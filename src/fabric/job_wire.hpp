// What weftrun and the PMIx provider agree on beyond PMIx itself.
#pragma once

#include <string_view>

namespace weft::fabric {

/// The environment variable that carries the job's key to the ranks: readable by the user alone,
/// unlike a command line. (Not a WEFT_… name: it is no configuration.)
inline constexpr const char* kJobKeyVariable = "WEFTRUN_KEY";
/// What the PMIx namespaces of weftrun's jobs begin with.
inline constexpr const char* kNamespacePrefix = "weft-";
/// Of several programs of a job: this one's number, and how many ranks it has.
inline constexpr const char* kAppVariable = "WEFTRUN_APP";
inline constexpr const char* kAppRanksVariable = "WEFTRUN_APP_RANKS";

/// Job-level PMIx info (uint32): the number of nodes that weftrun pretends; 1 is the truth.
inline constexpr const char* kFakeNodesInfo = "weft.nodes";
/// Job-level PMIx info (string): where the ranks of this host find their cards (NodeCards::place).
inline constexpr const char* kCardsInfo = "weft.cards";

/// The node of `rank` when `ranks` are dealt to `nodes` in blocks, the first `ranks % nodes` of
/// them one rank longer.
constexpr int block_node_of(int rank, int ranks, int nodes) noexcept {
  const int small = ranks / nodes;
  const int long_ones = ranks % nodes;
  const int in_long = long_ones * (small + 1);
  return rank < in_long ? rank / (small + 1) : long_ones + (rank - in_long) / small;
}
static_assert(block_node_of(0, 5, 2) == 0 && block_node_of(2, 5, 2) == 0);
static_assert(block_node_of(3, 5, 2) == 1 && block_node_of(4, 5, 2) == 1);

}  // namespace weft::fabric
