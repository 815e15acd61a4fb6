// A worker: one kernel thread that runs tasks, and the tasks that are at home there.
#pragma once

#include <cxxabi.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "task/crew.hpp"
#include "task/ready_bits.hpp"
#include "task/record_memory.hpp"
#include "task/signals.hpp"
#include "task/stack.hpp"
#include "task/switch.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/locks.hpp"
#include "weft/base/owner_lock.hpp"
#include "weft/base/parker.hpp"
#include "weft/task/record.hpp"
#include "weft/task/scheduler.hpp"

namespace weft::task::detail {

/// What a worker is about, for those who made work.
enum class Mode : uint8_t { busy, searching, asleep };

/// Whether a child was run in place of who joins it.
enum class InPlace : uint8_t {
  done,
  refused,
  later,  ///< others have their turn first: see leaves_a_turn
};

/// What is to be done for the stack that was left, once its context is saved.
enum class After : uint8_t {
  nothing,
  spare,  ///< it is a spare one, in the loop
  wait,   ///< its task waits
  yield,  ///< its task waits for its turn
};

/// Purpose: docs/design/tasks.md, whose invariants hold here.
/// Owner: the scheduler. Who may call: "own thread": the kernel thread of this worker, on whatever
/// stack; "any": any thread. What is under the guard says so.
class alignas(base::kCacheLine) Worker {
 public:
  Worker(Crew& crew, int number, bool two_levels);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void enter(Scheduler::Impl& scheduler) noexcept;
  void start();
  void join_thread();
  void abandon_all() noexcept;
  [[nodiscard]] bool has_started() const noexcept { return thread_.joinable(); }

  /// The worker whose thread this is, or nullptr. Not to be remembered across a switch.
  static Worker* current() noexcept;
  /// The same, for functions that are never in line, before anything in them can switch.
  static Worker* current_at_entry() noexcept {
    asm volatile("");
    return of_this_thread;
  }

  // ---- own thread ----
  /// A record for a task of this worker; nullptr: no memory.
  Record* take_record() noexcept;
  /// Gives back a record of any worker.
  void give_record(Record& record) noexcept;
  void launch_here(Record& record) noexcept;
  /// Signals a task of this worker.
  void signal_here(Record& record) noexcept;
  /// Runs `record` in place if it is fresh, at home here, and there is stack for it.
  InPlace run_in_place(Record& record) noexcept;
  void yield() noexcept;
  void wait() noexcept;
  [[nodiscard]] Record* running() const noexcept { return running_; }
  /// What runs now on this thread; its share of resources is its home's.
  void set_running(Record& record) noexcept {
    running_ = &record;
    if (Worker* home = record.home(); home != share_of_) [[unlikely]]
      take_share_of(*home);
  }

  // ---- any ----
  Record* take_record_outside() noexcept;
  void give_record_outside(Record& record) noexcept;
  static void signal(Record& record) noexcept { signal(record, current()); }
  static void signal(Record& record, Worker* here) noexcept;
  static void signal_from_outside(Record& record) noexcept;
  void wake() noexcept;
  [[nodiscard]] Mode mode() const noexcept { return mode_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool looks_ready() const noexcept { return has_ready() || !signals_.looks_empty(); }
  /// The same, but leaves the line of signals alone while its owner is about to look there itself.
  [[nodiscard]] bool looks_ready_to_thief() const noexcept {
    return has_ready() || (mode() == Mode::busy && !signals_.looks_empty());
  }
  /// Calls `each` with every record ever used, under the guard: for dumps.
  template <class F>
  void for_each_record(F&& each) {
    guard_.enter();
    for (Record* record : records_) each(*record);
    guard_.leave();
  }
  void add_to(Stats& stats) const noexcept;

  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] Scheduler::Impl& scheduler() noexcept { return *scheduler_; }
  [[nodiscard]] Stack* stack() noexcept { return stack_; }

  /// Where every pooled stack starts.
  static void loop(Arrival arrival);

