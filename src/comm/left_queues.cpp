// Queues in which messages were left: see left_queues.hpp.
#include "comm/left_queues.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>

#include "comm/bounded_queue.hpp"
#include "comm/endpoint_impl.hpp"
#include "comm/waiting.hpp"
#include "weft/base/asymmetric_fence.hpp"

namespace weft::comm {
namespace {

constexpr uint32_t kMostWakes = 16;  ///< for a queue at a look

/// Threads to be woken once the lock is open. There is no memory to be had for them.
class Sleepers {
 public:
  [[nodiscard]] bool full() const noexcept { return count_ == parkers_.size(); }
  /// Up to `n` of `waiters`.
  void take(WaitSet& waiters, uint32_t n) noexcept {
    for (; n > 0 && !full(); --n) {
      base::Parker* const parker = waiters.pop();
      if (parker == nullptr) return;
      parkers_[count_++] = parker;
    }
  }
  void wake() noexcept {
    std::for_each_n(parkers_.begin(), count_, [](base::Parker* each) { each->unpark(); });
  }

 private:
  std::array<base::Parker*, 64> parkers_{};
  std::size_t count_ = 0;
};

}  // namespace

bool LeftQueues::Entry::has_left() const noexcept {
  return !waiters_.empty() && queue_->size_hint() != 0;
}

bool LeftQueues::leave(Entry& entry) noexcept {
  // acquire: what was seen of messages and threads was seen before this look. Else relaxed: `look`
  // looks again before it takes one out.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (entry.listed_.load(std::memory_order_relaxed)) return false;
  const std::scoped_lock held(lock_);
  if (entry.listed_.load(std::memory_order_relaxed)) return false;
  entry.end_ = entry.queue_->taken();  // nothing that lies there now has lain there for a while
  entry.wakes_ = 1;
  entry.next_ = first_.load(std::memory_order_relaxed);
  first_.store(&entry, std::memory_order_relaxed);
  entry.listed_.store(true, std::memory_order_relaxed);
  return true;
}

void LeftQueues::wake() noexcept {
  Sleepers sleepers;
  {
    const std::scoped_lock held(lock_);
    for (Entry* each = first_.load(std::memory_order_relaxed); each != nullptr;
         each = each->next_) {
      if (each->has_left()) sleepers.take(each->waiters_, 1);
    }
  }
  sleepers.wake();
}

bool LeftQueues::look() noexcept {
  if (empty()) return false;
  Sleepers sleepers;
  {
    const std::scoped_lock held(lock_);
    Entry* next = nullptr;
    for (Entry* each = first_.load(std::memory_order_relaxed); each != nullptr; each = next) {
      next = each->next_;
      if (!each->has_left()) {
        // Who leaves some now, and sees the entry listed, looked before this fence, which then lets
        // us see what it saw; or else it sees that the entry is not. Under the lock, which who
        // comes now waits for, yielding: once for each time that a queue has run empty.
        each->listed_.store(false, std::memory_order_relaxed);
        base::heavy_fence();
        if (!each->has_left()) {
          unlink(*each);
          continue;
        }
        each->listed_.store(true, std::memory_order_relaxed);
      }
      const uint64_t taken = each->queue_->taken();
      if (taken < each->end_) {
        sleepers.take(each->waiters_, each->wakes_);
        each->wakes_ = std::min(2 * each->wakes_, kMostWakes);
      } else {
        each->wakes_ = 1;
      }
      each->end_ = taken + each->queue_->size_hint();
    }
  }
  sleepers.wake();
  return !empty();
}

void LeftQueues::forget(Entry& entry) noexcept {
  const std::scoped_lock held(lock_);
  if (entry.listed_.load(std::memory_order_relaxed)) unlink(entry);
}

void LeftQueues::unlink(Entry& entry) noexcept {
  Entry* const first = first_.load(std::memory_order_relaxed);
  if (first == &entry) {
    first_.store(entry.next_, std::memory_order_relaxed);
  } else {
    Entry* before = first;
    while (before->next_ != &entry) before = before->next_;
    before->next_ = entry.next_;
  }
  entry.next_ = nullptr;
  entry.listed_.store(false, std::memory_order_relaxed);
}

}  // namespace weft::comm
