// Disjoint sets that any number of threads join at the same time.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

namespace weft::graph {

/// Sets of the numbers 0 … n-1, each a tree whose root is its least member.
///
/// Who may call: `join` and `find` any thread at any time. Progress: lock-free; a failed exchange
/// means that another thread's join went through.
/// Invariant: a parent is never greater than its child, so there is no cycle and a root that is
/// hooked stays hooked. Shortcuts (path halving) only replace a parent by a lesser ancestor.
/// relaxed throughout: the tree's words are all there is to see; no other memory hangs on them.
class UnionFind {
 public:
  explicit UnionFind(uint32_t n) : parent_(n) {
    for (uint32_t i = 0; i < n; ++i) parent_[i].store(i, std::memory_order_relaxed);
  }
  [[nodiscard]] uint32_t size() const noexcept { return static_cast<uint32_t>(parent_.size()); }

  /// The least member of `member`'s set, final once no thread joins any more.
  uint32_t find(uint32_t member) noexcept {
    for (;;) {
      uint32_t parent = parent_[member].load(std::memory_order_relaxed);
      if (parent == member) return member;
      const uint32_t above = parent_[parent].load(std::memory_order_relaxed);
      if (above == parent) return parent;
      parent_[member].compare_exchange_weak(parent, above, std::memory_order_relaxed);
      member = above;
    }
  }

  void join(uint32_t a, uint32_t b) noexcept {
    for (;;) {
      a = find(a);
      b = find(b);
      if (a == b) return;
      if (a > b) std::swap(a, b);
      uint32_t expected = b;  // still a root?
      if (parent_[b].compare_exchange_strong(expected, a, std::memory_order_relaxed)) return;
    }
  }

 private:
  std::vector<std::atomic<uint32_t>> parent_;
};

}  // namespace weft::graph
