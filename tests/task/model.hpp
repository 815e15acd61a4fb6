// The scheduler's protocol in small, to be explored: which bit is set, taken and kept, and when.
//
// In it: signals on two levels, claims, kept signals, waits, yields, joins (in place, and straight
// on), thefts by force and by asking (ask, answer_thief, take_from), loot, sleep and who wakes
// whom; two workers, two plain threads, three tasks, each step one atomic access or a section under
// a guard. Not in it: what order a processor gives to accesses that the code leaves unordered, and
// so the fences (the steps are sequentially consistent); the guard itself (base::OwnerLock has
// tests of its own); tasks that move to another home (move_here); timers; records that serve again;
// how long anybody waits: a thief may give up at any time; and programs without end, so not the
// rule by which a victim that was asked twice gives what it would run next. Those are stressed
// (task_stress.cpp, fairness_test.cpp), under ThreadSanitizer too.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace weft::task::model {

inline constexpr uint8_t kWorkers = 2;
inline constexpr uint8_t kTasks = 3;
inline constexpr uint8_t kThreads = kWorkers + 2;  ///< the last two are plain ones
inline constexpr uint8_t kNobody = 0xff;

/// One that the search is to find. `none`: the protocol as it is (docs/design/tasks.md).
enum class Mistake : uint8_t {
  none,
  hint_before_word,        ///< a signaller sets the hint first; 000 §4.2.3
  word_before_hint,        ///< a worker takes the word, then clears the hint; 000 §4.2.3
  both_hint_orders,        ///< the two together, as printed
  bit_before_context,      ///< a task may be taken before its context is saved; Alg. 4.3
  thief_forgets_the_rest,  ///< takes a word, runs one; Alg. 4.5
  thief_forgets_running,   ///< the bits of those that run and were signalled; Alg. 4.5
  sleeper_looks_first,     ///< looks, then announces that it sleeps
  signaller_wakes_nobody,  ///< does not look whether the home sleeps
  kept_is_overwritten,     ///< `waiting` is published by a plain store on a thief, too
  nobody_follows,          ///< a parent whose child moved goes on as if it were at home
  thief_keeps_for_home,    ///< a thief keeps the signal of a task that runs at home
  busy_is_not_said,        ///< who finds a task before it slept still counts as searching
  rest_is_not_offered,     ///< who wakes up for one task does not tell others of more
  running_hides_the_rest,  ///< a thief looks at signals only where no bit is ready
  only_busy_ones_watched,  ///< a sleeper watches only who is busy when it falls asleep
  watch_is_not_passed_on,  ///< who wakes up for a task does not see to it that another watches
  name_is_left,            ///< a thief that asked goes its way, and is still answered
  late_answer_is_lost,     ///< its name was taken, but it does not wait for what is given
  thief_gets_what_runs,    ///< who answers gives the task that runs there, if its bit is set
};

/// What a task or a plain thread does, one after the other.
struct Action {
  enum Kind : uint8_t { end, wait_for, spin_for, yield, signal, spawn, join } kind = end;
  uint8_t what = 0;  ///< wait_for, spin_for: so many signals; else: a task
};

/// A small program.
struct Case {
  const char* name;
  uint8_t workers = kWorkers;
  bool sleeps = true;                  ///< false: workers without work look again and again
  bool asks = false;                   ///< thieves ask a busy victim before they force its guard
  std::array<uint8_t, kTasks> home{};  ///< the worker; kNobody: there is no such task
  std::array<uint8_t, kTasks> word{};  ///< of the home's signals, 0 or 1
  uint8_t ready = 0;                   ///< a bit for each task that is ready from the beginning
  std::array<std::vector<Action>, kTasks> tasks{};
  std::array<std::vector<Action>, kThreads - kWorkers> threads{};
};

