// The workers of one scheduler, and how those who sleep are woken: kept when the scheduler ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "weft/task/scheduler.hpp"

namespace weft::task {

namespace detail {
class Worker;
}

/// Purpose: all that a signal touches. A signal may come late: who unparks a task may still be in
/// `unpark` when the task has run to its end and its scheduler is gone. So crews, with their
/// workers and records, are never unmapped, but given to the next scheduler of the same size.
/// Owner: a scheduler, or the depot. Who may call: `offer` any thread, at any time.
class Crew {
 public:
  /// One from the depot, or a new one. Throws std::bad_alloc.
  static Crew& take(std::size_t workers, bool two_levels);
  /// Its threads have ended. Where tasks are left in the middle it is kept, but not used again.
  static void give_back(Crew& crew, bool all_ended) noexcept;
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// `offer`, in every crew that there is.
  static void offer_all() noexcept;
  /// Around a fork: nobody has the depot's lock, in parent and child. The child's crews are those
  /// of the depot: the others' threads, and whatever locks they held, are its parent's.
  static void hold_all() noexcept;
  static void let_all_go(bool is_child) noexcept;

  /// Somebody made work that its home may not come to soon: wakes a sleeping worker, unless one is
  /// just coming.
  void offer() noexcept {
    // relaxed: ordered by the caller's fence; invariant 6 of docs/design/tasks.md.
    if (sleepers.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake_one();
  }

  std::atomic<uint32_t> sleepers{0};
  std::atomic<bool> waking{false};  ///< somebody was woken and has not looked yet
  std::vector<std::unique_ptr<detail::Worker>> workers;

 private:
  Crew(std::size_t workers, bool two_levels);
  void wake_one() noexcept;
  static constinit std::atomic<Crew*> all;  ///< ever made
  Crew* next_ = nullptr;  ///< of those; constant once it is among them, but for a fork
  const bool two_levels_;
};

}  // namespace weft::task
