// Deadlines of waiting tasks: a tree of those who wait, by time, under a short lock.
#pragma once

#include <atomic>
#include <boost/intrusive/set.hpp>
#include <cstdint>
#include <mutex>

#include "weft/base/locks.hpp"
#include "weft/base/parker.hpp"

namespace weft::task {

/// Purpose: unparks who waits until a time. Who may call: any thread or task. Progress: a short
/// lock, no memory. An entry lives from `add` until it is due or `remove`d.
class Timers {
 public:
  static constexpr uint64_t kNever = ~uint64_t{0};
  struct Entry : boost::intrusive::set_base_hook<> {
    Entry(uint64_t when_ns, base::Parker& whom) noexcept : deadline_ns(when_ns), parker(whom) {}
    friend bool operator<(const Entry& a, const Entry& b) noexcept {
      return a.deadline_ns < b.deadline_ns;
    }
    const uint64_t deadline_ns;
    base::Parker& parker;
  };

  /// True: it is now the earliest.
  bool add(Entry& entry) noexcept {
    const std::lock_guard hold(lock_);
    entries_.insert(entry);
    publish();
    return &*entries_.begin() == &entry;
  }
  /// After this it is neither among those who wait nor about to be unparked. False: it was due.
  bool remove(Entry& entry) noexcept {
    const std::lock_guard hold(lock_);
    if (!entry.is_linked()) return false;
    entries_.erase(entries_.iterator_to(entry));
    publish();
    return true;
  }
  /// Unparks all that are due; how many.
  uint32_t expire(uint64_t now_ns) noexcept {
    uint32_t due = 0;
    const std::lock_guard hold(lock_);
    while (!entries_.empty() && entries_.begin()->deadline_ns <= now_ns) {
      // Under the lock, so that the entry's owner, who removes it, outlives this.
      base::Parker& parker = entries_.begin()->parker;
      entries_.erase(entries_.begin());
      parker.unpark();
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
  void publish() noexcept {
    earliest_.store(entries_.empty() ? kNever : entries_.begin()->deadline_ns,
                    std::memory_order_relaxed);
  }

  base::SpinLock lock_;
  boost::intrusive::multiset<Entry> entries_;
  std::atomic<uint64_t> earliest_{kNever};
};

}  // namespace weft::task
