// A turn that one thread gives to one other: what queue locks and counters wait for.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "weft/base/cache_line.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/parker.hpp"

namespace weft::base {

/// How long one who will sleep if need be looks first: two microseconds without yielding, then
/// letting others run in between, for about as long as a sleeper takes to come. Sleeping any
/// earlier, two who pass a lock to and fro would sleep each time that the other is late by one
/// sleep, for ever.
class BriefSpin {
 public:
  /// Passes a moment; false: time to sleep.
  [[nodiscard]] bool again() noexcept {
    const uint64_t spent = ticks() - start_;
    if (spent < limit()) {
      cpu_relax();
      return true;
    }
    // A task sleeps for less than a thread's yield costs, and the one it waits for may be of its
    // worker.
    if (!this_parker().may_poll()) return false;
    sched_yield();
    return spent < kYieldsFor * limit();
  }

 private:
  static constexpr double kSpinNs = 2000;
  static constexpr uint64_t kYieldsFor = 25;
  static uint64_t limit() noexcept {
    static const auto the_limit = to_ticks(kSpinNs);
    return the_limit;
  }
  uint64_t start_ = ticks();
};

/// Given once by whoever calls `give`, awaited by one waiter, which spins briefly and then parks.
///
/// Owner and lifetime: `give` touches the turn no more once the waiter can see it: whoever waited
/// may then destroy it.
/// Who may call: `close` while nobody waits and nobody will give what was awaited; `wait` one
/// context at a time; `give`, `is_given` anyone. Progress: `give` never waits. `wait` suspends a
/// task, or its thread.
class Turn {
 public:
  /// Starts out given.
  Turn() = default;
  explicit Turn(bool is_given) noexcept : state_(is_given ? given() : nullptr) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// Takes the turn back: it is to be given anew.
  void close() noexcept { state_.store(nullptr, std::memory_order_relaxed); }
  /// Starts over, given or not.
  void reset(bool is_given) noexcept {
    // release: whoever gives it got this object from us after this.
    state_.store(is_given ? given() : nullptr, std::memory_order_release);
  }
  [[nodiscard]] bool is_given() const noexcept {
    // acquire: pairs with give's release; what the giver wrote is seen.
    return state_.load(std::memory_order_acquire) == given();
  }
  void give() noexcept {
    // acq_rel: release what was written, to is_given and wait; acquire the waiter's parker.
    Parker* const waiter = state_.exchange(given(), std::memory_order_acq_rel);
    if (waiter != nullptr && waiter != given()) [[unlikely]]
      waiter->unpark();  // a parker outlives its context
  }
  /// For those who wait in ways of their own: names who is to be unparked; false: it is given. One
  /// waiter at a time. `withdraw_waiter` takes the name back.
  bool set_waiter(Parker& parker) noexcept;
  void withdraw_waiter() noexcept;
  /// Somebody named himself and it is not given. A hint; the parker is not touched.
  [[nodiscard]] bool has_waiter() const noexcept {
    const Parker* const who = state_.load(std::memory_order_relaxed);
    return who != nullptr && who != given();
  }
  void wait() noexcept {
    if (is_given()) return;
    for (BriefSpin spin; spin.again();) {
      if (is_given()) return;
    }
    wait_parked();
  }

 private:
  static Parker* given() noexcept { return reinterpret_cast<Parker*>(1); }
  void wait_parked() noexcept;

  std::atomic<Parker*> state_{given()};  ///< nullptr: not given, nobody parked; or who is
};

}  // namespace weft::base
