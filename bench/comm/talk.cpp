// Tasks that converse: how many messages tasks exchange that block for each of them.
//
// Two ranks, each with one worker and N tasks; task i of rank 0 asks task i of rank 1, which waits
// for the question, computes (--compute), and answers; 8-byte matched messages, a tag for each
// pair; both sides block in recv_wait.
// Measured, mode "all": messages a second, those of both directions together, all N pairs at once;
// from when every pair has exchanged one message (all tasks exist, have a stack, and wait) until
// the last pair is done. Limit: the rate of 8-byte matched messages in one direction between one
// thread each in the same run: there, too, each message costs one core a send and the other a
// receive. Where the tasks compute, each message of the limit costs its half of that, too, as if
// computing and communicating took turns without a gap. (000 Figs 5.15, 5.16.)
// Measured, mode "one": one-way time of a message, half of a round trip, when one pair at a time
// converses and the others wait: the pairs are taken in a scattered order, so that each message
// finds its task, its stack and its receive in no near cache. Limit: the latency between one thread
// each that polls. (000 Fig 5.13b.)
//
// It lies when the ranks share a core, and when N is so small that both ranks wait for each other.
#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <vector>

#include "comm/benches.hpp"
#include "comm/ping_pong.hpp"
#include "comm/stream.hpp"
#include "weft/base/config.hpp"
#include "weft/comm/config.hpp"
#include "weft/task/scheduler.hpp"

namespace weft::bench {
namespace {

constexpr uint64_t kMessages = 100'000;  ///< of a turn, about, each way
constexpr uint64_t kRounds = 100;        ///< of each pair at least, up to kMostMessages of all
constexpr uint64_t kMostMessages = 2'000'000;

class Talk {
 public:
  Talk(Pair& pair, Runtime& runtime, const Options& options)
      : pair_(pair),
        endpoint_(runtime, {}),
        tasks_(options.tasks),
        compute_ns_(options.compute_ns) {}

  /// Messages a second.
  Reading all() {
    // What is measured is how tasks converse, not how they meet: they take turns by dozens.
    const uint64_t messages = std::max(kMessages, std::min(kRounds * tasks_, kMostMessages));
    const auto rounds = std::max<uint64_t>(2, messages / tasks_);
    pair_.meet();
    // Of this turn alone: between turns no worker is to sleep on the limit's doorbells.
    task::Scheduler scheduler({.workers = 1});
    const double seconds = scheduler.run([&] { return converse(rounds); });
    return {2.0 * static_cast<double>(tasks_ * rounds) / seconds};
  }

  /// Messages a second, if only messages at `rate` and their computation took time.
  [[nodiscard]] Reading possible(double rate) const {
    constexpr int kTimes = 1000;
    const uint64_t start = base::now_ns();
    if (compute_ns_ != 0) {
      for (int i = 0; i < kTimes; ++i) compute();
    }
    const double compute_s = static_cast<double>(base::now_ns() - start) / 1e9 / kTimes;
    return {compute_ns_ == 0 ? rate : 1 / (1 / rate + compute_s / 2)};
  }

  /// One way, in ns.
  Reading one() {
    pair_.meet();
    const uint64_t trips = std::min<uint64_t>(kMessages, std::max<uint64_t>(tasks_, 1000));
    task::Scheduler scheduler({.workers = 1});
    return {scheduler.run([&] { return pair_.leads() ? visit(trips) : be_visited(trips); })};
  }

 private:
  double converse(uint64_t rounds) {
    // Plain: there is one worker. Who asks waits until all have exchanged a message.
    uint32_t ready = 0;
    uint64_t start = 0;
    std::vector<task::TaskRef> waiting(tasks_);
    std::vector<task::Handle<void>> all;
    all.reserve(tasks_);
    for (uint32_t i = 0; i < tasks_; ++i) {
      all.push_back(task::spawn([&, i] {
        exchange(i);
        waiting[i] = task::this_task();
        if (++ready == tasks_) {
          start = base::now_ns();
          for (const auto& each : waiting) task::signal(each);
        }
        while (pair_.leads() && start == 0) task::wait();
        for (uint64_t round = 0; round < rounds; ++round) exchange(i);
      }));
    }
    for (auto& each : all) each.join();
    return static_cast<double>(base::now_ns() - start) / 1e9;
  }

