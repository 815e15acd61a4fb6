// Where a caller's local values are kept: in its task's record, or its thread.
#include "task/locals.hpp"

#include <atomic>

#include "task/worker.hpp"
#include "weft/task/task.hpp"

namespace weft::task::detail {
namespace {

Record* running_task() noexcept {
  Worker* worker = Worker::current();
  return worker != nullptr ? worker->running() : nullptr;
}

// Not in line: the caller may be on another thread than a moment ago.
[[gnu::noinline]] Locals& of_this_thread() {
  static thread_local Locals locals;
  return locals;
}

}  // namespace

void* local_value(uint32_t key) noexcept {
  if (Record* task = running_task(); task != nullptr) {
    return task->locals != nullptr ? static_cast<Locals*>(task->locals)->find(key) : nullptr;
  }
  return of_this_thread().find(key);
}

void set_local_value(uint32_t key, void* value, DestroyLocal destroy) {
  Record* task = running_task();
  if (task != nullptr && task->locals == nullptr) task->locals = new Locals;
  Locals& locals = task != nullptr ? *static_cast<Locals*>(task->locals) : of_this_thread();
  locals.add(key, value, destroy);
}

uint32_t new_local_key() noexcept {
  static constinit std::atomic<uint32_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);  // a name, no more
}

void end_locals(Record& record) noexcept {
  // The list stays the record's while its values end: their destructors may use others.
  static_cast<Locals*>(record.locals)->clear();
  delete static_cast<Locals*>(record.locals);
  record.locals = nullptr;
}

[[gnu::noinline]] void end_own_locals() noexcept {
  Record* const task = Worker::current_at_entry()->running();
  if (task->locals != nullptr) [[unlikely]]
    end_locals(*task);
}

}  // namespace weft::task::detail
