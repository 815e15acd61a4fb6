// Every matching engine against MPI's rules: random schedules of receives, messages, wildcards,
// probes, cancels; one after the other against the model, and from many threads against what the
// rules say of each pair.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/stress.hpp"
#include "mpi/matching/arrived.hpp"
#include "mpi/matching/channel.hpp"
#include "mpi/matching/keyed_channel.hpp"
#include "mpi/matching_model.hpp"
#include "mpi/transfer.hpp"
#include "weft/base/config.hpp"
#include "weft/base/favour.hpp"

namespace weft::mpi {
namespace {

using test::MatchingModel;

/// "keyed-restless" switches to and fro all the time, and gives itself to threads that are hardly
/// alone; "hash" is promised exact keys; those that end with "-mcs" have the locks of 003.
std::unique_ptr<Channel> make(std::string_view engine) {
  if (engine == "keyed-restless") {
    return std::make_unique<KeyedChannel>(KeyedChannel::Promises::ignored, 3, 1);
  }
  auto channel = engine.ends_with("-mcs")
                     ? make_channel(engine.substr(0, engine.size() - 4), MatchingLock::mcs)
                     : make_channel(engine);
  channel->promise_exact_keys(engine == "hash");
  return channel;
}
constexpr std::array kAll{
    "keyed",   "keyed-restless",  "hash",      "list",     "per-source", "bins",       "tail",
    "tail-50", "tail-per-source", "tail-bins", "list-mcs", "tail-mcs",   "tail-50-mcs"};

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr const char* kUsualSeconds = "10";
#else
constexpr const char* kUsualSeconds = "40";
#endif

/// By engine. Random schedules go on for WEFT_STRESS_SECONDS, or forty seconds (ten under each
/// sanitizer: a minute in CI): all engines and both kinds of schedules together.
class Engines : public testing::TestWithParam<const char*> {
 protected:
  static constexpr double kShare = 1.0 / (2 * kAll.size());

  void SetUp() override {
    if (!base::environment("WEFT_STRESS_SECONDS").found) {
      base::set_config("stress.seconds", kUsualSeconds);
    }
  }
  /// "hash" has none.
  static int allowed(int wildcards) {
    return std::string_view(GetParam()) == "hash" ? 0 : wildcards;
  }
};

// --- One thread, against the model ---------------------------------------------------------------

/// Entries with numbers, so that what an engine answers can be compared.
struct Posted : Transfer {
  int id = 0;
};
struct Came : Arrived {
  int id = 0;
};

/// This very message, if it waits in the channel still; it no longer does.
Arrived* taken_back(Channel& channel, Arrived& message) {
  return channel.recall(
      message.process, message.tag,
      [](void* wanted, const Arrived& each) { return &each == wanted; }, &message);
}

class Schedule {
 public:
  Schedule(const char* engine, uint64_t seed, int sources, int tags, int wildcards_in_100)
      : channel_(make(engine)),
        random_(seed),
        sources_(sources),
        tags_(tags),
        wildcards_(wildcards_in_100) {}

  void step() {
    switch (pick(14)) {
      case 13:
        arrive_together();
        break;
      case 12:
        recall();
        break;
      case 0:
        probe();
        break;
      case 1:
        extract();
        break;
      case 2:
        cancel();
        break;
      case 3:
      case 4:
      case 5:
      case 6:
      case 7:
        post();
        break;
      default:
        arrive();
    }
    ASSERT_EQ(channel_->unexpected(), model_.messages().size());
  }
  /// All that is left comes out, once.
  void finish() {
    std::vector<Transfer*> receives;
    channel_->take_receives([](void*, const Transfer&) { return true; }, nullptr, receives);
    EXPECT_EQ(receives.size(), model_.receives().size());
    std::vector<Arrived*> messages;
    channel_->take_messages(messages);
    EXPECT_EQ(messages.size(), model_.messages().size());
  }

