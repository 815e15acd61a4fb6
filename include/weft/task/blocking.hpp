// Calls into the kernel that may sleep, made where they hold up no worker.
#pragma once

#include <atomic>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "weft/base/parker.hpp"

namespace weft::task {

namespace detail {

/// A call that a helper makes for a task. Lives on the task's stack.
struct BlockingCall {
  void (*run)(BlockingCall&) noexcept = nullptr;
  base::Parker* caller = nullptr;
  BlockingCall* next = nullptr;  ///< of those that no helper has taken yet
  std::atomic<bool> is_done{false};
};

[[nodiscard]] bool is_in_task() noexcept;
/// Returns when it was run. Suspends the calling task.
void run_blocking(BlockingCall& call) noexcept;

}  // namespace detail

/// Runs `function()` on a kernel thread that is no worker, suspends the calling task meanwhile, and
/// returns the result, or throws what it threw. For read(2), getaddrinfo(3), a foreign library's
/// lock: anything that may put its thread to sleep. Costs the sleep and the wake-up of a thread,
/// about ten microseconds. Called by a plain thread, it just calls `function`.
///
/// A scheduler has up to `task.blocking_threads` such threads, made when they are needed and ended
/// when they have been idle for `task.blocking_idle`; further calls wait their turn. They handle no
/// signals. In `function` the caller is no task: it may not spawn, thread-local variables are the
/// helper's, and `errno` is to be returned if it matters. A call that never returns keeps its
/// scheduler from ending. Where no thread can be made at all, `function` runs on the worker.
template <class F>
auto blocking(F&& function) -> std::invoke_result_t<F&> {
  using R = std::invoke_result_t<F&>;
  static_assert(!std::is_reference_v<R>, "wrap a reference in std::reference_wrapper");
  if (!detail::is_in_task()) return function();
  struct Call final : detail::BlockingCall {
    explicit Call(std::remove_reference_t<F>& f) noexcept : function(f) { run = run_call; }
    static void run_call(detail::BlockingCall& base) noexcept {
      auto& self = static_cast<Call&>(base);
      try {
        if constexpr (std::is_void_v<R>) {
          self.function();
        } else {
          self.result.emplace(self.function());
        }
      } catch (...) {
        self.error = std::current_exception();
      }
    }
    std::remove_reference_t<F>& function;
    std::optional<std::conditional_t<std::is_void_v<R>, std::monostate, R>> result;
    std::exception_ptr error;
  } call(function);
  detail::run_blocking(call);
  if (call.error) [[unlikely]]
    std::rethrow_exception(std::exchange(call.error, nullptr));
  if constexpr (!std::is_void_v<R>) return *std::move(call.result);
}

}  // namespace weft::task
