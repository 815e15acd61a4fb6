// A barrier for tasks and threads: all wait for the last, again and again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "weft/base/error.hpp"
#include "weft/task/waiter.hpp"

namespace weft::task {

namespace detail {

/// A Barrier without its completion.
///
/// Layout: two words. `arrivals_` holds how many are missing and a stack of those who wait since
/// they arrived; `phase_` the number of the phase, and a stack of those who arrived first and came
/// to wait later.
/// Invariants
///  1. Each arrival changes `arrivals_` once, but the last, which finds that it is the last and
///  need
///     not: nobody else may arrive before the phase is over.
///  2. Who links itself in `arrivals_` is one of those who are missing, so the phase cannot end
///     between its look at the stack and its link.
///  3. The exchange of `phase_` is the last access to the object by the last to arrive; those who
///     wait are granted after it.
class BarrierWords {
 public:
  static constexpr uint64_t kMost = WaiterWord::kNumbers - 1;
  explicit BarrierWords(uint64_t expected) noexcept
      : arrivals_(WaiterWord::make(nullptr, expected)), expected_(expected) {}
  BarrierWords(const BarrierWords&) = delete;
  BarrierWords& operator=(const BarrierWords&) = delete;

  /// `n` arrive. True: they are the last, and the caller is to `open` it.
  bool arrive(uint64_t n, Waiter* waits) noexcept {
    // acquire: pairs with the release of all who arrived before, for the last one.
    uint64_t word = arrivals_.load(std::memory_order_acquire);
    for (;;) {
      const uint64_t missing = WaiterWord::number(word);
      WEFT_CHECK(n - 1 < missing, "no more arrive at a barrier than it expects, and at least one");
      if (missing == n) return true;
      Waiter* top = WaiterWord::top(word);
      if (waits != nullptr) {
        waits->next = top;
        top = waits;
      }
      // release: what came before, to the last one; it is one chain of exchanges.
      if (arrivals_.compare_exchange_weak(word, WaiterWord::make(top, missing - n),
                                          std::memory_order_release, std::memory_order_acquire)) {
        return false;
      }
    }
  }
  /// For later phases; before one's own arrival, which publishes it.
  void drop() noexcept { expected_.fetch_sub(1, std::memory_order_relaxed); }
  /// Ends the phase.
  void open() noexcept {
    // relaxed: until the exchange below nobody else comes here.
    Waiter* const all = WaiterWord::top(arrivals_.load(std::memory_order_relaxed));
    arrivals_.store(WaiterWord::make(nullptr, expected_.load(std::memory_order_relaxed)),
                    std::memory_order_relaxed);
    const uint64_t next = WaiterWord::number(phase_.load(std::memory_order_relaxed)) + 1;
    // acq_rel: release the phase and what all wrote, to wait; acquire who waits.
    const uint64_t word =
        phase_.exchange(WaiterWord::make(nullptr, next), std::memory_order_acq_rel);
    grant_all(all, Grant::given);
    grant_all(WaiterWord::top(word), Grant::given);
  }
  /// For who has not arrived yet, or has not yet told anybody. relaxed: it cannot change.
  [[nodiscard]] uint64_t phase() const noexcept {
    return WaiterWord::number(phase_.load(std::memory_order_relaxed));
  }
  void wait(uint64_t phase) noexcept {
    uint64_t word = phase_.load(std::memory_order_acquire);  // pairs with open's release
    if (WaiterWord::number(word) != phase) return;
    Waiter self;
    do {
      self.next = WaiterWord::top(word);
      // release: pairs with open's acquire; acquire: as above.
    } while (!phase_.compare_exchange_weak(word, WaiterWord::make(&self, phase),
                                           std::memory_order_release, std::memory_order_acquire) &&
             WaiterWord::number(word) == phase);
    if (WaiterWord::number(word) == phase) self.wait();
  }

 private:
  std::atomic<uint64_t> arrivals_;
  std::atomic<uint64_t> phase_{0};
  std::atomic<uint64_t> expected_;
};

struct NoCompletion {
  void operator()() const noexcept {}
};

}  // namespace detail

/// Phases: each is over when all who are expected have arrived. The names of std::barrier.
///
/// Owner and lifetime: may be destroyed by whoever knows that its last phase is over (a wait
/// returned), even while the last arrival of it has not returned yet.
/// Who may call: any task or thread, mixed. One context may arrive for several.
/// Progress: an arrival is one atomic operation; the last one, which runs the completion (it may
/// suspend) and wakes all in one go, does one for the phase. Waiting suspends a task, or its
/// thread.
template <class Completion = detail::NoCompletion>
class Barrier {
  static_assert(std::is_nothrow_invocable_v<Completion&>, "the completion must not throw");

 public:
  /// Which phase an arrival belongs to.
  class [[nodiscard]] ArrivalToken {
   public:
    ArrivalToken(ArrivalToken&&) noexcept = default;
    ArrivalToken& operator=(ArrivalToken&&) noexcept = default;

   private:
    friend Barrier;
    explicit ArrivalToken(uint64_t phase) noexcept : phase_(phase) {}
    uint64_t phase_;
  };

  static constexpr std::ptrdiff_t max() noexcept {
    return static_cast<std::ptrdiff_t>(detail::BarrierWords::kMost);
  }
  /// 0 ≤ expected ≤ max().
  explicit Barrier(std::ptrdiff_t expected, Completion completion = Completion())
      : words_(static_cast<uint64_t>(expected)), completion_(std::move(completion)) {
    WEFT_CHECK(expected >= 0 && expected <= max(), "a barrier expects from 0 to max()");
  }

  /// 0 < n ≤ what is missing of this phase.
  ArrivalToken arrive(std::ptrdiff_t n = 1) {
    ArrivalToken token(words_.phase());
    if (words_.arrive(static_cast<uint64_t>(n), nullptr)) end_phase();
    return token;
  }
  /// For the phase that is under way or the one before.
  void wait(ArrivalToken&& token) const noexcept { words_.wait(token.phase_); }
  void arrive_and_wait() {
    detail::Waiter self;
    if (words_.arrive(1, &self)) {
      end_phase();
    } else {
      self.wait();
    }
  }
  /// Arrives, and is expected no more.
  void arrive_and_drop() {
    words_.drop();
    if (words_.arrive(1, nullptr)) end_phase();
  }

 private:
  void end_phase() noexcept {
    completion_();
    words_.open();
  }

  mutable detail::BarrierWords words_;
  [[no_unique_address]] Completion completion_;
};

}  // namespace weft::task
