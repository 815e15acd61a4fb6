// Unbalanced tree search: a tree that nobody knows before it is searched (000 Fig. 4.7 a).
//
// The tree is the published sample T3: binomial; the root has 2000 children, any other node eight
// with probability 0.124875, else none. A node is a SHA-1 digest: the root's of sixteen zero bytes
// and the seed, 42; a child's of its parent's digest and its own number; the digest's last 31 bits
// are the draw. It has 4,112,897 nodes, 3,599,034 of them leaves, and is 1572 deep: each search is
// compared with that.
//
// Measured: from the start of the search in a task to its end, in ns a node (of wall time), each
// node a task that spawns one for each of its children, joins them, and returns its counts; with
// one worker and with two, and how many times faster two are, in the same round. Most of the
// time is SHA-1.
// Limit: with one worker the same search as a plain recursion on a thread; with two the same with
// one worker. Beside it Boost.Fiber on one thread, a fiber for each node, started at once and
// joined by its parent; and a std::thread for each node of a part of the tree that has some
// hundreds of them (std_thread_nodes), joined by its parent, too.
//
// It lies about balance with more workers than the tree has thick branches: 2000 of them, of which
// a few hold most of the nodes.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <vector>

#include "by_workers.hpp"
#include "fibers.hpp"
#include "sha1.hpp"
#include "weft/base/clock.hpp"

namespace weft::bench::tasks::uts {
namespace {

constexpr uint32_t kSeed = 42;
constexpr uint32_t kRootBranches = 2000;
constexpr uint32_t kBranches = 8;
constexpr double kBranchProbability = 0.124875;

/// What a subtree holds.
struct Count {
  uint64_t nodes = 1;
  uint64_t leaves = 0;
  uint32_t depth = 0;  ///< of its deepest node, below its root

  void add(const Count& child) {
    nodes += child.nodes;
    leaves += child.leaves;
    depth = std::max(depth, child.depth + 1);
  }
  friend bool operator==(const Count&, const Count&) = default;
};
constexpr Count kKnown{4112897, 3599034, 1572};
constexpr uint64_t kNodesOfABranch = 2056;  ///< on average, below the root

struct Node {
  Sha1 state;
  uint32_t branches;

