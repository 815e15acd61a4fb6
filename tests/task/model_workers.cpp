// The protocol in small: signals, thefts, sleep.
#include "task/model_step.hpp"

namespace weft::task::model {

// ---- signals -----------------------------------------------------------------------------------

void Protocol::Step::signal(uint8_t index, At back) const {
  thread.other = index;
  thread.back = back;
  if (me < kWorkers && home_of(index) == me) {
    thread.at = At::signal_here;
  } else {
    const bool first = wrong(Mistake::hint_before_word) || wrong(Mistake::both_hint_orders);
    thread.at = first ? At::hint_first : At::set_word;
  }
}

void Protocol::Step::signal_here() const {
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

void Protocol::Step::set_word() const {
  Home& home = state.homes[home_of(thread.other)];
  home.words |= bit(thread.other);
  if (task(thread.other).status != Status::none) task(thread.other).owed = 1;
  const bool hinted = wrong(Mistake::hint_before_word) || wrong(Mistake::both_hint_orders);
  thread.at = hinted ? At::look_at_mode : At::look_at_hint;
  tell("sets the signal of {}", name(thread.other));
}

void Protocol::Step::look_at_hint() const {
  const Home& home = state.homes[home_of(thread.other)];
  const bool is_set = (home.hints & bit(word_of(thread.other))) != 0;
  thread.at = is_set ? At::look_at_mode : At::set_hint;
  tell("sees the hint {}set", is_set ? "" : "not ");
}

void Protocol::Step::set_hint() const {
  state.homes[home_of(thread.other)].hints |= bit(word_of(thread.other));
  thread.at = thread.at == At::hint_first ? At::set_word : At::look_at_mode;
  tell("sets the hint");
}

void Protocol::Step::look_at_mode() const {
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

/// offer in src/task.
void Protocol::Step::look_for_sleepers() const {
  tell("sees {} asleep", state.sleepers);
  if (state.sleepers != 0) {
    thread.at = At::say_waking;
  } else {
    come_back();
  }
}

/// wake_one in src/task.
void Protocol::Step::say_waking() const {
  if (std::exchange(state.waking, uint8_t{1}) != 0) {
    tell("sees that somebody is being woken");
    return come_back();
  }
  thread.scan = 0;
  thread.at = At::find_sleeper;
  tell("is to wake somebody");
}

void Protocol::Step::find_sleeper() const {
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

void Protocol::Step::wake() const {
  state.homes[thread.scan].permit = 1;
  tell("wakes worker {}", thread.scan);
  come_back();
}

// ---- stealing ----------------------------------------------------------------------------------

void Protocol::Step::visit() const {
  thread.victim = static_cast<uint8_t>(1 - me);
  const bool worth_it = looks_ready_to_thief(state.homes[thread.victim]);
  tell("sees {} at worker {}", worth_it ? "something" : "nothing", thread.victim);
  if (worth_it) {
    const bool asks = protocol.case_.asks && state.homes[thread.victim].mode == Mode::busy;
    thread.at = asks ? At::say_name : At::enter;
  } else {
    found_nothing_elsewhere();
  }
}

void Protocol::Step::enter() const {
  Home& victim = state.homes[thread.victim];
  if (victim.guard != kNobody) {
    tell("does not get in at worker {}", thread.victim);
    return found_nothing_elsewhere();
  }
  victim.guard = me;
  if (victim.ready == 0 && victim.hints != 0) {
    drain();
  } else {
    give();
  }
}

/// (the victim's guard) Claims one, or all that it may; leaves the guard.
void Protocol::Step::give() const {
  Home& victim = state.homes[thread.victim];
  unsigned taken = claim_away(victim.ready);
  if (taken == 0) {
    if (victim.hints != 0 && !wrong(Mistake::running_hides_the_rest)) {
      return drain();  // what was ready cannot be claimed; what came since may be
    }
    taken = claim_away(victim.later);
  }
  if (taken == 0 && victim.loot != 0) {
    taken = choice == 0 ? bit(nth(victim.loot, 0)) : victim.loot;
    drop(victim.loot, taken);
  }
  victim.guard = kNobody;
  tell("takes {} tasks of worker {}", count(taken), thread.victim);
  if (taken != 0) thread.next = nth(taken, 0);
  thread.hands = static_cast<uint8_t>(taken & (taken - 1));
  const bool more = victim.ready != 0;
  if (thread.hands != 0) {
    thread.at = At::keep_loot;
  } else if (more && taken != 0) {
    offer_loot();
  } else {
    elsewhere();
  }
}

unsigned Protocol::Step::claim_away(uint8_t& from) const {
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
      drop(from, bit(i));
    } else if (!runs_at_home) {
      drop(from, bit(i));
      set_ready(i);
    } else if (forgets || wrong(Mistake::thief_forgets_running)) {
      drop(from, bit(i));
    } else if (wrong(Mistake::thief_keeps_for_home)) {
      drop(from, bit(i));
      status = Status::home_kept;
    }
  }
  return taken;
}

void Protocol::Step::keep_loot() const {
  mine().loot |= std::exchange(thread.hands, uint8_t{0});
  tell("keeps the rest as loot");
  offer_loot();
}

void Protocol::Step::offer_loot() const {
  thread.at = At::look_for_sleepers;
  thread.back = At::visit;
}

void Protocol::Step::elsewhere() const {
  if (thread.next != kNobody) {
    found_elsewhere();
  } else {
    found_nothing_elsewhere();
  }
}

void Protocol::Step::found_elsewhere() const {
  thread.victim = kNobody;
  if (thread.why == Why::yield) {
    thread.after_yield = 1;
    leave();
  } else {
    thread.at = At::be_busy;
  }
}

void Protocol::Step::found_nothing_elsewhere() const {
  thread.victim = kNobody;
  if (thread.why == Why::yield) {
    thread.at = At::body;
    thread.why = Why::search;
  } else if (!protocol.case_.sleeps) {
    thread.at = At::pick;
  } else {
    thread.at = wrong(Mistake::sleeper_looks_first) ? At::look_at_own : At::announce;
  }
}

// ---- asking ------------------------------------------------------------------------------------

void Protocol::Step::say_name() const {
  uint8_t& asker = state.homes[thread.victim].asker;
  thread.answered = 0;
  if (asker != kNobody) {
    tell("sees that another thief asks");
    return found_nothing_elsewhere();
  }
  asker = me;
  thread.at = At::ring;
  tell("leaves its name with worker {}", thread.victim);
}

void Protocol::Step::ring() const {
  state.homes[thread.victim].asked = 1;
  thread.at = At::await_answer;
  tell("asks worker {}", thread.victim);
}

void Protocol::Step::await_answer() const {
  if (thread.answered != 0) return take_gift();
  // The other reason not to wait is work of its own, or that the two ask each other.
  const bool has_reason = looks_ready(mine()) || mine().asker == thread.victim;
  give_up(choice == 0 || !has_reason);
}

void Protocol::Step::give_up(bool force) const {
  uint8_t& asker = state.homes[thread.victim].asker;
  if (asker == me || wrong(Mistake::name_is_left)) {
    if (!wrong(Mistake::name_is_left)) asker = kNobody;
    tell("does not wait any longer");
    if (force) {
      thread.at = At::enter;
    } else {
      found_nothing_elsewhere();
    }
  } else if (wrong(Mistake::late_answer_is_lost)) {
    tell("does not wait, though its name was taken");
    found_nothing_elsewhere();
  } else {
    thread.at = At::await_late;
    tell("would not wait any longer, but its name was taken");
  }
}

void Protocol::Step::await_late() const { take_gift(); }

void Protocol::Step::take_gift() const {
  thread.answered = 0;
  const uint8_t taken = std::exchange(thread.gift, uint8_t{0});
  tell("gets {} tasks", count(taken));
  if (taken != 0) thread.next = nth(taken, 0);
  elsewhere();
}

/// The victim's own thread is about to enter its guard.
bool Protocol::Step::is_to_answer() const {
  if (me >= kWorkers || thread.answers != 0 || mine().asked == 0) return false;
  switch (thread.at) {
    case At::pick:
    case At::finish:
    case At::signal_here:
    case At::keep_loot:
      return true;
    case At::body: {
      if (thread.task == kNobody) return false;
      return protocol.case_.tasks[thread.task].at(task(thread.task).next_action).kind ==
             Action::join;
    }
    default:
      return false;
  }
}

void Protocol::Step::begin_to_answer() const {
  mine().asked = 0;
  thread.thief = std::exchange(mine().asker, kNobody);
  if (thread.thief == kNobody) return tell("was asked, but nobody waits for an answer");
  tell("is to answer worker {}", thread.thief);
  mine().guard = me;
  thread.answers = 1;
  thread.before = thread.at;
  thread.hands_before = thread.hands;
  thread.victim_before = std::exchange(thread.victim, me);
  if (mine().ready == 0 && mine().hints != 0) {
    drain();
  } else {
    thread.at = At::answer;
  }
}

/// (its own guard) Gives one, but not what it would run next itself, unless it has refused before
/// and has run nothing since.
void Protocol::Step::answer() const {
  Home& home = mine();
  unsigned may_run = 0;
  for (uint8_t i = 0; i < kTasks; ++i) {
    if (((home.ready | home.later) & bit(i)) != 0 && is_claimable(task(i).status))
      may_run |= bit(i);
  }
  unsigned taken = 0;
  if (wrong(Mistake::thief_gets_what_runs) && home.ready != 0) {
    taken = bit(nth(home.ready, 0));
    drop(home.ready, taken);
    task(nth(taken, 0)).status = Status::away;
    task(nth(taken, 0)).owed = 0;
  } else if (home.loot != 0) {
    taken = bit(nth(home.loot, 0));
    drop(home.loot, taken);
  } else if (count(may_run) > 1 || home.refused != 0) {
    taken = claim_away(home.ready);
    if (taken == 0) taken = claim_away(home.later);
  }
  home.refused = taken == 0 ? 1 : 0;
  state.threads[thread.thief].gift = static_cast<uint8_t>(taken);
  state.threads[thread.thief].answered = 1;
  tell("gives {} tasks", count(taken));
  end_answer();
}

void Protocol::Step::end_answer() const {
  mine().guard = kNobody;
  thread.answers = 0;
  thread.at = std::exchange(thread.before, At::body);
  thread.hands = std::exchange(thread.hands_before, uint8_t{0});
  thread.victim = std::exchange(thread.victim_before, kNobody);
  thread.thief = kNobody;
}

// ---- sleeping ----------------------------------------------------------------------------------

void Protocol::Step::be_searching() const {
  mine().mode = Mode::searching;
  thread.at = At::pick;
  tell("searches");
}

void Protocol::Step::announce() const {
  mine().mode = Mode::asleep;
  ++state.sleepers;
  thread.at = wrong(Mistake::sleeper_looks_first) ? At::sleep : At::look_at_own;
  tell("says that it sleeps");
}

void Protocol::Step::uncount_sleeper() const {
  --state.sleepers;
  thread.slept = 1;
  thread.at = At::search_again;
  tell("does not count as asleep any more");
}

void Protocol::Step::look_at_own() const {
  const bool found = looks_ready(mine());
  const bool announced = !wrong(Mistake::sleeper_looks_first);
  thread.at = found ? (announced ? At::uncount_sleeper : At::pick) : At::look_at_others;
  tell("looks once more at its own: {}", found ? "something" : "nothing");
}

void Protocol::Step::look_at_others() const {
  bool ready = false;
  bool awake = false;
  for (uint8_t other = 0; other < kWorkers; ++other) {
    if (other == me || other >= protocol.case_.workers) continue;
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

void Protocol::Step::sleep() const {
  tell("{}", mine().permit != 0 ? "wakes up" : "wakes up to watch");
  mine().permit = 0;
  if (thread.watches != 0) thread.watches = state.watched = 0;
  thread.at = At::uncount_sleeper;
}

void Protocol::Step::search_again() const {
  mine().mode = Mode::searching;
  thread.at = At::unsay_waking;
  tell("says that it searches");
}

void Protocol::Step::unsay_waking() const {
  state.waking = 0;
  search();
  tell("is about to look");
}

}  // namespace weft::task::model
