// The protocol in small: its beginning, who may do what, and what must hold.
#include "task/model.hpp"

#include <iterator>

#include "task/model_step.hpp"

namespace weft::task::model {

const char* text(Status status) {
  constexpr const char* kText[] = {"none", "fresh",          "home",   "home_signalled",
                                   "away", "away_signalled", "waiting"};
  return kText[static_cast<std::size_t>(status)];
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
  for (Home& home : state.homes) home.guard = home.asker = kNobody;
  for (uint8_t i = case_.workers; i < kWorkers; ++i) state.homes[i].mode = Mode::searching;
  for (uint8_t i = 0; i < kThreads; ++i) {
    Thread& thread = state.threads[i];
    thread = {};
    thread.at = i < kWorkers ? At::pick : At::body;
    thread.back = At::body;
    thread.task = thread.next = thread.other = thread.victim = thread.thief = kNobody;
    thread.victim_before = kNobody;
  }
  return state;
}

bool Protocol::all_ended(const State& state) const {
  for (uint8_t i = 0; i < kTasks; ++i) {
    if (case_.home[i] == kNobody) continue;
    const Task& task = state.tasks[i];
    if (task.status != Status::none) return false;
    if (case_.tasks[i].at(task.next_action).kind != Action::end) return false;
  }
  return true;
}

unsigned Protocol::choices(const State& state, int index) const {
  const auto me = static_cast<uint8_t>(index);
  const Thread& thread = state.threads[me];
  if (me >= case_.workers && me < kWorkers) return 0;
  if (!case_.sleeps && thread.at == At::pick && thread.task == kNobody && all_ended(state)) {
    return 0;
  }
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
      return tokens == 0 ? 1 : tokens;
    }
    case At::finish:
    case At::signal_here:
    case At::keep_loot:
      return guard_is_free();
    case At::enter:
    case At::give:
      return 2;  // as little or as much as it may take
    case At::await_answer:
      // It gives up after a while, or because it has something else to do.
      return thread.answered != 0 ? 1 : 2;
    case At::await_late:
      return thread.answered;
    case At::sleep:
      return state.homes[me].permit != 0 || thread.watches != 0 ? 1 : 0;
    default:
      return 1;
  }
}

void Protocol::step(State& state, int thread, unsigned choice, std::string* tale) const {
  Step{*this, state, static_cast<uint8_t>(thread), choice, tale}.take();
}

void Protocol::Step::take() const {
  // As Protocol::At.
  static constexpr void (*kSteps[])(const Step&) = {
      as<&Step::body>, as<&Step::consume>, as<&Step::pick>, as<&Step::drain_words>,
      as<&Step::drop_hints>, as<&Step::be_busy>, as<&Step::offer_rest>, as<&Step::resume>,
      as<&Step::change_stacks_late>, as<&Step::publish>, as<&Step::store_waiting>,
      as<&Step::follow>, as<&Step::finish>,
      // a signal
      as<&Step::signal_here>, as<&Step::set_hint>, as<&Step::set_word>, as<&Step::look_at_hint>,
      as<&Step::set_hint>, as<&Step::look_at_mode>, as<&Step::look_for_sleepers>,
      as<&Step::say_waking>, as<&Step::find_sleeper>, as<&Step::wake>,
      // a theft
      as<&Step::visit>, as<&Step::enter>, as<&Step::give>, as<&Step::keep_loot>,
      as<&Step::say_name>, as<&Step::ring>, as<&Step::await_answer>, as<&Step::await_late>,
      as<&Step::answer>,
      // sleeping
      as<&Step::be_searching>, as<&Step::announce>, as<&Step::look_at_own>,
      as<&Step::look_at_others>, as<&Step::sleep>, as<&Step::uncount_sleeper>,
      as<&Step::search_again>, as<&Step::unsay_waking>};
  static_assert(std::size(kSteps) == static_cast<std::size_t>(At::count));
  if (is_to_answer()) return begin_to_answer();
  kSteps[static_cast<std::size_t>(thread.at)](*this);
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
      const At at = thread.answers != 0 ? thread.before : thread.at;
      in_hands |= thread.other == i && (at == At::signal_here || at == At::set_word ||
                                        at == At::hint_first || at == At::finish);
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
  }
  if (!case_.sleeps) return nullptr;
  for (uint8_t i = 0; i < case_.workers; ++i) {
    if (state.homes[i].mode != Mode::asleep) return "a worker neither works nor sleeps";
  }
  if (state.sleepers != case_.workers) return "the sleepers are miscounted";
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
  for (uint8_t i = 0; i < case_.workers; ++i) {
    const bool asleep = state.threads[i].at == At::sleep;
    const uint8_t runs = state.threads[i].task;
    lines += fmt::format("  then worker {} {}{}\n", i, asleep ? "sleeps" : "is awake",
                         runs != kNobody ? fmt::format(" and runs {}", name(runs)) : "");
  }
  return lines;
}

}  // namespace weft::task::model
