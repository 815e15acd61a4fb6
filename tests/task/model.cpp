// The steps of the protocol in small; each names what it stands for in src/task.
#include "task/model.hpp"

#include <fmt/format.h>

namespace weft::task::model {
namespace {

using Status = Protocol::Status;
using Mode = Protocol::Mode;
using At = Protocol::At;
using Why = Protocol::Why;

constexpr uint8_t bit(unsigned index) { return static_cast<uint8_t>(1U << index); }
uint8_t nth(unsigned bits, unsigned n) {
  for (; n > 0; --n) bits &= bits - 1;
  return static_cast<uint8_t>(std::countr_zero(bits));
}
unsigned count(unsigned bits) { return static_cast<unsigned>(std::popcount(bits)); }
char name(unsigned task) { return static_cast<char>('A' + task); }
bool is_claimable(Status status) { return status == Status::fresh || status == Status::waiting; }
bool has_ready(const Protocol::Home& home) { return (home.ready | home.later | home.loot) != 0; }
bool looks_ready(const Protocol::Home& home) { return has_ready(home) || home.hints != 0; }
bool looks_ready_to_thief(const Protocol::Home& home) {
  return has_ready(home) || (home.mode == Mode::busy && home.hints != 0);
}
const char* text(Status status) {
  constexpr const char* kText[] = {"none", "fresh",          "home",   "home_signalled",
                                   "away", "away_signalled", "waiting"};
  return kText[static_cast<std::size_t>(status)];
}

}  // namespace

/// One step of one thread.
struct Protocol::Step {
  const Protocol& protocol;
  State& state;
  const uint8_t me;
  const unsigned choice;
  std::string* const tale;
  Thread& thread = state.threads[me];

  [[nodiscard]] bool wrong(Mistake mistake) const { return protocol.mistake_ == mistake; }
  [[nodiscard]] Task& task(uint8_t index) const { return state.tasks[index]; }
  [[nodiscard]] Home& mine() const { return state.homes[me]; }
  [[nodiscard]] uint8_t home_of(uint8_t index) const { return protocol.case_.home[index]; }
  [[nodiscard]] uint8_t word_of(uint8_t index) const { return protocol.case_.word[index]; }
  template <class... A>
  void tell(fmt::format_string<A...> what, A&&... arguments) const {
    if (tale == nullptr) return;
    const char* const kind = me < kWorkers ? "worker" : "thread";
    *tale = fmt::format("{} {}: {}", kind, me, fmt::format(what, std::forward<A>(arguments)...));
  }

  void take() const;

  // ---- running -----------------------------------------------------------------------------------

