// Threads that issue and wait through one critical section (000 §2.1).
//
// Measured: operations a second of T threads that share one communication context behind one lock,
// as in an MPI library with a global critical section. A thread issues a window of 64 operations,
// one a section, by the lock's main path; then, by its low path, it polls the context until all of
// its window are complete. An operation completes a microsecond after it was issued, for whoever
// polls then; who polled in vain yields. The window and its wait are one turn of the thread;
// fairness counts the turns that ended in time. Beside the rate stand the four shares of a thread's
// time, from turns with clocks in them (Fig. 2.3): `issue` and `poll` in the section with something
// to do, `empty` in it with nothing, and the yield after that; `synchronization` getting in and
// out.
//
// Limit: the same lock with two threads, in the same round: more threads should not be worth less.
// The rates of all locks in one round are comparable, too; std::mutex is what a user would pick.
//
// It lies when the operating system favours the lock's order by chance (rounds are short, and there
// are many), and says nothing of uncontended locks (one thread: `uncontended`, ns a section).
#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/benches.hpp"
#include "harness/result.hpp"
#include "harness/statistics.hpp"
#include "turns.hpp"
#include "weft/base/arbitrated_locks.hpp"
#include "weft/base/clock.hpp"

namespace weft::bench {
namespace {

constexpr unsigned kWindow = 64;
constexpr double kWireNs = 1000;

struct alignas(base::kCacheLine) Done {
  std::atomic<uint64_t> count{0};
};

/// The communication context: what the lock guards.
class Context {
 public:
  explicit Context(unsigned threads)
      : wire_ticks_(base::to_ticks(kWireNs)),
        queue_(std::size_t{threads} * kWindow),
        done_(threads) {}