 private:
  int pick(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  int source() { return pick(100) < wildcards_ ? -1 : pick(sources_); }
  int tag() { return pick(100) < wildcards_ ? MPI_ANY_TAG : pick(tags_); }

  void post() {
    Posted& receive = receives_.emplace_back();
    receive.id = static_cast<int>(receives_.size()) - 1;
    receive.process = Rank{source()};
    receive.tag = tag();
    const auto wanted = model_.post({receive.id, receive.process.value, receive.tag});
    const Arrived* met = channel_->post(receive);
    ASSERT_EQ(met != nullptr, wanted.has_value());
    if (met != nullptr) {
      ASSERT_EQ(static_cast<const Came*>(met)->id, *wanted);
    }
  }
  Came& come(Rank source, int tag) {
    Came& message = messages_.emplace_back();
    message.id = static_cast<int>(messages_.size()) - 1;
    message.process = source;
    message.tag = tag;
    return message;
  }
  void arrive() {
    Came& message = come(Rank{pick(sources_)}, pick(tags_));
    const auto wanted = model_.arrive({message.id, message.process.value, message.tag});
    // As a message does: a look without a record first, sometimes.
    const Transfer* met = nullptr;
    if (pick(2) == 0) met = channel_->take_receive(message.process, message.tag);
    if (met == nullptr) met = channel_->arrive(message);
    ASSERT_EQ(met != nullptr, wanted.has_value());
    if (met != nullptr) {
      ASSERT_EQ(static_cast<const Posted*>(met)->id, *wanted);
    }
  }
  /// Several of one key.
  void arrive_together() {
    const Rank source{pick(sources_)};
    const int tag = pick(tags_);
    std::array<Transfer*, 8> met;
    const std::size_t count = 1 + static_cast<std::size_t>(pick(8));
    const uint32_t taken = channel_->take_receives_of(source, tag, {met.data(), count});
    ASSERT_LE(taken, count);
    for (std::size_t i = 0; i < count; ++i) {
      Came& message = come(source, tag);
      const auto wanted = model_.arrive({message.id, source.value, tag});
      ASSERT_EQ(i < taken, wanted.has_value());
      if (i >= taken) {
        ASSERT_EQ(channel_->arrive(message), nullptr);
      } else {
        ASSERT_EQ(static_cast<const Posted*>(met[i])->id, *wanted);
      }
    }
  }
  void probe() {
    const int from = source();
    const int which = tag();
    int seen = -1;
    const bool found = channel_->find(
        Rank{from}, which,
        [](void* into, const Arrived& message) {
          *static_cast<int*>(into) = static_cast<const Came&>(message).id;
        },
        &seen);
    const auto wanted = model_.probe(from, which);
    ASSERT_EQ(found, wanted.has_value());
    if (found) {
      ASSERT_EQ(seen, *wanted);
    }
  }
  void extract() {
    const int from = source();
    const int which = tag();
    const auto wanted = model_.extract(from, which);
    const Arrived* met = channel_->extract(Rank{from}, which);
    ASSERT_EQ(met != nullptr, wanted.has_value());
    if (met != nullptr) {
      ASSERT_EQ(static_cast<const Came*>(met)->id, *wanted);
    }
  }
  void cancel() {
    if (receives_.empty()) return;
    Posted& receive = receives_[random_() % receives_.size()];
    const bool wanted = model_.cancel(receive.id);
    ASSERT_EQ(channel_->withdraw(receive), wanted);
  }
  void recall() {
    if (messages_.empty()) return;
    Came& message = messages_[random_() % messages_.size()];
    const bool wanted = model_.recall(message.id);
    const Arrived* const taken = taken_back(*channel_, message);
    ASSERT_EQ(taken, wanted ? &message : nullptr);
  }

  std::unique_ptr<Channel> channel_;
  MatchingModel model_;
  std::deque<Posted> receives_;
  std::deque<Came> messages_;
  std::mt19937_64 random_;
  int sources_;
  int tags_;
  int wildcards_;
};

TEST_P(Engines, AgreeWithTheModelOnRandomSchedules) {
  std::mt19937_64 random(weft::test::stress_seed());
  const weft::test::StressClock clock(kShare, 1);
  for (uint64_t schedules = 0; clock.running(schedules); ++schedules) {
    static constexpr std::array<int, 4> kWildcards{0, 2, 20, 60};
    const int sources = 1 + static_cast<int>(random() % 5);
    const int tags = random() % 4 == 0 ? 500 : 1 + static_cast<int>(random() % 6);
    const int wildcards = allowed(kWildcards[random() % 4]);
    Schedule schedule(GetParam(), random(), sources, tags, wildcards);
    for (int i = 0; i < 2000; ++i) {
      schedule.step();
      if (HasFatalFailure()) return;
    }
    schedule.finish();
  }
}

TEST_P(Engines, GoBackAndForthBetweenWildcardsAndNone) {
  // Long quiet stretches between wildcards: engines with modes leave and enter them.
  Schedule quiet(GetParam(), weft::test::stress_seed(), 3, 40, 0);
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 3000; ++i) {
      quiet.step();
      if (HasFatalFailure()) return;
    }
  }
  quiet.finish();
  Schedule rare(GetParam(), weft::test::stress_seed(), 3, 40, allowed(1));
  for (int i = 0; i < 20'000; ++i) {
    rare.step();
    if (HasFatalFailure()) return;
  }
  rare.finish();
}

// --- Many threads, against the rules -------------------------------------------------------------

/// One thread a source sends numbered messages, and takes some back; several threads post receives,
/// some with wildcards, cancel some, look for messages, and take some that are there already (which
/// is a receive that does not wait). Afterwards, of all that was written down:
///  - each message met at most one receive, and the other way round, and they fit;
///  - what never met does not fit either, so nobody was forgotten;
///  - order of messages: if a receive met a message although an earlier one of that source fitted,
///    the earlier one had met another receive (that it met is seen by the one before; by which of
///    this thread's, that it was posted before);
///  - order of receives: the same the other way round.
class Race {
 public:
  struct Receive : Transfer {
    std::atomic<int> met_source{-1};  ///< and the number of the message there
    int met_number = -1;
    bool cancelled = false;
  };
  struct Message : Arrived {
    int number = 0;
    Receive* met = nullptr;  ///< written by whoever matched
    bool recalled = false;   ///< written by who sent it
  };
  static constexpr int kSources = 2;
  static constexpr int kPosters = 6;

