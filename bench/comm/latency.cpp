// One-way latency of a message.
//
// Measured: from the posting call on one rank to the receiver's return with the bytes, as half of a
// ping-pong round trip, in ns. With one thread both sides poll, and a turn's figure is the median
// of laps of 32 trips (of single ones above 4 KiB). T threads a rank play T ping-pongs at once,
// each with a tag of its own, and block; a turn's figure is then the mean as each thread sees its
// own. What comes from a queue is for any thread, and one that is awake may take it all (`fairness`
// says so): there the figure is the mean of all messages. `get` is the whole round: from the call
// to the bytes being here.
//
// Limit, polling: what the bytes cost at least between the two cores, in the same run: up to a
// line, the flag's one-way; up to the eager limit, copied into shared memory, flag, copied out
// (puts: not out); above, flag and one cross-memory attach (puts: one copy and the flag).
// Limit, blocking: every message switches its core to another of T threads, so T quarters of the
// futex wake-and-wait round trip on one core (the limit of `pingpong`, turned round).
//
// It lies when the ranks share a core, and when the buffers are larger than the caches that the
// limit's smaller ones fit (both use one buffer per side).
#include "comm/benches.hpp"
#include "comm/ping_pong.hpp"

namespace weft::bench {
namespace {

Contestant latency_limit(Pair& pair, const Options& options, std::size_t eager_bytes) {
  YardMemory& yard = pair.yard().memory();
  const std::size_t bytes = options.size;
  if (!options.polls()) {
    return {
        "futex_switches_one_core", [&pair, &options] {
          return Reading{pair.leads() ? options.threads * futex_round_trip_ns(-1, 0.01) / 4 : 0};
        }};
  }
  if (bytes <= base::kCacheLine) {
    return {"cache_line_one_way", [&pair, &yard] {
              return Reading{cache_line_one_way_ns(yard.ping[0].value, yard.ping[1].value,
                                                   pair.rank(), 20000)};
            }};
  }
  const auto trips = static_cast<unsigned>(1 + (std::size_t{16} << 20) / (bytes + 4096));
  const bool one_sided = options.mode == Mode::put || options.mode == Mode::get;
  if (bytes <= YardMemory::kBulkBytes && (bytes <= eager_bytes || one_sided)) {
    auto buffer = std::make_shared<Buffer>(bytes);
    return {one_sided ? "stored_one_way" : "copied_one_way", [&pair, buffer, trips, one_sided] {
              return Reading{copied_one_way_ns(pair, *buffer, !one_sided, trips)};
            }};
  }
  auto attach = std::make_shared<AttachLimit>(pair, bytes, 1);
  return {"attached_one_way", [attach, trips] { return Reading{attach->one_way_ns(trips)}; }};
}

// Rank 0 gets; rank 1 progresses, as the owner of ordinary memory may have to.
class Getter {
 public:
  Getter(Pair& pair, Runtime& runtime, const Options& options)
      : pair_(pair),
        runtime_(runtime),
        poll_(options.polls()),
        crew_(options.threads),
        target_(pair, runtime, options.size * options.threads, options.ordinary_memory),
        endpoint_(runtime, {.arrival = Arrival::memory}),
        mean_ns_(options.threads) {
    for (unsigned i = 0; i < options.threads; ++i) buffers_.emplace_back(options.size);
  }
  Reading turn(double seconds) {
    work_for(pair_, crew_, seconds, [this](unsigned i) {
      if (pair_.leads()) {
        get(i);
        say_finished(pair_);
      } else {
        progress_until_finished(pair_, runtime_, crew_.size());
      }
    });
    double sum = 0;
    for (const double mean : mean_ns_) sum += mean;
    return {sum / static_cast<double>(mean_ns_.size())};
  }

 private:
  void get(unsigned number) {
    const Buffer& buffer = buffers_[number];
    const uint64_t start = base::now_ns();
    uint64_t calls = 0;
    Synchronizer got;
    do {
      got.reset(1);
      const Post answer = until_posted(runtime_, [&] {
        return endpoint_.get(target_.peer_key(), number * buffer.bytes(),
                             {buffer.data(), buffer.bytes()}, &got);
      });
      if (answer == Post::posted) {
        wait_for(runtime_, got, poll_);
        expect_ok(got.event().error, "get");
      }
      ++calls;
    } while (!turn_is_over(pair_));
    mean_ns_[number] = static_cast<double>(base::now_ns() - start) / static_cast<double>(calls);
  }
  Pair& pair_;
  Runtime& runtime_;
  bool poll_;
  Crew crew_;
  PutTarget target_;
  Endpoint endpoint_;
  std::vector<Buffer> buffers_;
  std::vector<double> mean_ns_;
};

}  // namespace

int run_latency(const Options& options) {
  if (options.explain) return run_explain(options);
  if (options.size == 0) throw std::runtime_error("latency needs messages of at least one byte");
  Pair pair;
  Runtime runtime(runtime_options(pair, options));
  const double turn = turn_seconds(options.threads);
  std::unique_ptr<PingPong> ping_pong;
  std::unique_ptr<Getter> getter;
  if (options.mode == Mode::get) {
    getter = std::make_unique<Getter>(pair, runtime, options);
  } else {
    ping_pong = make_ping_pong(options.mode, {pair, runtime, options.size, options.threads,
                                              options.polls(), options.ordinary_memory});
  }
  Result form = figure("latency", name_of(options.mode), "ns", Better::lower);
  form.size_bytes = options.size;
  form.threads = options.threads;
  form.devices = runtime.device_count();
  form.extra["waiting"] = options.polls() ? "poll" : "block";
  contest(pair, options, form,
          {{"latency",
            [&]() -> Reading {
              if (getter) return getter->turn(turn);
              const RoundTrips trips = ping_pong->turn(turn);
              return {trips.trip_ns / 2, options.threads > 1 ? trips.fairness : -1};
            }},
           latency_limit(pair, options, runtime.eager_bytes())});
  return 0;
}

}  // namespace weft::bench
