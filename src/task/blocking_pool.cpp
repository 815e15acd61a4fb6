#include "task/blocking_pool.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include "task/scheduler_impl.hpp"
#include "task/worker.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/config.hpp"
#include "weft/base/signals_blocked.hpp"
#include "weft/base/topology.hpp"

namespace weft::task {

using detail::BlockingCall;

namespace {

/// A helper may run wherever the process may, not where the worker is bound that made it.
void run_anywhere() noexcept {
  const base::Topology& machine = base::Topology::machine();
  if (machine.faked()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const base::Core& core : machine.cores()) {
    if (core.os_index < CPU_SETSIZE) CPU_SET(static_cast<unsigned>(core.os_index), &set);
  }
  (void)::sched_setaffinity(0, sizeof set, &set);  // bound, it helps all the same
}

}  // namespace

BlockingPool::BlockingPool()
    : idle_ns_(static_cast<uint64_t>(base::config_int("task.blocking_idle"))),
      most_(static_cast<std::size_t>(base::config_int("task.blocking_threads"))),
      helpers_(std::make_unique<Helper[]>(most_)) {}

// ---- the task ----------------------------------------------------------------------------------

void BlockingPool::run(BlockingCall& call) noexcept {
  base::Parker& self = base::this_parker();
  call.caller = &self;
  under_way_.fetch_add(1, std::memory_order_relaxed);  // its end is what others are to see
  base::Parker* to_wake = nullptr;
  Helper* to_start = nullptr;
  {
    const std::lock_guard hold(lock_);
    if (idle_ != nullptr) {
      to_wake = idle_->parker;
      idle_->call = &call;
      idle_ = idle_->next_idle;
    } else if ((to_start = find_absent()) != nullptr) {
      to_start->is_absent = false;
    } else {
      (last_ != nullptr ? last_->next : first_) = &call;
      last_ = &call;
    }
  }
  if (to_wake != nullptr) to_wake->unpark();
  if (to_start != nullptr) start(*to_start, call);
  // acquire: pairs with finish's release.
  while (!call.is_done.load(std::memory_order_acquire)) self.park();
}

BlockingPool::Helper* BlockingPool::find_absent() noexcept {
  Helper* const end = helpers_.get() + most_;
  Helper* const found =
      std::find_if(helpers_.get(), end, [](const Helper& helper) { return helper.is_absent; });
  return found != end ? found : nullptr;
}

void BlockingPool::start(Helper& helper, BlockingCall& call) noexcept {
  helper.call = &call;
  try {
    if (helper.thread.joinable()) helper.thread.join();  // its last thread, which is at its end
    const base::SignalsBlocked blocked;
    helper.thread = std::thread([this, &helper] { help(helper); });
  } catch (const std::exception&) {  // no thread, or no memory for one
    // Then the worker makes the call, and those that queued meanwhile behind a helper.
    for (BlockingCall* each = &call; each != nullptr; each = take_queued_or_leave(helper)) {
      make(*each);
    }
  }
}

// ---- the helper --------------------------------------------------------------------------------

void BlockingPool::help(Helper& self) noexcept {
  run_anywhere();
  self.parker = &base::this_parker();
  threads_.fetch_add(1, std::memory_order_relaxed);  // a statistic
  BlockingCall* call = std::exchange(self.call, nullptr);
  for (; call != nullptr; call = next_call(self)) make(*call);
  threads_.fetch_sub(1, std::memory_order_relaxed);
}

void BlockingPool::make(BlockingCall& call) noexcept {
  call.run(call);
  base::Parker& caller = *call.caller;
  // release: pairs with run's acquire. The call may be gone after this; a parker outlives its task.
  call.is_done.store(true, std::memory_order_release);
  caller.unpark();
  under_way_.fetch_sub(1, std::memory_order_release);  // pairs with is_used's acquire
}

/// (lock_) The call that has waited longest, or nullptr.
BlockingCall* BlockingPool::take_queued() noexcept {
  BlockingCall* const call = first_;
  if (call == nullptr) return nullptr;
  first_ = call->next;
  if (first_ == nullptr) last_ = nullptr;
  return call;
}

/// What is to be done next, however long that takes; nullptr: the helper is absent now.
BlockingCall* BlockingPool::next_call(Helper& self) noexcept {
  {
    const std::lock_guard hold(lock_);
    if (BlockingCall* queued = take_queued(); queued != nullptr) return queued;
    if (stopping_) return nullptr;
    self.next_idle = idle_;
    idle_ = &self;
  }
  const uint64_t deadline = base::now_ns() + idle_ns_;
  for (;;) {
    const bool in_time = self.parker->park_until(deadline);
    const std::lock_guard hold(lock_);
    if (self.call != nullptr) return std::exchange(self.call, nullptr);
    if (in_time && !stopping_) continue;
    Helper** at = &idle_;
    while (*at != &self) at = &(*at)->next_idle;
    *at = self.next_idle;
    self.is_absent = true;
    return nullptr;
  }
}

BlockingCall* BlockingPool::take_queued_or_leave(Helper& helper) noexcept {
  const std::lock_guard hold(lock_);
  BlockingCall* const queued = take_queued();
  if (queued == nullptr) helper.is_absent = true;
  return queued;
}

void BlockingPool::stop() noexcept {
  {
    const std::lock_guard hold(lock_);
    stopping_ = true;
    for (Helper* idle = idle_; idle != nullptr; idle = idle->next_idle) idle->parker->unpark();
  }
  for (std::size_t i = 0; i < most_; ++i) {
    if (helpers_[i].thread.joinable()) helpers_[i].thread.join();
  }
}

}  // namespace weft::task

// ---- what blocking.hpp uses --------------------------------------------------------------------

namespace weft::task::detail {

bool is_in_task() noexcept {
  Worker* const here = Worker::current();
  return here != nullptr && here->running() != nullptr;
}

void run_blocking(BlockingCall& call) noexcept {
  Worker::current()->scheduler().blocking.run(call);
}

}  // namespace weft::task::detail
