// Queues in which messages were left for threads that sleep (docs/design/turns.md).
//
// Purpose: where a process has one core, whoever took a message from an endpoint's queue and found
// more is about to come back for them, as a rule; to wake another thread for them only has it stand
// in line for the core. So the wake is left to the watch (turns.hpp): the queue is listed here, and
// the watch wakes somebody only for messages that lay there from one look to the next.
//
// Who may call: any thread. Progress: a short lock, and the wakes of `wake` and `look` after it.
//
// Invariant: messages lie in a queue and threads sleep for them => one of them has a permit, or is
// awake in its wait; or somebody who is awake in `Endpoint::dequeue_until` is about to look whether
// there are any; or the queue is listed, and the watch looks at it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "weft/base/cache_line.hpp"
#include "weft/base/locks.hpp"

namespace weft::comm {

struct QueueEntry;
template <class T>
class BoundedQueue;
class WaitSet;

class LeftQueues {
 public:
  /// One endpoint's. Owner: the endpoint, which takes it out (`forget`) before it ends.
  class Entry {
   public:
    using Queue = BoundedQueue<QueueEntry>;
    /// `queue` may be filled in later.
    Entry(const std::unique_ptr<Queue>& queue, WaitSet& waiters) noexcept
        : queue_(queue), waiters_(waiters) {}

   private:
    friend class LeftQueues;
    [[nodiscard]] bool has_left() const noexcept;

    const std::unique_ptr<Queue>& queue_;
    WaitSet& waiters_;
    std::atomic<bool> listed_{false};  ///< under the lock; a hint without it
    // Under the lock.
    Entry* next_ = nullptr;
    uint64_t end_ = 0;    ///< of what lay there at the last look
    uint32_t wakes_ = 0;  ///< for the next look that finds some of that
  };

  /// The calling thread saw messages in it and threads that sleep, after a light fence, and wakes
  /// none. True: it is listed only now, so the watch is to be told.
  bool leave(Entry& entry) noexcept;
  [[nodiscard]] bool empty() const noexcept {
    return first_.load(std::memory_order_relaxed) == nullptr;  // a hint
  }
  /// The caller will not take any soon: wakes a thread for each queue.
  void wake() noexcept;
  /// The watch's: wakes threads for what lay there at the last look, twice as many each time.
  /// False: none is listed any more.
  bool look() noexcept;
  void forget(Entry& entry) noexcept;

 private:
  void unlink(Entry& entry) noexcept;

  base::SpinLock lock_;
  std::atomic<Entry*> first_{nullptr};  ///< under the lock
};

}  // namespace weft::comm
