// Waiting: see waiting.hpp for the roles and the invariants. The sleeper stands in sleeping.cpp.
#include "comm/waiting.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "comm/runtime_impl.hpp"
#include "weft/base/asymmetric_fence.hpp"
#include "weft/base/clock.hpp"

namespace weft {

using comm::Awaited;
using comm::WaitList;
using comm::WaitNode;

namespace comm {

// --- Lists ---------------------------------------------------------------------------------------

void WaitQueue::push(WaitNode& node) noexcept {
  node.previous = tail;
  node.next = nullptr;
  if (tail != nullptr) {
    tail->next = &node;
  } else {
    head = &node;
    note_first();
  }
  tail = &node;
  node.linked = true;
}

void WaitQueue::erase(WaitNode& node) noexcept {
  if (node.previous != nullptr) {
    node.previous->next = node.next;
  } else {
    head = node.next;
    note_first();
  }
  (node.next != nullptr ? node.next->previous : tail) = node.previous;
  node.linked = false;
}

WaitNode* WaitQueue::pop() noexcept {
  WaitNode* first = head;
  if (first != nullptr) erase(*first);
  return first;
}

void WaitSet::enroll(WaitNode& node, base::Parker& parker) noexcept {
  queue_.lock.lock();
  if (!node.linked) {
    node.parker = &parker;
    node.is_task = !parker.may_poll();
    queue_.push(node);
    if (node.is_task) tasks_.fetch_add(1, std::memory_order_relaxed);
    count_.fetch_add(1, std::memory_order_relaxed);  // ordered by the fence below
  }
  queue_.lock.unlock();
  base::heavy_fence();  // pairs with wake's light_fence: it sees us, or we see its condition
}

void WaitSet::withdraw(WaitNode& node) noexcept {
  queue_.lock.lock();
  if (node.linked) take_out(node);
  queue_.lock.unlock();
}

/// The caller holds the lock.
void WaitSet::take_out(WaitNode& node) noexcept {
  queue_.erase(node);
  if (node.is_task) tasks_.fetch_sub(1, std::memory_order_relaxed);
  count_.fetch_sub(1, std::memory_order_relaxed);
}

base::Parker* WaitSet::pop() noexcept {
  queue_.lock.lock();
  WaitNode* node = queue_.head;
  // The parker outlives its thread; the node may be gone once the lock is open.
  base::Parker* parker = node != nullptr ? node->parker : nullptr;
  if (node != nullptr) take_out(*node);
  queue_.lock.unlock();
  return parker;
}

void WaitSet::wake(uint32_t n) noexcept {
  base::light_fence();  // between the caller's change and the look at count_
  while (n-- > 0 && !empty()) {
    base::Parker* const parker = pop();
    if (parker == nullptr) return;
    parker->unpark();
  }
}

namespace {

bool has_passed(uint64_t deadline_ns) noexcept {
  return deadline_ns != base::kNoDeadline && base::now_ns() >= deadline_ns;
}

/// Waits of a condition, woken through a WaitSet.
class AwaitCondition final : public Awaited {
 public:
  AwaitCondition(WaitSet& set, bool (*condition)(void*), void* argument,
                 uint64_t deadline_ns) noexcept
      : set_(set), condition_(condition), argument_(argument), deadline_ns_(deadline_ns) {}
  /// The condition may take what makes it true (a message), so it is not asked again.
  bool ready() noexcept override {
    met_ = met_ || condition_(argument_);
    return met_ || has_passed(deadline_ns_);
  }
  [[nodiscard]] uint64_t deadline_ns() const noexcept override { return deadline_ns_; }
  [[nodiscard]] bool met() const noexcept { return met_; }
  bool enroll(base::Parker& parker) noexcept override {
    set_.enroll(node_, parker);
    enrolled_ = true;
    return true;
  }
  void withdraw() noexcept override {
    // A wake that was for us is not lost: whoever waits for a queue's message sees to others when
    // it leaves some behind (Endpoint::dequeue_until), and watchers are woken all at once.
    if (enrolled_) set_.withdraw(node_);
    enrolled_ = false;
  }

