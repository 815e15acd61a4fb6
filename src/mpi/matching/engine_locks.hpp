// The locks of the engines (`mpi.matching_lock`).
//
// Who waits for one may hold a device's progress lock, or another engine lock, and be in the midst
// of an outer wait. So a task does not suspend here: it spins and yields its thread's core. A
// thread may sleep in line; it gives its parker a permit afterwards, as it may have slept by one
// that was meant for the outer wait (a permit too many is only a look too many).
// Invariants: whoever holds an engine lock is awake, or a thread that the kernel goes on with.
#pragma once

#include <atomic>
#include <cstdint>

#include "weft/base/backoff.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/locks.hpp"
#include "weft/base/parker.hpp"

namespace weft::mpi {

/// First come, first served, as in 003.
class FirstComersLock {
 public:
  class Guard {
   public:
    explicit Guard(FirstComersLock& lock) noexcept : lock_(lock.lock_) {
      if (!lock_.try_lock(node_)) [[unlikely]]
        wait();
    }
    ~Guard() { lock_.unlock(node_); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    [[gnu::noinline]] void wait() noexcept {
      base::Parker& caller = base::this_parker();
      if (!caller.may_poll()) return lock_.lock_awake(node_);
      lock_.lock(node_);
      caller.unpark();
    }

    base::McsLock& lock_;
    base::McsLock::Node node_;
  };

 private:
  base::McsLock lock_;
};

/// Whoever runs may take it, again and again; those who wait stand in line behind one who looks,
/// and who closes it to all others when he has looked for kPatienceNs.
class AnybodysLock {
 public:
  class Guard {
   public:
    explicit Guard(AnybodysLock& lock) noexcept : lock_(lock) {
      // relaxed: a request.
      if (lock.closed_.load(std::memory_order_relaxed) || !lock.lock_.try_lock()) [[unlikely]]
        lock.wait();
    }
    ~Guard() { lock_.lock_.unlock(); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    AnybodysLock& lock_;
  };

 private:
  static constexpr uint64_t kPatienceNs = 100'000;

  [[gnu::noinline]] void wait() noexcept {
    const FirstComersLock::Guard first(line_);
    const uint64_t began = base::now_ns();
    bool closed = false;
    // relaxed, both: a request, which lock_ makes safe whoever sees it when.
    for (base::Backoff backoff; !lock_.try_lock(); backoff.pause()) {
      if (closed || base::now_ns() - began < kPatienceNs) continue;
      closed = true;
      closed_.store(true, std::memory_order_relaxed);
    }
    if (closed) closed_.store(false, std::memory_order_relaxed);
  }

  base::SpinLock lock_;
  std::atomic<bool> closed_{false};  ///< the first in line comes before all others
  FirstComersLock line_;
};

}  // namespace weft::mpi
