// Turns: see turns.hpp; where they are taken, waiting.cpp.
#include "comm/turns.hpp"

#include <algorithm>
#include <utility>

#include "weft/base/clock.hpp"
#include "weft/base/signals_blocked.hpp"

namespace weft::comm {
namespace {

/// Of the calling thread, whatever the runtime: guesses.
struct MyTurn {
  uint64_t began = 0;     ///< ticks
  uint32_t answers = 0;   ///< that it expected and had since then
  int32_t returns = 0;    ///< soon ones raise it; negative: so many times it does not leave
  int32_t late = 0;       ///< how often it was, less what soon returns made up for
  int32_t soon = 0;       ///< returns since the last that counted
  uint64_t left_at = 0;   ///< ticks, when it left others behind; 0: it did not
  bool messages = false;  ///< it left some in a queue
  uint32_t kept = 0;      ///< Turns::kept_ then
  uint32_t duties = 0;    ///< of the idle watch, when it was last asked
  uint32_t leaves = 0;    ///< Turns::leaves_ then
  // Spans between two waits, of which samples are looked at: to ask what a thread has run costs as
  // much as a message.
  uint32_t asleep = 0;     ///< of kAlways, those in which it mostly did not run
  uint32_t to_sample = 1;  ///< ends of waits until the next one that is looked at
  uint32_t random = 2463534242;
  uint64_t sampled_at = 0;      ///< ticks, when one began; 0: none has
  uint64_t sampled_cpu_ns = 0;  ///< what it had run then
};
constinit thread_local MyTurn my_turn;

/// An answer is waited for as long as it takes the other side to give its core to who will send it:
/// in so many switches. The leader waits longer, since the follower may do so twice.
constexpr uint64_t kLeadersSwitches = 4;
constexpr uint64_t kFollowersSwitches = 2;
constexpr double kFollowersTurn = 1.5;  ///< leader's turns: it is the leader who should end it
/// A turn is longer while few wait: so many turns are for all of them, and so many at most for one,
/// which is over, mostly, before the watch wakes another.
constexpr uint64_t kTurnsOfAll = 40;
constexpr uint64_t kTurnsOfOne = 10;
/// Long messages: a turn lasts for so many answers, while these come as soon as they are expected.
constexpr uint32_t kLeadersAnswers = 16;
constexpr uint32_t kFollowersAnswers = 24;
constexpr uint64_t kMostTurns = 2;  ///< but not longer than that
constexpr double kSwitchNs = 3000;  ///< until it was measured

constexpr int32_t kMostCredit = 16;
constexpr int32_t kGoodCredit = 8;
constexpr int32_t kVain = 4;
constexpr int32_t kLeastCredit = -32;  ///< so many switches until answers are expected once again

constexpr double kSoonNs = 50'000;
constexpr int32_t kMostReturns = 8;
constexpr int32_t kLate = 16;     ///< not so many times, and twice as often each time it was late
constexpr int32_t kMostLate = 4;  ///< doublings
constexpr int32_t kMakesUp = 64;  ///< soon returns for one late

constexpr uint32_t kAlways = 256;  ///< of MyTurn::asleep
constexpr uint32_t kMostly = kAlways * 3 / 4;
constexpr uint32_t kSpans = 256;  ///< of which one is looked at
constexpr uint32_t kSpansSurprised = 4;
constexpr double kShortSpanNs = 2'000;  ///< no time to sleep
/// So few, or many, are woken one by one as well as by the idle watch, or better.
constexpr uint32_t kFewOthers = 1;
constexpr uint32_t kManyOthers = 32;

constexpr uint64_t kLookNs = 1'000'000;
/// Where the watch had to wake somebody: a program whose threads go away, all of them, now and
/// then. In turns of the leader, of which one ends between two looks where many wait.
constexpr uint64_t kShortLookTurns = 3;
constexpr uint32_t kShortLooks = 64;  ///< without need, before they get longer again
constexpr uint32_t kQuietLooks = 3;

}  // namespace

Turns::Turns(bool leads, uint64_t turn_ns, const Rescue& rescue)
    : leads_(leads),
      turn_ticks_(base::to_ticks(static_cast<double>(turn_ns) * (leads ? 1 : kFollowersTurn))),
      short_look_ns_(std::min(kShortLookTurns * turn_ns, kLookNs)),
      rescue_(rescue),
      soon_ticks_(base::to_ticks(kSoonNs)),
      switch_ticks_(base::to_ticks(kSwitchNs)),
      idle_watch_(rescue.left, rescue.argument, kept_) {}

Turns::~Turns() {
  if (!thread_.joinable()) return;
  ends_.store(true, std::memory_order_seq_cst);  // then the look for a sleeper, as in keep_watch
  if (base::Parker* const sleeper = sleeping_.load(std::memory_order_seq_cst); sleeper != nullptr)
    sleeper->unpark();
  thread_.join();
}

void Turns::note_running() noexcept { ran_.store(&my_turn, std::memory_order_relaxed); }

bool Turns::others_ran() const noexcept { return ran_.load(std::memory_order_relaxed) != &my_turn; }

// --- Whose turn it is ----------------------------------------------------------------------------

bool Turns::goes_well() const noexcept {
  return credit_.load(std::memory_order_relaxed) >= kGoodCredit;
}

bool Turns::is_over() const noexcept {
  if (owed.empty()) return false;
  const uint64_t had = base::ticks() - my_turn.began;
  uint64_t turn = turn_ticks_;
  if (parked_ != nullptr) {
    // relaxed: a hint. Who waits for nothing but its turn is not parked.
    const uint64_t others = std::max(parked_->load(std::memory_order_relaxed), owed.size());
    turn = std::clamp(kTurnsOfAll * turn / (others + 1), turn, kTurnsOfOne * turn);
  }
  if (had <= turn) return false;
  const uint32_t answers = leads_ ? kLeadersAnswers : kFollowersAnswers;
  return my_turn.answers == 0 || my_turn.answers >= answers || had > kMostTurns * turn;
}

bool Turns::expects_answer(uint64_t began) const noexcept {
  const uint64_t window = switch_ticks_.load(std::memory_order_relaxed) *
                          (leads_ ? kLeadersSwitches : kFollowersSwitches);
  return credit_.load(std::memory_order_relaxed) >= 0 && base::ticks() - began < window &&
         !is_over();
}

void Turns::count_answer() noexcept {
  const int32_t credit = credit_.load(std::memory_order_relaxed);
  if (credit < kMostCredit) credit_.store(credit + 1, std::memory_order_relaxed);
  ++my_turn.answers;
}

bool Turns::wake_next(bool expects) noexcept {
  const bool follows = !leads_ && owed.grew();
  if (!expects && !is_over()) {
    // Either the answer was expected in vain, or it is not expected at present.
    const int32_t credit = credit_.load(std::memory_order_relaxed);
    const int32_t less = credit >= kVain ? credit - kVain : kLeastCredit;
    credit_.store(credit >= 0 ? less : credit + 1, std::memory_order_relaxed);
  }
  given_at_.store(base::ticks(), std::memory_order_relaxed);
  const auto woken = [&](bool done) {
    if (!done) given_at_.store(0, std::memory_order_relaxed);
    return done;
  };
  if (!follows) return woken(owed.wake_oldest());
  // A follower goes where the leader went. But then and now the one who waited longest: the leader,
  // who waits a while, will have gone where that one's partner is. Not where threads go away
  // together: nobody starves until then.
  const uint32_t times = followed_.load(std::memory_order_relaxed) + 1;
  followed_.store(times, std::memory_order_relaxed);
  const bool eldest =
      !idle_watch_.is_on_duty() && owed.size() > 1 && times % (goes_well() ? 2 : 4) == 0;
  return woken(eldest ? owed.wake_oldest() : owed.wake_newest());
}

void Turns::begin_turn() noexcept {
  note_running();
  my_turn.began = base::ticks();
  my_turn.answers = 0;
  const uint64_t given = given_at_.load(std::memory_order_relaxed);
  if (given == 0) return;
  given_at_.store(0, std::memory_order_relaxed);
  const uint64_t took = std::min(my_turn.began - given, soon_ticks_);
  const uint64_t mean = switch_ticks_.load(std::memory_order_relaxed);
  switch_ticks_.store(mean - mean / 16 + took / 16, std::memory_order_relaxed);
}

// --- Who leaves others to the watch --------------------------------------------------------------

void Turns::end_wait() noexcept {
  // Who is owed a wake may be parked, or wait in turn.
  const uint32_t others =
      std::max(owed.size(), parked_ != nullptr ? parked_->load(std::memory_order_relaxed) : 0U);
  const uint32_t crowd = crowd_.load(std::memory_order_relaxed);
  if (others > crowd) crowd_.store(others, std::memory_order_relaxed);
  if (my_turn.to_sample > 1) {
    --my_turn.to_sample;
    return;
  }
  // They may have become fewer.
  if (others < crowd) crowd_.store(crowd - 1, std::memory_order_relaxed);
  my_turn.sampled_cpu_ns = base::this_thread_cpu_ns();
  my_turn.sampled_at = base::ticks();
}

/// The span that is looked at ends. The next ones are looked at soon where this one was unlike the
/// others: a thread that is left behind in vain, time after time, waits for long.
void Turns::end_span() noexcept {
  static const uint64_t kShort = base::to_ticks(kShortSpanNs);
  const uint64_t ticks = base::ticks() - std::exchange(my_turn.sampled_at, 0);
  const bool slept =
      ticks > kShort &&
      base::to_ticks(static_cast<double>(base::this_thread_cpu_ns() - my_turn.sampled_cpu_ns)) <
          ticks / 2;
  const bool surprises = slept != mostly_sleeps();
  my_turn.asleep = my_turn.asleep - my_turn.asleep / 8 + (slept ? kAlways / 8 : 0);
  // Xorshift: a rhythm of the program's is not met by one of ours.
  my_turn.random ^= my_turn.random << 13U;
  my_turn.random ^= my_turn.random >> 17U;
  my_turn.random ^= my_turn.random << 5U;
  my_turn.to_sample = 1 + my_turn.random % (surprises ? kSpansSurprised : kSpans);
}

bool Turns::mostly_sleeps() noexcept { return my_turn.asleep > kMostly; }

void Turns::begin_wait() noexcept {
  if (my_turn.sampled_at != 0) [[unlikely]]
    end_span();
  // Who looks after an idle core now makes up for what went before.
  const uint32_t duties = idle_watch_.duties();
  if (std::exchange(my_turn.duties, duties) != duties && idle_watch_.is_on_duty()) {
    my_turn.returns = std::max(my_turn.returns, 0);
    my_turn.late = 0;
  }
  if (my_turn.left_at == 0) return;
  // Where others took turns meanwhile, the core was in use: no harm was done. Unless the watch had
  // to wake them.
  const bool away = base::ticks() - my_turn.left_at > soon_ticks_;
  my_turn.left_at = 0;
  const bool missed = was_missed(my_turn.leaves);
  const bool late = away && (missed || (kept_.load(std::memory_order_relaxed) == my_turn.kept &&
                                        leaves_.load(std::memory_order_relaxed) == my_turn.leaves));
  // While the idle watch looks, the core was in use, as far as others wanted it.
  if (late && (missed || (!idle_watch_.is_on_duty() && !idle_watch_.call()))) {
    my_turn.returns = -(kLate << my_turn.late);
    my_turn.late = std::min(my_turn.late + 1, kMostLate);
    my_turn.soon = 0;
  } else {
    my_turn.returns = std::min(my_turn.returns + 1, kMostReturns);
    if (my_turn.late > 0 && ++my_turn.soon % kMakesUp == 0) --my_turn.late;
  }
}

bool Turns::comes_back_soon() noexcept { return my_turn.returns >= 0; }

bool Turns::may_leave() noexcept {
  if (mostly_sleeps()) {
    const uint32_t crowd = crowd_.load(std::memory_order_relaxed);
    const bool by_watch = crowd <= kFewOthers || crowd > kManyOthers;
    if (!by_watch || !(idle_watch_.is_on_duty() || idle_watch_.call())) return false;
  }
  if (comes_back_soon()) return has_watch();
  ++my_turn.returns;
  return false;
}

void Turns::leave() noexcept {
  keep_watch();
  note_left();
}

void Turns::leave(LeftQueues::Entry& queue) noexcept {
  if (left.leave(queue)) keep_watch();
  note_left();
  my_turn.messages = true;
}

bool Turns::has_left_messages() noexcept { return std::exchange(my_turn.messages, false); }

void Turns::note_left() noexcept {
  my_turn.leaves = leaves_.load(std::memory_order_relaxed) + 1;
  leaves_.store(my_turn.leaves, std::memory_order_relaxed);
  my_turn.kept = kept_.load(std::memory_order_relaxed);
  my_turn.left_at = base::ticks();
}

void Turns::keep_watch() noexcept {
  // seq_cst: counted, then the look for a sleeper; the watch says that it sleeps, then looks at the
  // count. Whoever counts has changed something before; the watch, which has seen the count, sees
  // it.
  kept_.fetch_add(1, std::memory_order_seq_cst);
  if (base::Parker* const sleeper = sleeping_.load(std::memory_order_seq_cst); sleeper != nullptr)
    sleeper->unpark();
  idle_watch_.note_change();
}

bool Turns::start_watch() noexcept {
  Watch none = Watch::none;
  if (!state_.compare_exchange_strong(none, Watch::starting, std::memory_order_acquire))
    return none == Watch::kept;
  Watch now = Watch::kept;
  try {
    const base::SignalsBlocked blocked;
    thread_ = std::thread([this] { watch(); });
  } catch (...) {
    now = Watch::failed;  // no more threads, or memory: then no wakes are put off
  }
  state_.store(now, std::memory_order_release);
  return now == Watch::kept;
}

void Turns::watch() noexcept {
  base::Parker& parker = base::this_parker();
  uint32_t seen = 0;
  uint32_t quiet = 0;
  uint64_t look_ns = kLookNs;
  uint64_t since_whole_ns = 0;
  uint32_t needless = 0;
  while (!ends_.load(std::memory_order_seq_cst)) {
    parker.park_until(base::now_ns() + look_ns);
    note_running();
    const uint32_t kept = kept_.load(std::memory_order_seq_cst);
    quiet = kept == std::exchange(seen, kept) ? quiet + 1 : 0;
    // What waits for two looks waits for two long ones.
    since_whole_ns += look_ns;
    const bool whole = since_whole_ns >= kLookNs;
    if (whole) since_whole_ns = 0;
    if (quiet == 0) {
      if (whole) owed.wake_stale();
    } else {
      if (!owed.empty()) {
        // relaxed: a hint for whoever left last.
        const uint32_t last = leaves_.load(std::memory_order_relaxed);
        missed_[last % kMissed].store(last, std::memory_order_relaxed);
        // Unless the idle watch is new here: then it will have been that the core idled.
        if (idle_watch_.is_on_duty() || !idle_watch_.call()) {
          look_ns = short_look_ns_;
          needless = 0;
        }
      }
      rescue_.serve(rescue_.argument);
    }
    if (++needless >= kShortLooks) {
      look_ns = std::min(look_ns * 2, kLookNs);
      needless = 0;
    }
    const bool messages = whole ? left.look() : !left.empty();
    if (quiet * look_ns < kQuietLooks * kLookNs || messages || !owed.empty()) continue;
    sleeping_.store(&parker, std::memory_order_seq_cst);
    while (kept_.load(std::memory_order_seq_cst) == seen &&
           !ends_.load(std::memory_order_seq_cst)) {
      parker.park();
    }
    sleeping_.store(nullptr, std::memory_order_seq_cst);
    quiet = 0;
  }
}

}  // namespace weft::comm
