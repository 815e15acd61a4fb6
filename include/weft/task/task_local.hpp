// Values of which every task has its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace weft::task {

namespace detail {

/// Who has made values of a TaskLocal: a task, or a plain thread.
using DestroyLocal = void (*)(void* value) noexcept;
/// The caller's value of `key`, or nullptr.
void* local_value(uint32_t key) noexcept;
/// Makes `value` the caller's; `destroy` runs when the caller ends. Throws std::bad_alloc.
void set_local_value(uint32_t key, void* value, DestroyLocal destroy);
uint32_t new_local_key() noexcept;

}  // namespace detail

/// What thread_local is to threads: each task, and each plain thread, has its own T, made by
/// default at first use and destroyed, newest first, when the task or thread ends. (A thread_local
/// is shared by all tasks of a worker, and a task that waits may go on with another worker's.)
///
/// Owner and lifetime: outlives all that use it; mostly a static. Who may call: any task or thread,
/// for itself. References stay valid until the caller ends. Throws what T's constructor throws, and
/// std::bad_alloc.
template <class T>
class TaskLocal {
 public:
  TaskLocal() noexcept : key_(detail::new_local_key()) {}
  TaskLocal(const TaskLocal&) = delete;
  TaskLocal& operator=(const TaskLocal&) = delete;

  T& get() {
    if (void* value = detail::local_value(key_); value != nullptr) [[likely]]
      return *static_cast<T*>(value);
    auto made = std::make_unique<T>();
    detail::set_local_value(key_, made.get(),
                            [](void* value) noexcept { delete static_cast<T*>(value); });
    return *made.release();
  }
  T& operator*() { return get(); }
  T* operator->() { return &get(); }

 private:
  const uint32_t key_;
};

}  // namespace weft::task
