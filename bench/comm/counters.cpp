// Instructions and cache misses of an operation.
//
// Measured: user-mode instructions and last-level cache misses of the calling thread per operation,
// by the processor's counters, over batches of 32 messages in which nothing waits: rank 1 posts 32
// receives (`post`), rank 0 sends 32 (`send`), and only then rank 1 progresses until all 32 have
// completed (`take`: progress, matching and completion). Ranks take turns over the yard.
// What two reads of the counters cost by themselves is measured first and taken off. Beside them
// stands the time of the operation in ns, which needs no counters.
//
// It lies when a send meets a full ring (32 messages fit) and when the machine has no counters:
// then it says why and measures nothing.
#include <fmt/format.h>

#include <algorithm>

#include "comm/benches.hpp"
#include "comm/session.hpp"
#include "harness/perf_counters.hpp"
#include "harness/result.hpp"
#include "weft/base/clock.hpp"

namespace weft::bench {
namespace {

constexpr unsigned kBatch = 32;

struct Series {
  std::vector<double> instructions, misses, ns;
};

class Meter {
 public:
  explicit Meter(const PerfCounters& counters) : counters_(counters) {
    for (int i = 0; i < 16; ++i) {
      const Events before = counters_.read();
      const Events after = counters_.read();
      own_.instructions = after.instructions - before.instructions;
    }
  }
  template <class Work>
  void measure(Series& series, Work work) const {
    const Events before = counters_.read();
    const uint64_t start = base::now_ns();
    work();
    const uint64_t end = base::now_ns();
    const Events after = counters_.read();
    series.ns.push_back(static_cast<double>(end - start) / kBatch);
    series.instructions.push_back((after.instructions - before.instructions - own_.instructions) /
                                  kBatch);
    series.misses.push_back((after.cache_misses - before.cache_misses) / kBatch);
  }

 private:
  const PerfCounters& counters_;
  Events own_;
};

// One mode's batch, both ranks in turn.
class Batches {
 public:
  Batches(Pair& pair, Runtime& runtime, const Options& options)
      : pair_(pair),
        runtime_(runtime),
        options_(options),
        buffer_(options.size * kBatch),
        endpoint_(runtime, spec()) {}

  void turn(const Meter& meter, Series& post, Series& send, Series& take) {
    received_.reset(kBatch);
    if (!pair_.leads() && options_.mode == Mode::matched) {
      meter.measure(post, [&] { post_receives(); });
    }
    pair_.meet();
    if (pair_.leads()) meter.measure(send, [&] { send_all(); });
    pair_.meet();
    if (!pair_.leads()) meter.measure(take, [&] { take_all(); });
    pair_.meet();
  }

 private:
  EndpointSpec spec() {
    EndpointSpec made;
    if (options_.mode == Mode::queue) made.arrival = Arrival::queue;
    if (options_.mode == Mode::handler) {
      made.arrival = Arrival::handler;
      made.handler_argument = &received_;
      made.handler = [](void* received, const Incoming&) {
        static_cast<Synchronizer*>(received)->arrive();
      };
    }
    return made;
  }
  std::span<std::byte> part(unsigned i) const {
    return {buffer_.data() + i * options_.size, options_.size};
  }
  void post_receives() {
    for (unsigned i = 0; i < kBatch; ++i) {
      if (endpoint_.recv(pair_.peer(), Tag{i}, part(i), &received_) != Post::posted) {
        throw std::runtime_error("counters: a receive met its message too early");
      }
    }
  }
  void send_all() {
    for (unsigned i = 0; i < kBatch; ++i) {
      if (endpoint_.send(pair_.peer(), Tag{i}, part(i)) != Post::done) {
        throw std::runtime_error("counters: a send was not done at once");
      }
    }
  }
  void take_all() {
    if (options_.mode == Mode::queue) {
      Message message;
      for (unsigned i = 0; i < kBatch; ++i) {
        while (!endpoint_.dequeue(message)) {
        }
      }
      return;
    }
    while (!received_.ready()) runtime_.progress();
  }

  Pair& pair_;
  Runtime& runtime_;
  const Options& options_;
  Buffer buffer_;
  Synchronizer received_{kBatch};
  Endpoint endpoint_;
};

void show(Pair& pair, const Options& options, const char* part, int measured_by,
          const Series& series, const std::string& why_not) {
  // The measuring rank's quartiles travel as thousandths.
  const auto known = [&](const std::vector<double>& values) {
    const Summary mine = summarize(values);
    double parts[4]{mine.median, mine.low, mine.high, static_cast<double>(mine.samples)};
    for (double& value : parts) {
      const uint64_t other = pair.yard().trade(static_cast<uint64_t>(std::max(0.0, value) * 1000));
      if (measured_by != pair.rank()) value = static_cast<double>(other) / 1000;
    }
    return Summary{parts[0], parts[1], parts[2], static_cast<std::size_t>(parts[3])};
  };
  Result result = figure("counters", fmt::format("{}_{}", name_of(options.mode), part),
                         "instructions", Better::lower);
  result.size_bytes = options.size;
  const Summary instructions = known(series.instructions);
  const double misses = known(series.misses).median;
  if (why_not.empty()) {
    result.value = instructions;
    result.extra["cache_misses"] = misses;
  } else {
    result.verdict = "not measured: " + why_not;
  }
  result.extra["ns"] = known(series.ns).median;
  if (pair.leads()) print(result, options.json);
}

}  // namespace

int run_counters(const Options& options) {
  if (options.mode == Mode::put || options.mode == Mode::get) {
    throw std::runtime_error("counters: for matched, queue and handler");
  }
  Pair pair;
  const PerfCounters counters;
  const bool both = pair.yard().trade(counters.work() ? 1 : 0) != 0 && counters.work();
  const std::string why_not = both              ? ""
                              : counters.work() ? "the other rank has no counters"
                                                : counters.why_not();
  Runtime runtime(runtime_options(pair, options));
  if (options.size > runtime.inline_bytes()) {
    throw std::runtime_error("counters: messages must travel inside the ring");
  }
  Batches batches(pair, runtime, options);
  const Meter meter(counters);
  Series post, send, take;
  constexpr int kWarmUps = 100;
  constexpr int kTurns = 1000;
  for (int i = 0; i < kWarmUps; ++i) batches.turn(meter, post, send, take);
  post = send = take = {};
  for (int i = 0; i < kTurns; ++i) batches.turn(meter, post, send, take);
  if (options.mode == Mode::matched) show(pair, options, "post", 1, post, why_not);
  show(pair, options, "send", 0, send, why_not);
  show(pair, options, "take", 1, take, why_not);
  return 0;
}

}  // namespace weft::bench
