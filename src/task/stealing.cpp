// How a worker without tasks comes by others' (000 §4.2.3). docs/scheduler.md follows it.
#include <sched.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "task/scheduler_impl.hpp"
#include "task/worker.hpp"
#include "task/worker_hot.hpp"
#include "weft/base/asymmetric_fence.hpp"
#include "weft/base/backoff.hpp"
#include "weft/base/clock.hpp"

namespace weft::task::detail {
namespace {

/// What a theft should bring: so many times what it costs.
constexpr uint64_t kWorthVisits = 3;

}  // namespace

/// Whether a visit to others is due. A visit takes microseconds, on a virtual machine ten, and
/// about as much from its victim: who brought home less work than a few times that from the last
/// one waits before the next, longer and longer.
bool Worker::may_steal() noexcept {
  const uint64_t now = base::ticks();
  if (visited_at_ != 0) {
    // Not more than the longest pause: a visit in which the thread did not run says little.
    const uint64_t worth = std::min(kWorthVisits * visit_ticks_, scheduler_->pause_ticks);
    const bool worth_it = now - visited_at_ > worth;
    visited_at_ = 0;
    pause_ = worth_it ? 0 : std::clamp(pause_ * 2, worth, scheduler_->pause_ticks);
    next_visit_ = now + pause_;
  }
  return now >= next_visit_;
}

/// A victim at random, then all others (000 §4.2.3).
Record* Worker::steal() noexcept {
  const auto& workers = crew_.workers;
  if (workers.size() == 1 || !may_steal()) return nullptr;
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  std::size_t at = random_ % workers.size();
  for (std::size_t visits = 0; visits < workers.size(); ++visits) {
    Worker& victim = *workers[at];
    if (&victim != this && victim.looks_ready_to_thief()) {
      if (Record* record = steal_from(victim); record != nullptr) return record;
    }
    at = at + 1 == workers.size() ? 0 : at + 1;
  }
  return nullptr;
}

Record* Worker::steal_from(Worker& victim) noexcept {
  visited_at_ = base::ticks();
  int count_taken = victim.mode() == Mode::busy ? ask(victim) : kNoAnswer;
  if (count_taken == kNoAnswer) count_taken = static_cast<int>(take_from(victim));
  visit_ticks_ = base::ticks() - visited_at_;
  if (count_taken == 0) return nullptr;
  count(steals_);
  count(stolen_, static_cast<uint64_t>(count_taken));
  if (count_taken > 1) {
    {
      const Inside inside(*this);
      // Backwards: the oldest is next.
      for (int i = count_taken; --i > 0;) loot_[loot_count_++] = gift_[static_cast<std::size_t>(i)];
    }
    base::light_fence();  // as launch_here
    crew_.offer();
  }
  return gift_[0];
}

/// What the victim, at its next look at its own tasks, puts into gift_: how many; kNoAnswer if it
/// takes too long: it computes, or its thread does not run. That costs both a few transfers of a
/// line.
int Worker::ask(Worker& victim) noexcept {
  gift_count_.store(kNoAnswer, std::memory_order_relaxed);  // nobody is answering
  Worker* nobody = nullptr;
  // release: pairs with answer_thief's acquire.
  if (!victim.asker_.compare_exchange_strong(nobody, this, std::memory_order_release,
                                             std::memory_order_relaxed)) {
    return 0;  // another thief asks
  }
  victim.guard_.ask();
  int given = kNoAnswer;
  bool ready = false;  // to do something else
  // acquire: pairs with answer_thief's release.
  while ((given = gift_count_.load(std::memory_order_acquire)) == kNoAnswer && !ready) {
    const uint64_t waited = base::ticks() - visited_at_;
    if (waited > scheduler_->answer_ticks) break;
    if (waited > scheduler_->look_ticks) {
      sched_yield();  // threads may outnumber cores
    } else {
      base::cpu_relax();
    }
    ready = looks_ready() || asker_.load(std::memory_order_relaxed) == &victim;
  }
  if (given != kNoAnswer) return given;
  Worker* self = this;
  // relaxed: nothing was written.
  if (victim.asker_.compare_exchange_strong(self, nullptr, std::memory_order_relaxed)) {
    return ready ? 0 : kNoAnswer;
  }
  for (base::Backoff backoff; (given = gift_count_.load(std::memory_order_acquire)) == kNoAnswer;) {
    backoff.pause();
  }
  return given;
}

/// (guard, own thread) Gives a thief that asked what it may have.
void Worker::answer_thief() noexcept {
  // acquire: pairs with ask's release.
  Worker* const thief = asker_.exchange(nullptr, std::memory_order_acquire);
  if (thief == nullptr) return;  // it would not wait any longer
  if (ready_.empty()) drain_signals();
  unsigned given = give_to_thief(thief->gift_, true);
  if (given == 0 && std::exchange(refused_at_, turns_) == turns_) {
    // The task that was kept has not come to its turn since: who runs here does so for long.
    spill();
    given = give_to_thief(thief->gift_, false);
  }
  // release: pairs with ask's acquires.
  thief->gift_count_.store(static_cast<int>(given), std::memory_order_release);
}

/// Shuts the victim out of its own tasks, and takes some into gift_: how many. That costs both of
/// them a heavy fence.
unsigned Worker::take_from(Worker& victim) noexcept {
  if (!victim.guard_.try_enter()) return 0;
  if (victim.ready_.empty()) {
    victim.drain_signals();
    if (victim.ready_.empty()) victim.spill();
  }
  unsigned count_taken = victim.give_to_thief(gift_, false);
  if (count_taken == 0) {
    // What was ready cannot be claimed (it runs); what came since may be.
    victim.drain_signals();
    victim.spill();
    count_taken = victim.give_to_thief(gift_, false);
  }
  const bool more = !victim.ready_.empty();
  victim.guard_.leave();
  if (more) {
    // We moved its signals: it may have looked for them in between, and sleep (invariant 6).
    base::light_fence();
    if (victim.mode() == Mode::asleep) victim.wake();
    crew_.offer();
  }
  return count_taken;
}

/// (guard) What a thief gets: half of the loot, the oldest, which is older than what came of it
/// since; else of the lowest word that has anything, as much as Options::steal says. `keep_one`:
/// the worker itself wants to go on.
unsigned Worker::give_to_thief(std::array<Record*, kMostLoot>& taken, bool keep_one) noexcept {
  unsigned count_taken = 0;
  const uint32_t loot = loot_count_.load(std::memory_order_relaxed);
  const uint32_t give = (loot + 1) / 2;
  for (uint32_t i = 0; i < give; ++i) taken[count_taken++] = loot_[loot - 1 - i];
  loot_count_.store(loot - give, std::memory_order_relaxed);
  if (count_taken != 0) return count_taken;
  // relaxed: under the guard.
  keep_one = keep_one && newest_.load(std::memory_order_relaxed) == nullptr;
  for (ReadyBits* each : {&ready_, &later_}) {
    ReadyBits& from = *each;
    for (int at = from.next_from(0); at != ReadyBits::kNone && count_taken == 0;) {
      const auto word = static_cast<uint32_t>(at) / 64;
      uint64_t bits = from.word(word);
      auto most = static_cast<unsigned>(std::popcount(bits));
      at = from.next_from((word + 1) * 64);
      if (keep_one && at == ReadyBits::kNone) {
        most /= 2;
      } else if (scheduler_->options.steal == Steal::half_word) {
        most = (most + 1) / 2;
      }
      if (scheduler_->options.steal == Steal::one) most = std::min(most, 1U);
      for (; bits != 0 && count_taken < most; bits &= bits - 1) {
        const uint32_t index = word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
        if (claim_away(index, from)) taken[count_taken++] = records_[index];
      }
    }
  }
  return count_taken;
}

}  // namespace weft::task::detail