 private:
  friend class WorkerTest;
  static constinit thread_local Worker* of_this_thread;
  static constexpr unsigned kMostLoot = 64;
  static constexpr uint32_t kChunk = 512;         ///< records made at once
  static constexpr uint32_t kTurnsPerRound = 64;  ///< every so often, all are gone round
  static constexpr uint32_t kInPlacePerLook = 64;
  static constexpr uint8_t kTurnsOfNewest = 48;  ///< of a task, before all others that can run
  static constexpr uint32_t kTurnsPerLook = 8;   ///< at signals, while tasks yield in turn
  static constexpr uint32_t kTurnsPerPoll = 64;  ///< of idle work, however busy
  /// The same among so many tasks: those that converse are then half as many at a time, and nearer.
  static constexpr uint32_t kTurnsPerPollOfMany = 32;
  static constexpr uint32_t kMany = 1024;
  static constexpr unsigned kSpares = 32;  ///< stacks kept, spare

  /// The guard, entered as the own thread.
  class Inside;

  // own thread, not under the guard
  Record* next() noexcept;
  Record* linger(Record& self) noexcept;
  Record* more_records() noexcept;
  Record* search() noexcept;
  Record* look_everywhere() noexcept;
  void become_busy(bool slept) noexcept;
  bool look_at_timers() noexcept;
  bool may_steal() noexcept;
  Record* steal() noexcept;
  Record* steal_from(Worker& victim) noexcept;
  int ask(Worker& victim) noexcept;
  unsigned take_from(Worker& victim) noexcept;
  void begin(Record& record) noexcept;
  Record* finish(Record& record) noexcept;
  void leave(Record& self, After after, Record* next) noexcept;
  Worker& switch_to(Stack& to) noexcept;
  static Worker& settle(Arrival arrival, Stack& here) noexcept;
  class Asleep;
  void sleep() noexcept;
  bool set_sleeper(base::Parker& sleeper) noexcept;
  void poll_now_and_then(const Record& self) noexcept;
  bool leaves_a_turn() noexcept;
  void take_share_of(Worker& home) noexcept;
  Stack* stack_for(Record& record) noexcept;
  static void publish_waiting(Record& record) noexcept;
  void publish_yielded(Record& record) noexcept;
  bool move_here(Record& record) noexcept;
  Stack* take_spare(uint32_t size_class) noexcept;
  bool has_spare() noexcept;
  void give_spare(Stack& stack) noexcept;
  [[nodiscard]] bool has_room() noexcept;
  static void follow(Record& parent) noexcept;
  void set_mode(Mode mode) noexcept { mode_.store(mode, std::memory_order_relaxed); }
  void thread_main();
  /// Of whatever runs on this thread now.
  [[nodiscard]] ExceptionState& exceptions() noexcept {
    return *reinterpret_cast<ExceptionState*>(exceptions_);
  }

  // relaxed: hints to who does not hold the guard.
  [[nodiscard]] bool has_ready() const noexcept {
    return newest_.load(std::memory_order_relaxed) != nullptr ||
           yielded_.load(std::memory_order_relaxed) != nullptr || !ready_.looks_empty() ||
           !later_.looks_empty() || loot_count_.load(std::memory_order_relaxed) != 0;
  }

  // under the guard
  bool make_ready(Record& record) noexcept;
  void spill() noexcept;
  void make_later(Record& record) noexcept;
  Record* next_inside() noexcept;
  Record* next_slowly() noexcept;
  bool claim_home(Record& record) noexcept;
  bool claim_newest(Record& record) noexcept;
  bool claim_away(uint32_t index, ReadyBits& from) noexcept;
  int next_round(const ReadyBits& bits) noexcept;
  void drain_signals() noexcept;
  Record* make_records() noexcept;
  void sort_free_records() noexcept;
  bool set_ready(Record& record) noexcept;
  Record* take_loot() noexcept;
  unsigned give_to_thief(std::array<Record*, kMostLoot>& taken, bool keep_one) noexcept;
  void answer_thief() noexcept;

  // ---- what others look at ----
  std::atomic<Mode> mode_{Mode::busy};
  std::atomic<uint32_t> loot_count_{0};
  unsigned thread_slot_ = 0;  ///< constant while its thread runs
  base::SpinLock sleeper_lock_;
  bool woken_ = false;               ///< (sleeper_lock_) since sleeper_ was named
  base::Parker* sleeper_ = nullptr;  ///< (sleeper_lock_) what wakes the thread: its own, or a bell
  Signals signals_;