  Race(const char* engine, uint64_t seed, int tags, int wildcards, int each)
      : channel_(make(engine)), seed_(seed), tags_(tags), wildcards_(wildcards) {
    for (auto& all : messages_) all = std::vector<Message>(static_cast<std::size_t>(each));
    const int receives = each * kSources / kPosters;
    for (auto& all : receives_) all = std::vector<Receive>(static_cast<std::size_t>(receives));
  }

  void run() {
    std::vector<std::jthread> threads;
    for (int s = 0; s < kSources; ++s) threads.emplace_back([this, s] { send(s); });
    for (int p = 0; p < kPosters; ++p) threads.emplace_back([this, p] { post(p); });
  }

  void check() {
    for (auto& all : receives_) {
      for (Receive& receive : all) check_receive(receive);
    }
    for (auto& all : receives_) check_posting_order(all);
    for (auto& all : messages_) check_sending_order(all);
    check_nobody_forgotten();
  }

 private:
  static void meet(Receive& receive, Message& message) {
    EXPECT_EQ(message.met, nullptr) << "a message met two receives";
    EXPECT_EQ(receive.met_number, -1) << "a receive met two messages";
    message.met = &receive;
    receive.met_number = message.number;
    receive.met_source = message.process.value;
  }
  void send(int source) {
    std::mt19937_64 random(seed_ + static_cast<uint64_t>(source));
    auto& all = messages_[static_cast<std::size_t>(source)];
    for (std::size_t number = 0; number < all.size();) {
      // Several of one key now and then.
      std::array<Transfer*, 8> met;
      const std::size_t some = random() % 8 == 0 ? 1 + random() % met.size() : 1;
      const std::size_t count = std::min(some, all.size() - number);
      const int tag = static_cast<int>(random() % static_cast<unsigned>(tags_));
      uint32_t taken = 0;
      if (count > 1) {
        taken = channel_->take_receives_of(Rank{source}, tag, {met.data(), count});
      } else if ((met[0] = channel_->take_receive(Rank{source}, tag)) != nullptr) {
        taken = 1;
      }
      for (std::size_t i = 0; i < count; ++i, ++number) {
        Message& message = all[number];
        message.number = static_cast<int>(number);
        message.process = Rank{source};
        message.tag = tag;
        if (i >= taken) met[i] = channel_->arrive(message);
        if (met[i] != nullptr) meet(static_cast<Receive&>(*met[i]), message);
      }
      if (random() % 20 == 0) {
        Message& older = all[random() % number];
        if (!older.recalled) older.recalled = taken_back(*channel_, older) != nullptr;
      }
      if (random() % 64 == 0) std::this_thread::yield();
    }
  }
  void post(int poster) {
    std::mt19937_64 random(seed_ + 100 + static_cast<uint64_t>(poster));
    auto& all = receives_[static_cast<std::size_t>(poster)];
    for (std::size_t i = 0; i < all.size(); ++i) {
      Receive& receive = all[i];
      const auto chance = [&](int in_1000) { return static_cast<int>(random() % 1000) < in_1000; };
      receive.process =
          chance(wildcards_) ? kAnySource : Rank{static_cast<int>(random() % kSources)};
      receive.tag = chance(wildcards_) ? MPI_ANY_TAG
                                       : static_cast<int>(random() % static_cast<unsigned>(tags_));
      if (chance(50)) {
        channel_->find(
            receive.process, receive.tag, [](void*, const Arrived&) {}, nullptr);
      }
      const bool waits = !chance(50);
      Arrived* const met =
          waits ? channel_->post(receive) : channel_->extract(receive.process, receive.tag);
      if (met != nullptr) {
        meet(receive, static_cast<Message&>(*met));
      } else if (!waits) {
        receive.cancelled = true;
      }
      if (chance(50)) {
        Receive& older = all[random() % (i + 1)];
        if (!older.cancelled) older.cancelled = channel_->withdraw(older);
      }
      if (random() % 64 == 0) std::this_thread::yield();
    }
  }

