// A worker's tasks: records, ready bits, signals, claims. The loop stands in worker_loop.cpp.
#include "task/worker.hpp"

#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "task/crew.hpp"
#include "task/scheduler_impl.hpp"
#include "task/worker_hot.hpp"

namespace weft::task::detail {

Worker::Worker(Crew& crew, int number, bool two_levels)
    : crew_(crew), number_(number), first_index_(two_levels ? kChunk : 0) {
  random_ = 0x9e3779b97f4a7c15ULL * (static_cast<uint64_t>(number) + 1);
  if (two_levels) make_records();  // stay unused
}

/// Before its thread starts.
void Worker::enter(Scheduler::Impl& scheduler) noexcept {
  scheduler_ = &scheduler;
  newest_first_ = scheduler.options.order == Order::depth_first;
  turns_ = cursor_ = refused_at_ = 0;
  handed_ = nullptr;
  running_ = nullptr;
  visited_at_ = next_visit_ = pause_ = visit_ticks_ = 0;
  asker_.store(nullptr, std::memory_order_relaxed);
  // Theirs were unmapped with the last scheduler's.
  spares_ = nullptr;
  spare_count_ = 0;
  for (auto* counter : {&spawned_, &ended_, &steals_, &stolen_, &moved_, &sleeps_}) {
    counter->store(0, std::memory_order_relaxed);
  }
  sort_free_records();
  // relaxed: nobody else knows of it; the thread's start passes it on.
  mode_.store(Mode::busy, std::memory_order_relaxed);
}

/// After all threads of the scheduler have ended, though some tasks have not: they never run again.
/// Who joins one gets an error.
void Worker::abandon_all() noexcept {
  guard_.enter();
  for (std::size_t i = 0; i < records_.size(); ++i) {
    Record& record = *records_[i];
    const Status status = record.status.load(std::memory_order_acquire);
    if (status == Status::free || record.has_ended()) continue;
    record.status.store(Status::home, std::memory_order_relaxed);  // no token runs it any more
    abandon_task(record);
  }
  loot_count_.store(0, std::memory_order_relaxed);
  guard_.leave();
}

Worker::~Worker() = default;

// ---- records -----------------------------------------------------------------------------------

/// The lowest first, as if they were new: the order in which tasks run depends on it. As then, the
/// first chunk is for who spawns from elsewhere. Some may be missing, with a handle that has
/// outlived its scheduler. Very many are left in disorder.
void Worker::sort_free_records() noexcept try {
  constexpr std::size_t kMost = 64 * kChunk;
  if (records_.size() > kMost) return;
  std::vector<bool> is_free(records_.size());
  // acquire: as take_record.
  for (Record* list : {std::exchange(free_, nullptr), std::exchange(outside_free_, nullptr),
                       returned_.exchange(nullptr, std::memory_order_acquire)}) {
    for (; list != nullptr; list = list->next) is_free[list->index()] = true;
  }
  for (std::size_t index = records_.size(); index-- != 0;) {
    if (!is_free[index]) continue;
    Record*& list = index < first_index_ + kChunk ? outside_free_ : free_;
    records_[index]->next = list;
    list = records_[index];
  }
} catch (const std::bad_alloc&) {
  // Any order will do.
}

Record* Worker::take_record_outside() noexcept {
  const std::lock_guard hold(outside_lock_);
  if (outside_free_ == nullptr) {
    outside_free_ = returned_.exchange(nullptr, std::memory_order_acquire);  // as take_record
    if (outside_free_ == nullptr) {
      guard_.enter();
      outside_free_ = make_records();
      guard_.leave();
    }
    if (outside_free_ == nullptr) return nullptr;
  }
  Record* record = outside_free_;
  outside_free_ = record->next;
  record->from_outside = true;
  return record;
}

void Worker::give_record_outside(Record& record) noexcept {
  record.next = returned_.load(std::memory_order_relaxed);
  // release: pairs with take_record; what its last user wrote is seen. Only ever taken as a whole,
  // so no ABA.
  while (!returned_.compare_exchange_weak(record.next, &record, std::memory_order_release,
                                          std::memory_order_relaxed)) {
  }
}

Record* Worker::more_records() noexcept {
  // acquire: pairs with give_record_outside's release.
  Record* records = returned_.exchange(nullptr, std::memory_order_acquire);
  if (records != nullptr) return records;
  const Inside inside(*this);
  return make_records();
}

/// (guard) Records for 512 more indices, linked, the lowest first; nullptr: no memory.
Record* Worker::make_records() noexcept {
  const std::size_t first = records_.size();
  Record* chunk = nullptr;
  try {
    signals_.grow(first + kChunk);
    ready_.grow(first + kChunk);
    later_.grow(first + kChunk);
    if (records_.capacity() < first + kChunk) records_.reserve(2 * first + kChunk);
    chunk = static_cast<Record*>(record_memory_.take(kChunk * sizeof(Record)));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  for (uint32_t i = 0; i < kChunk; ++i) {
    Record& record = *new (&chunk[i]) Record;
    record.place.store(Record::place_of(*this, static_cast<uint32_t>(first) + i),
                       std::memory_order_relaxed);  // nobody knows it yet
    record.next = i + 1 < kChunk ? &chunk[i + 1] : nullptr;
    records_.push_back(&record);
  }
  return chunk;
}

// ---- making tasks runnable ---------------------------------------------------------------------

/// (guard) A token for a task of this worker; true: it may run now. Own thread.
bool Worker::set_ready(Record& record) noexcept {
  for (;;) {
    // acquire: pairs with the release that published `waiting`; the context is saved.
    Status status = record.status.load(std::memory_order_acquire);
    switch (status) {
      case Status::fresh:
      case Status::waiting:
        ready_.set(record.index());
        return true;
      case Status::home:
        // Compare-and-swap: a parent may at this moment be following its child to another worker.
        // release: then it is on another worker that the signal is acquired.
        if (record.status.compare_exchange_weak(status, Status::home_signalled,
                                                std::memory_order_release,
                                                std::memory_order_relaxed)) {
          return false;
        }
        break;
      case Status::away:
        // release: pairs with the exchange that publishes `waiting`, or with consuming it.
        if (record.status.compare_exchange_weak(status, Status::away_signalled,
                                                std::memory_order_release,
                                                std::memory_order_relaxed)) {
          return false;
        }
        break;
      case Status::home_signalled:
      case Status::away_signalled:
        // Written even where one is kept already: it orders what came before this signal before the
        // wait that consumes the kept one. A mere look could come before the caller's stores.
        if (record.status.compare_exchange_weak(status, status, std::memory_order_release,
                                                std::memory_order_relaxed)) {
          return false;
        }
        break;
      case Status::free:
        return false;
    }
  }
}

void Worker::wake() noexcept {
  // Under the lock: the bell that it sleeps on may be taken away when it has left it.
  const std::lock_guard hold(sleeper_lock_);
  woken_ = true;
  sleeper_->unpark();
}

/// True: the one that was named so far was unparked.
bool Worker::set_sleeper(base::Parker& sleeper) noexcept {
  const std::lock_guard hold(sleeper_lock_);
  sleeper_ = &sleeper;
  return std::exchange(woken_, false);
}

// ---- taking ------------------------------------------------------------------------------------

/// The task of another worker, or the caller is none.
void Worker::signal_from_outside(Record& record) noexcept {
  // acquire: pairs with move_here's release. Right unless the task moves just now, which then keeps
  // a signal for it.
  const uint64_t place = record.place.load(std::memory_order_acquire);
  Worker& home = *Record::home_of(place);
  home.signals_.address(Record::index_of(place)).set();
  base::light_fence();  // between the bit and the look whether the home sleeps (invariant 6)
  switch (home.mode()) {
    case Mode::asleep:
      home.wake();
      break;
    case Mode::busy:
      home.crew_.offer();
      break;
    case Mode::searching:
      break;
  }
}

/// (guard) Moves what was signalled to the ready bits.
void Worker::drain_signals() noexcept {
  signals_.take([this](std::size_t word, uint64_t bits) { ready_.merge(word, bits); });
}

/// (guard, own thread) As next, where the newest ready task is not the answer.
Record* Worker::next_slowly() noexcept {
  spill();
  if (!newest_first_) ++turns_;
  for (bool first = true;; first = false) {
    ReadyBits* from = &ready_;
    bool newest = false;
    int index = ReadyBits::kNone;
    if (first && turns_ % kTurnsPerRound == 0) {
      // However busy: what was signalled, what yielded, and what is old get their turns, too.
      drain_signals();
      if (turns_ / kTurnsPerRound % 4 == 1) {
        if (Record* record = take_loot(); record != nullptr) return record;
      }
      if (!later_.empty() && (turns_ / kTurnsPerRound) % 2 == 0) from = &later_;
      index = next_round(*from);
    } else {
      newest = newest_first_;
      index = newest ? ready_.highest() : next_round(ready_);
    }
    if (index == ReadyBits::kNone) {
      // While tasks pass the worker round by yielding, signals are looked at every few turns.
      if ((later_.empty() || turns_ % kTurnsPerLook == 0 || !first) && !signals_.looks_empty()) {
        drain_signals();
        continue;
      }
      newest = false;
      from = &later_;
      index = next_round(later_);
      if (index == ReadyBits::kNone) {
        turns_ = 0;  // nobody waits for a turn
        return take_loot();
      }
    }
    from->clear(static_cast<uint32_t>(index));
    Record& record = *records_[static_cast<std::size_t>(index)];
    if (newest ? claim_newest(record) : claim_home(record)) return &record;
    // Behind all others, or a bit like them.
    spill();
  }
}

/// (guard, a thief) The same for a thief; false: it is not to be run. The token is gone unless the
/// task runs at home.
bool Worker::claim_away(uint32_t index, ReadyBits& from) noexcept {
  Record& record = *records_[index];  // which may say another index: it is just moving here
  const Status status = record.status.load(std::memory_order_acquire);  // as claim_home
  switch (status) {
    case Status::fresh:
    case Status::waiting:
      record.status.store(Status::away, std::memory_order_relaxed);  // nobody else changes it now
      from.clear(index);
      return true;
    case Status::home:
    case Status::home_signalled:
      return false;  // left for its own thread (invariant 3)
    case Status::away:
    case Status::away_signalled:
    case Status::free:
      from.clear(index);
      set_ready(record);
      return false;
  }
  return false;
}

void Worker::add_to(Stats& stats) const noexcept {
  // relaxed: statistics.
  stats.spawned += spawned_.load(std::memory_order_relaxed);
  stats.ended += ended_.load(std::memory_order_acquire);  // pairs with count_end
  stats.steals += steals_.load(std::memory_order_relaxed);
  stats.stolen += stolen_.load(std::memory_order_relaxed);
  stats.moved += moved_.load(std::memory_order_relaxed);
  stats.sleeps += sleeps_.load(std::memory_order_relaxed);
}

}  // namespace weft::task::detail
