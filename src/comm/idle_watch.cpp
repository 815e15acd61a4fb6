// IdleWatch: see idle_watch.hpp.
#include "comm/idle_watch.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <new>
#include <utility>

#include "weft/base/clock.hpp"
#include "weft/base/signals_blocked.hpp"

namespace weft::comm {
namespace {

constexpr double kDutyNs = 16e6;        ///< since it was called, or woke somebody
constexpr double kMostRefusalNs = 1e9;  ///< after a duty in vain; the first is as long as that duty
constexpr double kAloneNs = 200'000;    ///< nobody else wanted the core: it naps
constexpr double kOtherNs = 2'000;      ///< a yield that took so long let somebody else run
constexpr long kEndNs = 50'000'000;     ///< so long its end is waited for
constexpr useconds_t kEndLookUs = 100;

/// False: it is in another class still, and would take the core from others.
bool enter_idle_class() noexcept {
  const sched_param none{};
  return ::sched_setscheduler(0, SCHED_IDLE, &none) == 0;
}

/// The calling thread, and so whom it starts, may run on one processor only.
bool is_bound() noexcept {
  cpu_set_t may;
  // It fails where there are more processors than the set holds.
  return ::sched_getaffinity(0, sizeof may, &may) == 0 && CPU_COUNT(&may) == 1;
}

timespec end_of_patience() noexcept {
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);  // as pthread_timedjoin_np has it
  until.tv_nsec += kEndNs;
  if (until.tv_nsec >= 1'000'000'000) {
    until.tv_nsec -= 1'000'000'000;
    ++until.tv_sec;
  }
  return until;
}

}  // namespace

struct IdleWatch::Shared {
  using Bed = std::atomic<base::Parker*>;  ///< the thread's parker, while it sleeps there

  Shared(base::Parker* (*whom)(void*) noexcept, void* its_argument,
         const std::atomic<uint32_t>& counted)
      : left(whom), argument(its_argument), changes(counted) {}

  // Of the thread.
  void run() noexcept;
  bool keep_duty() noexcept;
  void nap(uint32_t seen) noexcept;
  template <class Idles>
  void sleep_while(Bed& bed, Idles idles) noexcept {
    // seq_cst: it says that it sleeps, then looks; who has something for it changes that, then
    // looks whether it sleeps.
    bed.store(&base::this_parker(), std::memory_order_seq_cst);
    while (!ends.load(std::memory_order_seq_cst) && idles()) base::this_parker().park();
    bed.store(nullptr, std::memory_order_seq_cst);
  }

  // Of any.
  static void wake(const Bed& bed) noexcept {
    if (base::Parker* const sleeper = bed.load(std::memory_order_seq_cst); sleeper != nullptr)
      sleeper->unpark();
  }
  /// By who saw that a call was in vain: the next ones are refused for a time, twice the last one.
  void refuse() noexcept {
    // relaxed: guesses, with lost updates.
    const uint64_t ticks = std::clamp(2 * refusal.load(std::memory_order_relaxed),
                                      base::to_ticks(kDutyNs), base::to_ticks(kMostRefusalNs));
    refusal.store(ticks, std::memory_order_relaxed);
    refused_until.store(base::ticks() + ticks, std::memory_order_relaxed);
  }

  // They end with the owner: to be touched by the thread between `begin_use`, where that answers
  // true, and `end_use` only.
  base::Parker* (*const left)(void*) noexcept;
  void* const argument;
  const std::atomic<uint32_t>& changes;
  bool begin_use() noexcept {
    // seq_cst: in use, then the look whether they end; the owner ends them, then looks.
    in_use.store(true, std::memory_order_seq_cst);
    if (!ends.load(std::memory_order_seq_cst)) return true;
    end_use();
    return false;
  }
  // release: pairs with the owner's look.
  void end_use() noexcept { in_use.store(false, std::memory_order_release); }
  std::atomic<bool> in_use{false};
  std::atomic<bool> ends{false};

  Bed resting{nullptr};             ///< off duty
  Bed napping{nullptr};             ///< on duty
  std::atomic<bool> called{false};  ///< and it did not look since
  // Hints and guesses: relaxed.
  std::atomic<uint64_t> duty_until{0};  ///< ticks
  std::atomic<uint32_t> duties{0};
  std::atomic<uint64_t> woken{0};          ///< by the thread
  std::atomic<uint64_t> refusal{0};        ///< ticks, the last one
  std::atomic<uint64_t> refused_until{0};  ///< ticks
};

IdleWatch::IdleWatch(base::Parker* (*left)(void*) noexcept, void* argument,
                     const std::atomic<uint32_t>& changes)
    : shared_(std::make_shared<Shared>(left, argument, changes)) {}

