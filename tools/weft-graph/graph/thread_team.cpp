#include "graph/thread_team.hpp"

namespace weft::graph {

ThreadTeam::ThreadTeam(int threads) {
  try {
    for (int thread = 1; thread < threads; ++thread) {
      helpers_.emplace_back([this, thread] { help(thread); });
    }
  } catch (...) {
    end_helpers();
    throw;
  }
}

ThreadTeam::~ThreadTeam() { end_helpers(); }

void ThreadTeam::end_helpers() {
  function_ = nullptr;
  // release: pairs with the acquire in help; the helpers see that there is no function.
  go_.fetch_add(1, std::memory_order_release);
  go_.notify_all();
  for (auto& helper : helpers_) helper.join();
}

void ThreadTeam::run_erased(Function function, const void* argument) {
  if (!helpers_.empty()) {
    function_ = function;
    argument_ = argument;
    // relaxed: published by the release of go_ below.
    busy_.store(static_cast<uint32_t>(helpers_.size()), std::memory_order_relaxed);
    // release: pairs with the acquire in help; the helpers see the work and all before it.
    go_.fetch_add(1, std::memory_order_release);
    go_.notify_all();
  }
  function(argument, 0);
  // acquire: pairs with the release of each helper's fetch_sub; the master sees what they wrote.
  for (uint32_t left; (left = busy_.load(std::memory_order_acquire)) != 0;) {
    busy_.wait(left, std::memory_order_acquire);
  }
}

void ThreadTeam::help(int thread) {
  for (uint32_t done = 0;;) {
    go_.wait(done, std::memory_order_acquire);
    // acquire: pairs with the release of go_ in run_erased and the destructor.
    if (go_.load(std::memory_order_acquire) == done) continue;
    ++done;
    if (function_ == nullptr) return;
    function_(argument_, thread);
    // release: pairs with the master's acquire of busy_; acquire not needed, nothing is read after.
    if (busy_.fetch_sub(1, std::memory_order_release) == 1) busy_.notify_one();
  }
}

}  // namespace weft::graph
