// What the workers of one scheduler share.
#pragma once

#include <atomic>
#include <cstdint>
#include <latch>
#include <memory>
#include <vector>

#include "task/stack.hpp"
#include "task/timers.hpp"
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

  /// Somebody made work that its home may not come to soon: wakes a sleeping worker, unless one is
  /// just coming.
  void offer() noexcept {
    // relaxed: ordered by the caller's fence; invariant 6.
    if (sleepers.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake_one();
  }
  void wake_one() noexcept;
  detail::Worker& worker_for_outsider() noexcept;
  /// Nothing can run and nothing will by itself.
  [[nodiscard]] bool is_quiet() noexcept;
  [[nodiscard]] uint64_t live() const noexcept;
  std::string dump();

  Options options;
  uint32_t stack_class = 0;              ///< of a task that does not say
  std::size_t room_to_run_in_place = 0;  ///< bytes of stack that a child run in place must find
  uint64_t look_ticks = 0;               ///< how long a waiting task looks before it is suspended
  uint64_t worth_ticks = 0;  ///< less work than this was not worth a theft
  uint64_t pause_ticks = 0;  ///< the longest pause between thefts that were not
  uint64_t spin_ticks = 0;               ///< how long an idle worker looks before it sleeps
  StackPool stacks;
  Timers timers;
  std::atomic<uint32_t> sleepers{0};
  std::atomic<bool> waking{false};   ///< somebody was woken and has not looked yet
  std::atomic<bool> watched{false};  ///< a sleeper looks after busy workers now and then
  std::atomic<bool> stopping{false};
  std::atomic<bool> out_of_stacks{false};
  std::atomic<uint32_t> outsider_turn{0};
  std::atomic<uint64_t> outside_spawned{0};
  std::latch started{0};
  std::vector<std::unique_ptr<detail::Worker>> workers;
};

}  // namespace weft::task
