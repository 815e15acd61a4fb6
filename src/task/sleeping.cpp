// How a worker that finds nothing to run goes to sleep. docs/scheduler.md follows it.
#include <algorithm>

#include "task/scheduler_impl.hpp"
#include "task/worker.hpp"
#include "task/worker_hot.hpp"
#include "weft/base/asymmetric_fence.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/idle_work.hpp"

namespace weft::task::detail {
namespace {

/// How long one that only watches others sleeps.
constexpr uint64_t kWatchNs = 1'000'000;

}  // namespace

/// What a worker sleeps for, wherever it sleeps: announces, fences, looks once more (invariant 6).
class Worker::Asleep final : public base::Awaited {
 public:
  explicit Asleep(Worker& worker) noexcept : worker_(worker) {}
  bool ready() noexcept override {
    return worker_.scheduler_->stopping.load(std::memory_order_relaxed) || worker_.looks_ready() ||
           worker_.scheduler_->timers.earliest() < until_ns;
  }
  /// Once more: it moves from one place to another, and is announced all the time.
  bool enroll(base::Parker& parker) noexcept override {
    const bool was_woken = worker_.set_sleeper(parker);
    if (worker_.mode() != Mode::asleep) {
      worker_.set_mode(Mode::asleep);
      worker_.crew_.sleepers.fetch_add(1, std::memory_order_relaxed);  // ordered by the fence
    } else if (was_woken) {
      return false;  // at the other place, where it does not sleep
    }
    base::heavy_fence();
    return !ready();
  }
  void withdraw() noexcept override {
    if (worker_.mode() != Mode::asleep) return;
    worker_.crew_.sleepers.fetch_sub(1, std::memory_order_relaxed);
    worker_.set_mode(Mode::searching);
    (void)worker_.set_sleeper(*worker_.own_parker_);
    // release: pairs with wake_one's exchange, which then does not take it for asleep any more.
    worker_.crew_.waking.store(false, std::memory_order_release);
  }
  /// How long it means to sleep: an earlier deadline is a reason to wake.
  uint64_t until_ns = 0;
  /// What others have, seen after `enroll`.
  void look_at_others(bool& busy, bool& ready) const noexcept {
    for (const auto& other : worker_.crew_.workers) {
      if (other.get() == &worker_) continue;
      busy |= other->mode() != Mode::asleep;
      ready |= other->looks_ready_to_thief();
    }
  }

 private:
  Worker& worker_;
};

void Worker::sleep() noexcept {
  Asleep asleep(*this);
  bool others_busy = false;
  bool others_ready = false;
  const bool nothing = asleep.enroll(*own_parker_);
  asleep.look_at_others(others_busy, others_ready);
  // Others have something, it seems: one more visit, then sleep all the same (a task that runs
  // cannot be stolen, though its bit be set).
  looked_since_ = nothing && others_ready && !looked_since_;
  if (nothing && !looked_since_) {
    count(sleeps_);
    asleep.until_ns = scheduler_->timers.earliest();
    // While anybody computes, one watches whether it leaves work for others.
    const bool watches =
        others_busy && !scheduler_->watched.exchange(true, std::memory_order_acq_rel);
    if (watches) asleep.until_ns = std::min(asleep.until_ns, base::now_ns() + kWatchNs);
    if (base::has_idle_work()) {
      // Who was refused asks whether somebody is wanted there by now, since it can be called
      // already; what it is called for meanwhile, `enroll` sees.
      if (!base::sleep_on_idle_work(asleep, asleep.until_ns) && asleep.enroll(*own_parker_) &&
          !base::idle_work_wants_sleeper()) {
        own_parker_->park_until(asleep.until_ns);
      }
    } else if (asleep.until_ns == Timers::kNever) {
      own_parker_->park();
    } else {
      own_parker_->park_until(asleep.until_ns);
    }
    if (watches) scheduler_->watched.store(false, std::memory_order_release);
  }
  asleep.withdraw();
}

}  // namespace weft::task::detail