  static bool fits(const Receive& receive, const Message& message) {
    return (receive.process == kAnySource || receive.process == message.process) &&
           (receive.tag == MPI_ANY_TAG || receive.tag == message.tag);
  }
  Message* met_by(const Receive& receive) {
    if (receive.met_number < 0) return nullptr;
    return &messages_[static_cast<std::size_t>(receive.met_source.load())]
                     [static_cast<std::size_t>(receive.met_number)];
  }
  void check_receive(Receive& receive) {
    Message* const met = met_by(receive);
    if (met == nullptr) return;
    EXPECT_FALSE(receive.cancelled) << "a cancelled receive met a message";
    EXPECT_FALSE(met->recalled) << "a message that was taken back met a receive";
    EXPECT_TRUE(fits(receive, *met));
  }
  /// One thread's receives, in its order: of two that fit a message, the earlier one met first.
  void check_posting_order(std::vector<Receive>& all) {
    for (std::size_t later = 0; later < all.size(); ++later) {
      Message* const met = met_by(all[later]);
      if (met == nullptr) continue;
      for (std::size_t i = later > 200 ? later - 200 : 0; i < later; ++i) {
        const Receive& earlier = all[i];
        if (earlier.cancelled || !fits(earlier, *met)) continue;
        Message* const other = met_by(earlier);
        ASSERT_NE(other, nullptr) << "a later receive met what an earlier one still waits for";
        if (other->process == met->process) {
          ASSERT_LT(other->number, met->number) << "receives of a thread met in the wrong order";
        }
      }
    }
  }
  /// One source's messages, in its order: of two that fit a receive, the earlier one met first.
  void check_sending_order(std::vector<Message>& all) {
    for (std::size_t later = 0; later < all.size(); ++later) {
      const Receive* const met = all[later].met;
      if (met == nullptr) continue;
      for (std::size_t i = later > 200 ? later - 200 : 0; i < later; ++i) {
        if (all[i].recalled || !fits(*met, all[i])) continue;
        const Receive* const other = all[i].met;
        ASSERT_NE(other, nullptr) << "a message overtook an earlier one";
        if (same_poster(*other, *met)) {
          ASSERT_LT(other, met) << "messages of a source met in the wrong order";
        }
      }
    }
  }
  bool same_poster(const Receive& a, const Receive& b) const {
    for (const auto& all : receives_) {
      const bool has_a = &a >= all.data() && &a < all.data() + all.size();
      const bool has_b = &b >= all.data() && &b < all.data() + all.size();
      if (has_a != has_b) return false;
    }
    return true;
  }
  void check_nobody_forgotten() {
    std::vector<Transfer*> receives;
    channel_->take_receives([](void*, const Transfer&) { return true; }, nullptr, receives);
    std::vector<Arrived*> messages;
    channel_->take_messages(messages);
    std::size_t waiting_receives = 0;
    std::size_t waiting_messages = 0;
    for (auto& all : receives_) {
      for (Receive& each : all) waiting_receives += !each.cancelled && each.met_number < 0 ? 1 : 0;
    }
    for (auto& all : messages_) {
      for (Message& each : all) waiting_messages += !each.recalled && each.met == nullptr ? 1 : 0;
    }
    EXPECT_EQ(receives.size(), waiting_receives);
    EXPECT_EQ(messages.size(), waiting_messages);
    for (Transfer* receive : receives) {
      for (Arrived* message : messages) {
        ASSERT_FALSE(fits(static_cast<Receive&>(*receive), static_cast<Message&>(*message)))
            << "two that fit wait for each other";
      }
    }
  }

