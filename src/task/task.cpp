// The functions of task.hpp: what the caller is decides what they do.
#include "weft/task/task.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>

#include "base/what_of.hpp"
#include "task/scheduler_impl.hpp"
#include "task/worker_hot.hpp"
#include "weft/base/log.hpp"

namespace weft::task {

using detail::Record;
using detail::Worker;

// Functions that ask for the worker at their entry are not in line: a caller that they were put
// into may have moved meanwhile.

namespace detail {
namespace {

/// The calling task, or nullptr.
Record* running() noexcept {
  Worker* worker = Worker::current();
  return worker != nullptr ? worker->running() : nullptr;
}

const char* name_of(const Record& record) noexcept {
  const char* name = record.name.load(std::memory_order_relaxed);
  return name != nullptr ? name : "unnamed";
}

}  // namespace

// ---- spawn and join ----------------------------------------------------------------------------

[[gnu::noinline]] Record& begin_spawn(Scheduler* scheduler, const SpawnOptions* options) {
  Worker* const here = Worker::current_at_entry();
  if (scheduler == nullptr && here == nullptr) {
    throw Error(Errc::not_initialized, "spawn outside of a task: use Scheduler::spawn");
  }
  Scheduler::Impl& impl = scheduler != nullptr ? scheduler->impl() : here->scheduler();
  if (impl.out_of_stacks.load(std::memory_order_relaxed)) [[unlikely]] {  // a hint
    // Somebody found none since it was last looked: there may be one again.
    const uint32_t asked = options != nullptr && options->stack_bytes != 0
                               ? StackPool::class_of(options->stack_bytes)
                               : 0;
    Stack* const stack = impl.stacks.take(std::clamp(asked, impl.stack_class, StackPool::kLargest));
    if (stack == nullptr) throw Error(Errc::no_memory, "spawn: no memory for another stack");
    impl.stacks.give(*stack);
    impl.out_of_stacks.store(false, std::memory_order_relaxed);
  }
  const int worker = options != nullptr ? options->worker : kAnywhere;
  Record* record = nullptr;
  if (here != nullptr && &here->scheduler() == &impl &&
      (worker == kAnywhere || worker == here->number())) [[likely]] {
    record = here->take_record();
  } else {
    if (!impl.is_of_this_process()) {
      throw Error(Errc::not_initialized,
                  "spawn: this process came by fork, without the scheduler's workers; it may make "
                  "a Scheduler of its own");
    }
    if (worker < kAnywhere || worker >= static_cast<int>(impl.workers.size())) {
      throw Error(Errc::bad_argument, fmt::format("spawn: there is no worker {}, but 0 to {}",
                                                  worker, impl.workers.size() - 1));
    }
    Worker& home = worker == kAnywhere ? impl.worker_for_outsider()
                                       : *impl.workers[static_cast<std::size_t>(worker)];
    record = home.take_record_outside();
  }
  if (record == nullptr) throw Error(Errc::no_memory, "spawn: no memory for another task");
  if (options != nullptr) {
    record->name.store(options->name, std::memory_order_relaxed);
    if (options->stack_bytes != 0) {
      const uint32_t size_class = StackPool::class_of(options->stack_bytes);
      if (size_class > StackPool::kLargest) {
        abandon(*record);
        throw Error(Errc::bad_argument,
                    fmt::format("spawn: a stack of {} bytes is too large", options->stack_bytes));
      }
      // A smaller one finds as much where a child is run in place (room_to_run_in_place).
      record->stack_class =
          size_class >= impl.stack_class ? static_cast<uint8_t>(size_class) : uint8_t{0};
    }
  }
  return *record;
}

[[gnu::noinline]] void launch(Record& record) noexcept {
  Worker& home = *record.home();
  if (Worker::current_at_entry() == &home) [[likely]] {
    home.launch_here(record);
    return;
  }
  home.scheduler().outside_spawned.fetch_add(1, std::memory_order_relaxed);  // a statistic
  // release: who takes the token sees the record whole.
  record.status.store(Status::fresh, std::memory_order_release);
  Worker::signal(record);
}

void abandon(Record& record) noexcept { release(record); }

[[gnu::noinline]] void release(Record& record) noexcept {
  Worker* here = Worker::current_at_entry();
  // A hint to signallers; nobody else changes it.
  const uint32_t task = Record::task_of(record.generation.load(std::memory_order_relaxed));
  record.generation.store(task + 2, std::memory_order_relaxed);
  record.early.store(false, std::memory_order_relaxed);
  record.name.store(nullptr, std::memory_order_relaxed);
  record.stack_class = 0;
  if (record.error) [[unlikely]] {
    record.error = nullptr;    // what it holds may wait in its destructor, and
    here = Worker::current();  // go on elsewhere
  }
  // relaxed: the record's lists pass it on, and a late token may see either.
  record.joiner.store(nullptr, std::memory_order_relaxed);
  record.status.store(Status::free, std::memory_order_relaxed);
  if (here != nullptr && !record.from_outside) [[likely]] {
    here->give_record(record);
  } else {
    // Its home's thread would keep it for itself, and whoever spawns from elsewhere need new ones.
    record.from_outside = false;
    record.home()->give_record_outside(record);
  }
}

[[gnu::noinline]] void join(Record& record) noexcept {
  if (record.has_ended()) return;
  void* nobody_yet = nullptr;
  Worker* const here = Worker::current_at_entry();
  if (Record* self = here != nullptr ? here->running() : nullptr; self != nullptr) {
    const InPlace ran = here->run_in_place(record);
    if (ran == InPlace::done) return;
    // acq_rel: release who we are to who ends it; acquire its end, if that was first.
    if (record.joiner.compare_exchange_strong(nobody_yet, Joiner::of_task(*self),
                                              std::memory_order_acq_rel)) {
      while (!record.has_ended()) Worker::current()->wait();
    }
    if (ran == InPlace::later) [[unlikely]]
      Worker::current()->scheduler().turns_left.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  base::Parker& parker = base::this_parker();
  if (!record.joiner.compare_exchange_strong(nobody_yet, Joiner::of_thread(parker),
                                             std::memory_order_acq_rel)) {
    return;
  }
  while (!record.has_ended()) parker.park();
}

void detach(Record& record) noexcept {
  void* nobody_yet = nullptr;
  if (record.joiner.compare_exchange_strong(nobody_yet, Joiner::nobody(),
                                            std::memory_order_acq_rel)) {
    return;
  }
  if (record.error) end_program(record);
  release(record);
}

void abandon_task(Record& record) noexcept {
  if (!record.detached) {
    record.error = std::make_exception_ptr(
        Error(Errc::not_initialized, "the scheduler ended before the task did"));
    // acq_rel: as where a task ends.
    void* const joiner = record.joiner.exchange(Record::ended(), std::memory_order_acq_rel);
    if (joiner == nullptr) return;
    if (joiner != Joiner::nobody()) {
      Record* const task = Joiner::task(joiner);
      if (task == nullptr) {
        static_cast<base::Parker*>(joiner)->unpark();
      } else if (&task->home()->scheduler() != &record.home()->scheduler()) {
        Worker::signal(*task);  // those of this scheduler are left, too
      }
      return;
    }
  }
  release(record);
}

void report_lost(Record& record) noexcept {
  base::log(base::LogLevel::warn, fmt::format("task '{}' threw, and nobody joined it: {}",
                                              name_of(record), base::what_of(record.error)));
}

void end_program(Record& record) noexcept {
  base::log(base::LogLevel::error, fmt::format("an exception left the detached task '{}': {}",
                                               name_of(record), base::what_of(record.error)));
  std::abort();
}

// ---- the parker of a task ----------------------------------------------------------------------

[[gnu::noinline]] void Record::park() noexcept { Worker::current_at_entry()->wait(); }
[[gnu::noinline]] void Record::yield() noexcept { Worker::current_at_entry()->yield(); }
[[gnu::noinline]] void Record::unpark() noexcept {
  Worker::signal(*this, Worker::current_at_entry());
}
bool Record::park_until(uint64_t deadline_ns) noexcept {
  Scheduler::Impl& scheduler = Worker::current()->scheduler();
  Timers::Entry entry(deadline_ns, *this);
  // The earliest of all: somebody must sleep no longer than this.
  if (scheduler.timers.add(entry)) {
    base::light_fence();
    scheduler.offer();
  }
  Worker::current()->wait();
  return scheduler.timers.remove(entry);
}

}  // namespace detail

// ---- the calling task --------------------------------------------------------------------------

TaskRef this_task() noexcept {
  Record* self = detail::running();
  return self != nullptr ? TaskRef(*self) : TaskRef();
}

const char* this_task_name() noexcept {
  Record* self = detail::running();
  return self != nullptr ? self->name.load(std::memory_order_relaxed) : nullptr;
}

int this_worker() noexcept {
  Worker* worker = Worker::current();
  return worker != nullptr && worker->running() != nullptr ? worker->number() : -1;
}

[[gnu::noinline]] void yield() noexcept {
  Worker* worker = Worker::current_at_entry();
  if (worker != nullptr && worker->running() != nullptr) {
    worker->yield();
  } else {
    sched_yield();
  }
}

[[gnu::noinline]] void wait() noexcept {
  Worker* worker = Worker::current_at_entry();
  if (worker != nullptr && worker->running() != nullptr) [[likely]] {
    worker->wait();
  } else {
    base::this_parker().park();
  }
}

bool wait_until(uint64_t deadline_ns) noexcept {
  return base::this_parker().park_until(deadline_ns);
}

[[gnu::noinline]] void signal(const TaskRef& task) noexcept {
  Worker* const here = Worker::current_at_entry();
  WEFT_CHECK(task.valid(), "a signal goes to a task");
  Record& record = *task.record();
  // relaxed: a hint. A task that ends just now is woken in vain, or another instead of it.
  const uint32_t generation = record.generation.load(std::memory_order_relaxed);
  if (Record::task_of(generation) != task.generation()) [[unlikely]] {
#ifndef NDEBUG
    base::log(base::LogLevel::warn, "a task was signalled that has ended");
#endif
    return;
  }
  // The token below may become one with that of the start. release: pairs with begin's acquire, as
  // a token's.
  if (!Record::has_begun(generation)) [[unlikely]]
    record.early.store(true, std::memory_order_release);
  Worker::signal(record, here);
}

void sleep_until(uint64_t deadline_ns) noexcept {
  base::Parker& parker = base::this_parker();
  while (base::now_ns() < deadline_ns) (void)parker.park_until(deadline_ns);
}

}  // namespace weft::task
