// Queues with locks of their own, for the tail queues: what is older than a tail.
//
// A search goes from the oldest entry to the end. Whoever reaches it holds the end's lock, under
// which `at_end` may search and empty the tail, and `append`. Two searches keep their order: none
// overtakes another in the queue. Lock order: sections from the first to the last, then what
// `at_end` takes.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "mpi/entry.hpp"
#include "mpi/matching/stores.hpp"
#include "weft/base/cache_line.hpp"

namespace weft::mpi {

/// One store, one lock.
template <class Store, class TheLock>
class WholeQueue {
 public:
  using Lock = TheLock;

  /// The oldest that fits, of which `met` is told; else what `at_end` answers. Both under a lock.
  /// `met` answers whether it is taken out.
  template <class Met, class AtEnd>
  Entry* search(const Entry& wanted, uint64_t& passed, Met met, AtEnd at_end) {
    const typename Lock::Guard hold(lock_);
    Entry* const found = store_.first(wanted, passed);
    if (found == nullptr) return at_end();
    if (met(*found)) store_.remove(*found);
    return found;
  }
  /// All locks.
  class HoldAll {
   public:
    explicit HoldAll(WholeQueue& queue) noexcept : hold_(queue.lock_) {}

   private:
    typename Lock::Guard hold_;
  };
  // Under the end's lock, or all:
  void append(Entry& entry) { store_.append(entry); }
  // Under all locks:
  void remove(Entry& entry) { store_.remove(entry); }
  template <class Visit>
  void for_each(Visit visit) {
    store_.for_each(visit);
  }

 private:
  alignas(base::kCacheLine) Lock lock_;
  Store store_;
};

/// A list whose first entries are a bin of their own (003 §3: 50), so that two searches can be in
/// it at once: one among the first, one among the rest. The bin is filled up from the rest by who
/// goes from one to the other and holds both locks.
template <class TheLock>
class BinnedQueue {
 public:
  using Lock = TheLock;

  template <class Met, class AtEnd>
  Entry* search(const Entry& wanted, uint64_t& passed, Met met, AtEnd at_end) {
    std::optional<typename Lock::Guard> hold_bin(std::in_place, bin_lock_);
    Entry* found = bin_.first(wanted, passed);
    if (found != nullptr) {
      if (met(*found)) remove(*found);
      return found;
    }
    const typename Lock::Guard hold_rest(rest_lock_);
    found = fill_bin(wanted, passed);
    if (found != nullptr && met(*found)) remove(*found);
    hold_bin.reset();
    if (found != nullptr) return found;
    found = rest_.first(wanted, passed);
    if (found == nullptr) return at_end();
    if (met(*found)) remove(*found);
    return found;
  }
  class HoldAll {
   public:
    explicit HoldAll(BinnedQueue& queue) noexcept
        : bin_(queue.bin_lock_), rest_(queue.rest_lock_) {}

   private:
    typename Lock::Guard bin_;
    typename Lock::Guard rest_;
  };
  void append(Entry& entry) {
    entry.stamp = kRest;
    rest_.append(entry);
  }
  void remove(Entry& entry) {
    if (entry.stamp == kRest) {
      rest_.remove(entry);
    } else {
      bin_.remove(entry);
      --in_bin_;
    }
  }
  template <class Visit>
  void for_each(Visit visit) {
    bin_.for_each(visit);
    rest_.for_each(visit);
  }

 private:
  static constexpr unsigned kBin = 50;
  static constexpr uint64_t kRest = 1;  // an entry's stamp says where it is

  /// (both locks) Up to the first that fits, which is in the bin then.
  Entry* fill_bin(const Entry& wanted, uint64_t& passed) {
    while (in_bin_ < kBin) {
      Entry* const next = rest_.pop();
      if (next == nullptr) return nullptr;
      next->stamp = 0;
      bin_.append(*next);
      ++in_bin_;
      if (fit(*next, wanted)) return next;
      ++passed;
    }
    return nullptr;
  }

  alignas(base::kCacheLine) Lock bin_lock_;
  ListStore bin_;
  unsigned in_bin_ = 0;
  alignas(base::kCacheLine) Lock rest_lock_;
  ListStore rest_;
};

}  // namespace weft::mpi