  /// The stack of `index` is the one that this worker is on from now on.
  void get_on(uint8_t index) const {
    if (task(index).on != kNobody) state.two_on_a_stack = 1;
    if (task(index).saved == 0) state.not_saved = 1;
    task(index).on = me;
    task(index).saved = 0;
  }
  /// To what comes next when the task that ran has been left for good.
  void go_on() const {
    thread.task = thread.next;
    thread.next = thread.other = kNobody;
    thread.after_yield = 0;
    if (thread.task != kNobody) {
      thread.at = At::body;
    } else {
      search();
    }
  }
  void search() const {
    thread.why = Why::search;
    thread.at = At::pick;
  }
  void come_back() const {
    const At back = std::exchange(thread.back, At::body);
    thread.scan = 0;
    if (back == At::publish) {
      published();
    } else if (back == At::visit) {
      thread.other = kNobody;
      if (thread.next != kNobody) {
        found_elsewhere();
      } else {
        found_nothing_elsewhere();
      }
    } else if (back == At::pick) {
      thread.other = kNobody;
      search();
    } else {
      thread.other = kNobody;
      thread.at = back;
    }
  }
  void body() const {
    if (me >= kWorkers) return thread_body();
    Task& self = task(thread.task);
    const Action action = protocol.case_.tasks[thread.task].at(self.next_action);
    switch (action.kind) {
      case Action::wait_for:
      case Action::spin_for:
        if (self.arrived >= action.what) {
          ++self.next_action;
          tell("{} sees what it waited for", name(thread.task));
        } else {
          thread.at = At::consume;
          tell("{} is to wait", name(thread.task));
        }
        break;
      case Action::yield:
        ++self.next_action;
        thread.why = Why::yield;
        thread.at = At::pick;
        tell("{} yields", name(thread.task));
        break;
      case Action::signal:
        ++self.next_action;
        ++task(action.what).arrived;
        signal(action.what, At::body);
        tell("{} has something for {}", name(thread.task), name(action.what));
        break;
      case Action::spawn:
        ++self.next_action;
        spawn(action.what);
        tell("{} spawns {}", name(thread.task), name(action.what));
        break;
      case Action::join:
        join(self, action.what);
        break;
      case Action::end:
        end(self);
        break;
    }
  }
  void thread_body() const {
    const auto& actions = protocol.case_.threads[me - kWorkers];
    const Action action = actions.at(thread.next_action++);
    if (action.kind == Action::spawn) {
      spawn(action.what);
      tell("spawns {}", name(action.what));
    } else {
      ++task(action.what).arrived;
      signal(action.what, At::body);
      tell("has something for {}", name(action.what));
    }
  }
  void spawn(uint8_t index) const {
    // Its token is a signal; at home that sets the ready bit under the guard (launch_here).
    task(index).status = Status::fresh;
    signal(index, At::body);
  }
  void join(Task& self, uint8_t child) const {
    if (task(child).status == Status::none) {
      ++self.next_action;
      tell("{} sees the end of {}", name(thread.task), name(child));
    } else if (task(child).status == Status::fresh && home_of(child) == me) {  // run_in_place
      ++self.next_action;
      mine().ready &= static_cast<uint8_t>(~bit(child));
      task(child).status = Status::home;
      task(child).owed = 0;
      task(child).parent = thread.task;
      self.on = kNobody;
      get_on(child);
      tell("{} runs {} in place", name(thread.task), name(child));
      thread.task = child;
    } else {
      task(child).joiner = thread.task;
      thread.at = At::consume;
      tell("{} is to wait for {}", name(thread.task), name(child));
    }
  }
  void end(Task& self) const {
    tell("{} ends", name(thread.task));
    self.status = Status::none;
    self.owed = 0;
    self.on = kNobody;
    const uint8_t parent = std::exchange(self.parent, kNobody);
    const uint8_t joiner = std::exchange(self.joiner, kNobody);
    thread.task = kNobody;
    if (parent != kNobody) {
      task(parent).on = me;
      thread.task = parent;
      if (home_of(parent) != me && !wrong(Mistake::nobody_follows)) thread.at = At::follow;
    } else if (joiner != kNobody) {
      task(joiner).owed = 1;
      thread.other = joiner;
      if (home_of(joiner) == me) {
        thread.at = At::finish;
      } else {
        signal(joiner, At::pick);
      }
    } else {
      search();
    }
  }
  void follow() const {
    Status& status = task(thread.task).status;
    if (status == Status::home) status = Status::away;
    if (status == Status::home_kept) status = Status::away_kept;
    thread.at = At::body;
    tell("{} followed its child here", name(thread.task));
  }
  void finish() const {
    const uint8_t joiner = std::exchange(thread.other, kNobody);
    if (claim_home(joiner)) {
      thread.next = joiner;
      thread.at = At::resume;
      tell("goes straight on with {}", name(joiner));
    } else {
      search();
      tell("keeps for {} that its child has ended", name(joiner));
    }
  }

  // ---- waiting -----------------------------------------------------------------------------------

