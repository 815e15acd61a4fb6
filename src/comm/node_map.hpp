// Which ranks share a node, as collectives need to know it.
#pragma once

#include <vector>

#include "weft/base/types.hpp"
#include "weft/fabric/job.hpp"

namespace weft::comm {

/// Made once per team: O(job size). Ranks within a node ascend; nodes are in the order of their
/// lowest ranks, their leaders.
struct NodeMap {
  explicit NodeMap(const fabric::Job& job) {
    std::vector<int> seen(static_cast<std::size_t>(job.node_count()), -1);
    node_of.resize(static_cast<std::size_t>(job.size()));
    for (int r = 0; r < job.size(); ++r) {
      int& number = seen[static_cast<std::size_t>(job.node_of(Rank{r}))];
      if (number < 0) {
        number = static_cast<int>(nodes.size());
        nodes.emplace_back();
      }
      auto& node = nodes[static_cast<std::size_t>(number)];
      in_blocks = in_blocks && (node.empty() || node.back() == r - 1);
      node.push_back(r);
      node_of[static_cast<std::size_t>(r)] = number;
    }
    mine = node_of[static_cast<std::size_t>(job.rank().value)];
    for (const auto& node : nodes) leaders.push_back(node.front());
  }
  [[nodiscard]] const std::vector<int>& my_node() const {
    return nodes[static_cast<std::size_t>(mine)];
  }
  [[nodiscard]] int leader_of(int rank) const {
    return leaders[static_cast<std::size_t>(node_of[static_cast<std::size_t>(rank)])];
  }

  std::vector<std::vector<int>> nodes;
  std::vector<int> leaders;
  std::vector<int> node_of;
  int mine = 0;
  bool in_blocks = true;  ///< every node holds consecutive ranks
};

}  // namespace weft::comm
