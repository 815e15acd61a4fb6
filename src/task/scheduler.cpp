// A scheduler's start, its end, and what it tells of itself.
#include "weft/task/scheduler.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "task/scheduler_impl.hpp"
#include "task/worker.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/config.hpp"
#include "weft/base/idle_work.hpp"
#include "weft/base/log.hpp"
#include "weft/base/topology.hpp"
#include "weft/task/config.hpp"
#include "weft/task/introspect.hpp"

namespace weft::task {

using detail::Worker;

namespace {

constexpr int kMostWorkers = 1024;

Options complete(Options options) {
  register_task_config();
  if (options.workers == 0) options.workers = static_cast<int>(base::config_int("task.workers"));
  if (options.workers == 0) {
    options.workers = static_cast<int>(base::Topology::machine().cores().size());
  }
  if (options.workers < 1 || options.workers > kMostWorkers) {
    throw Error(Errc::bad_argument, fmt::format("a scheduler of {} workers: 1 to {} can be",
                                                options.workers, kMostWorkers));
  }
  if (options.stack_bytes == 0) {
    options.stack_bytes = static_cast<std::size_t>(base::config_int("task.stack_bytes"));
  }
  if (StackPool::class_of(options.stack_bytes) > StackPool::kLargest) {
    throw Error(Errc::bad_argument,
                fmt::format("stacks of {} bytes are too large", options.stack_bytes));
  }
  options.bind = options.bind && base::config_bool("task.bind");
  return options;
}

void start_in_loop(Stack& stack) { prepare(stack, Worker::loop); }

/// As the configuration says.
void dump_on_asked_signal() {
  constexpr std::pair<std::string_view, int> kSignals[] = {
      {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"QUIT", SIGQUIT}};
  const std::string wanted = base::config_text("task.dump_signal");
  for (const auto& [name, number] : kSignals) {
    if (wanted == name) dump_on_signal(number);
  }
}

}  // namespace

uint32_t Scheduler::Impl::prepare_for_forks() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    const auto before = [] {
      hold_live();
      Crew::hold_all();
    };
    const auto in_parent = [] {
      Crew::let_all_go(false);
      let_live_go();
    };
    const auto in_child = [] {
      Crew::let_all_go(true);
      let_live_go();
    };
    ::pthread_atfork(before, in_parent, in_child);
  });
  return base::count_forks();
}