  void consume() const {  // take_signal
    Task& self = task(thread.task);
    if (self.status == Status::home_kept || self.status == Status::away_kept) {
      self.status = self.status == Status::home_kept ? Status::home : Status::away;
      self.owed = 0;
      thread.at = At::body;
      tell("{} consumes a kept signal", name(thread.task));
    } else {
      thread.why = Why::wait;
      thread.at = At::pick;
      tell("{} finds no kept signal", name(thread.task));
    }
  }
  /// `thread.next`, or nobody, is to run instead of the running task.
  void leave() const {
    thread.other = thread.task;
    thread.at = wrong(Mistake::bit_before_context) ? At::publish : At::change_stacks;
  }
  void change_stacks() const {
    Task& left = task(thread.other);
    left.on = kNobody;
    left.saved = 1;
    if (thread.next != kNobody) get_on(thread.next);
    tell("leaves the stack of {}, its context is saved", name(thread.other));
    if (wrong(Mistake::bit_before_context)) {
      go_on();
    } else {
      thread.at = At::publish;
    }
  }
  void publish() const {
    Status& status = task(thread.other).status;
    if (thread.after_yield != 0) {  // publish_yielded
      status = Status::waiting;
      task(thread.other).owed = 1;
      tell("{} waits for its turn", name(thread.other));
      signal(thread.other, At::publish);
    } else if (status == Status::home || wrong(Mistake::kept_is_overwritten)) {
      thread.at = At::store_waiting;
      tell("{} has no signal kept", name(thread.other));
    } else {
      const Status before = std::exchange(status, Status::waiting);
      tell("{} waits; it was {}", name(thread.other), text(before));
      if (before == Status::away_kept || before == Status::home_kept) {
        signal(thread.other, At::publish);
      } else {
        published();
      }
    }
  }
  void store_waiting() const {
    task(thread.other).status = Status::waiting;
    tell("{} waits", name(thread.other));
    published();
  }
  void published() const {
    if (wrong(Mistake::bit_before_context)) {
      thread.at = At::change_stacks;
    } else {
      go_on();
    }
  }

  // ---- taking ------------------------------------------------------------------------------------

