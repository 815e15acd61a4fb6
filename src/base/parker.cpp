// The thread parker's futex calls, the pool of parkers, and how a context finds its own.
#include "weft/base/parker.hpp"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/at_thread_exit.hpp"
#include "base/thread_parker.hpp"
#include "weft/base/wake_queue.hpp"

namespace weft::base {
namespace {

/// Sleeps while *word == `value`; false if the deadline passed. May return early.
bool futex_wait(std::atomic<uint32_t>& word, uint32_t value, const uint64_t* deadline_ns) noexcept {
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  timespec deadline{};
  if (deadline_ns != nullptr) {
    deadline.tv_sec = static_cast<time_t>(*deadline_ns / 1'000'000'000U);
    deadline.tv_nsec = static_cast<long>(*deadline_ns % 1'000'000'000U);
  }
  // The bitset variant takes an absolute time of CLOCK_MONOTONIC, as now_ns() counts it.
  const long answer =
      syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, value,
              deadline_ns != nullptr ? &deadline : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
  return answer == 0 || errno != ETIMEDOUT;
}

constinit thread_local uint32_t woken_by_me = 0;

void futex_wake_one(std::atomic<uint32_t>& word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace

uint32_t threads_woken() noexcept { return woken_by_me; }

void Parker::yield() noexcept { sched_yield(); }

bool ThreadParker::try_take_permit() noexcept {
  uint32_t expected = kPermit;
  // acquire: pairs with unpark's release.
  return state_.compare_exchange_strong(expected, kEmpty, std::memory_order_acquire,
                                        std::memory_order_relaxed);
}

bool ThreadParker::wait(const uint64_t* deadline_ns, State asleep) noexcept {
  uint32_t expected = kEmpty;
  // relaxed: announcing sleep publishes nothing; that it cannot miss a permit is coherence of the
  // one word, not ordering.
  if (!state_.compare_exchange_strong(expected, asleep, std::memory_order_relaxed)) {
    // It was a permit, which only we can take away.
    return try_take_permit();
  }
  for (;;) {
    const bool in_time = futex_wait(state_, asleep, deadline_ns);
    expected = asleep;
    // relaxed: nothing was given. Fails only if a permit came meanwhile, which is then ours.
    if (!in_time && state_.compare_exchange_strong(expected, kEmpty, std::memory_order_relaxed)) {
      return false;
    }
    if (try_take_permit()) return true;
  }
}

void ThreadParker::park() noexcept {
  if (try_take_permit()) return;
  wait(nullptr);
}

bool ThreadParker::park_until(uint64_t deadline_ns) noexcept {
  if (try_take_permit()) return true;
  return wait(&deadline_ns);
}

void ThreadParker::park_patiently() noexcept {
  if (try_take_permit()) return;
  wait(nullptr, kPatient);
}

void ThreadParker::wake() noexcept {
  // release: as in unpark; who waits in turn sees what we did before.
  state_.exchange(kPermit, std::memory_order_release);
  ++woken_by_me;
  futex_wake_one(state_);
}

void ThreadParker::unpark() noexcept {
  // release: pairs with try_take_permit's acquire. An exchange even where a permit is there
  // already: it continues the earlier unpark's release sequence and starts its own, so that the
  // park which takes the one permit sees what was written before either.
  const uint32_t before = state_.exchange(kPermit, std::memory_order_release);
  if (before != kAsleep && before != kPatient) return;
  if (before == kPatient && WakeQueue::puts_off(*this)) return;
  ++woken_by_me;
  futex_wake_one(state_);
}

namespace {

// The pool: every parker ever made, in a list that only grows, each with a mark that a live thread
// owns it. Taking walks the list (a thread's first wait only); no lock, hence no harm from a fork;
// no removal, hence no ABA.
constinit std::atomic<ThreadParker*> all_parkers{nullptr};
constinit std::atomic<unsigned> parkers_made{0};
constinit thread_local ThreadParker* my_parker = nullptr;
constinit std::atomic<ParkerProvider> provider{nullptr};

}  // namespace

ThreadParker& ParkerPool::take() {
  // acquire: pairs with the release below; the list behind the head is seen.
  for (ThreadParker* p = all_parkers.load(std::memory_order_acquire); p != nullptr; p = p->next_) {
    // acquire: pairs with give_back's release; the last owner is done with it.
    if (!p->owned_.load(std::memory_order_relaxed) &&
        !p->owned_.exchange(true, std::memory_order_acquire)) {
      // relaxed: a permit meant for the last owner is dropped, or arrives later and is harmless.
      p->state_.store(ThreadParker::kEmpty, std::memory_order_relaxed);
      return *p;
    }
  }
  auto* made = new ThreadParker;
  parkers_made.fetch_add(1, std::memory_order_relaxed);  // a statistic
  made->next_ = all_parkers.load(std::memory_order_relaxed);
  // release: pairs with the acquire above.
  while (!all_parkers.compare_exchange_weak(made->next_, made, std::memory_order_release,
                                            std::memory_order_relaxed)) {
  }
  return *made;
}

void ParkerPool::give_back(ThreadParker& parker) noexcept {
  // release: pairs with take's acquire.
  parker.owned_.store(false, std::memory_order_release);
}

unsigned ParkerPool::made() noexcept { return parkers_made.load(std::memory_order_relaxed); }

namespace {

void release_parker(void* parker) noexcept {
  my_parker = nullptr;
  ParkerPool::give_back(*static_cast<ThreadParker*>(parker));
}

ThreadParker& first_parker() noexcept {
  ThreadParker& parker = ParkerPool::take();
  my_parker = &parker;
  AtThreadExit<release_parker>::arm(&parker);
  return parker;
}

}  // namespace

ThreadParker& ThreadParker::of_this_thread() noexcept {
  return my_parker != nullptr ? *my_parker : first_parker();
}

Parker& this_parker() noexcept {
  // acquire: pairs with set_parker_provider's release; the provider's own state is seen.
  if (ParkerProvider ask = provider.load(std::memory_order_acquire); ask != nullptr) {
    if (Parker* given = ask(); given != nullptr) return *given;
  }
  return ThreadParker::of_this_thread();
}

void set_parker_provider(ParkerProvider ask) noexcept {
  provider.store(ask, std::memory_order_release);  // pairs with this_parker's acquire
}

}  // namespace weft::base
