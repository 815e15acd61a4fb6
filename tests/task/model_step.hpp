// One step of the protocol in small: what the parts of the model share.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <string>
#include <utility>

#include "task/model.hpp"

namespace weft::task::model {

using Status = Protocol::Status;
using Mode = Protocol::Mode;
using At = Protocol::At;
using Why = Protocol::Why;

constexpr uint8_t bit(unsigned index) { return static_cast<uint8_t>(1U << index); }
inline void drop(uint8_t& bits, unsigned gone) { bits = static_cast<uint8_t>(bits & ~gone); }
constexpr unsigned count(unsigned bits) { return static_cast<unsigned>(std::popcount(bits)); }
/// The index of the n-th bit, from the lowest.
constexpr uint8_t nth(unsigned bits, unsigned n) {
  for (; n > 0; --n) bits &= bits - 1;
  return static_cast<uint8_t>(std::countr_zero(bits));
}
constexpr char name(unsigned task) { return static_cast<char>('A' + task); }
const char* text(Protocol::Status status);

inline bool is_claimable(Status status) {
  return status == Status::fresh || status == Status::waiting;
}
inline bool has_ready(const Protocol::Home& home) {
  return (home.ready | home.later | home.loot) != 0;
}
inline bool looks_ready(const Protocol::Home& home) { return has_ready(home) || home.hints != 0; }
inline bool looks_ready_to_thief(const Protocol::Home& home) {
  return has_ready(home) || (home.mode == Mode::busy && home.hints != 0);
}

/// One step of one thread: the function that has the name of where it is (Protocol::At), and parts
/// of those. A section under a guard is one step, unless it takes signals: others are kept out.
struct Protocol::Step {
  const Protocol& protocol;
  State& state;
  const uint8_t me;
  const unsigned choice;
  std::string* const tale;
  Thread& thread = state.threads[me];

  void take() const;

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

  // running
  void get_on(uint8_t index) const;
  void go_on() const;
  void search() const;
  void come_back() const;
  void body() const;
  void thread_body() const;
  void spawn(uint8_t index) const;
  void join(Task& self, uint8_t child) const;
  void end(Task& self) const;
  void follow() const;
  void finish() const;
  // waiting
  void consume() const;
  void leave() const;
  void change_stacks() const;
  void change_stacks_late() const;
  void publish() const;
  void store_waiting() const;
  void published() const;
  // taking
  bool set_ready(uint8_t index) const;
  bool claim_home(uint8_t index) const;
  void pick() const;
  void found(uint8_t index) const;
  void drain() const;
  void drain_words() const;
  void drop_hints() const;
  void drained() const;
  void be_busy() const;
  void offer_rest() const;
  void resume() const;
  // signals
  void signal(uint8_t index, At back) const;
  void signal_here() const;
  void set_word() const;
  void look_at_hint() const;
  void set_hint() const;
  void look_at_mode() const;
  void look_for_sleepers() const;
  void say_waking() const;
  void find_sleeper() const;
  void wake() const;
  // stealing
  void visit() const;
  void enter() const;
  void give() const;
  unsigned claim_away(uint8_t& from) const;
  void keep_loot() const;
  // asking
  void say_name() const;
  void ring() const;
  void await_answer() const;
  void await_late() const;
  void give_up(bool force) const;
  void take_gift() const;
  [[nodiscard]] bool is_to_answer() const;
  void begin_to_answer() const;
  void answer() const;
  void end_answer() const;
  void offer_loot() const;
  void elsewhere() const;
  void found_elsewhere() const;
  void found_nothing_elsewhere() const;
  // sleeping
  void be_searching() const;
  void search_again() const;
  void announce() const;
  void uncount_sleeper() const;
  void look_at_own() const;
  void look_at_others() const;
  void sleep() const;
  void unsay_waking() const;

 private:
  template <auto kFunction>
  static void as(const Step& step) {
    (step.*kFunction)();
  }
};

}  // namespace weft::task::model
