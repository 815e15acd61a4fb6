// The matching engines alone (003 §4.1.1, Figs 3-7).
//
// Measured: receives posted and met a second. Both queues hold so many entries that nothing fits
// (`--length`; with `--posted-only` the posted one alone). T threads take turns with themselves:
// each posts a receive, which searches the messages that wait and finds none, then offers the
// message of the same key, which searches the posted receives and meets it behind all the others.
// All entries have one sender and tags of their own, each thread its own tag: what engines with a
// list for each sender have the least of. The engines have MCS locks, as in 003; beside them those
// of another lock (`list-spin` …), which programs have (`mpi.matching_lock`).
//
// Limit: the engine `list` (two lists, one lock), in the same round. Beside it, with several
// threads, the same engine with one (`over_one_thread`), and the least over the most of what a
// thread got. There is no transport and no progress, and the entries lie in memory as they were
// posted, which lists, walked in that order, like.
//
// It lies about threads when there are fewer cores than threads: who lost the core while holding a
// lock has all others wait for a time slice.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "comm/benches.hpp"
#include "harness/result.hpp"
#include "harness/statistics.hpp"
#include "mpi/matching/arrived.hpp"
#include "mpi/matching/channel.hpp"
#include "mpi/transfer.hpp"
#include "turns.hpp"
#include "weft/base/clock.hpp"

namespace weft::bench {
namespace {

constexpr double kTurnSeconds = 0.02;
constexpr unsigned kPairsBetweenLooks = 16;  // at the clock
constexpr Rank kSender{0};
constexpr int kPostedTag = 1'000'000;
constexpr int kWaitingTag = 2'000'000;  // of messages

struct Turn {
  double per_second = 0;
  double fairness = 1;
};

using mpi::MatchingLock;

/// An engine with its queues filled.
class Engine {
 public:
  Engine(std::string_view engine, MatchingLock lock, unsigned length, bool posted_only)
      : name_(fmt::format("{}{}", engine, lock == MatchingLock::spin ? "-spin" : "")),
        channel_(mpi::make_channel(engine, lock)),
        posted_(length),
        waiting_(posted_only ? 0 : length) {
    for (unsigned i = 0; i < posted_.size(); ++i) {
      set_key(posted_[i], kPostedTag + static_cast<int>(i));
      expect(channel_->post(posted_[i]) == nullptr);
    }
    for (unsigned i = 0; i < waiting_.size(); ++i) {
      set_key(waiting_[i], kWaitingTag + static_cast<int>(i));
      expect(channel_->arrive(waiting_[i]) == nullptr);
    }
  }
  ~Engine() {
    for (mpi::Transfer& receive : posted_) (void)channel_->withdraw(receive);
    std::vector<mpi::Arrived*> left;
    channel_->take_messages(left);
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  Turn turn(unsigned threads) {
    std::vector<double> pairs(threads);
    const double wall_ns = turns::run_together(threads, [&](unsigned me) {
      mpi::Transfer receive;
      const int tag = static_cast<int>(me);
      double done = 0;
      const uint64_t until = base::now_ns() + static_cast<uint64_t>(kTurnSeconds * 1e9);
      do {
        for (unsigned i = 0; i < kPairsBetweenLooks; ++i) {
          set_key(receive, tag);
          expect(channel_->post(receive) == nullptr);
          expect(channel_->take_receive(kSender, tag) == &receive);
        }
        done += kPairsBetweenLooks;
      } while (base::now_ns() < until);
      pairs[me] = done;
    });
    double all = 0;
    for (const double each : pairs) all += each;
    return {all * 1e9 / wall_ns, fairness_of(pairs)};
  }

  std::vector<double> rates, limits, ratios, over_one, fairness;

 private:
  static void set_key(mpi::Entry& entry, int tag) noexcept {
    entry.process = kSender;
    entry.tag = tag;
  }
  void expect(bool as_it_should) const {
    if (!as_it_should) throw std::runtime_error(name_ + " matched what does not fit");
  }

  std::string name_;
  std::unique_ptr<mpi::Channel> channel_;
  std::vector<mpi::Transfer> posted_;
  std::vector<mpi::Arrived> waiting_;
};

Result result_of(const Engine& who, const Options& options) {
  Result result = figure(
      "matching",
      fmt::format("{}_{}{}", who.name(), options.length, options.posted_only ? "_posted_only" : ""),
      "/s", Better::higher);
  result.threads = options.threads;
  result.value = summarize(who.rates);
  result.limit_name = "list";
  result.limit = summarize(who.limits);
  result.ratio = summarize(who.ratios);
  result.fairness = summarize(who.fairness).median;
  if (!who.over_one.empty()) result.extra["over_one_thread"] = summarize(who.over_one).median;
  return result;
}

}  // namespace

int run_matching(const Options& options) {
  std::vector<std::unique_ptr<Engine>> all;
  const auto add = [&](std::string_view engine, MatchingLock lock) {
    all.push_back(std::make_unique<Engine>(engine, lock, options.length, options.posted_only));
  };
  for (const std::string_view engine : mpi::kEngines) {
    add(engine, MatchingLock::mcs);
    if (engine != "keyed" && engine != "hash") add(engine, MatchingLock::spin);
  }
  Engine list("list", MatchingLock::mcs, options.length, options.posted_only);
  const uint64_t until = base::now_ns() + static_cast<uint64_t>(options.seconds * 1e9);
  for (unsigned round = 0; round < 6 || base::now_ns() < until; ++round) {
    const double limit = list.turn(options.threads).per_second;
    for (const auto& who : all) {
      const Turn turn = who->turn(options.threads);
      const double one = options.threads > 1 ? who->turn(1).per_second : 0;
      if (round == 0) continue;  // cold
      who->rates.push_back(turn.per_second);
      who->limits.push_back(limit);
      who->ratios.push_back(turn.per_second / limit);
      who->fairness.push_back(turn.fairness);
      if (options.threads > 1) who->over_one.push_back(turn.per_second / one);
    }
  }
  for (const auto& who : all) print(result_of(*who, options), options.json);
  return 0;
}

}  // namespace weft::bench
