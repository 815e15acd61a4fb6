// A synchronization counter: one waiter, n events (000 §2.2, Fig. 2.6).
#pragma once

#include <atomic>
#include <cstdint>

#include "weft/base/turn.hpp"

namespace weft::base {

/// Counts n events down and wakes its one waiter with the last, not with each.
///
/// Owner and lifetime: the waiter's, who may end it as soon as it is ready: the last signaller
/// touches it no more.
/// Who may call: `wait`, `reset` the waiter; `signal`, `ready` anyone.
/// Departure: the paper's counter can also be forced, to hand its waiter the server's role; here a
/// role is handed over beside it (src/comm/waiting.hpp).
class SyncCounter {
 public:
  explicit SyncCounter(uint32_t events) noexcept : left_(events), last_(events == 0) {}

  /// Counts `n` > 0 events. What was written before any of them is seen by whoever finds the
  /// counter ready.
  void signal(uint32_t n = 1) noexcept {
    // acq_rel: the last one hands on what all others wrote.
    if (left_.fetch_sub(n, std::memory_order_acq_rel) == n) last_.give();
  }
  /// Waits for the last event: spins briefly, then parks.
  void wait() noexcept { last_.wait(); }
  [[nodiscard]] bool ready() const noexcept { return last_.is_given(); }
  /// Starts over for `events` more; only when ready.
  void reset(uint32_t events) noexcept {
    left_.store(events, std::memory_order_relaxed);  // whoever signals got this object after this
    if (events != 0) last_.close();
  }

 private:
  std::atomic<uint32_t> left_;
  Turn last_;
};

}  // namespace weft::base