  /// (guard) A token of `index` is there again, or its signal is kept. True: it may run.
  bool set_ready(uint8_t index) const {
    Status& status = task(index).status;
    if (is_claimable(status)) {
      state.homes[home_of(index)].ready |= bit(index);
      return true;
    }
    if (status == Status::home) status = Status::home_kept;
    if (status == Status::away) status = Status::away_kept;
    return false;
  }
  bool claim_home(uint8_t index) const {
    if (is_claimable(task(index).status)) {
      task(index).status = Status::home;
      task(index).owed = 0;
      return true;
    }
    set_ready(index);
    return false;
  }
  /// (guard) Any order may be: newest, highest, round about.
  void pick() const {
    const unsigned own = mine().ready | mine().later;
    if (choice < count(own)) {
      const uint8_t index = nth(own, choice);
      uint8_t& from = (mine().ready & bit(index)) != 0 ? mine().ready : mine().later;
      from &= static_cast<uint8_t>(~bit(index));
      if (!claim_home(index)) return tell("takes the bit of {}, which is kept", name(index));
      tell("claims {}", name(index));
      return found(index);
    }
    if (choice < count(own) + count(mine().loot)) {
      const uint8_t index = nth(mine().loot, choice - count(own));
      mine().loot &= static_cast<uint8_t>(~bit(index));
      tell("takes {} from its loot", name(index));
      return found(index);
    }
    if (mine().hints != 0) {
      mine().guard = me;
      thread.victim = me;
      thread.at = At::drain;
      return tell("looks at its signals");
    }
    tell("finds nothing of its own");
    if (thread.why == Why::wait) return leave();
    thread.at = thread.why == Why::search && mine().mode == Mode::busy ? At::be_searching : At::visit;
  }
  void found(uint8_t index) const {
    thread.next = index;
    if (thread.why == Why::search) {
      thread.at = mine().mode == Mode::busy ? At::resume : At::be_busy;
      return;
    }
    if (thread.why == Why::yield) {
      if (home_of(thread.task) == me) {
        mine().later |= bit(thread.task);  // in the same section
        task(thread.task).owed = 1;
      } else {
        thread.after_yield = 1;
      }
    }
    leave();
  }
  void drain() const {
    Home& home = state.homes[thread.victim];
    thread.hands = home.hints;
    if (!wrong(Mistake::word_before_hint) && !wrong(Mistake::both_hint_orders)) home.hints = 0;
    thread.at = At::drain_words;
    tell("takes the hints of worker {}", thread.victim);
  }
  void drain_words() const {
    Home& home = state.homes[thread.victim];
    const uint8_t word = nth(thread.hands, 0);
    unsigned mask = 0;
    for (uint8_t i = 0; i < kTasks; ++i) {
      if (home_of(i) == thread.victim && word_of(i) == word) mask |= bit(i);
    }
    home.ready |= home.words & static_cast<uint8_t>(mask);
    home.words &= static_cast<uint8_t>(~mask);
    tell("takes the signals of word {}", word);
    if (wrong(Mistake::word_before_hint) || wrong(Mistake::both_hint_orders)) {
      thread.at = At::drop_hints;
      return;
    }
    thread.hands &= static_cast<uint8_t>(~bit(word));
    if (thread.hands == 0) drained();
  }
  void drop_hints() const {
    const uint8_t word = nth(thread.hands, 0);
    state.homes[thread.victim].hints &= static_cast<uint8_t>(~bit(word));
    thread.hands &= static_cast<uint8_t>(~bit(word));
    thread.at = At::drain_words;
    tell("clears the hint of word {}", word);
    if (thread.hands == 0) drained();
  }
  void drained() const {
    if (thread.victim == me) {
      mine().guard = kNobody;
      thread.victim = kNobody;
      thread.at = At::pick;
    } else {
      thread.at = At::give;
    }
  }
  void be_busy() const {
    mine().mode = Mode::busy;
    thread.at = wrong(Mistake::rest_is_not_offered) ? At::resume : At::offer_rest;
    tell("is busy");
  }
  /// Who made work meanwhile left it to this worker, because it searched.
  void offer_rest() const {
    thread.at = At::look_for_sleepers;
    thread.back = At::resume;
    const bool unwatched = thread.slept != 0 && state.watched == 0;
    tell("looks whether there is more: {}", looks_ready(mine()) ? "yes" : "no");
    if (!looks_ready(mine()) && !unwatched) come_back();
    thread.slept = 0;
  }
  void resume() const {
    get_on(thread.next);
    tell("goes on with {}", name(thread.next));
    go_on();
  }

  // ---- signals -----------------------------------------------------------------------------------

