// What idle workers do besides their own: a floor above offers it (the message core, progress), a
// room that has threads to spare does it (tasks). Neither knows the other.
#pragma once

#include <cstdint>

#include "weft/base/deadline.hpp"
#include "weft/base/parker.hpp"

namespace weft::base {

/// What somebody waits for who may sleep in more than one way, or who is of another room than what
/// tells him: tasks wait by this for the completions of messages. One waiter at a time.
class Awaited {
 public:
  virtual bool ready() noexcept = 0;
  /// From now on the parker is unparked, once, when it may have become ready. False: it is ready.
  virtual bool enroll(Parker& parker) noexcept = 0;
  /// The parker is not unparked any more, but perhaps just now.
  virtual void withdraw() noexcept = 0;
  /// Time alone makes it ready then, and unparks nobody: who parks or sleeps does so no longer. For
  /// waits of the message core; selects and coroutines have deadlines of their own.
  [[nodiscard]] virtual uint64_t deadline_ns() const noexcept { return kNoDeadline; }

 protected:
  ~Awaited() = default;
};

/// Who may call: any thread, several at once.
class IdleWork {
 public:
  static constexpr uint64_t kNever = ~uint64_t{0};

  /// Who polls: a worker that has nothing to run, and will run at once what the poll wakes; or one
  /// that has, in passing.
  enum class Poller : uint8_t { idle, busy };
  /// Does a bit of it; how many events it found.
  virtual uint32_t poll(Poller poller) noexcept = 0;
  /// Sleeps until there may be something to poll, `awaited` is ready, or `now_ns()` passes
  /// `deadline_ns`. False, at once: another thread sleeps here already. Who leaves sees to it that
  /// somebody else comes if need be (call_idlers), be he one of those who idle or not.
  virtual bool try_sleep(Awaited& awaited, uint64_t deadline_ns) noexcept = 0;
  /// Nobody sleeps here, so that `try_sleep` would. Who was refused asks once more when others can
  /// see that it is idle, and before it sleeps elsewhere: see call_idlers.
  virtual bool wants_sleeper() noexcept = 0;
  /// Ends a sleep, for the one who takes the work away.
  virtual void interrupt() noexcept = 0;

 protected:
  ~IdleWork() = default;
};

/// Offers `work` to whoever idles, and calls them. False: there are kMostIdleWork already.
bool add_idle_work(IdleWork& work) noexcept;
/// Takes it back; when this returns, nobody is in it any more.
void remove_idle_work(IdleWork& work) noexcept;
inline constexpr unsigned kMostIdleWork = 8;

/// A hint; one load.
bool has_idle_work() noexcept;
/// Polls all that is offered; how many events it found.
uint32_t poll_idle_work(IdleWork::Poller poller) noexcept;
/// Sleeps where it can (IdleWork::try_sleep); false: nowhere. Who has more than one thing to sleep
/// on sleeps on one, and a millisecond at most.
bool sleep_on_idle_work(Awaited& awaited, uint64_t deadline_ns) noexcept;
/// Somewhere a sleeper is wanted (IdleWork::wants_sleeper).
bool idle_work_wants_sleeper() noexcept;

/// Wakes somebody who idles and sleeps elsewhere, if there is such: by who leaves idle work on
/// which nobody sleeps any more. First it is said so (wants_sleeper), then called; who idles shows
/// that it does, fences heavily, and then asks: one of the two sees the other.
void call_idlers() noexcept;
/// By the room that has threads to spare: what call_idlers calls, from any thread, for good.
void set_idlers_call(void (*call)() noexcept) noexcept;

}  // namespace weft::base