  std::unique_ptr<Channel> channel_;
  uint64_t seed_;
  int tags_;
  int wildcards_;
  std::array<std::vector<Message>, kSources> messages_;
  std::array<std::vector<Receive>, kPosters> receives_;
};

TEST_P(Engines, KeepTheRulesUnderManyThreads) {
  std::mt19937_64 random(weft::test::stress_seed());
  const weft::test::StressClock clock(kShare, 1);
  for (uint64_t races = 0; !HasFailure() && clock.running(races); ++races) {
    static constexpr std::array<int, 4> kWildcards{0, 1, 50, 400};
    const int tags = random() % 3 == 0 ? 300 : 1 + static_cast<int>(random() % 8);
    const int wildcards = allowed(kWildcards[random() % 4]);
    Race race(GetParam(), random(), tags, wildcards, 600);
    race.run();
    race.check();
  }
}

/// Each engine's name makes a channel of its own kind, and the test above has them all.
TEST(EngineNames, AreAllTested) {
  for (const std::string_view name : kEngines) {
    EXPECT_NE(std::find(kAll.begin(), kAll.end(), name), kAll.end()) << name;
  }
}

TEST(Hash, ReliesOnAPromiseOnly) {
  const auto hash = make_channel("hash");
  EXPECT_FALSE(hash->relies_on_exact_keys());
  hash->promise_exact_keys(true);
  EXPECT_TRUE(hash->relies_on_exact_keys());
  hash->promise_exact_keys(false);
  EXPECT_FALSE(hash->relies_on_exact_keys());
  const auto keyed = make_channel("keyed");
  keyed->promise_exact_keys(true);
  EXPECT_FALSE(keyed->relies_on_exact_keys());
}

// --- A channel that one thread has ---------------------------------------------------------------

class OneThreads : public testing::Test {
 protected:
  void SetUp() override {
    if (!base::Favour::may_be_callers()) GTEST_SKIP() << "no fence for other threads";
    use_alone();
    ASSERT_TRUE(channel_.is_one_threads());
  }
  /// Often enough to get it, however often it was taken away.
  void use_alone() {
    for (int i = 0; i < 1'000'000 && !channel_.is_one_threads(); ++i) {
      EXPECT_EQ(channel_.take_receive(Rank{1}, 1), nullptr);
    }
  }
  void post(Transfer& receive, Rank source, int tag) {
    receive.process = source;
    receive.tag = tag;
    EXPECT_EQ(channel_.post(receive), nullptr);
  }
  KeyedChannel channel_;
};

TEST_F(OneThreads, IsTakenBackByAnother) {
  Transfer mine;
  post(mine, Rank{0}, 1);
  EXPECT_TRUE(channel_.is_one_threads());
  std::thread([&] { EXPECT_EQ(channel_.take_receive(Rank{0}, 1), &mine); }).join();
  EXPECT_FALSE(channel_.is_one_threads());
  use_alone();
  EXPECT_TRUE(channel_.is_one_threads());
}

TEST_F(OneThreads, IsKeptByExactCallsAndLostByWildcards) {
  Arrived first;
  Arrived second;
  first.tag = 1;
  second.tag = 2;
  EXPECT_EQ(channel_.arrive(first), nullptr);
  EXPECT_EQ(channel_.arrive(second), nullptr);
  EXPECT_EQ(channel_.unexpected(), 2U);
  EXPECT_FALSE(channel_.find(
      Rank{0}, 3, [](void*, const Arrived&) {}, nullptr));
  EXPECT_TRUE(channel_.find(
      Rank{0}, 2, [](void*, const Arrived&) {}, nullptr));
  EXPECT_TRUE(channel_.is_one_threads());
  Transfer any;
  any.process = kAnySource;
  any.tag = MPI_ANY_TAG;
  EXPECT_EQ(channel_.post(any), &first) << "the older one";
  EXPECT_FALSE(channel_.is_one_threads());
  EXPECT_EQ(channel_.extract(Rank{0}, 2), &second);
  EXPECT_EQ(channel_.unexpected(), 0U);
}

TEST_F(OneThreads, GrowsAndGivesEverythingBack) {
  std::vector<Transfer> receives(1000);
  for (int i = 0; i < 1000; ++i) post(receives[static_cast<std::size_t>(i)], Rank{0}, i);
  use_alone();
  EXPECT_TRUE(channel_.withdraw(receives[500]));
  std::vector<Transfer*> left;
  channel_.take_receives([](void*, const Transfer&) { return true; }, nullptr, left);
  EXPECT_EQ(left.size(), 999U);
}

// --- Keys that one thread uses, of a channel that many use ---------------------------------------

class KeysOfThreads : public testing::Test {
 protected:
  /// `sample`: as KeyedChannel has it; by default the channel is never one thread's as a whole.
  explicit KeysOfThreads(uint32_t sample = 1U << 31)
      : channel_(KeyedChannel::Promises::ignored, 8, sample) {}
  void SetUp() override {
    if (!base::Favour::may_be_callers()) GTEST_SKIP() << "no fence for other threads";
  }
  /// Posts a receive and takes it, as an arriving message does, or the other way round.
  void meet(Rank source, int tag, bool message_first) {
    if (message_first) {
      Arrived message;
      message.process = source;
      message.tag = tag;
      ASSERT_EQ(channel_.arrive(message), nullptr);
      Transfer receive;
      receive.process = source;
      receive.tag = tag;
      ASSERT_EQ(channel_.post(receive), &message);
    } else {
      Transfer receive;
      receive.process = source;
      receive.tag = tag;
      ASSERT_EQ(channel_.post(receive), nullptr);
      ASSERT_EQ(channel_.take_receive(source, tag), &receive);
    }
  }
  /// Until no call with this key takes a lock, while the channel is nobody's alone.
  void earn(Rank source, int tag) {
    for (int i = 0; i < 1'000'000 && !channel_.favours_caller(source, tag); ++i) {
      meet(source, tag, false);
    }
    ASSERT_TRUE(channel_.favours_caller(source, tag));
  }
  /// Somebody else does something, after which the caller's keys are no longer its own.
  template <class F>
  void another_takes(Rank source, int tag, F&& something) {
    std::thread(std::forward<F>(something)).join();
    EXPECT_FALSE(channel_.favours_caller(source, tag));
  }
  void others_pass_by();