class Protocol {
 public:
  enum class Status : uint8_t { none, fresh, home, home_kept, away, away_kept, waiting };
  enum class Mode : uint8_t { busy, searching, asleep };
  /// What a thread does next. Each is one atomic access, or a section under a guard.
  enum class At : uint8_t {
    body,  ///< its task's next action, or the plain thread's
    consume,
    pick,
    drain_words,
    drop_hints,  ///< the mistake
    be_busy,
    offer_rest,
    resume,         ///< only to come back to
    change_stacks,  ///< the mistake
    publish,
    store_waiting,
    follow,
    finish,
    // a signal
    signal_here,
    hint_first,  ///< the mistake
    set_word,
    look_at_hint,
    set_hint,
    look_at_mode,
    look_for_sleepers,
    say_waking,
    find_sleeper,
    wake,
    // a theft
    visit,
    enter,
    give,
    keep_loot,
    // the same by asking
    say_name,
    ring,
    await_answer,
    await_late,
    answer,  ///< its victim, in its own guard
    // sleeping
    be_searching,
    announce,
    look_at_own,
    look_at_others,
    sleep,
    uncount_sleeper,
    search_again,
    unsay_waking,
    count,
  };
  enum class Why : uint8_t { search, wait, yield };

  struct Task {
    Status status;
    uint8_t next_action;
    uint8_t arrived;  ///< signals sent to it: the condition that it waits for
    uint8_t on;       ///< the worker that is on its stack
    uint8_t saved;    ///< its context is
    uint8_t parent;   ///< who runs it in place, below it on the same stack
    uint8_t joiner;
    uint8_t owed;  ///< it is to run once more, or has a signal not consumed
  };
  struct Home {
    uint8_t guard;  ///< who is inside
    uint8_t ready;
    uint8_t later;
    uint8_t loot;
    uint8_t words;  ///< signals: a bit for each task
    uint8_t hints;  ///< a bit for each word
    Mode mode;
    uint8_t permit;
    uint8_t asker;    ///< the thief that asks
    uint8_t asked;    ///< whoever enters the guard next is to answer
    uint8_t refused;  ///< one that asked got nothing, and no task was picked since
  };
  struct Thread {
    At at;
    At back;        ///< after a signal or an offer
    Why why;        ///< it looks for a task
    uint8_t task;   ///< that it runs
    uint8_t next;   ///< claimed, to be run
    uint8_t other;  ///< whom it signals, or left
    uint8_t after_yield;
    uint8_t hands;   ///< words or tasks taken
    uint8_t victim;  ///< whose guard it is in
    uint8_t scan;
    uint8_t looked;
    uint8_t slept;
    uint8_t watches;
    uint8_t next_action;  ///< a plain thread's
    uint8_t gift;         ///< as a thief: tasks that were given
    uint8_t answered;
    uint8_t answers;  ///< is in its own guard to answer, before it does what follows:
    At before;
    uint8_t hands_before;
    uint8_t victim_before;
    uint8_t thief;  ///< whom it answers
  };
  struct State {
    Task tasks[kTasks];
    Home homes[kWorkers];
    Thread threads[kThreads];
    uint8_t sleepers;
    uint8_t waking;
    uint8_t watched;
    uint8_t two_on_a_stack;
    uint8_t not_saved;
  };

  Protocol(const Case& program, Mistake mistake) : case_(program), mistake_(mistake) {}

  [[nodiscard]] static int threads() noexcept { return kThreads; }
  [[nodiscard]] State start() const;
  [[nodiscard]] unsigned choices(const State& state, int thread) const;
  void step(State& state, int thread, unsigned choice, std::string* tale) const;
  [[nodiscard]] const char* broken(const State& state) const;
  [[nodiscard]] const char* unfinished(const State& state) const;
  [[nodiscard]] std::string describe(const State& state) const;

 private:
  struct Step;
  [[nodiscard]] bool all_ended(const State& state) const;

  const Case& case_;
  const Mistake mistake_;
};

}  // namespace weft::task::model
