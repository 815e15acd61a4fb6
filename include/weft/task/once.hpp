// Doing something once, whichever task or thread comes first.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "weft/task/waiter.hpp"

namespace weft::task {

/// Whether something was done. The names of std::once_flag and std::call_once.
///
/// Who may call: any task or thread, mixed; not from within the function itself.
/// Progress: one load once it is done. Before, one runs the function, which may suspend, and the
/// others wait.
class OnceFlag {
 public:
  OnceFlag() = default;
  OnceFlag(const OnceFlag&) = delete;
  OnceFlag& operator=(const OnceFlag&) = delete;

 private:
  template <class F, class... A>
  friend void call_once(OnceFlag& flag, F&& function, A&&... arguments);

  static constexpr uintptr_t kNever = 0;
  static constexpr uintptr_t kDone = 1;
  static constexpr uintptr_t kRunning = 2;  ///< and the top of a stack of waiters

  [[nodiscard]] bool is_done() const noexcept {
    // acquire: pairs with end's release; what was done is seen.
    return state_.load(std::memory_order_acquire) == kDone;
  }
  /// True: the caller is to do it, and to say `end`. False: it is done.
  bool begin() noexcept;
  void end(bool done) noexcept;

  std::atomic<uintptr_t> state_{kNever};
};

/// Calls `function(arguments…)` unless that was done before; when it returns, it is done. What the
/// function throws goes to its caller; another one, of those who wait or of later ones, then tries.
template <class F, class... A>
void call_once(OnceFlag& flag, F&& function, A&&... arguments) {
  if (flag.is_done()) [[likely]]
    return;
  if (!flag.begin()) return;
  struct End {
    OnceFlag& flag;
    bool done = false;
    ~End() { flag.end(done); }
  } end{flag};
  std::invoke(std::forward<F>(function), std::forward<A>(arguments)...);
  end.done = true;
}

}  // namespace weft::task
