// The watch for an idle core: wakes who was left behind as soon as nobody wants the core.
//
// Purpose: where threads take turns (turns.hpp) whoever has its message leaves without waking those
// whose messages came too: it is back soon, as a rule. Where it is not (it meets others outside of
// weft, or reads a file) the core idles until the watch of `Turns` looks, a millisecond or two.
// Sooner than anybody else a thread of the kernel's idle class knows that a core idles: it runs
// just then, and makes room at once for whom it wakes.
//
// But where such a thread is ready to run all the time, each switch between the others takes longer
// (0.6 µs here). So it is *called* where somebody was found left behind, is on duty for a while,
// and longer if that served somebody; who calls it in vain is refused for a time.
//
// Who may call: any thread. Progress: wait-free, but for a call of the system where it sleeps.
//
// Nothing relies on it: it may come late, or not be had (threads that may run on several
// processors: it would run where they do not; no idle class; no more threads). What it does is
// right at any time, so its looks at what others do are hints.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace weft::comm {

class IdleWatch {
 public:
  /// `wake_one(argument)` wakes one of those who were left behind; false: there is none. `changes`
  /// counts up where a thread takes a turn, or leaves others behind.
  IdleWatch(bool (*wake_one)(void*) noexcept, void* argument, const std::atomic<uint32_t>& changes);
  /// Waits until nothing of the arguments is in use. The thread itself, which runs only where
  /// nobody else wants to, may end later.
  ~IdleWatch();
  IdleWatch(const IdleWatch&) = delete;
  IdleWatch& operator=(const IdleWatch&) = delete;

  /// Somebody was left behind. False: this watch was of no use lately, or cannot be had.
  bool call() noexcept;
  /// `changes` has counted up.
  void note_change() noexcept;
  /// How often it began to be on duty, or ended that. A hint, as is the next.
  [[nodiscard]] uint32_t duties() const noexcept;
  [[nodiscard]] bool is_on_duty() const noexcept { return duties() % 2 != 0; }

 private:
  enum class Thread : uint8_t { none, starting, kept, failed };
  struct Shared;  ///< with the thread, which may outlive this

  bool start() noexcept;

  const std::shared_ptr<Shared> shared_;
  std::atomic<Thread> state_{Thread::none};
  pthread_t thread_{};
};

}  // namespace weft::comm