  void exchange(uint32_t pair) {
    uint64_t word = pair;
    if (pair_.leads()) expect_ok(send(pair, word), "send");
    expect_ok(receive(pair, word), "receive");
    if (word != pair) throw std::runtime_error("a message came to another task");
    compute();
    if (!pair_.leads()) expect_ok(send(pair, word), "send");
  }

  /// The asking side visits the pairs in a scattered order.
  double visit(uint64_t trips) {
    uint64_t ready = 0;
    expect_ok(receive(tasks_, ready), "receive");
    const uint64_t start = base::now_ns();
    for (uint64_t trip = 0; trip < trips; ++trip) {
      uint64_t word = scattered(trip);
      expect_ok(send(scattered(trip), word), "send");
      expect_ok(receive(scattered(trip), word), "receive");
    }
    return static_cast<double>(base::now_ns() - start) / 2 / static_cast<double>(trips);
  }

  /// The answering side: a task for each pair; each answers as often as it is visited.
  double be_visited(uint64_t trips) {
    std::vector<uint32_t> visits(tasks_);
    for (uint64_t trip = 0; trip < trips; ++trip) ++visits[scattered(trip)];
    uint32_t begun = 0;
    std::vector<task::Handle<void>> all;
    all.reserve(tasks_);
    for (uint32_t i = 0; i < tasks_; ++i) {
      all.push_back(task::spawn([&, i] {
        if (++begun == tasks_) expect_ok(send(tasks_, 0), "send");
        for (uint32_t visit = 0; visit < visits[i]; ++visit) {
          uint64_t word = 0;
          expect_ok(receive(i, word), "receive");
          expect_ok(send(i, word), "send");
        }
      }));
    }
    for (auto& each : all) each.join();
    return 0;
  }

  [[nodiscard]] uint32_t scattered(uint64_t trip) const noexcept {
    return static_cast<uint32_t>(trip * 2654435761U % tasks_);
  }
  Errc send(uint32_t pair, uint64_t word) {
    return endpoint_.send_wait(pair_.peer(), Tag{pair}, std::as_bytes(std::span(&word, 1))).error;
  }
  Errc receive(uint32_t pair, uint64_t& word) {
    return endpoint_.recv_wait(pair_.peer(), Tag{pair}, std::as_writable_bytes(std::span(&word, 1)))
        .error;
  }
  void compute() const noexcept {
    if (compute_ns_ == 0) return;
    for (const uint64_t until = base::now_ns() + compute_ns_; base::now_ns() < until;) {
    }
  }

  Pair& pair_;
  Endpoint endpoint_;
  uint32_t tasks_;
  uint64_t compute_ns_;
};

}  // namespace

int run_talk(const Options& options) {
  // Each task that waits has a receive posted.
  register_comm_config();
  base::set_config("comm.operations", std::to_string(std::max(65'536U, 2 * options.tasks)));
  Pair pair;
  Runtime runtime(runtime_options(pair, options));
  Talk talk(pair, runtime, options);
  const auto limit_of_all = make_stream(Mode::matched, {pair, runtime, 8, 64, 1, true, false});
  const auto limit_of_one = make_ping_pong(Mode::matched, {pair, runtime, 8, 1, true, false});
  const std::string compute =
      options.compute_ns != 0 ? "_compute_" + std::to_string(options.compute_ns) : "";
  Result form = figure("talk", options.one ? "one" : "all" + compute, options.one ? "ns" : "/s",
                       options.one ? Better::lower : Better::higher);
  form.size_bytes = 8;
  form.threads = options.tasks;
  form.devices = runtime.device_count();
  if (options.one) {
    contest(pair, options, form,
            {{"talk", [&] { return talk.one(); }}, {"latency_1x1", [&]() -> Reading {
                                                      const RoundTrips trips =
                                                          limit_of_one->turn(turn_seconds(1));
                                                      return {trips.trip_ns / 2};
                                                    }}});
  } else {
    contest(pair, options, form,
            {{"talk", [&] { return talk.all(); }},
             {options.compute_ns != 0 ? "own_rate_1x1_with_compute" : "own_rate_1x1",
              [&] { return talk.possible(limit_of_all->turn(turn_seconds(1)).per_second); }}});
  }
  return 0;
}

}  // namespace weft::bench