Scheduler::Impl::Impl(const Options& given)
    : options(complete(given)),
      stacks(configured_guard(), static_cast<uint32_t>(base::config_int("task.mprotect_guards")),
             start_in_loop),
      started(options.workers),
      taken{Crew::take(static_cast<std::size_t>(options.workers), options.two_levels)},
      workers(crew.workers) {
  stack_class = StackPool::class_of(options.stack_bytes);
  if (options.bind && crew.workers.size() <= base::Topology::machine().cores().size()) {
    cores = base::CoreClaim(crew.workers.size());
  }
  room_to_run_in_place = (std::size_t{1} << stack_class) / 2;
  look_ticks = base::to_ticks(2000);
  turn_ticks = base::to_ticks(1'000'000);
  answer_ticks = base::to_ticks(10'000);
  pause_ticks = base::to_ticks(250'000);
  spin_ticks = base::to_ticks(static_cast<double>(base::config_int("task.spin")));
  detail::install_parker_provider();
  base::set_idlers_call(Crew::offer_all);
  static std::atomic<uint32_t> asked_in{0};  // once in a process
  if (asked_in.load(std::memory_order_relaxed) != forks + 1) {
    dump_on_asked_signal();
    asked_in.store(forks + 1, std::memory_order_relaxed);
  }
  for (auto& worker : workers) worker->enter(*this);
  const char* missing = nullptr;
  try {
    enlisted = std::make_unique<Enlisted>(*this);
    const auto quiet_ns = static_cast<uint64_t>(base::config_int("task.report_quiet"));
    if (quiet_ns != 0) watch = std::make_unique<QuietWatch>(*this, quiet_ns);
    for (auto& worker : workers) worker->start();
  } catch (const std::exception&) {
    missing = "threads";
    // Those that started wait for the rest.
    const auto rest =
        std::ranges::count_if(workers, [](const auto& each) { return !each->has_started(); });
    started.count_down(rest);
  }
  started.wait();
  // relaxed: ordered by the latch.
  if (out_of_stacks.load(std::memory_order_relaxed)) missing = "stacks";
  if (missing != nullptr) {
    watch.reset();
    end_workers();
    throw Error(Errc::no_memory, fmt::format("a scheduler of {} workers: no memory for their {}",
                                             options.workers, missing));
  }
}

void Scheduler::Impl::tell_out_of_stacks() noexcept {
  if (told_out_of_stacks.exchange(true, std::memory_order_relaxed)) return;
  try {
    base::log(
        base::LogLevel::warn,
        "task: there is no memory for another stack (ulimit -v, or the number of maps?): tasks "
        "that were spawned wait until others end");
  } catch (const std::bad_alloc&) {  // nor for telling
  }
}

void Scheduler::Impl::end_workers() noexcept {
  stopping.store(true, std::memory_order_release);  // pairs with search's acquire
  for (auto& worker : workers) {
    if (worker->has_started()) worker->wake();
  }
  for (auto& worker : workers) worker->join_thread();
  blocking.stop();  // after the threads that started helpers; a last wake-up finds the workers
  enlisted.reset();
  taken.all_ended = live() == 0;
  if (taken.all_ended) return;
  for (auto& worker : workers) worker->abandon_all();
  stacks.keep();
}

Scheduler::Impl::~Impl() {
  const auto patience = static_cast<uint64_t>(base::config_int("task.patience"));
  uint64_t quiet_since = 0;
  uint64_t active = 0;
  for (auto pause = std::chrono::microseconds(20); live() != 0;) {
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(2000));
    const uint64_t now = base::now_ns();
    // Between two looks somebody may have been awake.
    const uint64_t before = std::exchange(active, activity());
    if (!is_quiet() || active != before) {
      quiet_since = 0;
    } else if (quiet_since == 0) {
      quiet_since = now;
    } else if (now - quiet_since > patience) {
      base::log(base::LogLevel::warn,
                fmt::format("the scheduler ends, but tasks wait for what nobody does: {}", dump()));
      break;
    }
  }
  watch.reset();
  end_workers();
}

Worker& Scheduler::Impl::worker_for_outsider() noexcept {
  const uint32_t turn = outsider_turn.fetch_add(1, std::memory_order_relaxed);  // any will do
  return *workers[turn % workers.size()];
}

bool Scheduler::Impl::is_quiet() noexcept {
  // First: once it is not used, its wake-ups are seen below.
  if (blocking.is_used() || timers.earliest() != Timers::kNever) return false;
  for (auto& worker : workers) {
    if (worker->mode() != detail::Mode::asleep || worker->looks_ready()) return false;
  }
  return true;
}

uint64_t Scheduler::Impl::live() const noexcept {
  Stats stats;
  // Ends first: a task that ends between the two counts is counted as live, not as minus one.
  for (const auto& worker : workers) worker->add_to(stats);
  Stats later;
  for (const auto& worker : workers) worker->add_to(later);
  return later.spawned + outside_spawned.load(std::memory_order_relaxed) - stats.ended;
}

uint64_t Scheduler::Impl::activity() const noexcept {
  Stats stats;
  for (const auto& worker : workers) worker->add_to(stats);
  return stats.spawned + outside_spawned.load(std::memory_order_relaxed) + stats.ended +
         stats.steals + stats.sleeps;
}

Scheduler::Scheduler(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
Scheduler::~Scheduler() {
  if (impl_->is_of_this_process()) return;
  // A child process has none of the workers: nothing can be awaited or ended, so it stays.
  [[maybe_unused]] static Impl* volatile kept = nullptr;  // for who looks for leaks
  kept = impl_.release();
}
int Scheduler::workers() const noexcept { return static_cast<int>(impl_->workers.size()); }

Stats Scheduler::stats() const noexcept {
  Stats stats;
  for (const auto& worker : impl_->workers) worker->add_to(stats);
  stats.spawned += impl_->outside_spawned.load(std::memory_order_relaxed);
  stats.stacks = impl_->stacks.made();
  return stats;
}

}  // namespace weft::task
