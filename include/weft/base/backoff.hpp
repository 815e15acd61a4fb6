// How a short busy wait spends its turns: a few hints to the core, then the core given away.
#pragma once

#include <sched.h>

#include "weft/base/cache_line.hpp"

namespace weft::base {

/// One wait's backoff. Call `pause` each time the condition was found false.
///
/// The holder of what is waited for may have been preempted on this very core: spinning longer
/// than a few hundred cycles then only delays it, so every `kSpins`-th turn yields.
class Backoff {
 public:
  static constexpr int kSpins = 64;

  void pause() noexcept {
    if (++turn_ < kSpins) {
      cpu_relax();
    } else {
      turn_ = 0;
      sched_yield();
    }
  }

 private:
  int turn_ = 0;
};

}  // namespace weft::base