  void signal(uint8_t index, At back) const {
    thread.other = index;
    thread.back = back;
    if (me < kWorkers && home_of(index) == me) {
      thread.at = At::signal_here;
    } else {
      const bool first = wrong(Mistake::hint_before_word) || wrong(Mistake::both_hint_orders);
      thread.at = first ? At::hint_first : At::set_word;
    }
  }
  void signal_here() const {
    const bool others = (mine().ready & ~bit(thread.other)) != 0;
    if (task(thread.other).status != Status::none) task(thread.other).owed = 1;
    const bool may_run = set_ready(thread.other);
    tell("signals {} here", name(thread.other));
    if (may_run && others) {
      thread.at = At::look_for_sleepers;
    } else {
      come_back();
    }
  }
  void set_word() const {
    Home& home = state.homes[home_of(thread.other)];
    home.words |= bit(thread.other);
    if (task(thread.other).status != Status::none) task(thread.other).owed = 1;
    const bool hinted = wrong(Mistake::hint_before_word) || wrong(Mistake::both_hint_orders);
    thread.at = hinted ? At::look_at_mode : At::look_at_hint;
    tell("sets the signal of {}", name(thread.other));
  }
  void look_at_hint() const {
    const Home& home = state.homes[home_of(thread.other)];
    const bool is_set = (home.hints & bit(word_of(thread.other))) != 0;
    thread.at = is_set ? At::look_at_mode : At::set_hint;
    tell("sees the hint {}set", is_set ? "" : "not ");
  }
  void set_hint(At next) const {
    state.homes[home_of(thread.other)].hints |= bit(word_of(thread.other));
    thread.at = next;
    tell("sets the hint");
  }
  void look_at_mode() const {
    const uint8_t home = home_of(thread.other);
    const Mode mode = state.homes[home].mode;
    tell("sees worker {} {}", home,
         mode == Mode::asleep ? "asleep" : (mode == Mode::busy ? "busy" : "searching"));
    if (mode == Mode::asleep && !wrong(Mistake::signaller_wakes_nobody)) {
      thread.scan = home;
      thread.at = At::wake;
    } else if (mode == Mode::busy) {
      thread.at = At::look_for_sleepers;
    } else {
      come_back();
    }
  }
  void look_for_sleepers() const {  // offer
    tell("sees {} asleep", state.sleepers);
    if (state.sleepers != 0) {
      thread.at = At::say_waking;
    } else {
      come_back();
    }
  }
  void say_waking() const {  // wake_one
    if (std::exchange(state.waking, uint8_t{1}) != 0) {
      tell("sees that somebody is being woken");
      return come_back();
    }
    thread.scan = 0;
    thread.at = At::find_sleeper;
    tell("is to wake somebody");
  }
  void find_sleeper() const {
    if (thread.scan == kWorkers) {
      state.waking = 0;
      tell("finds nobody asleep");
      return come_back();
    }
    tell("looks whether worker {} is asleep", thread.scan);
    if (state.homes[thread.scan].mode == Mode::asleep) {
      thread.at = At::wake;
    } else {
      ++thread.scan;
    }
  }
  void wake() const {
    state.homes[thread.scan].permit = 1;
    tell("wakes worker {}", thread.scan);
    come_back();
  }

  // ---- stealing ----------------------------------------------------------------------------------

