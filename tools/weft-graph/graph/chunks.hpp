// A range of numbers dealt out to threads a chunk at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "weft/base/cache_line.hpp"

namespace weft::graph {

/// `reset` belongs to one thread while no other takes; `for_each` may run on any number of them.
/// relaxed throughout: chunks only have to differ; what they stand for is published by the fork.
class Chunks {
 public:
  explicit Chunks(std::size_t chunk) : chunk_(chunk) {}
  void reset(std::size_t end) {
    end_ = end;
    next_.store(0, std::memory_order_relaxed);
  }
  /// Calls use(i) for each number of each chunk that this thread gets.
  template <class Use>
  void for_each(Use use) {
    for (;;) {
      const std::size_t begin = next_.fetch_add(chunk_, std::memory_order_relaxed);
      if (begin >= end_) return;
      for (std::size_t i = begin; i < std::min(begin + chunk_, end_); ++i) use(i);
    }
  }

 private:
  const std::size_t chunk_;
  std::size_t end_ = 0;
  alignas(base::kCacheLine) std::atomic<std::size_t> next_{0};
};

}  // namespace weft::graph
