// Turns: how waiting threads that share few cores give these to each other (docs/design/turns.md).
//
// Purpose: where more threads wait than there are cores, to wake each with its message costs a
// switch of the kernel for each message. Here the thread that runs collects those whose messages
// came, goes on for a while if its own answers come at once, and then gives its core to one of
// them.
//
// Who may call: any thread. Progress: wait-free but for the queue's short lock, and the starts of
// threads.
//
// Threads: the *watch*, from the first time that it is needed on. It looks once a millisecond while
// turns are taken, and sleeps else. And that of the idle watch (idle_watch.hpp).
//
// Invariants
//  1. Wakes are put off (a WakeQueue::Scope on `owed`) only while there is a watch. Who puts some
//     off gives its core to one of them before it parks or sleeps, and when it leaves its wait sees
//     to the rest: it wakes one, who is in its wait and has the same duty; or it leaves them to the
//     watch.
//  2. Who changes something that the watch is to look after (wakes put off by one who does not
//     serve; a role promised, or given up with others parked) calls `keep_watch` *after* it. The
//     watch does not sleep before it was quiet for kQuietLooks looks with nobody owed a wake; where
//     nobody took a turn between two looks it wakes all who are owed one and finds the parked ones
//     a server. So a wrong guess (a thread that left does not come back, or was awake already)
//     costs a millisecond or two, and less where such guesses are often wrong, not a message. The
//     same for messages left in a queue (left_queues.hpp): the watch is told when a queue is
//     listed, and does not sleep before none is.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "comm/idle_watch.hpp"
#include "comm/left_queues.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/parker.hpp"
#include "weft/base/wake_queue.hpp"

namespace weft::comm {

class Turns {
 public:
  /// What is done for those who were left behind.
  struct Rescue {
    void (*serve)(void*) noexcept;          ///< wakes all, and sees that somebody serves
    base::Parker* (*left)(void*) noexcept;  ///< for the idle watch; nullptr: there is none
    void* argument;
  };
  /// Of two processes whose threads converse one should lead and one follow: else each gives its
  /// core to whom the other has just left. `turn_ns`: of the leader's.
  Turns(bool leads, uint64_t turn_ns, const Rescue& rescue);
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// Threads that have what they waited for, and are still to be woken.
  base::WakeQueue owed;
  /// Queues with messages for which threads are still to be woken, if nobody else takes them.
  LeftQueues left;

  /// Before anybody waits: how many are parked is counted there.
  void set_parked(const std::atomic<uint32_t>& parked) noexcept { parked_ = &parked; }

  /// There was ever need of a watch.
  [[nodiscard]] bool in_use() const noexcept {
    return state_.load(std::memory_order_relaxed) != Watch::none;  // relaxed: a hint
  }

  /// The calling thread has a core, before it may lose it or as it comes back to it.
  void note_running() noexcept;
  /// Another thread of this process said so since the calling one did.
  [[nodiscard]] bool others_ran() const noexcept;

  // Of the calling thread, in this order.

  /// It begins a wait.
  void begin_wait() noexcept;
  /// It may still expect its answer sooner than another thread would be awake: its wait began at
  /// `began` (ticks), and such answers came mostly.
  [[nodiscard]] bool expects_answer(uint64_t began) const noexcept;
  /// It has no answer yet, others are owed a wake, and it should give its core away.
  [[nodiscard]] bool should_give_away(bool expects) const noexcept {
    return !expects || (!leads_ && owed.grew());
  }
  /// Wakes whoever should have the core next; false: nobody is owed a wake. `expects`: its answer
  /// may still be on its way.
  bool wake_next(bool expects) noexcept;
  /// It has the answer that it expected.
  void count_answer() noexcept;
  /// It has had its turn, and others are owed a wake.
  [[nodiscard]] bool is_over() const noexcept;
  /// Its wait has ended, and there are others that it left behind or woke.
  void end_wait() noexcept;
  /// It was given a core.
  void begin_turn() noexcept;
  /// When it left others behind, it was back soon, as a rule.
  [[nodiscard]] static bool comes_back_soon() noexcept;
  /// It may leave others to the watch: it comes back soon. Then, when it did, `leave`.
  [[nodiscard]] bool may_leave() noexcept;
  void leave() noexcept;
  /// The same, and leaves messages in a queue.
  void leave(LeftQueues::Entry& queue) noexcept;
  /// It did so since it was asked last.
  [[nodiscard]] static bool has_left_messages() noexcept;

  /// There is a watch; it is started if need be, and cannot be where there are no more threads.
  [[nodiscard]] bool has_watch() noexcept {
    // acquire: pairs with start_watch.
    return state_.load(std::memory_order_acquire) == Watch::kept || start_watch();
  }
  /// From now on the watch looks.
  void keep_watch() noexcept;
  [[nodiscard]] const IdleWatch& idle_watch() const noexcept { return idle_watch_; }

 private:
  enum class Watch : uint8_t { none, starting, kept, failed };

  static void end_span() noexcept;
  /// Between its waits, of late: blocked elsewhere, or kept from running.
  [[nodiscard]] static bool mostly_sleeps() noexcept;
  void note_left() noexcept;
  /// The watch had to wake those whom this leave had left behind.
  [[nodiscard]] bool was_missed(uint32_t leave) const noexcept {
    return missed_[leave % kMissed].load(std::memory_order_relaxed) == leave;
  }
  bool start_watch() noexcept;
  void watch() noexcept;
  [[nodiscard]] bool goes_well() const noexcept;

  const bool leads_;
  const uint64_t turn_ticks_;
  const uint64_t short_look_ns_;
  const Rescue rescue_;
  const std::atomic<uint32_t>* parked_ = nullptr;
  const uint64_t soon_ticks_;

  // Guesses, with lost updates: relaxed.
  std::atomic<int32_t> credit_{0};  ///< how much expecting pays; negative: it is not done
  std::atomic<uint32_t> followed_{0};
  std::atomic<const void*> ran_{nullptr};  ///< the thread that said last that it has a core
  std::atomic<uint32_t> leaves_{0};        ///< threads that left others, or messages, behind
  static constexpr std::size_t kMissed = 64;
  std::atomic<uint32_t> missed_[kMissed] = {};  ///< leaves, by number: see was_missed
  std::atomic<uint32_t> crowd_{0};      ///< so many others wait when one's wait ends, at most
  std::atomic<uint64_t> switch_ticks_;  ///< that it takes to give a core away
  std::atomic<uint64_t> given_at_{0};   ///< when that was begun last

  alignas(base::kCacheLine) std::atomic<uint32_t> kept_{0};  ///< calls of keep_watch
  std::atomic<base::Parker*> sleeping_{nullptr};             ///< the watch's, while it sleeps
  std::atomic<Watch> state_{Watch::none};
  std::atomic<bool> ends_{false};
  std::thread thread_;
  IdleWatch idle_watch_;
};

}  // namespace weft::comm
