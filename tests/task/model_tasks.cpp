// The protocol in small: what a task does, and which task a worker runs next.
#include "task/model_step.hpp"

namespace weft::task::model {

// ---- running -----------------------------------------------------------------------------------

/// The stack of `index` is the one that this worker is on from now on.
void Protocol::Step::get_on(uint8_t index) const {
  if (task(index).on != kNobody) state.two_on_a_stack = 1;
  if (task(index).saved == 0) state.not_saved = 1;
  task(index).on = me;
  task(index).saved = 0;
}

/// To what comes next when the task that ran has been left for good.
void Protocol::Step::go_on() const {
  thread.task = thread.next;
  thread.next = thread.other = kNobody;
  thread.after_yield = 0;
  thread.why = Why::search;
  if (thread.task != kNobody) {
    thread.at = At::body;
  } else {
    search();
  }
}

void Protocol::Step::search() const {
  thread.why = Why::search;
  thread.at = At::pick;
}

void Protocol::Step::come_back() const {
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
  } else if (back == At::resume) {
    resume();
  } else {
    thread.other = kNobody;
    thread.at = back;
  }
}

void Protocol::Step::body() const {
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

void Protocol::Step::thread_body() const {
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

void Protocol::Step::spawn(uint8_t index) const {
  // Its token is a signal; at home that sets the ready bit under the guard (launch_here).
  task(index).status = Status::fresh;
  signal(index, At::body);
}

void Protocol::Step::join(Task& self, uint8_t child) const {
  if (task(child).status == Status::none) {
    ++self.next_action;
    tell("{} sees the end of {}", name(thread.task), name(child));
  } else if (task(child).status == Status::fresh && home_of(child) == me) {  // run_in_place
    ++self.next_action;
    drop(mine().ready, bit(child));
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

void Protocol::Step::end(Task& self) const {
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

void Protocol::Step::follow() const {
  Status& status = task(thread.task).status;
  if (status == Status::home) status = Status::away;
  if (status == Status::home_kept) status = Status::away_kept;
  thread.at = At::body;
  tell("{} followed its child here", name(thread.task));
}

void Protocol::Step::finish() const {
  const uint8_t joiner = std::exchange(thread.other, kNobody);
  if (claim_home(joiner)) {
    thread.next = joiner;
    resume();
    tell("goes straight on with {}", name(joiner));
  } else {
    search();
    tell("keeps for {} that its child has ended", name(joiner));
  }
}

// ---- waiting -----------------------------------------------------------------------------------

/// take_signal in src/task.
void Protocol::Step::consume() const {
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
void Protocol::Step::leave() const {
  thread.other = thread.task;
  thread.at = At::publish;
  // Nobody can tell when the stacks are changed, as long as that is before `publish`.
  if (!wrong(Mistake::bit_before_context)) change_stacks();
}

void Protocol::Step::change_stacks() const {
  Task& left = task(thread.other);
  left.on = kNobody;
  left.saved = 1;
  if (thread.next != kNobody) get_on(thread.next);
}

void Protocol::Step::change_stacks_late() const {
  tell("leaves the stack of {}, its context is saved", name(thread.other));
  change_stacks();
  go_on();
}

void Protocol::Step::publish() const {
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

void Protocol::Step::store_waiting() const {
  task(thread.other).status = Status::waiting;
  tell("{} waits", name(thread.other));
  published();
}

void Protocol::Step::published() const {
  if (wrong(Mistake::bit_before_context)) {
    thread.at = At::change_stacks;
  } else {
    go_on();
  }
}

// ---- taking ------------------------------------------------------------------------------------

/// (guard) A token of `index` is there again, or its signal is kept. True: it may run.
bool Protocol::Step::set_ready(uint8_t index) const {
  Status& status = task(index).status;
  if (is_claimable(status)) {
    state.homes[home_of(index)].ready |= bit(index);
    return true;
  }
  if (status == Status::home) status = Status::home_kept;
  if (status == Status::away) status = Status::away_kept;
  return false;
}

bool Protocol::Step::claim_home(uint8_t index) const {
  if (is_claimable(task(index).status)) {
    task(index).status = Status::home;
    task(index).owed = 0;
    return true;
  }
  set_ready(index);
  return false;
}

/// (guard) Any order may be: newest, highest, round about.
void Protocol::Step::pick() const {
  mine().refused = 0;
  const unsigned own = mine().ready | mine().later;
  if (choice < count(own)) {
    const uint8_t index = nth(own, choice);
    uint8_t& from = (mine().ready & bit(index)) != 0 ? mine().ready : mine().later;
    drop(from, bit(index));
    if (!claim_home(index)) return tell("takes the bit of {}, which is kept", name(index));
    tell("claims {}", name(index));
    return found(index);
  }
  if (choice < count(own) + count(mine().loot)) {
    const uint8_t index = nth(mine().loot, choice - count(own));
    drop(mine().loot, bit(index));
    tell("takes {} from its loot", name(index));
    return found(index);
  }
  if (mine().hints != 0) {
    mine().guard = me;
    thread.victim = me;
    return drain();
  }
  tell("finds nothing of its own");
  if (thread.why == Why::wait) {
    mine().mode = Mode::searching;  // linger
    return leave();
  }
  thread.at = thread.why == Why::search && mine().mode == Mode::busy ? At::be_searching : At::visit;
}

void Protocol::Step::found(uint8_t index) const {
  thread.next = index;
  if (thread.why == Why::search) {
    const bool says_so = !wrong(Mistake::busy_is_not_said) || thread.slept != 0;
    if (mine().mode == Mode::busy || !says_so) return resume();
    thread.at = At::be_busy;
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

void Protocol::Step::drain() const {
  Home& home = state.homes[thread.victim];
  thread.hands = home.hints;
  if (!wrong(Mistake::word_before_hint) && !wrong(Mistake::both_hint_orders)) home.hints = 0;
  thread.at = At::drain_words;
  tell("takes the hints of worker {}", thread.victim);
}

void Protocol::Step::drain_words() const {
  Home& home = state.homes[thread.victim];
  const uint8_t word = nth(thread.hands, 0);
  unsigned mask = 0;
  for (uint8_t i = 0; i < kTasks; ++i) {
    if (home_of(i) == thread.victim && word_of(i) == word) mask |= bit(i);
  }
  home.ready |= home.words & static_cast<uint8_t>(mask);
  drop(home.words, mask);
  tell("takes the signals of word {}", word);
  if (wrong(Mistake::word_before_hint) || wrong(Mistake::both_hint_orders)) {
    thread.at = At::drop_hints;
    return;
  }
  drop(thread.hands, bit(word));
  if (thread.hands == 0) drained();
}

void Protocol::Step::drop_hints() const {
  const uint8_t word = nth(thread.hands, 0);
  drop(state.homes[thread.victim].hints, bit(word));
  drop(thread.hands, bit(word));
  thread.at = At::drain_words;
  tell("clears the hint of word {}", word);
  if (thread.hands == 0) drained();
}

void Protocol::Step::drained() const {
  if (thread.answers != 0) {
    thread.at = At::answer;
    return;
  }
  if (thread.victim == me) {
    mine().guard = kNobody;
    thread.victim = kNobody;
    thread.at = At::pick;
  } else {
    thread.at = At::give;
  }
}

void Protocol::Step::be_busy() const {
  mine().mode = Mode::busy;
  thread.looked = 0;
  thread.at = At::offer_rest;
  tell("is busy with {}", name(thread.next));
  if (wrong(Mistake::rest_is_not_offered)) resume();
}

/// Who made work meanwhile left it to this worker, because it searched.
void Protocol::Step::offer_rest() const {
  thread.at = At::look_for_sleepers;
  thread.back = At::resume;
  const bool unwatched =
      thread.slept != 0 && state.watched == 0 && !wrong(Mistake::watch_is_not_passed_on);
  thread.slept = 0;
  tell("looks whether there is more: {}", looks_ready(mine()) ? "yes" : "no");
  if (!looks_ready(mine()) && !unwatched) come_back();
}

void Protocol::Step::resume() const {
  get_on(thread.next);
  go_on();
}

}  // namespace weft::task::model
