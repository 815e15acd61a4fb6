// The worker's loop: what runs next, and switching. docs/scheduler.md follows it.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <exception>

#include "task/locals.hpp"
#include "task/overflow.hpp"
#include "task/scheduler_impl.hpp"
#include "task/worker.hpp"
#include "task/worker_hot.hpp"
#include "weft/base/asymmetric_fence.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/idle_work.hpp"
#include "weft/base/share_number.hpp"
#include "weft/base/topology.hpp"

namespace weft::task::detail {
namespace {

/// A task of the caller's thread parks as a task, the thread itself as a thread.
[[gnu::noinline]] base::Parker* parker_of_caller() noexcept {
  Worker* worker = Worker::current_at_entry();
  Record* running = worker != nullptr ? worker->running() : nullptr;
  return running;
}

/// How often a worker without work looks at its own tasks alone, before it looks at others'.
constexpr uint32_t kOwnLooks = 16;

}  // namespace

constinit thread_local Worker* Worker::of_this_thread = nullptr;

// Not in line, and not known to be pure: after a switch it is another thread that asks.
[[gnu::noinline]] Worker* Worker::current() noexcept {
  asm volatile("");
  return of_this_thread;
}

/// Not in line, as `current`.
[[gnu::noinline]] void Worker::take_share_of(Worker& home) noexcept {
  share_of_ = &home;
  base::set_share_number(home.thread_slot_);
}

// ---- switching ---------------------------------------------------------------------------------

/// The context of `record` is saved: from here on it may run elsewhere.
[[gnu::always_inline]] inline void Worker::publish_waiting(Record& record) noexcept {
  // relaxed: home is only left, and home_signalled only entered, by this thread.
  if (record.status.load(std::memory_order_relaxed) == Status::home) {
    record.status.store(Status::waiting, std::memory_order_release);  // pairs with the claims
    return;
  }
  // acq_rel: release as above; acquire pairs with who kept a signal meanwhile.
  const Status before = record.status.exchange(Status::waiting, std::memory_order_acq_rel);
  if (before == Status::away_signalled || before == Status::home_signalled) signal(record);
}

/// The same for one that yielded on a thief's thread: its turn comes at home, or it moves.
void Worker::publish_yielded(Record& record) noexcept {
  if (scheduler_->options.migrate && record.home() != this && move_here(record)) {
    const Inside inside(*this);
    record.status.store(Status::waiting, std::memory_order_release);  // pairs with the claims
    make_later(record);
    return;
  }
  record.status.store(Status::waiting, std::memory_order_release);
  signal(record);
}

/// After a switch to `here`: the stack that was left is whole now.
[[gnu::always_inline]] inline Worker& Worker::settle(Arrival arrival, Stack& here) noexcept {
  auto& worker = *static_cast<Worker*>(arrival.data);
  arrived(here);
  worker.previous_->context = arrival.left;
  worker.exceptions() = here.exceptions;
  switch (worker.after_) {
    case After::wait:
      publish_waiting(*worker.left_);
      break;
    case After::yield:
      worker.publish_yielded(*worker.left_);
      break;
    case After::spare:
      worker.give_spare(*worker.previous_);
      break;
    case After::nothing:
      break;
  }
  return worker;
}

/// Continues on `to`; returns when somebody switches back, on whatever worker that is.
[[gnu::always_inline]] inline Worker& Worker::switch_to(Stack& to) noexcept {
  Stack& from = *stack_;
  previous_ = &from;
  stack_ = &to;
  from.exceptions = exceptions();
  return settle(jump(from, to, this), from);
}

/// The running task gives its worker away, to `next` (claimed) or to the loop; returns when it is
/// claimed again.
[[gnu::always_inline]] inline void Worker::leave(Record& self, After after, Record* next) noexcept {
  Stack* to = nullptr;
  if (stack_->has_canary) [[unlikely]]
    look_at_canary(*this, *stack_);
  self.stack = stack_;
  left_ = &self;
  after_ = after;
  if (next != nullptr && next->stack != nullptr) {
    to = static_cast<Stack*>(std::exchange(next->stack, nullptr));
    set_running(*next);
  } else {
    handed_ = next;
    running_ = nullptr;
    to = take_spare(0);  // there is one: the loop starts no task without
  }
  switch_to(*to);
}

Stack* Worker::take_spare(uint32_t size_class) noexcept {
  if (spares_ == nullptr || spares_->size_class < size_class) {
    return scheduler_->stacks.take(std::max(size_class, scheduler_->stack_class));
  }
  Stack* stack = spares_;
  spares_ = stack->next;
  --spare_count_;
  return stack;
}

void Worker::give_spare(Stack& stack) noexcept {
  // Large ones are kept for those who ask for them.
  // One of any size is kept: who runs may have to leave to it (see leave).
  if (spares_ != nullptr &&
      (spare_count_ >= kSpares || stack.size_class != scheduler_->stack_class)) {
    scheduler_->stacks.give(stack);
    return;
  }
  StackPool::check(stack);
  stack.next = spares_;
  spares_ = &stack;
  ++spare_count_;
}

bool Worker::has_spare() noexcept {
  if (spares_ != nullptr) [[likely]]
    return true;
  Stack* stack = scheduler_->stacks.take(scheduler_->stack_class);
  if (stack == nullptr) {
    scheduler_->out_of_stacks.store(true, std::memory_order_relaxed);  // a hint to spawners
    return false;
  }
  give_spare(*stack);
  return true;
}

// ---- the running task --------------------------------------------------------------------------

namespace {

/// Consumes a kept signal. By the task itself.
bool take_signal(Record& self) noexcept {
  // relaxed, then acquire where there is one: pairs with who kept it.
  Status status = self.status.load(std::memory_order_relaxed);
  if (status == Status::home || status == Status::away) [[likely]]
    return false;
  const Status running = status == Status::home_signalled ? Status::home : Status::away;
  return self.status.compare_exchange_strong(status, running, std::memory_order_acquire,
                                             std::memory_order_relaxed);
}

}  // namespace

/// However many tasks can run: what the message core has to do must not wait for an idle worker.
inline void Worker::poll_now_and_then(const Record& self) noexcept {
  if (--turns_to_poll_ != 0) [[likely]]
    return;
  // Low places are taken first: who has this one is one of as many.
  turns_to_poll_ = self.index() < kMany ? kTurnsPerPoll : kTurnsPerPollOfMany;
  if (base::has_idle_work()) base::poll_idle_work(base::IdleWork::Poller::busy);
  look_at_timers();
}

namespace {
/// By the task itself.
void keep_signal(Record& self) noexcept {
  Status status = self.status.load(std::memory_order_relaxed);
  while (status == Status::home || status == Status::away) {
    const Status signalled =
        status == Status::home ? Status::home_signalled : Status::away_signalled;
    // relaxed: from itself to itself.
    if (self.status.compare_exchange_weak(status, signalled, std::memory_order_relaxed)) return;
  }
}
}  // namespace

/// Called by who will run `record`, claimed, for the first time.
inline void Worker::begin(Record& record) noexcept {
  // relaxed: a hint to signallers. Whoever misses it marks a task that has begun; its token comes,
  // too, and the mark may wake the record's next task once in vain.
  const uint32_t generation = record.generation.load(std::memory_order_relaxed);
  record.generation.store(generation + 1, std::memory_order_relaxed);
  record.turns = 0;
  // acquire: pairs with signal's release. A mark that is not seen yet was set after the token of
  // the start was taken, so that its own token is still to come.
  if (record.early.load(std::memory_order_acquire)) [[unlikely]]
    keep_signal(record);
}

void Worker::wait() noexcept {
  Record& self = *running_;
  if (take_signal(self)) return;
  poll_now_and_then(self);
  Record* other = next();
  if (other == nullptr) [[unlikely]] {
    other = linger(self);
    if (other == &self) return;
  }
  // One place for all to leave from, so that they foretell for each other where they go on.
  leave(self, After::wait, other);
}

/// Nothing else to run: looks on for a while from this stack, and ever more seldom at others. To
/// whom `self` is to leave; itself: it was signalled; nullptr: to the loop.
Record* Worker::linger(Record& self) noexcept {
  const uint64_t start = base::ticks();
  set_mode(Mode::searching);
  Record* other = nullptr;
  for (uint32_t look = 1; !take_signal(self); ++look) {
    if (look >= kOwnLooks && (look & (look - 1)) == 0) {
      other = look_everywhere();
    } else {
      if (!base::has_idle_work() || base::poll_idle_work(base::IdleWork::Poller::idle) == 0)
        base::cpu_relax();
      other = next();
    }
    if (other != nullptr) break;
    if (base::ticks() - start > scheduler_->look_ticks) return nullptr;
  }
  become_busy(false);
  return other != nullptr ? other : &self;
}

void Worker::yield() noexcept {
  Record& self = *running_;
  poll_now_and_then(self);
  Record* other = nullptr;
  bool at_home = self.home() == this;
  {
    const Inside inside(*this);
    other = next_inside();
    if (other != nullptr && at_home) make_later(self);
  }
  if (other == nullptr) {
    other = look_everywhere();
    if (other == nullptr) return;
    at_home = false;  // the bit is still to be set
  }
  const uint64_t place = self.place.load(std::memory_order_relaxed);
  leave(self, at_home ? After::wait : After::yield, other);
  // Moved: signals that went to the old place are lost, so it is as if one had come.
  if (self.place.load(std::memory_order_relaxed) != place) [[unlikely]]
    keep_signal(self);
}

/// `record`, which nobody runs, takes the place of a free record of ours, and that one its place
/// (000 §4.2.3). False: there is none.
bool Worker::move_here(Record& record) noexcept {
  Record* const other = take_record();
  if (other == nullptr) return false;
  const uint64_t here = other->place.load(std::memory_order_relaxed);
  const uint64_t there = record.place.load(std::memory_order_relaxed);
  Worker& home = *Record::home_of(there);
  {
    const Inside inside(*this);
    spill();  // an old token of the free record stays here, as a bit of this place
    records_[Record::index_of(here)] = &record;
  }
  home.guard_.enter();
  home.records_[Record::index_of(there)] = other;
  home.spill();
  home.ready_.clear(Record::index_of(there));
  home.later_.clear(Record::index_of(there));
  other->place.store(there, std::memory_order_relaxed);  // under the guard of its home
  // release: pairs with signal_from_outside's acquire; the words at the new place are made.
  record.place.store(here, std::memory_order_release);
  home.guard_.leave();
  // Whoever signals writes, light fence, looks at the place; the task, when it goes on, looks at
  // what was written. Either the signal finds the new place, or the task what it is told.
  base::heavy_fence();
  home.give_record_outside(*other);
  count(moved_);
  return true;
}

bool Worker::has_room() noexcept {
  const char* here = static_cast<const char*>(__builtin_frame_address(0));
  return static_cast<std::size_t>(here - stack_->low) > scheduler_->room_to_run_in_place;
}

/// Who spawns and joins all the time: the rest of the world gets its turn, and now and then those
/// who can run here, oldest first (true). By time: of small children there are many in it, and to
/// leave a deep recursion in the middle is dear. It keeps its stack, and so does whatever of it is
/// begun instead: the more joins stand still like that, the more seldom there is another, but at
/// least four times in a second.
[[gnu::noinline]] bool Worker::leaves_a_turn() noexcept {
  if (base::has_idle_work()) base::poll_idle_work(base::IdleWork::Poller::busy);
  look_at_timers();
  const uint64_t now = base::ticks();
  // relaxed: a number.
  const uint64_t left = scheduler_->turns_left.load(std::memory_order_relaxed);
  constexpr uint64_t kMostPause = 256;
  const uint64_t pause =
      scheduler_->turn_ticks * std::min(1 + left / scheduler_->workers.size(), kMostPause);
  if (now - last_turn_ < pause) return false;
  last_turn_ = now;
  scheduler_->turns_left.fetch_add(1, std::memory_order_relaxed);
  turns_ |= kTurnsPerRound - 1;  // the newest, which were the child itself, is not what comes next
  return true;
}

InPlace Worker::run_in_place(Record& record) noexcept {
  if (record.home() != this || record.stack_class != 0 || !has_room()) return InPlace::refused;
  // A child of its own has no exceptions of its parent's.
  if (exceptions() != ExceptionState{}) [[unlikely]]
    return InPlace::refused;
  // relaxed: one that has begun is waited for anyway, and tells of itself below.
  if (++in_place_ % kInPlacePerLook == 0 &&
      record.status.load(std::memory_order_relaxed) == Status::fresh && leaves_a_turn())
      [[unlikely]]
    return InPlace::later;
  {
    const Inside inside(*this);
    if (record.status.load(std::memory_order_relaxed) != Status::fresh) return InPlace::refused;
    if (newest_.load(std::memory_order_relaxed) == &record) {
      newest_.store(nullptr, std::memory_order_relaxed);
    } else {
      ready_.clear(record.index());
    }
    record.status.store(Status::home, std::memory_order_relaxed);  // under the guard
  }
  Record& parent = *running_;
  set_running(record);
  begin(record);
  record.run(record);
  if (record.locals != nullptr) [[unlikely]]
    end_locals(record);
  Worker& now = *current();
  now.set_running(parent);
  count_end(now.ended_);
  if (&now != parent.home()) follow(parent);
  return InPlace::done;
}

/// A task that ran a child in place goes on on the thief's thread to which the child went.
void Worker::follow(Record& parent) noexcept {
  Status status = parent.status.load(std::memory_order_relaxed);
  while (status == Status::home || status == Status::home_signalled) {
    const Status away = status == Status::home ? Status::away : Status::away_signalled;
    // relaxed: a kept signal is acquired where it is taken. The home's own thread may keep one now.
    if (parent.status.compare_exchange_weak(status, away, std::memory_order_relaxed)) return;
  }
}

/// `record` has run. The task that waits for it, claimed, if that is to go on here and now.
Record* Worker::finish(Record& record) noexcept {
  count_end(ended_);
  if (record.detached) {
    if (record.error) [[unlikely]]
      end_program(record);
    release(record);
    return nullptr;
  }
  // acq_rel: release the result and the error to who joins; acquire who that is. After this the
  // record may be another task's.
  void* const joiner = record.joiner.exchange(Record::ended(), std::memory_order_acq_rel);
  if (joiner == nullptr) return nullptr;
  if (joiner == Joiner::nobody()) {
    if (record.error) [[unlikely]]
      end_program(record);
    release(record);
    return nullptr;
  }
  Record* const task = Joiner::task(joiner);
  if (task == nullptr) {
    static_cast<base::Parker*>(joiner)->unpark();
    return nullptr;
  }
  if (task->home() != this) {
    signal(*task);
    return nullptr;
  }
  {
    const Inside inside(*this);
    // Under the guard of its home it stays there (it may have gone on already, and moved).
    if (task->home() == this) return claim_home(*task) ? task : nullptr;  // or keeps the signal
  }
  signal(*task);
  return nullptr;
}

// ---- the loop ----------------------------------------------------------------------------------

void Worker::loop(Arrival arrival) {
  begin_context();
  Stack& here = *static_cast<Worker*>(arrival.data)->stack_;
  Worker* worker = &settle(arrival, here);
  for (;;) {
    Record* record = std::exchange(worker->handed_, nullptr);
    if (record == nullptr) record = worker->search();
    if (record == nullptr) {
      worker->after_ = After::nothing;
      worker = &worker->switch_to(worker->native_);  // stopping: not to return
      continue;
    }
    if (record->stack != nullptr) {
      auto& to = *static_cast<Stack*>(std::exchange(record->stack, nullptr));
      worker->set_running(*record);
      worker->after_ = After::spare;
      worker = &worker->switch_to(to);
      continue;
    }
    if (record->stack_class > here.size_class || !worker->has_spare()) [[unlikely]] {
      Stack* larger = worker->stack_for(*record);
      if (larger == nullptr) continue;
      worker->handed_ = record;
      worker->after_ = After::spare;
      worker = &worker->switch_to(*larger);
      continue;
    }
    worker->poll_now_and_then(*record);
    worker->set_running(*record);
    worker->begin(*record);
    record->run(*record);
    if (record->locals != nullptr) [[unlikely]]
      end_locals(*record);
    worker = current();
    if (here.has_canary) [[unlikely]]
      look_at_canary(*worker, here);
    worker->running_ = nullptr;
    worker->handed_ = worker->finish(*record);
  }
}

/// Of tasks that found no stack, one after the other or not, until the worker rests.
constexpr uint32_t kMissesAPause = 64;

/// A stack on which `record`, claimed, can start; nullptr: there is none, it waits for its turn.
Stack* Worker::stack_for(Record& record) noexcept {
  if (has_spare()) {
    if (Stack* stack = take_spare(record.stack_class); stack != nullptr) return stack;
  }
  scheduler_->out_of_stacks.store(true, std::memory_order_relaxed);  // a hint to spawners
  scheduler_->tell_out_of_stacks();
  // Not started: it is fresh again. Others that end will leave their stacks.
  record.status.store(Status::fresh, std::memory_order_release);
  signal_from_outside(record);  // its home may sleep
  // This worker's own next may well be this one again: nothing else would look at the clock.
  look_at_timers();
  // Those that have stacks may wait for messages.
  if (base::has_idle_work() && base::poll_idle_work(base::IdleWork::Poller::idle) != 0)
    return nullptr;
  // Others of its tasks may have stacks, and be next.
  if (++without_stack_ % kMissesAPause != 0) {
    sched_yield();
    return nullptr;
  }
  constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 100'000};
  ::nanosleep(&kPause, nullptr);
  return nullptr;
}

/// The next to run, however long it takes; nullptr: the scheduler stops.
Record* Worker::search() noexcept {
  Record* record = next();
  if (record != nullptr) {
    if (mode() != Mode::busy) become_busy(false);  // linger left it at that
    return record;
  }
  set_mode(Mode::searching);
  bool slept = false;
  const uint64_t start = base::ticks();
  for (uint32_t look = 0;; ++look) {
    if ((record = next()) != nullptr) break;
    if ((look & (look - 1)) == 0 || look % kOwnLooks == 0) {
      if ((record = look_everywhere()) != nullptr) break;
    }
    if (scheduler_->stopping.load(std::memory_order_acquire)) return nullptr;
    if (base::has_idle_work() && base::poll_idle_work(base::IdleWork::Poller::idle) != 0) continue;
    const uint64_t now = base::ticks();
    const uint64_t spent = now - start;
    // Asleep, it would be woken again by the next that others spawn.
    if (spent > scheduler_->spin_ticks && now >= next_visit_) {
      if ((record = look_everywhere()) != nullptr) break;
      sleep();
      slept = true;
      look = ~uint32_t{0};  // whoever woke us may have work for others: visit them
    } else if (spent > scheduler_->look_ticks) {
      sched_yield();  // threads may outnumber cores
    } else {
      base::cpu_relax();
    }
  }
  become_busy(slept);
  return record;
}

/// Found something. Who made work while this worker searched left that to it, so it offers the
/// rest. One that was asleep, or said so, sees to it that another one watches instead.
void Worker::become_busy(bool slept) noexcept {
  // seq_cst: announces, then looks; a signaller sets its bit, then looks at the mode.
  mode_.exchange(Mode::busy, std::memory_order_seq_cst);
  if (looks_ready() || (slept && !scheduler_->watched.load(std::memory_order_relaxed))) {
    crew_.offer();
  }
}

/// Everything but one's own tasks: timers, others' tasks.
Record* Worker::look_everywhere() noexcept {
  if (look_at_timers()) {
    if (Record* record = next(); record != nullptr) return record;
  }
  return steal();
}

/// True: somebody was due.
bool Worker::look_at_timers() noexcept {
  const uint64_t deadline = scheduler_->timers.earliest();
  if (deadline == Timers::kNever) return false;
  const uint64_t now = base::now_ns();
  return deadline <= now && scheduler_->timers.expire(now) != 0;
}

Record* Worker::take_loot() noexcept {
  const uint32_t loot = loot_count_.load(std::memory_order_relaxed);  // under the guard
  if (loot == 0) [[likely]]
    return nullptr;
  loot_count_.store(loot - 1, std::memory_order_relaxed);
  return loot_[loot - 1];
}

// ---- the thread --------------------------------------------------------------------------------

void Worker::start() {
  thread_ = std::thread([this] { thread_main(); });
}

void Worker::join_thread() {
  if (thread_.joinable()) thread_.join();
}

void Worker::thread_main() {
  const auto number = static_cast<std::size_t>(number_);
  const base::CoreClaim& cores = scheduler_->cores;
  if (number < cores.count()) (void)base::bind_this_thread(cores.processor(number));
  of_this_thread = this;
  own_parker_ = &base::this_parker();
  (void)set_sleeper(*own_parker_);
  exceptions_ = abi::__cxa_get_globals();
  thread_slot_ = base::this_thread_slot();
  share_of_ = this;
  const OverflowHandler on_overflow;
  describe_native_stack(native_);
  stack_ = &native_;
  (void)has_spare();  // or the scheduler's start fails
  scheduler_->started.count_down();
  scheduler_->started.wait();  // others may look at us from now on
  after_ = After::nothing;
  if (has_spare()) switch_to(*take_spare(0));
  of_this_thread = nullptr;
}

void install_parker_provider() noexcept { base::set_parker_provider(parker_of_caller); }

}  // namespace weft::task::detail