 private:
  WaitSet& set_;
  bool (*condition_)(void*);
  void* argument_;
  const uint64_t deadline_ns_;
  WaitNode node_;
  bool enrolled_ = false;
  bool met_ = false;
};

/// Waits of a synchronizer and nothing else.
class AwaitAlone final : public Awaited {
 public:
  explicit AwaitAlone(Synchronizer& done) noexcept : done_(done) {}
  bool ready() noexcept override { return done_.ready(); }
  bool enroll(base::Parker& parker) noexcept override { return done_.set_waiter(parker, true); }
  void withdraw() noexcept override { done_.withdraw_waiter(); }

 private:
  Synchronizer& done_;
};

/// Waits of a synchronizer, but no longer than that.
class AwaitInTime final : public Awaited {
 public:
  AwaitInTime(Synchronizer& done, uint64_t deadline_ns) noexcept
      : done_(done), deadline_ns_(deadline_ns) {}
  bool ready() noexcept override { return done_.ready() || has_passed(deadline_ns_); }
  bool enroll(base::Parker& parker) noexcept override { return done_.set_waiter(parker); }
  void withdraw() noexcept override { done_.withdraw_waiter(); }
  [[nodiscard]] uint64_t deadline_ns() const noexcept override { return deadline_ns_; }

 private:
  Synchronizer& done_;
  const uint64_t deadline_ns_;
};

/// Parks until unparked, or until time makes it ready.
void park_for(const Awaited& awaited, base::Parker& parker) noexcept {
  const uint64_t deadline = awaited.deadline_ns();
  if (deadline == base::kNoDeadline) return parker.park();
  (void)parker.park_until(deadline);
}

/// Takes the server's role of `list`; false: somebody has it, and `node` is linked to park.
bool serve_or_link(WaitList& list, WaitNode& node) noexcept {
  list.lock.lock();
  // relaxed, here and everywhere: under the lock.
  const bool vacant = !list.served.load(std::memory_order_relaxed);
  if (vacant) {
    list.served.store(true, std::memory_order_relaxed);
  } else {
    list.push(node);
    list.parked.fetch_add(1, std::memory_order_relaxed);  // read without the lock as a hint only
  }
  list.lock.unlock();
  return vacant;
}

/// Hands the server's role of `list` to its first parked thread. The caller holds the lock and
/// unparks the answer after opening it; nullptr: nobody is parked.
base::Parker* hand_over(WaitList& list) noexcept {
  WaitNode* next = list.pop();
  if (next == nullptr) return nullptr;
  list.parked.fetch_sub(1, std::memory_order_relaxed);
  list.served.store(true, std::memory_order_relaxed);
  base::Parker* parker = next->parker;
  next->baton.store(true,
                    std::memory_order_release);  // pairs with the acquire in park_until_called
  return parker;
}

void give_role_up(WaitList& list) noexcept {
  list.lock.lock();
  list.served.store(false, std::memory_order_relaxed);
  list.lock.unlock();
}

bool take_if_vacant(WaitList& list) noexcept {
  list.lock.lock();
  const bool vacant = !list.served.exchange(true, std::memory_order_relaxed);
  list.lock.unlock();
  return vacant;
}

/// Leaves the role to whoever is awake next, if it is the caller's (`callers`) or nobody has it.
void promise_role(WaitList& list, bool callers) noexcept {
  list.lock.lock();
  if (callers || !list.served.exchange(true, std::memory_order_relaxed)) list.promised = true;
  list.lock.unlock();
}

bool take_promised_role(WaitList& list) noexcept {
  list.lock.lock();
  const bool ours = std::exchange(list.promised, false);
  list.lock.unlock();
  return ours;
}

}  // namespace
}  // namespace comm

// --- The three roles -----------------------------------------------------------------------------

void Runtime::wait(Synchronizer& done) {
  if (done.ready()) return;
  if (base::Parker& caller = base::this_parker(); !caller.may_poll() && impl_->others_progress()) {
    comm::UsersCode::check_may_wait();
    // As wait_as_task; and once it is ready there is no name to be taken back.
    while (done.set_waiter(caller, true) && !done.ready()) caller.park();
    return;
  }
  comm::AwaitAlone awaited(done);
  impl_->wait(awaited);
}

void Runtime::wait(base::Awaited& awaited) { impl_->wait(awaited); }

bool Runtime::wait_until(Synchronizer& done, uint64_t deadline_ns) {
  // However short the time, there is progress: who waits again and again comes to its end.
  if (!done.ready()) progress();
  if (!done.ready()) {
    comm::AwaitInTime awaited(done, deadline_ns);
    impl_->wait(awaited);
  }
  return done.ready();
}

bool Runtime::others_progress() const noexcept { return impl_->others_progress(); }

void Runtime::wait_for_condition(bool (*ready)(void*), void* argument) {
  impl_->wait_for(impl_->watchers, ready, argument);
}

bool Runtime::Impl::wait_for(comm::WaitSet& set, bool (*ready)(void*), void* argument,
                             uint64_t deadline_ns) {
  comm::AwaitCondition awaited(set, ready, argument, deadline_ns);
  wait(awaited, Wants::any);
  return awaited.met();
}

void Runtime::Impl::wait(Awaited& awaited, Wants wants) {
  Device& device = this_device();
  if (base::Parker& caller = base::this_parker(); !caller.may_poll()) {
    wait_as_task(device, awaited, caller, wants);
    return;
  }
  if (settings.progress == Progress::explicit_) {
    while (!awaited.ready()) {
      if (progress_for(device, wants) != 0) continue;
      comm::UsersCode::check_may_wait();
      sched_yield();
    }
    return;
  }
  // relaxed, here and everywhere: how many wait, and who seems to, decides about time only.
  WaitList& list = device.waiters();
  const bool shares = takes_turns && wants == Wants::completion;
  if (takes_turns && turns.in_use()) turns.begin_wait();
  // One look before any role is sought: what we wait for may be in the ring already. Where another
  // thread serves, a longer look is its business.
  if (settings.progress != Progress::server) {
    const bool collects = shares && leaves_others(list) && turns.has_watch();
    {
      const base::WakeQueue::Scope collecting(collects ? &turns.owed : nullptr);
      progress_for(device, wants, !list.served.load(std::memory_order_relaxed));
    }
    // Whoever serves may be about to sleep.
    if (collects && !turns.owed.empty()) turns.keep_watch();
  }
  if (awaited.ready()) {
    if (wants == Wants::any) return;
    if (turns.owed.empty()) yield_after_many_at_once();
    if (shares && leaves_others(list)) end_wait(device, let_others(list, false));
    return;
  }
  comm::UsersCode::check_may_wait();
  // Whoever left messages in a queue, and is not back there so soon after all.
  if (takes_turns && !turns.left.empty() && turns.has_left_messages()) turns.left.wake();
  bool serving = false;
  {
    Awake awake(waiting);
    if (takes_turns) awake.begin();
    const Yielded so_far = shares ? Yielded::in_vain : wait_yielding(device, awaited, wants, awake);
    if (so_far != Yielded::until_ready) {
      if (settings.progress == Progress::server) {
        awake.end();
        wait_parked(device, awaited);
      } else {
        serving = wait_elected(device, awaited, wants, awake, so_far == Yielded::until_serving);
      }
    }
  }
  if (shares) serving = let_others(list, serving);
  if (serving || takes_turns) end_wait(device, serving);
}

namespace {

/// How long this thread has looked and found nothing, look upon look.
struct VainLooks {
  uint64_t last = 0;  ///< when the last look ended
  uint64_t since = 0;
};
constinit thread_local VainLooks vain_looks;

/// The same, of the look that ends now; 0 if it found something, or the one before was not `close`.
/// Not in line: a task's next look may be another thread's.
[[gnu::noinline]] uint64_t note_look(uint32_t served, uint64_t close) noexcept {
  VainLooks& looks = vain_looks;
  const uint64_t now = base::ticks();
  if (served != 0 || now - std::exchange(looks.last, now) > close) looks.since = now;
  return now - looks.since;
}

}  // namespace

/// Who asks instead of waiting, and does nothing else in between, would keep its core for the rest
/// of its time slice from the process that is to answer; a task its worker from the tasks. Who
/// computes between two looks keeps it.
uint32_t Runtime::Impl::progress_for_asker(Device& own) {
  thread_local uint8_t fruitless = 0;
  const uint32_t served = progress(own);
  if (served == 0 && ++fruitless == 0) report_if_quiet(false);
  const uint64_t in_vain = note_look(served, kCloseLooks * yield_ticks);
  if (in_vain == 0) return served;
  // relaxed: a hint.
  if (in_vain > yield_ticks || core_is_wanted.load(std::memory_order_relaxed)) {
    base::Parker& asker = base::this_parker();
    if (!asker.may_poll()) {
      // Not soon: a few looks with a lock of the thread held are no mistake of the program's.
      if (in_vain <= kTaskLooks * yield_ticks) return served;
      const uint64_t before = base::ticks();
      asker.yield();  // and may be in another thread then: nothing of this one's is touched
      if (base::ticks() - before < yield_ticks) yield_core();  // no other task wanted it
      return served;
    }
    yield_core(in_vain);
    if (in_vain > spin_ticks || !long_yields.keeps_core(base::ticks()))
      vain_looks.last = vain_looks.since = base::ticks();
  }
  return served;
}

/// A task leaves its worker to other tasks. Where nobody else progresses, it does in between, and
/// leaves the worker's core to others, too, when that is long in vain.
void Runtime::Impl::wait_as_task(Device& device, Awaited& awaited, base::Parker& task,
                                 Wants wants) {
  if (awaited.ready()) return;
  comm::UsersCode::check_may_wait();
  if (others_progress()) {
    while (!awaited.ready() && awaited.enroll(task) && !awaited.ready())
      comm::park_for(awaited, task);
    awaited.withdraw();
    return;
  }
  while (!awaited.ready()) {
    // `device` stays a device, though the task may go on in another thread.
    const uint32_t served = progress_for(device, wants);
    const uint64_t in_vain = note_look(served, kCloseLooks * yield_ticks);
    if (served == 0) task.yield();
    if (in_vain > yield_ticks) yield_core(in_vain);
  }
}

/// Before parking: looks again, and lets others run, while somebody serves. Where threads outnumber
/// cores, what this thread waits for has often come by its next turn, and a switch by yielding
/// costs half of one by parking and waking. Where it mostly has not (many wait for what few get),
/// those that yield would only take turns from the one who serves: so waits that yielded in vain
/// have the next ones park at once, and now and then one tries again.
Runtime::Impl::Yielded Runtime::Impl::wait_yielding(Device& device, Awaited& awaited, Wants wants,
                                                    Awake& awake) {
  WaitList& list = device.waiters();
  // relaxed, here and below: hints, and guesses with lost updates.
  const bool elected = settings.progress != Progress::server;
  const bool crowded = is_crowded();
  bool served = !elected || list.served.load(std::memory_order_relaxed);
  // With a core of its own it may as well serve at once.
  if (!served && !crowded) {
    if (comm::take_if_vacant(list)) return Yielded::until_serving;
    served = true;
  }
  const uint32_t awake_now = awake.others();
  if (crowded) awake.begin();
  // Whoever serves sleeps, or nobody does, or threads that do nothing else.
  if (awake_now == 0 && (!elected || !served || asleep.load(std::memory_order_relaxed) != 0))
    return Yielded::in_vain;
  if (spin_ticks == 0 || keeps_core(base::ticks())) return Yielded::in_vain;
  const int32_t credit = yield_credit.load(std::memory_order_relaxed);
  const bool all_have_cores = elected && has_core_for_all(list);
  if (credit < 0 && !all_have_cores) {
    yield_credit.store(credit + 1, std::memory_order_relaxed);
    return Yielded::in_vain;
  }
  const uint32_t others =
      awake_now + (all_have_cores ? list.parked.load(std::memory_order_relaxed) : 0);
  const uint64_t until = base::ticks() + spin_ticks + others * turn_ticks;
  const uint32_t least_turns = wants == Wants::any ? kTurnsForAny : 1;
  uint32_t yields = 0;
  awake.begin();
  do {
    sched_yield();
    if (awaited.ready()) {
      if (credit < kMostYieldCredit) yield_credit.store(credit + 1, std::memory_order_relaxed);
      return Yielded::until_ready;
    }
    // relaxed: a hint. One of those that see it takes the role, the others go on.
    if (elected && !list.served.load(std::memory_order_relaxed) && comm::take_if_vacant(list))
      return Yielded::until_serving;
  } while (++yields < least_turns || base::ticks() < until);
  if (all_have_cores) return Yielded::in_vain;
  yield_credit.store(credit >= kVainYield ? credit - kVainYield : kNoYields,
                     std::memory_order_relaxed);
  return Yielded::in_vain;
}

/// Mode server: other threads progress; this one only sleeps.
void Runtime::Impl::wait_parked(Device& device, Awaited& awaited) {
  base::Parker& parker = base::this_parker();
  while (!awaited.ready() && awaited.enroll(parker) && !awaited.ready()) {
    device.note(Device::parks);
    comm::park_for(awaited, parker);
  }
  awaited.withdraw();
}

/// Modes waiters and workers: serves, or parks until it is ready or is handed the role. True: it
/// has the role.
bool Runtime::Impl::wait_elected(Device& device, Awaited& awaited, Wants wants, Awake& awake,
                                 bool serving) {
  WaitList& list = device.waiters();
  const bool patient = takes_turns && wants == Wants::completion;
  WaitNode node;
  node.parker = &base::this_parker();
  if (!serving) serving = comm::serve_or_link(list, node);
  for (;;) {
    if (serving) {
      if (wait_as_server(device, awaited, node, wants, awake)) return true;
      // `node` is linked. Stepped down: the sleeper watches for us; or the core was given away.
    }
    const bool enrolled = awaited.enroll(*node.parker);
    while (enrolled && !awaited.ready() && !node.baton.load(std::memory_order_acquire)) {
      awake.end();
      device.note(Device::parks);
      if (takes_turns) turns.note_running();
      if (patient && awaited.deadline_ns() == base::kNoDeadline) {
        node.parker->park_patiently();
        turns.owed.take_me_out();
      } else {
        comm::park_for(awaited, *node.parker);
      }
      if (takes_turns) {
        turns.note_running();
        awake.begin();
      }
      // Woken in vain, it may have been promised the role all the same, or is to take it.
      if (takes_turns && (patient || !list.served.load(std::memory_order_relaxed)) &&
          !awaited.ready()) {
        break;
      }
      if (!awaited.ready() && !awaited.enroll(*node.parker)) break;
    }
    awaited.withdraw();
    list.lock.lock();
    serving = !node.linked;  // invariant 1: whoever unlinked us handed us the role
    if (!serving) {
      list.erase(node);
      list.parked.fetch_sub(1, std::memory_order_relaxed);
      serving = std::exchange(list.promised, false);
    }
    list.lock.unlock();
    node.baton.store(false, std::memory_order_relaxed);  // ours alone again
    if (patient) turns.begin_turn();
    if (awaited.ready()) return serving;
    if (!serving) serving = comm::serve_or_link(list, node);
  }
}

/// Polls until ready (true), or until nothing came for so long that the thread parks behind the
/// sleeper (false; then `node` is linked and the role is given up).
bool Runtime::Impl::wait_as_server(Device& device, Awaited& awaited, WaitNode& node, Wants wants,
                                   Awake& awake) {
  const WaitList& list = device.waiters();
  uint64_t idle_since = 0;
  uint32_t yields = 0;  // since then
  uint32_t woken = base::threads_woken();
  uint64_t began = 0;
  const bool may_share = takes_turns && wants == Wants::completion;
  for (uint32_t turn = 1;; ++turn) {
    // relaxed: a hint.
    const bool shares = may_share && leaves_others(list) && turns.has_watch();
    if (shares && began == 0) began = base::ticks();
    const bool expects = shares && turns.expects_answer(began);
    // More awake than cores: the others yield while we look, and then have their turn.
    const bool crowded = !expects && is_crowded();
    uint32_t served = 0;
    bool ready = false;
    {
      const base::WakeQueue::Scope collecting(shares ? &turns.owed : nullptr);
      served = progress_own(device, wants, crowded ? kOneGlance : kPollsPerTurn);
      ready = awaited.ready();
      if (!ready && devices.size() > 1 && (served == 0 || turn % kTurnsBetweenOthers == 0)) {
        served += progress_others(device);
        ready = awaited.ready();
      }
    }
    if (ready) {
      if (expects) turns.count_answer();
      return true;
    }
    if (!turns.owed.empty() && turns.should_give_away(expects) &&
        give_core_away(device, node, expects)) {
      return false;
    }
    if (served != 0) {
      idle_since = 0;
      continue;
    }
    if (expects && !turns.owed.empty()) continue;
    // Nothing came: let other threads of this core run, and after the spin time sleep.
    const uint64_t now = base::ticks();
    if (idle_since == 0) {
      idle_since = now;
      yields = 0;
      if (crowded) awake.begin();
      // Whoever was woken may be waiting for this core, and what comes next for its answer.
      if (std::exchange(woken, base::threads_woken()) != base::threads_woken() || crowded) {
        yield_core();
      }
    } else if (crowded || now - idle_since > yield_ticks) {
      awake.begin();
      yield_core(any_busy() ? now - idle_since : 0);  // who is not goes to sleep after that time
      ++yields;
      if (!turns.owed.empty()) continue;  // whoever had the core put some off
      const uint64_t idle = base::ticks() - idle_since;
      if (idle <= spin_ticks) continue;
      if (any_busy()) {
        if (idle > quiet_ticks) [[unlikely]]
          report_if_quiet(false);
        continue;
      }
      // relaxed: step_down looks again. To park is cheap, where somebody sleeps on the doorbells.
      if (sleeper.load(std::memory_order_relaxed)) {
        if (step_down(device, node)) return false;
      } else if (yields >= kYieldsBeforeSleep || !are_short(yields, idle) || keeps_core(now)) {
        if (sleeper.exchange(true, std::memory_order_acq_rel)) continue;
        sleep(device, awaited);
        idle_since = 0;
      }
    }
  }
}

/// Gives the core, and with it the role, to a thread that has what it waited for: `node` is linked
/// to park. False: there is none.
bool Runtime::Impl::give_core_away(Device& device, WaitNode& node, bool expects) noexcept {
  WaitList& list = device.waiters();
  list.lock.lock();
  list.promised = true;
  list.push(node);
  list.parked.fetch_add(1, std::memory_order_relaxed);
  list.lock.unlock();
  turns.keep_watch();
  if (turns.wake_next(expects)) return true;
  list.lock.lock();
  const bool ours = list.promised;
  if (ours) {
    list.promised = false;
    list.erase(node);
    list.parked.fetch_sub(1, std::memory_order_relaxed);
  }
  list.lock.unlock();
  return !ours;
}

/// A thread has what it waited for. If it has had its turn, those who wait for theirs come first.
/// Answers whether it has the server's role after that.
bool Runtime::Impl::let_others(WaitList& list, bool serving) noexcept {
  if (!turns.is_over()) return serving;
  comm::promise_role(list, serving);
  turns.keep_watch();
  turns.note_running();
  turns.owed.wait_in_turn();
  turns.begin_turn();
  return comm::take_promised_role(list);
}

/// A thread has what it waited for, and goes. Somebody must see to those whom it leaves behind.
void Runtime::Impl::end_wait(Device& device, bool serving) noexcept {
  if (!takes_turns) {
    leave(device);
    return;
  }
  WaitList& list = device.waiters();
  // relaxed: hints. Where they are wrong, somebody keeps the watch.
  const bool others = leaves_others(list);
  if (!serving && (!others || list.served.load(std::memory_order_relaxed))) return;
  // Workers that wait for a server to follow (invariant 6) do not know of the watch.
  if (others && !refused.load(std::memory_order_seq_cst) && turns.may_leave()) {
    if (serving) comm::give_role_up(list);
    turns.leave();
  } else {
    hand_on(device, serving);
  }
  if (others) turns.end_wait();  // after a wake: who was woken may have had the core at once
}

/// Wakes one of the others, who sees to the rest when it goes.
void Runtime::Impl::hand_on(Device& device, bool serving) noexcept {
  WaitList& list = device.waiters();
  if (!turns.owed.empty()) {
    comm::promise_role(list, serving);
    turns.keep_watch();
    if (turns.owed.wake_oldest()) return;
    serving = comm::take_promised_role(list);
  }
  if (serving) {
    leave(device);
  } else if (!serve_the_unserved()) {
    call_the_refused();
  }
}

bool Runtime::Impl::step_down(Device& device, WaitNode& node) noexcept {
  WaitList& list = device.waiters();
  list.lock.lock();
  list.served.store(false, std::memory_order_relaxed);
  list.push(node);
  list.parked.fetch_add(1, std::memory_order_relaxed);
  list.lock.unlock();
  // Invariant 4. seq_cst: after linking, look at the sleeper; it gives its role up, then looks
  // at the lists if there are orphans.
  // An exchange, as below: with a store whoever sees the next one's would not see this link.
  orphans.exchange(true, std::memory_order_seq_cst);
  if (sleeper.load(std::memory_order_seq_cst)) return true;
  list.lock.lock();
  if (node.linked) {
    list.erase(node);
    list.parked.fetch_sub(1, std::memory_order_relaxed);
    // Somebody else may have taken the role meanwhile: then we are linked again and park.
    if (list.served.load(std::memory_order_relaxed)) {
      list.push(node);
      list.parked.fetch_add(1, std::memory_order_relaxed);
      list.lock.unlock();
      return true;
    }
    list.served.store(true, std::memory_order_relaxed);
  }
  list.lock.unlock();
  node.baton.store(false, std::memory_order_relaxed);
  return false;
}

void Runtime::Impl::leave(Device& device) noexcept {
  WaitList& own = device.waiters();
  own.lock.lock();
  base::Parker* next = comm::hand_over(own);
  if (next == nullptr) own.served.store(false, std::memory_order_relaxed);
  own.lock.unlock();
  if (next != nullptr) {
    next->unpark();
    return;
  }
  if (devices.size() == 1 || !serve_the_unserved()) call_the_refused();
}

/// The watch's: nobody took a turn for a while. A role that was promised may have been so to
/// nobody.
void Runtime::Impl::serve_the_left() noexcept {
  bool served = false;
  for (auto& each : devices) {
    WaitList& list = each->waiters();
    list.lock.lock();
    if (std::exchange(list.promised, false)) list.served.store(false, std::memory_order_relaxed);
    served |= list.served.load(std::memory_order_relaxed);
    list.lock.unlock();
  }
  // Those who are there now: whom they wake and who comes back has time.
  for (uint32_t left = turns.owed.size(); left > 0 && turns.owed.wake_oldest(); --left) {
  }
  // Whoever polls or sleeps on the doorbells looks after the rest.
  if (served || sleeper.load(std::memory_order_seq_cst)) return;
  if (!serve_the_unserved()) call_the_refused();
}

/// The idle watch's, where nobody wants the core: who is to be nudged. It may be put aside at any
/// moment, and for long. So whom it names stays where others find him, and takes the role himself.
base::Parker* Runtime::Impl::one_left() noexcept {
  if (base::Parker* const oldest = turns.owed.oldest(); oldest != nullptr) return oldest;
  WaitList& list = devices[0]->waiters();  // turns are taken where there is one
  // relaxed: hints.
  const bool unserved =
      !list.served.load(std::memory_order_relaxed) && !sleeper.load(std::memory_order_relaxed);
  return unserved ? list.first() : nullptr;
}

/// The sleeper's role was given up: some device may have parked threads and no server. True: one
/// of them is it now.
bool Runtime::Impl::serve_the_unserved() noexcept {
  // Invariant 4, see step_down. seq_cst: whoever stepped down after this look sees that nobody
  // sleeps; whoever did before the exchange is in its list, for us or for who exchanged before us.
  if (takes_turns) {
    std::atomic_thread_fence(std::memory_order_seq_cst);  // roles are given up there otherwise, too
  } else if (!orphans.load(std::memory_order_seq_cst) ||
             !orphans.exchange(false, std::memory_order_seq_cst)) {
    return false;
  }
  for (auto& each : devices) {
    WaitList& list = each->waiters();
    if (list.parked.load(std::memory_order_relaxed) == 0) continue;
    list.lock.lock();
    base::Parker* next =
        list.served.load(std::memory_order_relaxed) ? nullptr : comm::hand_over(list);
    // There may be more. Under the lock: whoever has the role now leaves behind it, and looks.
    if (next != nullptr) orphans.exchange(true, std::memory_order_seq_cst);
    list.lock.unlock();
    if (next != nullptr) {
      next->unpark();
      return true;
    }
  }
  return false;
}

/// A server left, and no thread is parked that could follow. Unless somebody sleeps on the
/// doorbells, a worker is to: who looks after the messages of tasks else?
void Runtime::Impl::call_the_refused() noexcept {
  // Invariant 6. seq_cst: the role was given up, then this look; who is refused says so, then looks
  // at the role (wants_sleeper).
  if (refused.load(std::memory_order_seq_cst) && !sleeper.load(std::memory_order_seq_cst) &&
      refused.exchange(false, std::memory_order_seq_cst)) {
    base::call_idlers();
  }
}

}  // namespace weft
