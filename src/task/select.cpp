#include "weft/task/select.hpp"

#include "task/worker.hpp"

namespace weft::task::detail {

Attempt ToEnd::attempt(WaitEntry* waiter) noexcept {
  if (record_.has_ended()) return Attempt::done;
  if (waiter == nullptr || joiner_ != nullptr) return Attempt::not_now;
  // Who ends the task unparks whoever is named here, a thread or, through the same calls, a task.
  joiner_ = Joiner::of_thread(waiter->parker());
  void* nobody_yet = nullptr;
  // acq_rel: release our parker to who ends it; acquire its end, if that was first.
  if (!record_.joiner.compare_exchange_strong(nobody_yet, joiner_, std::memory_order_acq_rel)) {
    joiner_ = nullptr;
    return Attempt::done;
  }
  return Attempt::not_now;
}

void ToEnd::leave(WaitEntry& /*waiter*/) noexcept {
  // relaxed: fails only if the task has ended, which is for its joiner to acquire.
  if (joiner_ != nullptr) {
    record_.joiner.compare_exchange_strong(joiner_, nullptr, std::memory_order_relaxed);
  }
  joiner_ = nullptr;
}

}  // namespace weft::task::detail