  KeyedChannel channel_;
};

TEST_F(KeysOfThreads, AreTakenWithoutALockUntilAnotherComes) {
  earn(Rank{0}, 1);
  EXPECT_FALSE(channel_.is_one_threads());
  Transfer mine;
  mine.process = Rank{0};
  mine.tag = 1;
  EXPECT_EQ(channel_.post(mine), nullptr);
  another_takes(Rank{0}, 1, [&] {
    EXPECT_FALSE(channel_.favours_caller(Rank{0}, 1));
    EXPECT_EQ(channel_.take_receive(Rank{0}, 1), &mine);
  });
  earn(Rank{0}, 1);  // it is won back
}

TEST_F(KeysOfThreads, AreGivenUpToWildcardsCancelsAndWhoTakesAll) {
  Transfer mine;
  mine.process = Rank{0};
  mine.tag = 1;
  Arrived message;
  message.process = Rank{0};
  message.tag = 1;

  earn(Rank{0}, 1);
  EXPECT_EQ(channel_.arrive(message), nullptr);
  EXPECT_TRUE(channel_.favours_caller(Rank{0}, 1)) << "messages that wait change nothing";
  another_takes(Rank{0}, 1, [&] {
    Transfer any;
    any.process = kAnySource;
    any.tag = MPI_ANY_TAG;
    EXPECT_EQ(channel_.post(any), &message);
  });
  EXPECT_EQ(channel_.unexpected(), 0U);

  earn(Rank{0}, 1);  // out of order again
  EXPECT_EQ(channel_.post(mine), nullptr);
  another_takes(Rank{0}, 1, [&] { EXPECT_TRUE(channel_.withdraw(mine)); });
  EXPECT_EQ(channel_.take_receive(Rank{0}, 1), nullptr);

  earn(Rank{0}, 1);
  EXPECT_EQ(channel_.post(mine), nullptr);
  another_takes(Rank{0}, 1, [&] {
    std::vector<Transfer*> receives;
    channel_.take_receives([](void*, const Transfer&) { return true; }, nullptr, receives);
    EXPECT_EQ(receives.size(), 1U);
  });

  earn(Rank{0}, 1);
  EXPECT_EQ(channel_.arrive(message), nullptr);
  another_takes(Rank{0}, 1, [&] {
    EXPECT_TRUE(channel_.find(
        Rank{0}, 1, [](void*, const Arrived&) {}, nullptr));
  });

  earn(Rank{0}, 2);
  another_takes(Rank{0}, 2, [&] {
    std::vector<Arrived*> messages;
    channel_.take_messages(messages);
    EXPECT_EQ(messages.size(), 1U);
  });
}

/// Two threads with keys of their own, and one that passes through everything now and then.
void KeysOfThreads::others_pass_by() {
  if (!base::environment("WEFT_STRESS_SECONDS").found) base::set_config("stress.seconds", "2");
  const uint64_t seed = weft::test::stress_seed();
  const weft::test::StressClock clock(1.0);
  constexpr int kThreads = 2;
  std::array<std::atomic<uint64_t>, kThreads> favoured{};
  std::atomic<bool> stop{false};
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed + static_cast<uint64_t>(t));
      while (!stop.load() && !HasFailure()) {
        // A streak of one key: earned, lost to the passer-by, earned again.
        const int tag = static_cast<int>(random() % 40);
        for (int i = 0; i < 2000; ++i) {
          meet(Rank{t}, tag, i % 2 == 0);
          if (i % 50 == 0 && (channel_.favours_caller(Rank{t}, tag) || channel_.is_one_threads())) {
            ++favoured[static_cast<std::size_t>(t)];
          }
        }
      }
    });
  }
  std::mt19937_64 random(seed + kThreads);
  const auto all_had_it = [&] {
    return std::all_of(favoured.begin(), favoured.end(), [](const auto& each) { return each > 0; });
  };
  for (uint64_t rounds = 0; !HasFailure() && (clock.running(rounds) || !all_had_it()); ++rounds) {
    const Rank source{random() % 2 == 0 ? kThreads : static_cast<int>(random() % kThreads)};
    const int tag = static_cast<int>(random() % 400);
    switch (random() % 6) {
      case 0: {  // a wildcard for a sender who does not send meanwhile
        Transfer any;
        any.process = Rank{kThreads};
        any.tag = MPI_ANY_TAG;
        EXPECT_EQ(channel_.post(any), nullptr);
        std::this_thread::yield();
        EXPECT_TRUE(channel_.withdraw(any));
        break;
      }
      case 1: {
        std::vector<Transfer*> none;
        channel_.take_receives([](void*, const Transfer&) { return false; }, nullptr, none);
        EXPECT_TRUE(none.empty());
        break;
      }
      case 2:  // may see theirs, and leaves it
        channel_.find(
            source, tag, [](void*, const Arrived&) {}, nullptr);
        break;
      case 3: {  // more keys: the table grows
        std::vector<Transfer> receives(20);
        for (Transfer& receive : receives) {
          receive.process = Rank{kThreads};
          receive.tag = static_cast<int>(random() % 4000);
          EXPECT_EQ(channel_.post(receive), nullptr);
        }
        for (Transfer& receive : receives) EXPECT_TRUE(channel_.withdraw(receive));
        break;
      }
      default:
        meet(Rank{kThreads}, tag, random() % 2 == 0);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
  }
  stop = true;
  threads.clear();
  EXPECT_EQ(channel_.unexpected(), 0U);
  std::vector<Transfer*> left;
  channel_.take_receives([](void*, const Transfer&) { return true; }, nullptr, left);
  EXPECT_TRUE(left.empty());
}
TEST_F(KeysOfThreads, KeepThemWhileOthersPassBy) { others_pass_by(); }

