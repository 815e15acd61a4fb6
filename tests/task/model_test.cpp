// The scheduler's protocol, all interleavings of small programs; and the mistakes that it avoids.
// What of the scheduler the model has, and what not, stands in model.hpp.
#include "task/model.hpp"

#include <gtest/gtest.h>

#include <string>

#include "task/explore.hpp"

namespace weft::task::model {
namespace {

constexpr uint8_t kA = 0;
constexpr uint8_t kB = 1;
constexpr uint8_t kNone = kNobody;

Action wait_for(uint8_t signals) { return {Action::wait_for, signals}; }
Action spin_for(uint8_t signals) { return {Action::spin_for, signals}; }
Action signal(uint8_t task) { return {Action::signal, task}; }
Action spawn(uint8_t task) { return {Action::spawn, task}; }
Action join(uint8_t task) { return {Action::join, task}; }
constexpr Action kYield{Action::yield, 0};
constexpr Action kEnd{Action::end, 0};

// ---- Wake-ups: workers sleep --------------------------------------------------------------------

// The other worker can only sleep, be woken and steal.
const Case kTwoSignals{.name = "TwoSignals",
                       .home = {0, kNone, kNone},
                       .ready = 1,
                       .tasks = {{{wait_for(2), kEnd}}},
                       .threads = {{{signal(kA), signal(kA)}}}};
const Case kTwoWords{.name = "TwoWords",
                     .workers = 1,
                     .home = {0, 0, kNone},
                     .word = {0, 1, 0},
                     .ready = 3,
                     .tasks = {{{wait_for(2), kEnd}, {wait_for(1), kEnd}}},
                     .threads = {{{signal(kA), signal(kB)}, {signal(kA)}}}};
const Case kOneWord{.name = "OneWord",
                    .workers = 1,
                    .home = {0, 0, kNone},
                    .ready = 3,
                    .tasks = {{{wait_for(1), kEnd}, {wait_for(1), kEnd}}},
                    .threads = {{{signal(kA)}, {signal(kB)}}}};
const Case kToAndFro{.name = "ToAndFro",
                     .home = {0, 1, kNone},
                     .ready = 3,
                     .tasks = {{{signal(kB), wait_for(1), kEnd}, {wait_for(1), signal(kA), kEnd}}}};
// Two come to one worker, and each computes until the other has run: the other worker must come.
const Case kBurst{.name = "Burst",
                  .home = {0, 0, kNone},
                  .tasks = {{{signal(kB), spin_for(1), kEnd}, {signal(kA), spin_for(1), kEnd}}},
                  .threads = {{{spawn(kA), spawn(kB)}}}};
// A signals B, at home, and then computes until B has run.
const Case kSignalsAndComputes{
    .name = "SignalsAndComputes",
    .home = {0, 0, kNone},
    .ready = 3,
    .tasks = {{{wait_for(1), signal(kB), spin_for(2), kEnd}, {wait_for(1), signal(kA), kEnd}}},
    .threads = {{{signal(kA)}}}};
// ---- Claims and tokens: workers look again and again
// ----------------------------------------------

const Case kYields{.name = "Yields",
                   .sleeps = false,
                   .home = {0, 0, kNone},
                   .ready = 3,
                   .tasks = {{{kYield, wait_for(1), kEnd}, {kYield, kEnd}}},
                   .threads = {{{signal(kA)}}}};
const Case kThreeYield{.name = "ThreeYield",
                       .sleeps = false,
                       .home = {0, 0, 1},
                       .ready = 7,
                       .tasks = {{{kYield, kEnd}, {kYield, kEnd}, {kYield, kEnd}}}};
const Case kSignalsOfTwo{.name = "SignalsOfTwo",
                         .sleeps = false,
                         .home = {0, 0, kNone},
                         .word = {0, 1, 0},
                         .ready = 3,
                         .tasks = {{{wait_for(1), kEnd}, {wait_for(1), kEnd}}},
                         .threads = {{{signal(kA)}, {signal(kB)}}}};
const Case kOneForTwo{
    .name = "OneForTwo",
    .sleeps = false,
    .home = {0, 0, 0},
    .word = {0, 0, 1},
    .ready = 7,
    .tasks = {{{wait_for(1), kEnd}, {wait_for(1), kEnd}, {kYield, signal(kA), signal(kB), kEnd}}}};
const Case kThreeSignal{
    .name = "ThreeSignal",
    .sleeps = false,
    .home = {0, 1, kNone},
    .ready = 3,
    .tasks = {{{signal(kB), wait_for(2), kEnd}, {wait_for(1), signal(kA), kEnd}}},
    .threads = {{{signal(kA)}}}};
// A is woken, then computes until B has run, whose signal comes meanwhile.
const Case kWakesAndComputes{
    .name = "WakesAndComputes",
    .sleeps = false,
    .home = {0, 0, kNone},
    .ready = 3,
    .tasks = {{{wait_for(1), spin_for(2), kEnd}, {wait_for(1), signal(kA), kEnd}}},
    .threads = {{{signal(kA), signal(kB)}}}};
// A computes until B has run, and is signalled itself.
const Case kSignalledAndComputes{.name = "SignalledAndComputes",
                                 .home = {0, 0, kNone},
                                 .ready = 3,
                                 .tasks = {{{spin_for(2), kEnd}, {wait_for(1), signal(kA), kEnd}}},
                                 .threads = {{{signal(kA), signal(kB)}}}};
// The child waits, so that it may move, and its parent with it.
const Case kChildInPlace{.name = "ChildInPlace",
                         .sleeps = false,
                         .home = {0, 0, kNone},
                         .ready = 1,
                         .tasks = {{{spawn(kB), join(kB), wait_for(1), kEnd}, {wait_for(1), kEnd}}},
                         .threads = {{{signal(kB), signal(kA)}}}};
const Case kChildElsewhere{
    .name = "ChildElsewhere",
    .sleeps = false,
    .home = {0, 1, kNone},
    .ready = 1,
    .tasks = {{{spawn(kB), join(kB), wait_for(1), kEnd}, {wait_for(1), signal(kA), kEnd}}},
    .threads = {{{signal(kB)}}}};

// ---- Thieves ask
// ------------------------------------------------------------------------

Case asking(const Case& other, const char* name) {
  Case with_thieves_that_ask = other;
  with_thieves_that_ask.name = name;
  with_thieves_that_ask.asks = true;
  return with_thieves_that_ask;
}
const Case kThreeYieldAsked = asking(kThreeYield, "ThreeYieldAsked");
const Case kYieldsAsked = asking(kYields, "YieldsAsked");
const Case kSignalsOfTwoAsked = asking(kSignalsOfTwo, "SignalsOfTwoAsked");
const Case kOneForTwoAsked = asking(kOneForTwo, "OneForTwoAsked");
const Case kThreeSignalAsked = asking(kThreeSignal, "ThreeSignalAsked");
const Case kChildInPlaceAsked = asking(kChildInPlace, "ChildInPlaceAsked");
const Case kBurstAsked = asking(kBurst, "BurstAsked");
const Case kSignalsAndComputesAsked = asking(kSignalsAndComputes, "SignalsAndComputesAsked");
const Case kSignalledAndComputesAsked = asking(kSignalledAndComputes, "SignalledAndComputesAsked");
const Case kToAndFroAsked = asking(kToAndFro, "ToAndFroAsked");

// ---- The protocol as it is
// ------------------------------------------------------------------------

class AllInterleavings : public testing::TestWithParam<const Case*> {};

TEST_P(AllInterleavings, LoseNothingAndRunNothingTwice) {
  const test::Explored found = test::explore(Protocol(*GetParam(), Mistake::none));
  EXPECT_EQ(found.broken, "") << found.story;
  RecordProperty("states", static_cast<int>(found.states));
  EXPECT_GT(found.states, 1000U) << "that is hardly all";
}

INSTANTIATE_TEST_SUITE_P(
    Of, AllInterleavings,
    testing::Values(&kTwoSignals, &kTwoWords, &kOneWord, &kToAndFro, &kBurst, &kSignalsAndComputes,
                    &kWakesAndComputes, &kSignalledAndComputes, &kYields, &kThreeYield,
                    &kSignalsOfTwo, &kOneForTwo, &kThreeSignal, &kChildInPlace, &kChildElsewhere,
                    &kThreeYieldAsked, &kYieldsAsked, &kSignalsOfTwoAsked, &kOneForTwoAsked,
                    &kThreeSignalAsked, &kChildInPlaceAsked, &kBurstAsked,
                    &kSignalsAndComputesAsked, &kSignalledAndComputesAsked, &kToAndFroAsked),
    [](const auto& with) { return std::string(with.param->name); });

// ---- Mistakes: what is wrong is found, in the way that it is wrong
// --------------------------------

constexpr const char* kNeverRuns = "a task is never run again";
constexpr const char* kHopeless = "from here on no good end can be reached";
constexpr const char* kTwoOnAStack = "two workers are on the stack of one task";
constexpr const char* kForgotten = "a task is to run, or to have a signal, and nothing says so";

struct Made {
  const char* name;
  Mistake mistake;
  const Case* where;
  const char* found;
};

class MistakeIsFound : public testing::TestWithParam<Made> {};

TEST_P(MistakeIsFound, ByExploring) {
  const Made& made = GetParam();
  const test::Explored found = test::explore(Protocol(*made.where, made.mistake));
  EXPECT_EQ(found.broken, made.found) << found.story;
  EXPECT_NE(found.story, "");
}

INSTANTIATE_TEST_SUITE_P(
    OfThePaper, MistakeIsFound,
    testing::Values(
        Made{"HintBeforeWord", Mistake::hint_before_word, &kOneWord, kNeverRuns},
        Made{"WordBeforeHint", Mistake::word_before_hint, &kOneWord, kNeverRuns},
        Made{"BothHintOrders", Mistake::both_hint_orders, &kOneWord, kNeverRuns},
        Made{"BothHintOrdersWithAThief", Mistake::both_hint_orders, &kSignalsOfTwo, kHopeless},
        Made{"BitBeforeContext", Mistake::bit_before_context, &kThreeYield, kTwoOnAStack},
        Made{"ThiefForgetsTheRest", Mistake::thief_forgets_the_rest, &kThreeYield, kForgotten},
        Made{"ThiefForgetsRunning", Mistake::thief_forgets_running, &kYields, kForgotten}),
    [](const auto& with) { return std::string(with.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Others, MistakeIsFound,
    testing::Values(Made{"SleeperLooksFirst", Mistake::sleeper_looks_first, &kOneWord, kNeverRuns},
                    Made{"SignallerWakesNobody", Mistake::signaller_wakes_nobody, &kOneWord,
                         kNeverRuns},
                    Made{"KeptIsOverwritten", Mistake::kept_is_overwritten, &kYields, kForgotten},
                    Made{"NobodyFollows", Mistake::nobody_follows, &kChildInPlace, kForgotten},
                    Made{"ThiefKeepsForHome", Mistake::thief_keeps_for_home, &kYields, kForgotten},
                    Made{"BusyIsNotSaid", Mistake::busy_is_not_said, &kWakesAndComputes, kHopeless},
                    Made{"RestIsNotOffered", Mistake::rest_is_not_offered, &kBurst, kNeverRuns},
                    Made{"RunningHidesTheRest", Mistake::running_hides_the_rest,
                         &kSignalledAndComputes, kHopeless},
                    Made{"OnlyBusyOnesWatched", Mistake::only_busy_ones_watched,
                         &kSignalsAndComputes, kNeverRuns},
                    Made{"WatchIsNotPassedOn", Mistake::watch_is_not_passed_on,
                         &kSignalsAndComputes, kNeverRuns}),
    [](const auto& with) { return std::string(with.param.name); });

INSTANTIATE_TEST_SUITE_P(OfAsking, MistakeIsFound,
                         testing::Values(Made{"NameIsLeft", Mistake::name_is_left,
                                              &kThreeYieldAsked, kHopeless},
                                         Made{"LateAnswerIsLost", Mistake::late_answer_is_lost,
                                              &kThreeYieldAsked, kHopeless},
                                         Made{"ThiefGetsWhatRuns", Mistake::thief_gets_what_runs,
                                              &kYieldsAsked, kTwoOnAStack}),
                         [](const auto& with) { return std::string(with.param.name); });

// One worker alone has no thief: there the bit may come first.
TEST(ModelTest, WithoutAThiefTheBitMayComeBeforeTheContext) {
  EXPECT_EQ(test::explore(Protocol(kTwoWords, Mistake::bit_before_context)).broken, "");
}

}  // namespace
}  // namespace weft::task::model