  void visit() const {
    thread.victim = static_cast<uint8_t>(1 - me);
    const bool worth_it = looks_ready_to_thief(state.homes[thread.victim]);
    tell("sees {} at worker {}", worth_it ? "something" : "nothing", thread.victim);
    if (worth_it) {
      thread.at = At::enter;
    } else {
      found_nothing_elsewhere();
    }
  }
  void enter() const {
    Home& victim = state.homes[thread.victim];
    if (victim.guard != kNobody) {
      tell("does not get in at worker {}", thread.victim);
      return found_nothing_elsewhere();
    }
    victim.guard = me;
    thread.at = victim.ready == 0 && victim.hints != 0 ? At::drain : At::give;
    tell("is in at worker {}", thread.victim);
  }
  /// (the victim's guard) Claims one, or all that it may; leaves the guard.
  void give() const {
    Home& victim = state.homes[thread.victim];
    unsigned taken = claim_away(victim.ready);
    if (taken == 0) {
      if (victim.hints != 0 && !wrong(Mistake::running_hides_the_rest)) {
        thread.at = At::drain;  // what was ready cannot be claimed; what came since may be
        return tell("finds only what cannot be claimed");
      }
      taken = claim_away(victim.later);
    }
    if (taken == 0 && victim.loot != 0) {
      taken = choice == 0 ? bit(nth(victim.loot, 0)) : victim.loot;
      victim.loot &= static_cast<uint8_t>(~taken);
    }
    victim.guard = kNobody;
    tell("takes {} tasks of worker {}", count(taken), thread.victim);
    if (taken != 0) thread.next = nth(taken, 0);
    thread.hands = static_cast<uint8_t>(taken & (taken - 1));
    const bool more = victim.ready != 0;
    thread.at = more ? At::wake_victim : At::keep_loot;
    if (!more && thread.hands == 0) elsewhere();
  }
  unsigned claim_away(uint8_t& from) const {
    unsigned taken = 0;
    const bool forgets = wrong(Mistake::thief_forgets_the_rest);
    for (uint8_t i = 0; i < kTasks; ++i) {
      if ((from & bit(i)) == 0) continue;
      Status& status = task(i).status;
      const bool runs_at_home = status == Status::home || status == Status::home_kept;
      if (is_claimable(status)) {
        if (taken != 0 && choice == 0 && !forgets) continue;
        if (taken == 0 || !forgets) {
          taken |= bit(i);
          status = Status::away;
          task(i).owed = 0;
        }
        from &= static_cast<uint8_t>(~bit(i));
      } else if (!runs_at_home) {
        from &= static_cast<uint8_t>(~bit(i));
        set_ready(i);
      } else if (forgets || wrong(Mistake::thief_forgets_running)) {
        from &= static_cast<uint8_t>(~bit(i));
      } else if (wrong(Mistake::thief_keeps_for_home)) {
        from &= static_cast<uint8_t>(~bit(i));
        status = Status::home_kept;
      }
    }
    return taken;
  }
  /// Its signals were moved: it may have looked for them in between, and sleep.
  void wake_victim() const {
    const bool asleep = state.homes[thread.victim].mode == Mode::asleep;
    if (asleep) state.homes[thread.victim].permit = 1;
    tell("leaves something at worker {}{}", thread.victim, asleep ? " and wakes it" : "");
    if (thread.hands != 0) {
      thread.at = At::keep_loot;
    } else if (thread.next != kNobody) {
      offer_loot();
    } else {
      elsewhere();
    }
  }
  void keep_loot() const {
    mine().loot |= std::exchange(thread.hands, uint8_t{0});
    tell("keeps the rest as loot");
    offer_loot();
  }
  void offer_loot() const {
    thread.at = At::look_for_sleepers;
    thread.back = At::visit;
  }
  void elsewhere() const {
    if (thread.next != kNobody) {
      found_elsewhere();
    } else {
      found_nothing_elsewhere();
    }
  }
  void found_elsewhere() const {
    thread.victim = kNobody;
    if (thread.why == Why::yield) {
      thread.after_yield = 1;
      leave();
    } else {
      thread.at = At::be_busy;
    }
  }
  void found_nothing_elsewhere() const {
    thread.victim = kNobody;
    if (thread.why == Why::yield) {
      thread.at = At::body;
    } else {
      thread.at = wrong(Mistake::sleeper_looks_first) ? At::look_at_own : At::announce;
    }
  }

  // ---- sleeping ----------------------------------------------------------------------------------

