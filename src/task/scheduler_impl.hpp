// What the workers of one scheduler share.
#pragma once

#include <atomic>
#include <cstdint>
#include <latch>
#include <memory>
#include <vector>

#include "base/forks.hpp"
#include "task/blocking_pool.hpp"
#include "task/crew.hpp"
#include "task/live.hpp"
#include "task/quiet_watch.hpp"
#include "task/stack.hpp"
#include "task/timers.hpp"
#include "weft/base/core_claim.hpp"
#include "weft/task/scheduler.hpp"

namespace weft::task {

namespace detail {
class Worker;
}

class Scheduler::Impl {
 public:
  explicit Impl(const Options& options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void offer() noexcept { crew.offer(); }
  detail::Worker& worker_for_outsider() noexcept;
  /// Nothing can run and nothing will by itself.
  [[nodiscard]] bool is_quiet() noexcept;
  [[nodiscard]] uint64_t live() const noexcept;
  /// Grows with whatever workers do between two sleeps; the same twice: they slept on.
  [[nodiscard]] uint64_t activity() const noexcept;
  std::string dump();
  /// Their threads have ended when this returns, and they are the next scheduler's.
  void end_workers() noexcept;

  /// False in a child by fork, which has none of the workers.
  [[nodiscard]] bool is_of_this_process() const noexcept { return forks == base::forks_so_far(); }
  /// Once in a process: a fork finds nobody in the room's locks. Forks so far.
  static uint32_t prepare_for_forks() noexcept;

  Options options;
  const uint32_t forks = prepare_for_forks();
  uint32_t stack_class = 0;              ///< of a task that does not say
  std::size_t room_to_run_in_place = 0;  ///< bytes of stack that a child run in place must find
  uint64_t look_ticks = 0;               ///< how long a waiting task looks before it is suspended
  uint64_t turn_ticks = 0;               ///< between turns that one leaves who joins in place
  uint64_t answer_ticks = 0;             ///< how long a thief waits for what it asks for
  uint64_t pause_ticks = 0;              ///< the longest pause between thefts that were not
  uint64_t spin_ticks = 0;               ///< how long an idle worker looks before it sleeps
  base::CoreClaim cores;                 ///< of the workers, if they are to be bound
  StackPool stacks;
  Timers timers;
  std::atomic<bool> watched{false};  ///< a sleeper looks after busy workers now and then
  std::atomic<bool> stopping{false};
  std::atomic<bool> out_of_stacks{false};
  std::atomic<bool> told_out_of_stacks{false};
  /// Once: a spawn has succeeded that now waits for a stack.
  void tell_out_of_stacks() noexcept;
  std::atomic<uint64_t> turns_left{0};  ///< by joins that still wait: see Worker::leaves_a_turn
  std::atomic<uint32_t> outsider_turn{0};
  std::atomic<uint64_t> outside_spawned{0};
  std::latch started{0};
  /// Given back at the end, also of a start that throws.
  struct TakenCrew {
    Crew& crew;
    bool all_ended = true;
    ~TakenCrew() { Crew::give_back(crew, all_ended); }
  } taken;
  Crew& crew = taken.crew;
  std::vector<std::unique_ptr<detail::Worker>>& workers;  ///< the crew's
  BlockingPool blocking;
  std::unique_ptr<Enlisted> enlisted;
  std::unique_ptr<QuietWatch> watch;  ///< nullptr: nobody asked for it
};

}  // namespace weft::task
