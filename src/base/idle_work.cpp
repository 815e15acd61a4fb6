// The few spots for idle work, and who is in each.
#include "weft/base/idle_work.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>

#include "weft/base/asymmetric_fence.hpp"
#include "weft/base/clock.hpp"

namespace weft::base {
namespace {

/// Invariant: who uses a place counts himself in before he looks at it, and out when he is done;
/// who empties it waits for that count to fall. All seq_cst: one of the two sees the other.
struct Spot {
  std::atomic<IdleWork*> work{nullptr};
  std::atomic<uint32_t> users{0};
};
constinit Spot spots[kMostIdleWork];
constinit std::atomic<uint32_t> offered{0};
constinit std::atomic<void (*)() noexcept> idlers_call{nullptr};

template <class Use>
void use(Spot& place, Use&& how) noexcept {
  if (place.work.load(std::memory_order_relaxed) == nullptr) return;  // mostly
  place.users.fetch_add(1, std::memory_order_seq_cst);
  if (IdleWork* work = place.work.load(std::memory_order_seq_cst); work != nullptr) how(*work);
  place.users.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace

bool add_idle_work(IdleWork& work) noexcept {
  for (Spot& place : spots) {
    IdleWork* nobody = nullptr;
    if (place.work.compare_exchange_strong(nobody, &work, std::memory_order_seq_cst)) {
      offered.fetch_add(1, std::memory_order_relaxed);  // a hint
      call_idlers();  // who slept before there was anything to sleep on
      return true;
    }
  }
  return false;
}

void remove_idle_work(IdleWork& work) noexcept {
  for (Spot& place : spots) {
    if (place.work.load(std::memory_order_relaxed) != &work) continue;  // ours stays until here
    offered.fetch_sub(1, std::memory_order_relaxed);
    place.work.store(nullptr, std::memory_order_seq_cst);
    while (place.users.load(std::memory_order_seq_cst) != 0) {
      work.interrupt();
      sched_yield();
    }
  }
}

bool has_idle_work() noexcept { return offered.load(std::memory_order_relaxed) != 0; }

uint32_t poll_idle_work(IdleWork::Poller poller) noexcept {
  uint32_t found = 0;
  for (Spot& place : spots) use(place, [&](IdleWork& work) { found += work.poll(poller); });
  return found;
}

bool sleep_on_idle_work(Awaited& awaited, uint64_t deadline_ns) noexcept {
  bool slept = false;
  // relaxed: a hint; who adds work does not interrupt who sleeps on other: that is met within the
  // millisecond, too.
  if (offered.load(std::memory_order_relaxed) > 1) {
    deadline_ns = std::min(deadline_ns, now_ns() + 1'000'000);
  }
  for (Spot& place : spots) {
    use(place, [&](IdleWork& work) { slept = work.try_sleep(awaited, deadline_ns); });
    if (slept) return true;
  }
  return false;
}

bool idle_work_wants_sleeper() noexcept {
  bool wanted = false;
  for (Spot& place : spots) use(place, [&](IdleWork& work) { wanted |= work.wants_sleeper(); });
  return wanted;
}

void call_idlers() noexcept {
  // acquire: pairs with set_idlers_call's release.
  auto* const call = idlers_call.load(std::memory_order_acquire);
  if (call == nullptr) return;
  light_fence();  // between what the caller said and the look for idlers
  call();
}

void set_idlers_call(void (*call)() noexcept) noexcept {
  idlers_call.store(call, std::memory_order_release);  // pairs with call_idlers
}

}  // namespace weft::base
