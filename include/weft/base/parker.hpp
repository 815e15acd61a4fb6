// The parker: whatever waits. A kernel thread parks on a futex; a task parks by leaving its
// bit clear. A completion unparks it without knowing which.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::base {

/// One waiter's place to sleep.
///
/// Owner and lifetime: belongs to one waiting context (thread or task) and outlives it; the
/// memory of a thread's parker is never unmapped, so a late `unpark` is harmless.
/// Who may call: `park` the owner alone; `unpark` anyone, any number of times.
/// Semantics: a binary permit. `unpark` leaves at most one permit; `park` consumes it, sleeping
/// until there is one. Everything before `unpark` happens before the return of the `park` that
/// consumed its permit. `park` may also return without a permit having been asked for by this
/// wait (a permit left over from an earlier one), so callers re-check their condition in a loop.
class Parker {
 public:
  Parker() = default;
  Parker(const Parker&) = delete;
  Parker& operator=(const Parker&) = delete;

  /// Sleeps until unparked. May suspend a task instead of blocking its thread.
  virtual void park() noexcept = 0;
  /// Sleeps until unparked or until `now_ns()` passes `deadline_ns`; false on time-out.
  virtual bool park_until(uint64_t deadline_ns) noexcept = 0;
  /// Sleeps until unparked, by who is content to get a core late: if the unpark is made in a
  /// WakeQueue's scope, the wake is left to that queue.
  virtual void park_patiently() noexcept { park(); }
  /// Lets others run first. Owner only.
  virtual void yield() noexcept;
  /// True: its owner may poll for a while instead of parking. A task that did so would keep its
  /// worker from those whom it waits for.
  [[nodiscard]] virtual bool may_poll() const noexcept { return true; }
  /// Gives the permit; wakes the owner if it sleeps. No system call when it does not sleep.
  virtual void unpark() noexcept = 0;
  /// The same, and where its wake was put off (wake_queue.hpp) it is woken now.
  virtual void nudge() noexcept { unpark(); }

 protected:
  ~Parker() = default;
};

/// The calling context's own parker: the thread's, unless a provider gives another.
Parker& this_parker() noexcept;

/// How many sleeping threads the calling one has woken: they may want its core.
uint32_t threads_woken() noexcept;

/// A floor above (tasks) installs how the calling context finds its parker; it answers nullptr
/// for "a plain thread". nullptr uninstalls. Not to be changed while anyone waits.
using ParkerProvider = Parker* (*)() noexcept;
void set_parker_provider(ParkerProvider provider) noexcept;

}  // namespace weft::base
