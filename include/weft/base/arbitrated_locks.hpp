// Locks that say who comes next: first come first served, by priority, or whoever is there (000
// §2.1–2.3). One interface, so that they can be exchanged and compared.
//
// For sections that threads queue on. Waiters of the queue locks and of CLHub spin, then yield,
// then park (BriefSpin), so that threads may outnumber cores; those of the others do as `Lock`
// does. On the message path nothing waits for a lock (see locks.hpp).
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <memory>

#include "weft/base/asymmetric_fence.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/locks.hpp"
#include "weft/base/parker.hpp"
#include "weft/base/turn.hpp"

namespace weft::base {

/// What these locks have in common. A `Place` is the holder's, from before `acquire` until after
/// `release`; one that was not given back must not be used again, nor be moved.
///   acquire      the main path: who comes to do something that others wait for
///   acquire_low  the progress path: who only waits. As `acquire` where a lock knows no priority
///   try_acquire  true: acquired, now; never waits
/// Who may call: any thread; of the queue locks and CLHub also any task, which then sleeps alone. A
/// lock outlives every call on it: it must not be ended by whoever comes next while the last holder
/// may still be in `release`. The first acquisitions of a thread take memory; without any, the
/// program ends.
template <class L>
concept ArbitratedLock = requires(L lock, typename L::Place place) {
  { lock.acquire(place) }
  noexcept->std::same_as<void>;
  { lock.acquire_low(place) }
  noexcept->std::same_as<void>;
  { lock.try_acquire(place) }
  noexcept->std::same_as<bool>;
  { lock.release(place) }
  noexcept->std::same_as<void>;
};

/// Holds an arbitrated lock for a scope.
template <ArbitratedLock L>
class Acquired {
 public:
  explicit Acquired(L& lock) noexcept : lock_(lock) { lock_.acquire(place_); }
  struct Low {};
  Acquired(L& lock, Low /*path*/) noexcept : lock_(lock) { lock_.acquire_low(place_); }
  ~Acquired() { lock_.release(place_); }
  Acquired(const Acquired&) = delete;
  Acquired& operator=(const Acquired&) = delete;

 private:
  L& lock_;
  typename L::Place place_;
};

/// `lock`, `unlock` and `try_lock` behind the common interface: SpinLock, TicketLock, std::mutex.
template <class Lock>
class WithoutPriority {
 public:
  struct Place {};
  void acquire(Place& /*place*/) noexcept { lock_.lock(); }
  void acquire_low(Place& /*place*/) noexcept { lock_.lock(); }
  [[nodiscard]] bool try_acquire(Place& /*place*/) noexcept { return lock_.try_lock(); }
  void release(Place& /*place*/) noexcept { lock_.unlock(); }

 private:
  Lock lock_;
};

/// The same for McsLock, whose node is the place.
class WithoutPriorityMcs {
 public:
  using Place = McsLock::Node;
  void acquire(Place& place) noexcept { lock_.lock(place); }
  void acquire_low(Place& place) noexcept { lock_.lock(place); }
  [[nodiscard]] bool try_acquire(Place& place) noexcept { return lock_.try_lock(place); }
  void release(Place& place) noexcept { lock_.unlock(place); }

 private:
  McsLock lock_;
};

/// Craig's, and Landin and Hagersten's queue lock: each waits for the turn of the one before it.
/// First come, first served.
///
/// Invariants
///  1. Every node is the lock's last, a queued or holding thread's own, or in a pool; a node's turn
///     is closed from before it is queued until its thread releases, and given otherwise.
///  2. Exactly one thread awaits a queued node's turn: the one whose exchange found it last. It
///     alone pools the node afterwards.
///  3. Nodes are never unmapped: `try_acquire` may look at one that has been taken meanwhile. The
///     lock's word names its last node and how often that was queued (22 bits), so that a node that
///     left and came back between two looks is not taken for what it was.
class ClhLock {
 public:
  struct Node;
  struct Place {
    Node* mine = nullptr;
  };
  ClhLock();
  ~ClhLock();
  ClhLock(const ClhLock&) = delete;
  ClhLock& operator=(const ClhLock&) = delete;

  void acquire(Place& place) noexcept;
  void acquire_low(Place& place) noexcept { acquire(place); }
  /// Fails also while others queue.
  [[nodiscard]] bool try_acquire(Place& place) noexcept;
  void release(Place& place) noexcept;
  /// For the holder: somebody is queued behind it. A hint that may come late.
  [[nodiscard]] bool has_waiters(const Place& place) const noexcept {
    return node_of(tail_.load(std::memory_order_relaxed)) != place.mine;
  }

 private:
  // The last node's address without the zeros that alignment leaves, and its uses above it.
  static constexpr unsigned kAlignBits = 6;
  static constexpr unsigned kAddressBits = 42;
  static uint64_t word_of(const Node& node) noexcept;
  static Node* node_of(uint64_t word) noexcept {
    return reinterpret_cast<Node*>((word & ((uint64_t{1} << kAddressBits) - 1)) << kAlignBits);
  }

  std::atomic<uint64_t> tail_;
};

/// The priority lock that MPI libraries use (000 §2.1, "P-CLH"): those on the main path pass the
/// lock among themselves, first come, first served; who waits (`acquire_low`) has it when none of
/// them is queued, first come, first served too.
class PriorityClhLock {
 public:
  struct Place {
    ClhLock::Place queue;
    ClhLock::Place gate;
    bool low = false;
  };
  void acquire(Place& place) noexcept;
  void acquire_low(Place& place) noexcept;
  [[nodiscard]] bool try_acquire(Place& place) noexcept;
  void release(Place& place) noexcept;