  void issue(unsigned thread) {
    Posted& posted = queue_[tail_++ % queue_.size()];
    posted.due = base::ticks() + wire_ticks_;
    posted.thread = thread;
    for (uint64_t& word : posted.descriptor) word += thread;  // a send makes its descriptor
  }
  /// Completes what is due; how many.
  unsigned poll() {
    unsigned completed = 0;
    for (const uint64_t now = base::ticks(); head_ != tail_; ++head_, ++completed) {
      const Posted& posted = queue_[head_ % queue_.size()];
      if (posted.due > now) break;
      auto& count = done_[posted.thread].count;
      // release: pairs with the acquire of the thread that waits. Written under the lock alone.
      count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    return completed;
  }
  [[nodiscard]] uint64_t done(unsigned thread) const {
    return done_[thread].count.load(std::memory_order_acquire);
  }

 private:
  struct alignas(base::kCacheLine) Posted {
    uint64_t due = 0;
    uint64_t thread = 0;
    uint64_t descriptor[6] = {};
  };
  uint64_t wire_ticks_;
  std::vector<Posted> queue_;  ///< as many as can be under way
  uint64_t head_ = 0, tail_ = 0;
  std::vector<Done> done_;
};

/// Where the time of all threads went, in ticks.
struct Shares {
  uint64_t issue = 0, poll = 0, empty = 0, synchronization = 0;
  void add(const Shares& other) {
    issue += other.issue;
    poll += other.poll;
    empty += other.empty;
    synchronization += other.synchronization;
  }
};

struct Outcome {
  double per_second = 0;
  double fairness = 1;
  Shares shares;
};

/// One turn of the benchmark: T threads for some milliseconds.
template <class Lock, bool Timed>
Outcome run(unsigned threads, double seconds) {
  base::OwnLine<Lock> owned;  // else what all threads read might lie beside it
  Lock& lock = *owned;
  const auto context = std::make_unique<Context>(threads);
  std::vector<double> windows(threads), in_time(threads);
  std::vector<Shares> shares(threads);
  const auto stamp = [] { return Timed ? base::ticks() : 0; };
  const double wall_ns = turns::run_together(threads, [&](unsigned me) {
    Shares mine;
    uint64_t issued = 0;
    const uint64_t until = base::now_ns() + static_cast<uint64_t>(seconds * 1e9);
    const auto section = [&](auto acquire, auto work, auto account) {
      typename Lock::Place place;
      const uint64_t came = stamp();
      acquire(place);
      const uint64_t in = stamp();
      work();
      const uint64_t done = stamp();
      lock.release(place);
      mine.synchronization += stamp() - done + in - came;
      account(done - in);
    };
    do {
      for (unsigned i = 0; i < kWindow; ++i) {
        section([&](auto& place) { lock.acquire(place); }, [&] { context->issue(me); },
                [&](uint64_t spent) { mine.issue += spent; });
      }
      issued += kWindow;
      while (context->done(me) < issued) {
        unsigned completed = 0;
        section([&](auto& place) { lock.acquire_low(place); }, [&] { completed = context->poll(); },
                [&](uint64_t spent) { (completed != 0 ? mine.poll : mine.empty) += spent; });
        if (completed == 0) {
          const uint64_t before = stamp();
          std::this_thread::yield();
          mine.empty += stamp() - before;
        }
      }
      if (base::now_ns() < until) ++in_time[me];
      ++windows[me];
    } while (base::now_ns() < until);
    shares[me] = mine;
  });
  Outcome outcome;
  double all = 0;
  for (unsigned t = 0; t < threads; ++t) {
    all += windows[t];
    outcome.shares.add(shares[t]);
  }
  outcome.per_second = all * kWindow * 1e9 / wall_ns;
  outcome.fairness = fairness_of(in_time);
  return outcome;
}

/// ns of a section that nobody else wants.
template <class Lock>
double uncontended_ns() {
  constexpr unsigned kSections = 20000;
  Lock lock;
  const int64_t start = turns::now();
  for (unsigned i = 0; i < kSections; ++i) {
    typename Lock::Place place;
    lock.acquire(place);
    lock.release(place);
  }
  return static_cast<double>(turns::now() - start) / kSections;
}

struct Contender {
  const char* name;
  Outcome (*rate)(unsigned threads, double seconds);
  Outcome (*timed)(unsigned threads, double seconds);
  double (*alone_ns)();
  std::vector<double> rates, limits, ratios, fairness, alone;
  Shares shares;
};

template <class Lock>
Contender contender(const char* name) {
  return {name, run<Lock, false>, run<Lock, true>, uncontended_ns<Lock>, {}, {}, {}, {}, {}, {}};
}

std::vector<Contender> contenders() {
  using namespace base;
  return {contender<WithoutPriority<std::mutex>>("std_mutex"),
          contender<WithoutPriority<SpinLock>>("spin"),
          contender<WithoutPriority<TicketLock>>("ticket"),
          contender<WithoutPriorityMcs>("mcs"),
          contender<ClhLock>("clh"),
          contender<PriorityClhLock>("priority_clh"),
          contender<CohortLock>("cohort"),
          contender<ClhubLock>("clhub"),
          contender<HierarchicalClhubLock>("hierarchical_clhub")};
}

Result result_of(const Contender& who, unsigned threads) {
  Result result = figure("locks", who.name, "/s", Better::higher);
  result.threads = threads;
  result.value = summarize(who.rates);
  if (threads > 2) {
    result.limit_name = "two_threads";
    result.limit = summarize(who.limits);
    result.ratio = summarize(who.ratios);
  }
  result.fairness = summarize(who.fairness).median;
  const auto& shares = who.shares;
  const auto all =
      static_cast<double>(shares.issue + shares.poll + shares.empty + shares.synchronization);
  const auto percent = [all](uint64_t part) {
    return all > 0 ? static_cast<double>(part) * 100 / all : 0;
  };
  result.extra["issue_percent"] = percent(shares.issue);
  result.extra["poll_percent"] = percent(shares.poll);
  result.extra["empty_percent"] = percent(shares.empty);
  result.extra["synchronization_percent"] = percent(shares.synchronization);
  result.extra["uncontended_ns"] = summarize(who.alone).median;
  return result;
}

}  // namespace

int run_locks(const Options& options) {
  constexpr double kTurn = 0.02;
  auto all = contenders();
  const unsigned threads = options.threads;
  const uint64_t until = base::now_ns() + static_cast<uint64_t>(options.seconds * 1e9);
  for (unsigned round = 0; round < 4 || base::now_ns() < until; ++round) {
    for (Contender& who : all) {
      const Outcome outcome = who.rate(threads, kTurn);
      const double limit = threads > 2 ? who.rate(2, kTurn).per_second : outcome.per_second;
      const Outcome timed = who.timed(threads, kTurn);
      const double alone = who.alone_ns();
      if (round == 0) continue;  // cold
      who.rates.push_back(outcome.per_second);
      who.limits.push_back(limit);
      who.ratios.push_back(outcome.per_second / limit);
      who.fairness.push_back(outcome.fairness);
      who.alone.push_back(alone);
      who.shares.add(timed.shares);
    }
  }
  for (const Contender& who : all) print(result_of(who, threads), options.json);
  return 0;
}

}  // namespace weft::bench