IdleWatch::~IdleWatch() {
  // relaxed: nobody else calls any more.
  if (state_.load(std::memory_order_relaxed) != Thread::kept) return;
  Shared& its = *shared_;
  its.ends.store(true, std::memory_order_seq_cst);
  Shared::wake(its.resting);
  Shared::wake(its.napping);
  const timespec until = end_of_patience();
  if (::pthread_timedjoin_np(thread_, nullptr, &until) == 0) return;
  // Others keep the core busy, and may do so for long: it ends when they let it.
  ::pthread_detach(thread_);
  while (its.in_use.load(std::memory_order_seq_cst)) ::usleep(kEndLookUs);
}

bool IdleWatch::start() noexcept {
  Thread now = Thread::none;
  // acquire: pairs with the release below.
  if (!state_.compare_exchange_strong(now, Thread::starting, std::memory_order_acquire))
    return now == Thread::kept;
  now = Thread::failed;
  if (shared_->left != nullptr && is_bound()) {
    if (auto* const its = new (std::nothrow) std::shared_ptr<Shared>(shared_); its != nullptr) {
      const base::SignalsBlocked blocked;
      const auto body = [](void* argument) -> void* {
        const std::unique_ptr<std::shared_ptr<Shared>> shared(
            static_cast<std::shared_ptr<Shared>*>(argument));
        (*shared)->run();
        return nullptr;
      };
      if (::pthread_create(&thread_, nullptr, body, its) == 0) {
        now = Thread::kept;
      } else {
        delete its;
      }
    }
  }
  state_.store(now, std::memory_order_release);
  return now == Thread::kept;
}

bool IdleWatch::call() noexcept {
  Shared& its = *shared_;
  const uint64_t now = base::ticks();
  if (now < its.refused_until.load(std::memory_order_relaxed) || !start()) return false;
  if (its.called.load(std::memory_order_relaxed)) {
    if (now < its.duty_until.load(std::memory_order_relaxed)) return true;
    // It was not heard: others had the core all the time.
    its.called.store(false, std::memory_order_relaxed);
    its.refuse();
    return false;
  }
  its.duty_until.store(now + base::to_ticks(kDutyNs), std::memory_order_relaxed);
  its.called.store(true, std::memory_order_seq_cst);  // then the looks for a sleeper
  Shared::wake(its.resting);
  Shared::wake(its.napping);
  return true;
}

void IdleWatch::note_change() noexcept { Shared::wake(shared_->napping); }

uint32_t IdleWatch::duties() const noexcept {
  return shared_->duties.load(std::memory_order_relaxed);
}

uint64_t IdleWatch::woken() const noexcept {
  return shared_->woken.load(std::memory_order_relaxed);
}

bool IdleWatch::is_on_duty() const noexcept {
  return duties() % 2 != 0 && base::ticks() < shared_->duty_until.load(std::memory_order_relaxed);
}

// --- The thread ----------------------------------------------------------------------------------

void IdleWatch::Shared::run() noexcept {
  if (!enter_idle_class()) {
    refused_until.store(UINT64_MAX, std::memory_order_relaxed);
    return;
  }
  while (!ends.load(std::memory_order_seq_cst)) {
    sleep_while(resting, [&] { return !called.load(std::memory_order_seq_cst); });
    duties.fetch_add(1, std::memory_order_relaxed);
    const bool was_of_use = keep_duty();
    called.store(false, std::memory_order_relaxed);
    if (was_of_use) {
      refusal.store(0, std::memory_order_relaxed);
    } else {
      refuse();
    }
    duties.fetch_add(1, std::memory_order_relaxed);
  }
}

/// Answers whether it woke anybody.
bool IdleWatch::Shared::keep_duty() noexcept {
  const uint64_t duty_ticks = base::to_ticks(kDutyNs);
  const uint64_t alone_ticks = base::to_ticks(kAloneNs);
  const uint64_t other_ticks = base::to_ticks(kOtherNs);
  bool was_of_use = false;
  uint64_t now = base::ticks();
  uint64_t alone_since = now;
  while (now < duty_until.load(std::memory_order_relaxed) && begin_use()) {
    if (called.load(std::memory_order_relaxed)) called.store(false, std::memory_order_relaxed);
    // Before the look: for what changes after it there is no nap.
    const uint32_t seen = changes.load(std::memory_order_seq_cst);
    base::Parker* const whom = left(argument);
    end_use();
    if (whom != nullptr) {
      was_of_use = true;
      // relaxed: a call at this moment asks for as much.
      duty_until.store(now + duty_ticks, std::memory_order_relaxed);
      whom->nudge();
      woken.fetch_add(1, std::memory_order_relaxed);
    }
    ::sched_yield();
    const uint64_t before = std::exchange(now, base::ticks());
    if (whom != nullptr || now - before > other_ticks) alone_since = now;
    if (now - alone_since > alone_ticks) {
      nap(seen);
      now = alone_since = base::ticks();
    }
  }
  return was_of_use;
}

void IdleWatch::Shared::nap(uint32_t seen) noexcept {
  sleep_while(napping, [&] {
    if (!begin_use()) return false;
    const bool idles = changes.load(std::memory_order_seq_cst) == seen;
    end_use();
    return idles && !called.load(std::memory_order_seq_cst);
  });
}

}  // namespace weft::comm
