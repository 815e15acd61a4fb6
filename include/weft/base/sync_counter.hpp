// A synchronization counter: one waiter, n events (000 §2.2, Fig. 2.6).
#pragma once

#include <atomic>
#include <cstdint>

#include "weft/base/error.hpp"
#include "weft/base/turn.hpp"

namespace weft::base {

/// Counts n events down and wakes its one waiter with the last, not with each.
///
/// Owner and lifetime: the waiter's, who may end it as soon as it is ready: the last signaller
/// touches it no more.
/// Who may call: `wait`, `set_waiter`, `withdraw_waiter`, `reset` the waiter; the rest anyone.
/// More events than are awaited end the process, where they are met.
/// Departure: the paper's counter can also be forced, to hand its waiter the server's role; here a
/// role is handed over beside it (src/comm/waiting.hpp).
class SyncCounter {
 public:
  explicit SyncCounter(uint32_t events) noexcept : left_(events), last_(events == 0) {}

  /// Counts `n` > 0 events. What was written before any of them is seen by whoever finds the
  /// counter ready.
  void signal(uint32_t n = 1) noexcept {
    if (count(n)) finish();
  }
  /// The same in two steps, for those who have something to write that is the last one's to write:
  /// true to whoever counted the last event, who then calls `finish`.
  [[nodiscard]] bool count(uint32_t n) noexcept {
    // acquire: pairs with the release of the others' fetch_sub; the last hands on what they wrote.
    // Where nobody else is left to count, it needs no read-modify-write; one event too many meets
    // the 0.
    if (left_.load(std::memory_order_acquire) == n) {
      left_.store(0, std::memory_order_relaxed);
      return true;
    }
    const uint32_t left = left_.fetch_sub(n, std::memory_order_acq_rel);
    WEFT_CHECK(left >= n, "more events than a synchronization counter awaits");
    return left == n;
  }
  void finish() noexcept { last_.give(); }
  /// Waits for the last event: spins briefly, then parks.
  void wait() noexcept { last_.wait(); }
  [[nodiscard]] bool ready() const noexcept { return last_.is_given(); }
  /// For waiting in other ways: as Turn's.
  bool set_waiter(Parker& parker) noexcept { return last_.set_waiter(parker); }
  void withdraw_waiter() noexcept { last_.withdraw_waiter(); }
  [[nodiscard]] bool has_waiter() const noexcept { return last_.has_waiter(); }
  /// Starts over for `events` more (0: ready at once); only when ready or unused.
  void reset(uint32_t events) noexcept {
    left_.store(events, std::memory_order_relaxed);  // the turn's release passes it on
    last_.reset(events == 0);
  }

 private:
  std::atomic<uint32_t> left_;
  Turn last_;
};

}  // namespace weft::base
