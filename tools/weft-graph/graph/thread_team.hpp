// The T threads of a rank: the calling thread and T-1 helpers that sleep between pieces of work.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "weft/base/cache_line.hpp"

namespace weft::graph {

/// Runs a piece of work on all its threads at once (fork and join).
///
/// Owner and lifetime: made, used and ended by one thread, the *master*, which is thread 0.
/// Progress: helpers sleep on a word (futex) while there is no work; the master spins briefly and
/// then sleeps for the last helper.
/// Invariants: (1) `go_` counts pieces of work; a helper does each piece once. (2) `busy_` is how
/// many helpers have not finished the present one; the master changes the work only at 0.
class ThreadTeam {
 public:
  /// Throws std::system_error where so many threads cannot be had.
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  [[nodiscard]] int size() const noexcept { return static_cast<int>(helpers_.size()) + 1; }

  /// Calls work(thread) for 0 ≤ thread < size(), each on its own thread; returns when all have.
  /// What one piece wrote, the next one sees. `work` must not throw.
  template <class Work>
  void run(const Work& work) {
    run_erased([](const void* w, int thread) { (*static_cast<const Work*>(w))(thread); }, &work);
  }

 private:
  using Function = void (*)(const void*, int);
  void run_erased(Function function, const void* argument);
  void help(int thread);
  void end_helpers();

  std::vector<std::thread> helpers_;
  Function function_ = nullptr;  // null: the helpers end
  const void* argument_ = nullptr;
  alignas(base::kCacheLine) std::atomic<uint32_t> go_{0};
  alignas(base::kCacheLine) std::atomic<uint32_t> busy_{0};
};

}  // namespace weft::graph
