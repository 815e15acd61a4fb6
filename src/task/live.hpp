// The schedulers of the process that live: for dumps of all of them.
#pragma once

#include "weft/task/scheduler.hpp"

namespace weft::task {

/// While it exists, `dump_all` finds the scheduler. Its end waits for a dump that is under way.
class Enlisted {
 public:
  explicit Enlisted(Scheduler::Impl& scheduler);
  ~Enlisted();
  Enlisted(const Enlisted&) = delete;
  Enlisted& operator=(const Enlisted&) = delete;

 private:
  Scheduler::Impl& scheduler_;
};

/// Around a fork: the list is whole, and nobody has its lock, in parent and child.
void hold_live() noexcept;
void let_live_go() noexcept;

}  // namespace weft::task
