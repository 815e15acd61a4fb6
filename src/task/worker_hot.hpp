// The hot path of a worker, in line: spawn, signal, and which task is next.
#pragma once

#include <cstdint>

#include "task/scheduler_impl.hpp"
#include "task/worker.hpp"
#include "weft/base/asymmetric_fence.hpp"
#include "weft/base/backoff.hpp"

namespace weft::task::detail {

/// The guard, entered by the worker's own thread.
class Worker::Inside {
 public:
  explicit Inside(Worker& worker) noexcept : guard_(worker.guard_) {
    if (!guard_.try_enter_as_owner()) [[unlikely]]
      enter_slowly(worker);
  }
  ~Inside() { guard_.leave_as_owner(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  /// A thief is inside, or wants something.
  [[gnu::noinline, gnu::cold]] void enter_slowly(Worker& worker) noexcept {
    for (base::Backoff backoff; !guard_.try_enter_though_asked();) backoff.pause();
    if (guard_.take_asked()) worker.answer_thief();
  }
  base::OwnerLock& guard_;
};

/// One writer; others read a statistic.
inline void count(std::atomic<uint64_t>& counter, uint64_t n = 1) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

/// As count, for ends. release: pairs with add_to's acquire: who sees an end sees every spawn that
/// came before it.
inline void count_end(std::atomic<uint64_t>& counter) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

// ---- records -----------------------------------------------------------------------------------

inline Record* Worker::take_record() noexcept {
  if (free_ == nullptr) [[unlikely]] {
    free_ = more_records();
    if (free_ == nullptr) return nullptr;
  }
  Record* record = free_;
  free_ = record->next;
  return record;
}

inline void Worker::give_record(Record& record) noexcept {
  if (record.home() != this) [[unlikely]] {
    record.home()->give_record_outside(record);
    return;
  }
  record.next = free_;
  free_ = &record;
}

// ---- making tasks runnable ---------------------------------------------------------------------

/// (guard, own thread) A token for `record`. True: it is not the only one.
inline bool Worker::make_ready(Record& record) noexcept {
  if (!newest_first_) [[unlikely]] {
    const bool others = !ready_.empty();
    ready_.set(record.index());
    return others;
  }
  // relaxed: under the guard.
  Record* const before = newest_.load(std::memory_order_relaxed);
  newest_.store(&record, std::memory_order_relaxed);
  if (before == nullptr) return !ready_.empty();
  // One of many, whose stacks will not all be near: on its way while the others are run.
  if (record.stack != nullptr) static_cast<const Stack*>(record.stack)->prefetch();
  if (before != &record) ready_.set(before->index());
  return true;
}

/// (guard) The newest, and the one that yielded alone, are bits like the others.
inline void Worker::spill() noexcept {
  if (Record* newest = newest_.load(std::memory_order_relaxed); newest != nullptr) {
    newest_.store(nullptr, std::memory_order_relaxed);
    ready_.set(newest->index());
  }
  if (Record* yielded = yielded_.load(std::memory_order_relaxed); yielded != nullptr) {
    yielded_.store(nullptr, std::memory_order_relaxed);
    later_.set(yielded->index());
  }
}

/// (guard, own thread) The turn of `record`, which runs here or was to, comes after all that can
/// run now. A thief leaves its token alone until it waits.
inline void Worker::make_later(Record& record) noexcept {
  if (yielded_.load(std::memory_order_relaxed) == nullptr && later_.empty()) {
    yielded_.store(&record, std::memory_order_relaxed);
  } else {
    later_.set(record.index());
  }
}

inline void Worker::launch_here(Record& record) noexcept {
  count(spawned_);  // first: a thief may have run it before we come to the next line (Impl::live)
  {
    const Inside inside(*this);
    record.status.store(Status::fresh, std::memory_order_relaxed);  // under the guard
    make_ready(record);
  }
  base::light_fence();  // between the ready bit and the look for sleepers (invariant 6)
  crew_.offer();
}

inline void Worker::signal_here(Record& record) noexcept {
  bool surplus = false;
  {
    const Inside inside(*this);
    if (record.home() != this) [[unlikely]]
      return signal_from_outside(record);  // it moved
    // acquire: pairs with the release that published `waiting`; the context is saved.
    if (record.status.load(std::memory_order_acquire) == Status::waiting) [[likely]] {
      surplus = make_ready(record);
    } else {
      surplus = set_ready(record);
    }
  }
  // One task that was signalled will be run when the caller waits, as it mostly does next; more
  // are work for others.
  if (surplus) {
    base::light_fence();  // as launch_here
    crew_.offer();
  }
}

inline void Worker::signal(Record& record, Worker* here) noexcept {
  base::light_fence();  // between what the caller wrote and the place: see move_here
  if (here == record.home()) {
    here->signal_here(record);
  } else {
    signal_from_outside(record);
  }
}

// ---- taking ------------------------------------------------------------------------------------

/// (guard, own thread) The token of `record` was taken: it is to run here (true), or the signal is
/// kept, or dropped.
inline bool Worker::claim_home(Record& record) noexcept {
  // acquire: pairs with the release that published `waiting`.
  const Status status = record.status.load(std::memory_order_acquire);
  if (status == Status::waiting || status == Status::fresh) [[likely]] {
    record.status.store(Status::home, std::memory_order_relaxed);  // nobody else changes it now
    return true;
  }
  // Runs, or is free. (If it comes to wait just now, it has a ready bit again.)
  set_ready(record);
  return false;
}

/// (guard, own thread) As claim_home, of a token that was taken newest first. A task that went on
/// so often enough comes after all that can run now, so that the older get their turns, too: false.
inline bool Worker::claim_newest(Record& record) noexcept {
  // acquire: pairs with the release that published `waiting`, after which whoever ran it, here or
  // on another worker, leaves `turns` to the guard's holder.
  if (record.status.load(std::memory_order_acquire) == Status::waiting &&
      ++record.turns > kTurnsOfNewest) [[unlikely]] {
    record.turns = 0;
    make_later(record);
    return false;
  }
  return claim_home(record);
}

/// (guard) The next one round about: each gets its turn.
inline int Worker::next_round(const ReadyBits& bits) noexcept {
  uint32_t& cursor = &bits == &later_ ? later_cursor_ : cursor_;
  int index = bits.next_from(cursor);
  if (index == ReadyBits::kNone) index = bits.next_from(0);
  cursor = static_cast<uint32_t>(index) + 1;  // kNone: 0
  return index;
}

/// (guard, own thread) The next of this worker's tasks, or of those it stole: claimed; or nullptr.
inline Record* Worker::next_inside() noexcept {
  if (newest_first_ && ++turns_ % kTurnsPerRound != 0) [[likely]] {
    if (Record* newest = newest_.load(std::memory_order_relaxed); newest != nullptr) {
      newest_.store(nullptr, std::memory_order_relaxed);
      if (claim_newest(*newest)) [[likely]]
        return newest;
    }
    ReadyBits* from = &ready_;
    int index = ready_.highest();
    if (index == ReadyBits::kNone && (turns_ % kTurnsPerLook != 0 || signals_.looks_empty())) {
      if (Record* yielded = yielded_.load(std::memory_order_relaxed); yielded != nullptr) {
        yielded_.store(nullptr, std::memory_order_relaxed);
        if (claim_home(*yielded)) [[likely]]
          return yielded;
      }
      from = &later_;
      index = later_.empty() ? ReadyBits::kNone : next_round(later_);
    }
    if (index != ReadyBits::kNone) {
      from->clear(static_cast<uint32_t>(index));
      Record& record = *records_[static_cast<std::size_t>(index)];
      if (from == &ready_ ? claim_newest(record) : claim_home(record)) [[likely]]
        return &record;
    }
  }
  return next_slowly();
}

inline Record* Worker::next() noexcept {
  const Inside inside(*this);
  return next_inside();
}

}  // namespace weft::task::detail