  static Node root(uint32_t branches) {
    const uint32_t message[] = {0, 0, 0, 0, kSeed};
    return {sha1_of(message), branches};
  }
  [[nodiscard]] Node child(uint32_t number) const {
    uint32_t message[6];
    std::copy(state.begin(), state.end(), message);
    message[5] = number;
    const Sha1 digest = sha1_of(message);
    const double draw = static_cast<double>(digest[4] & 0x7fffffff) / 2147483648.0;
    return {digest, draw < kBranchProbability ? kBranches : 0};
  }
};

Count search_plainly(const Node& node) {
  Count count;
  if (node.branches == 0) count.leaves = 1;
  for (uint32_t i = 0; i < node.branches; ++i) count.add(search_plainly(node.child(i)));
  return count;
}

Count search_by_tasks(const Node& node);

template <class Handles>
Count spawn_and_join(const Node& node, Handles& handles) {
  for (uint32_t i = 0; i < node.branches; ++i) {
    handles[i] = task::spawn([node, i] { return search_by_tasks(node.child(i)); });
  }
  Count count;
  for (uint32_t i = 0; i < node.branches; ++i) count.add(handles[i].join());
  return count;
}

Count search_by_tasks(const Node& node) {
  if (node.branches == 0) return {1, 1, 0};
  if (node.branches <= kBranches) {
    std::array<task::Handle<Count>, kBranches> handles;
    return spawn_and_join(node, handles);
  }
  std::vector<task::Handle<Count>> handles(node.branches);
  return spawn_and_join(node, handles);
}

Count search_by_fibers(Fibers& fibers, const Node& node) {
  if (node.branches == 0) return {1, 1, 0};
  std::vector<Count> counts(node.branches);
  std::vector<Fibers::Fiber> children(node.branches);
  for (uint32_t i = 0; i < node.branches; ++i) {
    children[i] = fibers.start_at_once(
        [&fibers, &node, &counts, i] { counts[i] = search_by_fibers(fibers, node.child(i)); });
  }
  Count count;
  for (uint32_t i = 0; i < node.branches; ++i) {
    children[i].join();
    count.add(counts[i]);
  }
  return count;
}

// ns a node of `search`.
template <class Search>
double timed(const Node& root, const Count& expected, Search search) {
  const uint64_t start = base::now_ns();
  const Count found = search(root);
  const uint64_t end = base::now_ns();
  if (found != expected) {
    throw std::runtime_error(fmt::format("uts: {} nodes, {} leaves, {} deep, not {}, {}, {}",
                                         found.nodes, found.leaves, found.depth, expected.nodes,
                                         expected.leaves, expected.depth));
  }
  return static_cast<double>(end - start) / static_cast<double>(found.nodes);
}

/// How many nodes, if not more than `most`, else some more.
uint64_t nodes_up_to(const Node& node, uint64_t most) {
  uint64_t nodes = 1;
  for (uint32_t i = 0; i < node.branches && nodes <= most; ++i)
    nodes += nodes_up_to(node.child(i), most - nodes);
  return nodes;
}

/// The first child of the root that has 200 to 1000 nodes, or a small tree whole.
Node some_hundreds_of(const Node& root) {
  if (nodes_up_to(root, 1000) <= 1000) return root;
  for (uint32_t i = 0; i < root.branches; ++i) {
    const Node child = root.child(i);
    const uint64_t nodes = nodes_up_to(child, 1000);
    if (nodes >= 200 && nodes <= 1000) return child;
  }
  return root.child(0);
}

Count search_by_threads(const Node& node) {
  std::vector<Count> found(node.branches);
  std::vector<std::thread> children;
  for (uint32_t i = 0; i < node.branches; ++i) {
    children.emplace_back([&, i] { found[i] = search_by_threads(node.child(i)); });
  }
  Count count;
  count.leaves = node.branches == 0 ? 1 : 0;
  for (uint32_t i = 0; i < node.branches; ++i) {
    children[i].join();
    count.add(found[i]);
  }
  return count;
}

}  // namespace

void measure(const Wanted& wanted) {
  // Fewer tasks: the same tree with fewer branches at the root.
  uint32_t branches = kRootBranches;
  if (wanted.tasks != 0 && wanted.tasks < kKnown.nodes) {
    branches = static_cast<uint32_t>(std::max<uint64_t>(wanted.tasks / kNodesOfABranch, 1));
  }
  const Node root = Node::root(branches);
  const Node small = some_hundreds_of(root);
  const Count of_small = search_plainly(small);
  const Count expected = branches == kRootBranches ? kKnown : search_plainly(root);
  ByWorkers workers(wanted, [&root, &expected](task::Scheduler& scheduler) {
    return scheduler.run([&root, &expected] { return timed(root, expected, search_by_tasks); });
  });
  std::vector rivals{workers.contest().enter("plain_recursion", [&root, &expected] {
    return on_first_core([&] { return timed(root, expected, search_plainly); });
  })};
  if (kSwitchesCanBeMeasured) {
    rivals.push_back(workers.contest().enter("boost_fiber", [&root, &expected] {
      return on_first_core([&] {
        Fibers fibers;
        return timed(root, expected,
                     [&](const Node& from) { return search_by_fibers(fibers, from); });
      });
    }));
  }
  rivals.push_back(workers.contest().enter(
      "std_thread", [&small, &of_small] { return timed(small, of_small, search_by_threads); }));
  workers.contest().run(wanted.options.seconds, 3);
  workers.print(branches == kRootBranches ? "uts_T3" : "uts_part_of_T3", rivals,
                {{"nodes", expected.nodes},
                 {"leaves", expected.leaves},
                 {"depth", expected.depth},
                 {"std_thread_nodes", of_small.nodes}});
}

}  // namespace weft::bench::tasks::uts
