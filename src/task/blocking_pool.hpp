// The helpers of one scheduler: kernel threads that make the calls that may sleep.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

#include "weft/base/locks.hpp"
#include "weft/base/parker.hpp"
#include "weft/task/blocking.hpp"

namespace weft::task {

/// Purpose: makes BlockingCalls, first come first served.
/// Owner and lifetime: the scheduler; ended (`stop`) after the last task and the workers' threads,
/// and before the workers' memory.
/// Who may call: `run` any task; `stop` the owner, once nobody calls any more.
/// Progress: `run` suspends its task; a short lock; starts a thread, which the caller waits for,
/// where there is none and there may be one more.
/// Invariants, under lock_:
///  1. A helper is absent, busy (it has a call, or looks for one), or idle (in idle_).
///  2. No helper is idle while a call is queued.
class BlockingPool {
 public:
  /// What the configuration says.
  BlockingPool();
  ~BlockingPool() { stop(); }
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;

  void run(detail::BlockingCall& call) noexcept;
  /// Some call has begun whose task was not woken yet.
  [[nodiscard]] bool is_used() const noexcept {
    // acquire: pairs with the decrement; who finds none sees the wake-ups that came before.
    return under_way_.load(std::memory_order_acquire) != 0;
  }
  /// How many threads there are. A hint.
  [[nodiscard]] unsigned threads() const noexcept {
    return threads_.load(std::memory_order_relaxed);
  }
  void stop() noexcept;

 private:
  struct Helper {
    std::thread thread;  ///< of its starter, and of `stop`
    base::Parker* parker = nullptr;
    detail::BlockingCall* call = nullptr;  ///< given to it
    Helper* next_idle = nullptr;
    bool is_absent = true;
  };

  Helper* find_absent() noexcept;
  void start(Helper& helper, detail::BlockingCall& call) noexcept;
  void help(Helper& self) noexcept;
  void make(detail::BlockingCall& call) noexcept;
  detail::BlockingCall* next_call(Helper& self) noexcept;
  detail::BlockingCall* take_queued() noexcept;
  detail::BlockingCall* take_queued_or_leave(Helper& helper) noexcept;

  const uint64_t idle_ns_;
  const std::size_t most_;
  const std::unique_ptr<Helper[]> helpers_;
  std::atomic<uint64_t> under_way_{0};
  std::atomic<unsigned> threads_{0};

  base::SpinLock lock_;
  Helper* idle_ = nullptr;  ///< the last to become idle first, so that the others' time runs out
  detail::BlockingCall* first_ = nullptr;
  detail::BlockingCall* last_ = nullptr;
  bool stopping_ = false;
};

}  // namespace weft::task
