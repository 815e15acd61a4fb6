// A look, now and then, whether a scheduler has come to a standstill with tasks alive.
#pragma once

#include <atomic>
#include <cstdint>
#include <latch>
#include <thread>

#include "weft/base/parker.hpp"
#include "weft/task/scheduler.hpp"

namespace weft::task {

/// Purpose: the report of `task.report_quiet`: a warning with the dump, once for each standstill.
/// A standstill: for at least that long all workers slept, none was woken, no timer ran, no
/// blocking call was under way, and tasks were alive. What others do (threads, other processes) it
/// cannot know.
/// Owner: the scheduler, which outlives it; exists only where it was asked for. Costs: a thread
/// that wakes twice in that time.
class QuietWatch {
 public:
  QuietWatch(Scheduler::Impl& scheduler, uint64_t quiet_ns);
  ~QuietWatch();
  QuietWatch(const QuietWatch&) = delete;
  QuietWatch& operator=(const QuietWatch&) = delete;

 private:
  void watch();

  Scheduler::Impl& scheduler_;
  const uint64_t quiet_ns_;
  std::atomic<bool> stopping_{false};
  base::Parker* parker_ = nullptr;  ///< the thread's
  std::latch started_{1};
  std::thread thread_;
};

}  // namespace weft::task
