// When a thread that waits leaves its core to others, and what that tells (docs/design/waiting.md).
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "comm/device.hpp"
#include "comm/runtime_impl.hpp"
#include "weft/base/clock.hpp"

namespace weft {

/// A wait ended at its first look. Where more wait than there are cores, a thread that finds its
/// answer there time after time would keep the core from those whose answers it finds as well.
void Runtime::Impl::yield_after_many_at_once() noexcept {
  // Since the last yield here, though others that waited in between may have yielded: those that
  // begin anew with each of them were measured, and the least of 64 threads had 0.4 of the most.
  thread_local uint32_t at_once = 0;
  if (!is_crowded() || ++at_once < kMostAtOnce) return;
  at_once = 0;
  yield_core();
}

bool Runtime::Impl::has_core_alone() const noexcept {
  if (!ranks_have_cores) return false;
  // relaxed: guesses.
  uint32_t threads = waiting.load(std::memory_order_relaxed);
  // Where threads take turns, whose turn it is is awake.
  for (std::size_t i = 0; !takes_turns && i < devices.size(); ++i)
    threads += devices[i]->waiters().parked.load(std::memory_order_relaxed);
  return threads <= own_cores;
}

namespace {

/// Whether a yield of this thread, which has just ended, was so long because somebody ran. The call
/// alone may take as long (0.5 to 0.9 us on a virtual machine): the kernel knows, but where
/// somebody did the last time it is asked every sixteenth time only. Who had the core since it was
/// asked last counts, too.
bool somebody_ran(bool last_time) noexcept {
  constexpr uint32_t kTaken = 16;
  thread_local uint64_t known = 0;
  thread_local uint32_t taken = 0;
  if (last_time && ++taken < kTaken) return true;
  taken = 0;
  const uint64_t left = base::this_thread_cores_left();
  return std::exchange(known, left) != left;
}

}  // namespace

/// Lets whoever wants this core have it; how long that takes tells whether anybody did. Another
/// process, unless threads of this one that wait as well had it meanwhile: these take turns. If it
/// lasted a time slice, and no rank can have had it, somebody computes; then no wait yields for a
/// while, unless it has been in vain for as long as a wait may poll.
void Runtime::Impl::yield_core(uint64_t in_vain) noexcept {
  const uint64_t before = base::ticks();
  if (keeps_core(before, in_vain)) return;
  // relaxed, here and below: guesses. Unsigned: what is over is far ahead.
  const bool measures =
      measures_until.load(std::memory_order_relaxed) - before - 1 < measured_ticks;
  const uint64_t ran_before = measures ? base::process_cpu_ns() : 0;
  if (takes_turns) turns.note_running();
  sched_yield();
  const uint64_t after = base::ticks();
  const bool wanted =
      after - before > yield_ticks && somebody_ran(core_is_wanted.load(std::memory_order_relaxed));
  bool for_ours =
      takes_turns && (turns.others_ran() || waiting.load(std::memory_order_relaxed) > 1);
  if (takes_turns) turns.note_running();
  bool is_known = false;
  if (for_ours && ranks_have_cores && base::LongYields::is_long(after - before)) {
    // They ran, or do so next, but was it them for so long?
    is_known =
        measures && base::to_ticks(static_cast<double>(base::process_cpu_ns() - ran_before)) <
                        (after - before) / 2;
    for_ours = !is_known;
    measures_until.store(after + measured_ticks, std::memory_order_relaxed);
  }
  const bool keeps =
      wanted && !for_ours && (is_known || has_core_alone()) && long_yields.note(before, after);
  if (!keeps && long_yields.keeps_core(after)) return;  // another thread knows more
  const auto hint = [](std::atomic<bool>& what, bool is_so) {
    // relaxed: a hint.
    if (what.load(std::memory_order_relaxed) != is_so) what.store(is_so, std::memory_order_relaxed);
  };
  hint(core_is_wanted, wanted && !keeps);
  hint(core_is_shared, wanted && !for_ours && !keeps);
}

}  // namespace weft
