#include "weft/task/coroutine.hpp"

namespace weft::task::detail {

void resume_in_task(Scheduler& scheduler, std::coroutine_handle<> coroutine) noexcept {
  try {
    scheduler.spawn_detached([coroutine] { coroutine.resume(); }, {.name = "coroutine"});
    return;
  } catch (...) {
    // No memory for a task: nothing was spawned.
  }
  coroutine.resume();
}

void Continuation::park() noexcept { WEFT_CHECK(false, "a coroutine suspends, it does not park"); }

bool Continuation::park_until(uint64_t /*deadline_ns*/) noexcept {
  park();
  return false;
}

}  // namespace weft::task::detail
