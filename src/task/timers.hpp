// Deadlines of waiting tasks: a heap under a short lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "weft/base/locks.hpp"
#include "weft/base/parker.hpp"

namespace weft::task {

/// Purpose: unparks who waits until a time. Who may call: any thread or task. Progress: a short
/// lock; `add` may take memory. An entry lives from `add` until it is due or `remove`d.
class Timers {
 public:
  static constexpr uint64_t kNever = ~uint64_t{0};
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  struct Entry {
    uint64_t deadline_ns = 0;
    base::Parker* parker = nullptr;
    std::size_t at = kNowhere;  ///< in the heap
  };

  /// True: it is now the earliest. Throws std::bad_alloc.
  bool add(Entry& entry) {
    const std::lock_guard hold(lock_);
    heap_.push_back(&entry);
    entry.at = heap_.size() - 1;
    rise(entry.at);
    publish();
    return heap_.front() == &entry;
  }
  /// After this it is neither in the heap nor about to be unparked. False: it was due.
  bool remove(Entry& entry) noexcept {
    const std::lock_guard hold(lock_);
    if (entry.at == kNowhere) return false;
    take_out(entry.at);
    publish();
    return true;
  }
  /// Unparks all that are due; how many.
  uint32_t expire(uint64_t now_ns) noexcept {
    uint32_t due = 0;
    const std::lock_guard hold(lock_);
    while (!heap_.empty() && heap_.front()->deadline_ns <= now_ns) {
      Entry& entry = *heap_.front();
      take_out(0);
      // Under the lock, so that the entry's owner, who removes it, outlives this.
      entry.parker->unpark();
      ++due;
    }
    if (due != 0) publish();
    return due;
  }
  /// The earliest deadline, or kNever. A hint.
  [[nodiscard]] uint64_t earliest() const noexcept {
    return earliest_.load(std::memory_order_relaxed);
  }

 private:
  void place(std::size_t at, Entry* entry) noexcept {
    heap_[at] = entry;
    entry->at = at;
  }
  void rise(std::size_t at) noexcept {
    Entry* entry = heap_[at];
    while (at > 0 && heap_[(at - 1) / 2]->deadline_ns > entry->deadline_ns) {
      place(at, heap_[(at - 1) / 2]);
      at = (at - 1) / 2;
    }
    place(at, entry);
  }
  void sink(std::size_t at) noexcept {
    Entry* entry = heap_[at];
    for (std::size_t child = 2 * at + 1; child < heap_.size(); child = 2 * at + 1) {
      if (child + 1 < heap_.size() && heap_[child + 1]->deadline_ns < heap_[child]->deadline_ns) {
        ++child;
      }
      if (heap_[child]->deadline_ns >= entry->deadline_ns) break;
      place(at, heap_[child]);
      at = child;
    }
    place(at, entry);
  }
  void take_out(std::size_t at) noexcept {
    heap_[at]->at = kNowhere;
    Entry* last = heap_.back();
    heap_.pop_back();
    if (at == heap_.size()) return;
    place(at, last);
    rise(at);
    sink(last->at);
  }
  void publish() noexcept {
    earliest_.store(heap_.empty() ? kNever : heap_.front()->deadline_ns, std::memory_order_relaxed);
  }

  base::SpinLock lock_;
  std::vector<Entry*> heap_;
  std::atomic<uint64_t> earliest_{kNever};
};

}  // namespace weft::task
