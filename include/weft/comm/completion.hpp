// How an operation's end is told: queue, synchronizer, counter, flag or handler.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "weft/base/cache_line.hpp"
#include "weft/base/error.hpp"
#include "weft/base/idle_work.hpp"
#include "weft/base/parker.hpp"
#include "weft/base/sync_counter.hpp"
#include "weft/base/types.hpp"

namespace weft {

/// What happened. Plain data.
struct Event {
  Rank peer{};                ///< the other side
  Tag tag{};                  ///< of the message or signal
  Errc error = Errc::ok;      ///< anything else: the operation failed; `data` holds nothing new
  std::byte* data = nullptr;  ///< where the bytes are: the posted buffer or the allocated one
  std::size_t bytes = 0;      ///< how many came (for `truncated`: how many the message had)
  void* context = nullptr;    ///< the caller's, given when it posted
};

/// Copies an event field by field. On the message path events are read right after they were
/// written; a copy in wider pieces than the writes would wait for the store buffer.
inline void assign(Event& to, const Event& from) noexcept {
  to.peer.value = from.peer.value;
  to.tag.value = from.tag.value;
  to.error = from.error;
  to.data = from.data;
  to.bytes = from.bytes;
  to.context = from.context;
}

/// The end of an operation. Called once per operation, from whichever thread progresses.
///
/// Implementations here are thread-safe for any number of completers. They must outlive the
/// operations that were posted with them.
class Completion {
 public:
  /// Tells; false: no room now, the caller keeps the event and tells again later.
  [[nodiscard]] virtual bool try_complete(const Event& event) noexcept = 0;

  /// True for those that count successes, keep at most the last one's event, and always have room:
  /// progress tells the successes of one poll together.
  [[nodiscard]] bool counts() const noexcept { return counts_; }
  /// `n` successes, the last of them with event `last`. Called only where `counts()`.
  virtual void complete_many(const Event& last, uint32_t n) noexcept {
    while (n-- > 0) (void)try_complete(last);
  }

  /// Somebody blocks until it is told, whatever else happens. For reports.
  [[nodiscard]] virtual bool is_awaited() const noexcept { return false; }

 protected:
  explicit Completion(bool counts = false) noexcept : counts_(counts) {}
  ~Completion() = default;

 private:
  const bool counts_;
};

/// Completed events in a bounded queue, first in, first out per completer. Any number of threads
/// may pop. When full, the ends of operations posted here, and signals of puts that were under way
/// already, wait at the device and lose nothing. Later signals wait in their senders' lanes, and
/// hold up whatever these send after them over the device (Endpoint, *What has no room*).
class CompletionQueue final : public Completion {
 public:
  /// Room for `capacity` events, rounded up to a power of two.
  explicit CompletionQueue(std::size_t capacity = 4096);
  ~CompletionQueue();
  [[nodiscard]] bool try_complete(const Event& event) noexcept override;
  /// Takes the next event; false if there is none. Does not progress and never blocks; what waits
  /// for one is Runtime::pop_wait, pop_until.
  [[nodiscard]] bool pop(Event& event) noexcept;

 private:
  struct Ring;
  std::unique_ptr<Ring> ring_;
};

/// Counts n completions down and wakes who waits for the last (Runtime::wait, wait_any; 000 §2.2).
/// Reusable through `reset` once ready. The first error is kept. May end as soon as it is ready:
/// the last completer touches it no more.
class Synchronizer final : public Completion {
 public:
  explicit Synchronizer(uint32_t expected = 1) noexcept : Completion(true), left_(expected) {}
  [[nodiscard]] bool try_complete(const Event& event) noexcept override;
  void complete_many(const Event& last, uint32_t n) noexcept override;
  /// Counts `n` operations that were answered `done` and will not complete: at most as many as are
  /// still expected.
  void arrive(uint32_t n = 1) noexcept;
  /// True once all have completed; what they wrote is visible. Does not progress.
  [[nodiscard]] bool ready() const noexcept { return left_.ready(); }
  /// The first failure, or else the last completion's event. Valid when ready.
  [[nodiscard]] const Event& event() const noexcept { return event_; }
  /// Starts over for `expected` completions (0: ready at once). Only while ready or unused.
  void reset(uint32_t expected) noexcept;

  /// For waiting: names who is to be unparked by the last completion; false: it is ready. One
  /// waiter at a time. `withdraw_waiter` takes the name back. `alone`: nothing else, and no time,
  /// ends the wait.
  bool set_waiter(base::Parker& parker, bool alone = false) noexcept {
    alone_.store(alone, std::memory_order_relaxed);  // for reports
    return left_.set_waiter(parker);
  }
  void withdraw_waiter() noexcept { left_.withdraw_waiter(); }
  [[nodiscard]] bool is_awaited() const noexcept override {
    return left_.has_waiter() && alone_.load(std::memory_order_relaxed);
  }

 private:
  base::SyncCounter left_;
  std::atomic<bool> failed_{false};
  std::atomic<bool> alone_{false};
  Event event_{};
};

/// A synchronizer as what anybody can wait for who knows base::Awaited: a coroutine
/// (`co_await WhenComplete(arrived)`), or a task that waits for several things (`task::select` with
/// `task::on_ready`). Nobody progresses in such a wait: it is for Progress::workers and
/// Progress::server, where others do.
///
/// Owner and lifetime: beside the synchronizer, for one wait after another. Who may call: the one
/// who waits.
class WhenComplete final : public base::Awaited {
 public:
  explicit WhenComplete(Synchronizer& awaited) noexcept : awaited_(awaited) {}
  bool ready() noexcept override { return awaited_.ready(); }
  /// Once the parker is known this may be gone: nothing of it is touched after that.
  bool enroll(base::Parker& parker) noexcept override { return awaited_.set_waiter(parker); }
  void withdraw() noexcept override { awaited_.withdraw_waiter(); }

 private:
  Synchronizer& awaited_;
};

/// Counts completions up; reads are free. Errors are counted apart.
class Counter final : public Completion {
 public:
  Counter() noexcept : Completion(true) {}
  [[nodiscard]] bool try_complete(const Event& event) noexcept override;
  void complete_many(const Event& last, uint32_t n) noexcept override;
  /// Completions so far, errors included; what they wrote is visible.
  [[nodiscard]] uint64_t value() const noexcept { return value_.load(std::memory_order_acquire); }
  [[nodiscard]] uint64_t errors() const noexcept { return errors_.load(std::memory_order_acquire); }

 private:
  alignas(base::kCacheLine) std::atomic<uint64_t> value_{0};
  std::atomic<uint64_t> errors_{0};
};

/// One operation's end as one boolean (000 §3.3): read it, no call needed.
class Flag final : public Completion {
 public:
  [[nodiscard]] bool try_complete(const Event& event) noexcept override;
  [[nodiscard]] bool is_set() const noexcept { return set_.load(std::memory_order_acquire); }
  /// Valid once set.
  [[nodiscard]] const Event& event() const noexcept { return event_; }
  void clear() noexcept { set_.store(false, std::memory_order_relaxed); }

 private:
  std::atomic<bool> set_{false};
  Event event_{};
};

/// Runs a function in the progressing thread, under its device's lock. It may post; it must not
/// block, wait or throw.
class HandlerCompletion final : public Completion {
 public:
  using Function = void (*)(void* argument, const Event& event);
  HandlerCompletion(Function function, void* argument) noexcept
      : function_(function), argument_(argument) {}
  [[nodiscard]] bool try_complete(const Event& event) noexcept override;

 private:
  Function function_;
  void* argument_;
};

}  // namespace weft
