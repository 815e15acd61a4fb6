// The watch for an idle core: wakes who was left behind as soon as nobody wants the core.
//
// Purpose: where threads take turns (turns.hpp) whoever has its message leaves without waking those
// whose messages came too: it is back soon, as a rule. Where it is not (it meets others outside of
// weft, or reads a file) the core idles until the watch of `Turns` looks, a millisecond or two.
// Sooner than anybody else a thread of the kernel's idle class knows that a core idles: it runs
// just then, as good as only then (of its control group), and makes room at once for whom it wakes.
//
// But where such a thread is ready to run all the time, each switch between the others takes longer
// (0.6 µs here). So it is *called* where somebody was found left behind, is on duty for a while,
// and longer if that was of use; who calls it in vain is refused for a time.
//
// Who may call: any thread. Progress: wait-free, but for a call of the system where it sleeps, and
// the start of a thread.
//
// Invariant: it may be put aside at any moment, and for long: by a thread that then computes, or is
// of a real-time class. So it holds no lock, and takes away nothing that others need: it asks who
// is to be woken, by hints, and nudges him, whom others still find where he is. Nothing relies on
// it: it may come late, or not be had (who calls first may run on several processors, and so might
// it, while its process does not idle; no idle class; no more threads).
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "weft/base/parker.hpp"

namespace weft::comm {

class IdleWatch {
 public:
  /// `left(argument)`: one who was left behind, whose parker is never unmapped; nullptr: there is
  /// none. Takes no lock.
  /// A `left` that is nullptr: no such watch. `changes` counts up where a thread takes a turn, or
  /// leaves others behind.
  IdleWatch(base::Parker* (*left)(void*) noexcept, void* argument,
            const std::atomic<uint32_t>& changes);
  /// Waits until nothing of the arguments is in use. The thread itself, which hardly runs where
  /// others want to, may end later.
  ~IdleWatch();
  IdleWatch(const IdleWatch&) = delete;
  IdleWatch& operator=(const IdleWatch&) = delete;

  /// Somebody was left behind. False: this watch was of no use lately, or cannot be had.
  bool call() noexcept;
  /// `changes` has counted up.
  void note_change() noexcept;
  /// How often it began to be on duty, or ended that. A hint, as is the next.
  [[nodiscard]] uint32_t duties() const noexcept;
  [[nodiscard]] bool is_on_duty() const noexcept;
  /// How many it woke. For tests.
  [[nodiscard]] uint64_t woken() const noexcept;

 private:
  enum class Thread : uint8_t { none, starting, kept, failed };
  struct Shared;  ///< with the thread, which may outlive this

  bool start() noexcept;

  const std::shared_ptr<Shared> shared_;
  std::atomic<Thread> state_{Thread::none};
  pthread_t thread_{};
};

}  // namespace weft::comm