/// The same where now and then one of the threads gets the whole channel.
class KeysOfThreadsAtTimesAlone : public KeysOfThreads {
 protected:
  KeysOfThreadsAtTimesAlone() : KeysOfThreads(16) {}
};
TEST_F(KeysOfThreadsAtTimesAlone, KeepThemWhileOthersPassBy) { others_pass_by(); }

/// Entries that searches passed: a list has all of them in one queue, keys have one each.
TEST(Passed, IsWhatWasLookedAtInVain) {
  for (const std::string_view engine : kEngines) {
    const auto channel = make_channel(engine);
    std::array<Transfer, 8> receives;
    for (int i = 0; i < 8; ++i) {
      receives[i].process = Rank{0};
      receives[i].tag = i;
      EXPECT_EQ(channel->post(receives[i]), nullptr);
    }
    // The first search empties a tail.
    EXPECT_EQ(channel->take_receive(Rank{0}, 7), &receives[7]) << engine;
    const uint64_t before = channel->counts.now(ChannelCount::passed);
    EXPECT_EQ(channel->take_receive(Rank{0}, 6), &receives[6]) << engine;
    const uint64_t passed = channel->counts.now(ChannelCount::passed) - before;
    const bool one_queue = engine == "list" || engine == "per-source" || engine == "tail" ||
                           engine == "tail-50" || engine == "tail-per-source";
    EXPECT_EQ(passed == 6, one_queue) << engine;
    std::vector<Transfer*> left;
    channel->take_receives([](void*, const Transfer&) { return true; }, nullptr, left);
    EXPECT_EQ(left.size(), 6U);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Engines, testing::ValuesIn(kAll), [](const auto& made) {
  std::string name = made.param;
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
});

}  // namespace
}  // namespace weft::mpi