  // ---- under the guard ----
  alignas(base::kCacheLine) base::OwnerLock guard_;
  std::atomic<Record*> newest_{nullptr};   ///< made runnable last, and not in ready_ (depth first)
  std::atomic<Record*> yielded_{nullptr};  ///< the only one that yielded, and not in later_
  ReadyBits ready_;                        ///< runnable, in this round
  ReadyBits later_;                        ///< runnable, after those: see make_later
  std::vector<Record*> records_;           ///< by index
  std::array<Record*, kMostLoot> loot_ = {};  ///< claimed elsewhere, not yet run
  bool newest_first_ = true;
  uint32_t turns_ = 0;
  uint32_t refused_at_ = 0;  ///< the turn in which a thief that asked got nothing
  uint32_t in_place_ = 0;
  uint64_t last_turn_ = 0;     ///< that one who joins in place left, in ticks
  uint32_t cursor_ = 0;        ///< where the next round of ready_ goes on
  uint32_t later_cursor_ = 0;  ///< of later_; apart, or one would make the other skip

  // ---- the own thread's ----
  alignas(base::kCacheLine) Record* running_ = nullptr;
  Stack* stack_ = nullptr;     ///< the one it runs on
  Stack* previous_ = nullptr;  ///< the one it left last
  Record* left_ = nullptr;     ///< whose it was, for after_
  After after_ = After::nothing;
  Record* handed_ = nullptr;  ///< to the loop that is switched to: what to run first
  Record* free_ = nullptr;    ///< records
  Stack* spares_ = nullptr;
  unsigned spare_count_ = 0;
  uint32_t without_stack_ = 0;  ///< tasks that found none
  abi::__cxa_eh_globals* exceptions_ = nullptr;
  Worker* share_of_ = nullptr;  ///< base::this_share_number is this worker's thread's
  uint64_t random_ = 0;
  uint64_t visited_at_ = 0;  ///< when it last stole and has not wanted to since, in ticks; 0
  uint64_t next_visit_ = 0;
  uint64_t pause_ = 0;                  ///< between visits
  uint64_t visit_ticks_ = 0;            ///< what the last one took
  base::Parker* own_parker_ = nullptr;  ///< the thread's
  uint32_t turns_to_poll_ = kTurnsPerPoll;
  bool looked_since_ = false;         ///< at others, since it last wanted to sleep
  Stack native_;                      ///< the thread's own stack
  std::atomic<uint64_t> spawned_{0};  ///< these: written by the own thread alone
  std::atomic<uint64_t> ended_{0};
  std::atomic<uint64_t> steals_{0};
  std::atomic<uint64_t> stolen_{0};
  std::atomic<uint64_t> moved_{0};
  std::atomic<uint64_t> sleeps_{0};

  // ---- between a thief and who it asks ----
  static constexpr int kNoAnswer = -1;
  alignas(base::kCacheLine) std::atomic<Worker*> asker_{nullptr};  ///< the thief that asks this one
  std::atomic<int> gift_count_{kNoAnswer};    ///< as a thief: how many were given
  std::array<Record*, kMostLoot> gift_ = {};  ///< as a thief: by whom it asked; else its own

  // ---- from outside ----
  alignas(base::kCacheLine) std::atomic<Record*> returned_{
      nullptr};  ///< freed, or taken, by others
  alignas(base::kCacheLine) base::SpinLock outside_lock_;
  Record* outside_free_ = nullptr;  ///< (outside_lock_) for those who spawn from elsewhere

  alignas(base::kCacheLine) Crew& crew_;
  Scheduler::Impl* scheduler_ = nullptr;  ///< while it lives; not of who signals from outside
  const int number_;
  const std::size_t first_index_;  ///< of the tasks; below, there are signals of one level
  RecordMemory record_memory_;     ///< under the guard
  std::thread thread_;
};

/// What stands in Record::joiner while the task has not ended: nullptr, or one of these.
struct Joiner {
  static void* nobody() noexcept { return reinterpret_cast<void*>(2); }  ///< detached
  static void* of_task(Record& task) noexcept { return reinterpret_cast<char*>(&task) + kTask; }
  static void* of_thread(base::Parker& thread) noexcept { return &thread; }
  /// The task that joins; nullptr: it is a thread.
  static Record* task(void* joiner) noexcept {
    const auto bits = reinterpret_cast<uintptr_t>(joiner);
    return (bits & kTask) != 0 ? reinterpret_cast<Record*>(bits - kTask) : nullptr;
  }

 private:
  static constexpr uintptr_t kTask = 4;
};

void install_parker_provider() noexcept;
/// The scheduler ends before the task.
void abandon_task(Record& record) noexcept;
/// A detached task's exception ends the program.
[[noreturn]] void end_program(Record& record) noexcept;

}  // namespace weft::task::detail
