// The user's functions that progress calls under a device's lock: handlers, and completions that
// are functions.
#pragma once

#include <cstdint>

namespace weft::comm {

/// In place of an endpoint's number: a HandlerCompletion's function.
inline constexpr int32_t kCompletionsFunction = -2;

/// The calling thread is in such a function while one exists. Two stores; it is looked at only
/// where somebody begins to wait.
///
/// A thread_local's address must not be kept across a task's switch: there is none inside.
class UsersCode {
 public:
  explicit UsersCode(int32_t endpoint) noexcept : outer_(current) { current = endpoint; }
  ~UsersCode() { current = outer_; }
  UsersCode(const UsersCode&) = delete;
  UsersCode& operator=(const UsersCode&) = delete;

  [[nodiscard]] static bool is_running() noexcept { return current != kNone; }
  /// Before the caller waits, or tries again in a loop: whoever is in such a function would wait
  /// for what only those bring who need the lock that its caller has.
  static void check_may_wait() noexcept {
    if (current != kNone) [[unlikely]]
      refuse_wait(current);
  }

 private:
  static constexpr int32_t kNone = -1;
  [[noreturn]] static void refuse_wait(int32_t endpoint) noexcept;

  static inline constinit thread_local int32_t current = kNone;
  int32_t outer_;  ///< such a function may progress other devices
};

/// In a catch block around such a function, of that endpoint: ends the process with a sentence that
/// says what it threw. Progress cannot go on: the message would be half taken.
[[noreturn]] void users_code_threw(int32_t endpoint) noexcept;

}  // namespace weft::comm