  void set_mode(Mode mode, At next, const char* what) const {
    mine().mode = mode;
    thread.at = next;
    tell("{}", what);
  }
  void count_sleeper(int by, At next) const {
    state.sleepers = static_cast<uint8_t>(state.sleepers + by);
    thread.at = next;
    tell("counts itself {}", by > 0 ? "in" : "out");
  }
  void look_at_own() const {
    const bool found = looks_ready(mine());
    const bool announced = !wrong(Mistake::sleeper_looks_first);
    thread.at = found ? (announced ? At::uncount_sleeper : At::pick) : At::look_at_others;
    tell("looks once more at its own: {}", found ? "something" : "nothing");
  }
  void look_at_others() const {
    bool ready = false;
    bool awake = false;
    for (uint8_t other = 0; other < kWorkers; ++other) {
      if (other == me) continue;
      const Home& home = state.homes[other];
      ready |= looks_ready_to_thief(home);
      awake |= wrong(Mistake::only_busy_ones_watched) ? home.mode == Mode::busy
                                                      : home.mode != Mode::asleep;
    }
    tell("looks once more at others: {}", ready ? "something" : "nothing");
    const bool announced = !wrong(Mistake::sleeper_looks_first);
    if (ready && thread.looked == 0) {
      thread.looked = 1;
      thread.at = announced ? At::uncount_sleeper : At::pick;
      return;
    }
    thread.looked = 0;
    if (awake && state.watched == 0) thread.watches = state.watched = 1;
    thread.at = announced ? At::sleep : At::announce;
  }
  void sleep() const {
    tell("{}", mine().permit != 0 ? "wakes up" : "wakes up to watch");
    mine().permit = 0;
    if (thread.watches != 0) thread.watches = state.watched = 0;
    thread.slept = 1;
    thread.at = At::uncount_sleeper;
  }
  void unsay_waking() const {
    state.waking = 0;
    search();
    tell("is about to look");
  }
};

void Protocol::Step::take() const {
  switch (thread.at) {
    case At::body: return body();
    case At::consume: return consume();
    case At::pick: return pick();
    case At::drain: return drain();
    case At::drain_words: return drain_words();
    case At::drop_hints: return drop_hints();
    case At::be_busy: return be_busy();
    case At::offer_rest: return offer_rest();
    case At::resume: return resume();
    case At::change_stacks: return change_stacks();
    case At::publish: return publish();
    case At::store_waiting: return store_waiting();
    case At::follow: return follow();
    case At::finish: return finish();
    case At::signal_here: return signal_here();
    case At::hint_first: return set_hint(At::set_word);
    case At::set_word: return set_word();
    case At::look_at_hint: return look_at_hint();
    case At::set_hint: return set_hint(At::look_at_mode);
    case At::look_at_mode: return look_at_mode();
    case At::look_for_sleepers: return look_for_sleepers();
    case At::say_waking: return say_waking();
    case At::find_sleeper: return find_sleeper();
    case At::wake: return wake();
    case At::visit: return visit();
    case At::enter: return enter();
    case At::give: return give();
    case At::wake_victim: return wake_victim();
    case At::keep_loot: return keep_loot();
    case At::be_searching: return set_mode(Mode::searching, At::pick, "searches");
    case At::announce: return set_mode(Mode::asleep, At::count_sleeper, "says that it sleeps");
    case At::count_sleeper:
      return count_sleeper(
          1, wrong(Mistake::sleeper_looks_first) ? At::sleep : At::look_at_own);
    case At::look_at_own: return look_at_own();
    case At::look_at_others: return look_at_others();
    case At::sleep: return sleep();
    case At::uncount_sleeper: return count_sleeper(-1, At::search_again);
    case At::search_again:
      return set_mode(Mode::searching, At::unsay_waking, "says that it searches");
    case At::unsay_waking: return unsay_waking();
    case At::done: return;
  }
}

Protocol::State Protocol::start() const {
  State state{};
  for (uint8_t i = 0; i < kTasks; ++i) {
    const bool ready = (case_.ready & bit(i)) != 0;
    state.tasks[i] = {.status = ready ? Status::fresh : Status::none,
                      .next_action = 0,
                      .arrived = 0,
                      .on = kNobody,
                      .saved = 1,
                      .parent = kNobody,
                      .joiner = kNobody,
                      .owed = ready};
    if (ready) state.homes[case_.home[i]].ready |= bit(i);
  }
  for (Home& home : state.homes) home.guard = kNobody;
  for (uint8_t i = 0; i < kThreads; ++i) {
    Thread& thread = state.threads[i];
    thread = {};
    thread.at = i < kWorkers ? At::pick : At::body;
    thread.back = At::body;
    thread.task = thread.next = thread.other = thread.victim = kNobody;
  }
  return state;
}

unsigned Protocol::choices(const State& state, int index) const {
  const auto me = static_cast<uint8_t>(index);
  const Thread& thread = state.threads[me];
  const auto guard_is_free = [&] { return state.homes[me].guard == kNobody ? 1U : 0U; };
  switch (thread.at) {
    case At::body: {
      if (me >= kWorkers) return thread.next_action < case_.threads[me - kWorkers].size() ? 1 : 0;
      const Task& task = state.tasks[thread.task];
      const Action action = case_.tasks[thread.task].at(task.next_action);
      if (action.kind == Action::spin_for) return task.arrived >= action.what ? 1 : 0;
      return action.kind == Action::join ? guard_is_free() : 1;
    }
    case At::pick: {
      if (guard_is_free() == 0) return 0;
      const Home& home = state.homes[me];
      const unsigned tokens = count(home.ready | home.later) + count(home.loot);
      return tokens + (tokens == 0 || home.hints != 0 ? 1 : 0);
    }
    case At::finish:
    case At::signal_here:
    case At::keep_loot:
      return guard_is_free();
    case At::give:
      return 2;  // as little or as much as it may take
    case At::sleep:
      return state.homes[me].permit != 0 || thread.watches != 0 ? 1 : 0;
    default:
      return 1;
  }
}

void Protocol::step(State& state, int thread, unsigned choice, std::string* tale) const {
  Step{*this, state, static_cast<uint8_t>(thread), choice, tale}.take();
}

/// Invariants 1 to 3 of docs/design/tasks.md.
const char* Protocol::broken(const State& state) const {
  if (state.two_on_a_stack != 0) return "two workers are on the stack of one task";
  if (state.not_saved != 0) return "a task goes on whose context is not saved";
  for (uint8_t i = 0; i < kTasks; ++i) {
    const Task& task = state.tasks[i];
    if (task.owed == 0) continue;
    if (task.status == Status::home_kept || task.status == Status::away_kept) continue;
    const Home& home = state.homes[case_.home[i]];
    if (((home.words | home.ready | home.later) & bit(i)) != 0) continue;
    bool in_hands = false;
    for (const Thread& thread : state.threads) {
      in_hands |= thread.other == i && (thread.at == At::signal_here || thread.at == At::set_word ||
                                        thread.at == At::hint_first || thread.at == At::finish);
    }
    if (!in_hands) return "a task is to run, or to have a signal, and nothing says so";
  }
  return nullptr;
}

const char* Protocol::unfinished(const State& state) const {
  for (uint8_t i = 0; i < kTasks; ++i) {
    const Task& task = state.tasks[i];
    if (case_.home[i] == kNobody) continue;
    if (task.status != Status::none) return "a task is never run again";
    if (case_.tasks[i].at(task.next_action).kind != Action::end) return "a task was never spawned";
  }
  for (const Home& home : state.homes) {
    if (home.guard != kNobody) return "a guard is never left";
    if (home.mode != Mode::asleep) return "a worker neither works nor sleeps";
  }
  if (state.sleepers != kWorkers) return "the sleepers are miscounted";
  if (state.waking != 0) return "nobody will ever be woken again";
  return nullptr;
}

std::string Protocol::describe(const State& state) const {
  std::string lines;
  for (uint8_t i = 0; i < kTasks; ++i) {
    if (case_.home[i] == kNobody) continue;
    const Home& home = state.homes[case_.home[i]];
    lines += fmt::format("  then {} is {}:{}{}{}{}\n", name(i), text(state.tasks[i].status),
                         (home.words & bit(i)) != 0 ? " signalled" : "",
                         (home.hints & bit(case_.word[i])) != 0 ? " hinted at" : "",
                         (home.ready & bit(i)) != 0 ? " ready" : "",
                         (home.later & bit(i)) != 0 ? " later" : "");
  }
  for (uint8_t i = 0; i < kWorkers; ++i) {
    const bool asleep = state.threads[i].at == At::sleep;
    const uint8_t runs = state.threads[i].task;
    lines += fmt::format("  then worker {} {}{}\n", i, asleep ? "sleeps" : "is awake",
                         runs != kNobody ? fmt::format(" and runs {}", name(runs)) : "");
  }
  return lines;
}

}  // namespace weft::task::model