 private:
  ClhLock high_;
  ClhLock low_;
  ClhLock gate_;  ///< held by the main path as a whole, or by the first of the waiting
  // Under high_:
  ClhLock::Place main_path_;
  bool main_path_has_gate_ = false;
};

/// A queue of queues: a thread passes the lock to one of its own memory node before others (lock
/// cohorting; 000 §2.3). First come, first served within a node and between nodes.
///
/// Departures: the paper passes within a node without bound and spins between nodes; here a node
/// passes at most `most_passes` times in a row, and nodes queue.
class CohortLock {
 public:
  struct Place {
    ClhLock::Place local;
    unsigned node = 0;
  };
  explicit CohortLock(uint32_t most_passes = 1024);
  void acquire(Place& place) noexcept;
  void acquire_low(Place& place) noexcept { acquire(place); }
  [[nodiscard]] bool try_acquire(Place& place) noexcept;
  void release(Place& place) noexcept;

 private:
  struct alignas(kCacheLine) Cohort {
    ClhLock local;
    // Under `local`:
    ClhLock::Place global;
    bool has_global = false;
    uint32_t passes = 0;
  };
  Cohort& cohort_of_caller(Place& place) noexcept;

  ClhLock global_;
  std::unique_ptr<Cohort[]> cohorts_;
  unsigned nodes_;
  uint32_t most_passes_;
};

namespace detail {

/// A lock for whoever is there when it is free, and two who may sleep for it, in a slot each.
class BargingLock {
 public:
  [[nodiscard]] bool try_acquire() noexcept {
    return !held_.load(std::memory_order_relaxed) &&
           // acquire: pairs with release's release; what the last holder wrote is seen.
           !held_.exchange(true, std::memory_order_acquire);
  }
  /// One context at a time for each slot (0 or 1).
  void acquire(unsigned slot) noexcept {
    for (BriefSpin spin; spin.again();) {
      if (try_acquire()) return;
    }
    acquire_parked(slot);
  }
  void release() noexcept {
    held_.store(false, std::memory_order_release);  // pairs with try_acquire's acquire
    light_fence();  // between the lock and the slots; acquire_parked has the heavy one
    wake(0);
    wake(1);
  }

 private:
  void acquire_parked(unsigned slot) noexcept;
  void wake(unsigned slot) noexcept {
    // relaxed: whether there is anybody.
    if (sleepers_[slot].load(std::memory_order_relaxed) != nullptr) [[unlikely]]
      wake_sleeper(slot);
  }
  void wake_sleeper(unsigned slot) noexcept;

  std::atomic<bool> held_{false};
  std::atomic<Parker*> sleepers_[2] = {};
};

/// While it is up, those of low priority wait; one of them at a time.
class Filter {
 public:
  void raise() noexcept { up_.store(true, std::memory_order_relaxed); }  // a hint to others
  void lower() noexcept {
    up_.store(false, std::memory_order_relaxed);  // a hint, too: the lock behind it orders
    light_fence();                                // as BargingLock::release
    if (sleeper_.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
      wake_sleeper();
  }
  void wait() noexcept {
    if (!up_.load(std::memory_order_relaxed)) return;
    for (BriefSpin spin; spin.again();) {
      if (!up_.load(std::memory_order_relaxed)) return;
    }
    wait_parked();
  }

 private:
  void wait_parked() noexcept;
  void wake_sleeper() noexcept;

  std::atomic<bool> up_{false};
  std::atomic<Parker*> sleeper_{nullptr};
};

}  // namespace detail

/// Locality-preserving lock with unbounded bias (000 §2.3, Fig. 2.10): whoever runs may take it
/// again and again, so that the section's data stay in its cache and nobody is switched to; one of
/// those on the main path at a time is the candidate for when it does not; who only waits is held
/// back while there is a candidate. (One who was let by before the candidate came competes with
/// it.)
///
/// The bias has no bound: it is for sections that a thread enters a bounded number of times before
/// it must wait for others. `High` arbitrates among candidates: ClhLock, or CohortLock for machines
/// with several memory nodes.
template <class High>
class BasicClhub {
 public:
  struct Place {};
  BasicClhub() = default;

  void acquire(Place& /*place*/) noexcept {
    if (bias_.try_acquire()) [[likely]]
      return;
    typename High::Place candidate;
    high_.acquire(candidate);
    filter_.raise();
    bias_.acquire(0);
    filter_.lower();
    high_.release(candidate);
  }
  void acquire_low(Place& /*place*/) noexcept {
    ClhLock::Place first;
    low_.acquire(first);
    filter_.wait();
    bias_.acquire(1);
    low_.release(first);
  }
  [[nodiscard]] bool try_acquire(Place& /*place*/) noexcept { return bias_.try_acquire(); }
  void release(Place& /*place*/) noexcept { bias_.release(); }

 private:
  detail::BargingLock bias_;
  High high_;
  ClhLock low_;
  detail::Filter filter_;
};
using ClhubLock = BasicClhub<ClhLock>;
using HierarchicalClhubLock = BasicClhub<CohortLock>;

static_assert(ArbitratedLock<WithoutPriority<SpinLock>>);
static_assert(ArbitratedLock<WithoutPriority<TicketLock>>);
static_assert(ArbitratedLock<WithoutPriorityMcs>);
static_assert(ArbitratedLock<ClhLock>);
static_assert(ArbitratedLock<PriorityClhLock>);
static_assert(ArbitratedLock<CohortLock>);
static_assert(ArbitratedLock<ClhubLock>);
static_assert(ArbitratedLock<HierarchicalClhubLock>);

}  // namespace weft::base
