// Message rate in one direction.
//
// Measured: messages per second from rank 0 to rank 1, as the senders see them: each of T sender
// threads sends a window (64) and waits until the receiver acknowledged the whole of it. One
// thread: from the median of laps of 8 windows. T threads: all messages from the first thread's
// start to the last acknowledgement. Fairness: windows of the least served sender over those of
// the most served.
//
// Matched: all messages of a pair have one tag, as in most such benchmarks, so that they meet their
// receives in runs; with --own-tags each of a window has its own (mode matched_own_tags).
//
// Limit, one thread: the single-producer ring of 64-byte cells with as many cells as a lane of
// weft's, free running (`ring`), and for comparison the same ring acknowledged once a window, and
// the ring without indices, which is faster still (`flag_ring`).
// Limit, T threads: the same mode's own rate with one thread a rank, polling, in the same run, over
// a runtime of its own that has one device. In the runtime of the T threads it would be lower: a
// thread alone on one of 63 devices looks at the others too.
//
// It lies when the ranks share a core, when the receiver takes messages without looking at them
// (here every one is completed or dequeued), and without the fairness beside it.
#include "comm/benches.hpp"
#include "comm/lane_cells.hpp"
#include "comm/ping_pong.hpp"
#include "comm/stream.hpp"

namespace weft::bench {

int run_rate(const Options& options) {
  Pair pair;
  Runtime runtime(runtime_options(pair, options));
  const unsigned window = options.window != 0 ? options.window : 64;
  const StreamSetup setup{pair,
                          runtime,
                          options.size,
                          window,
                          options.threads,
                          options.polls(),
                          options.ordinary_memory,
                          options.own_tags};
  const auto stream = make_stream(options.mode, setup);
  const double turn = turn_seconds(options.threads);
  std::vector<Contestant> contestants{
      {"rate", [&]() -> Reading {
         const auto rate = stream->turn(turn);
         return {rate.per_second, options.threads > 1 ? rate.fairness : -1};
       }}};
  std::unique_ptr<fabric::Job> single_job;
  std::unique_ptr<Runtime> single_runtime;
  std::unique_ptr<Stream> single;
  if (options.threads > 1) {
    single_job = make_yard_job(pair.yard(), pair.job());
    RuntimeOptions one = runtime_options(pair, options);
    one.job = single_job.get();
    one.devices = 1;
    single_runtime = std::make_unique<Runtime>(one);
    single = make_stream(options.mode, {.pair = pair,
                                        .runtime = *single_runtime,
                                        .bytes = options.size,
                                        .window = window,
                                        .threads = 1,
                                        .poll = true,
                                        .ordinary_memory = options.ordinary_memory,
                                        .own_tags = options.own_tags});
    contestants.push_back(
        {"own_rate_1x1", [&] { return Reading{single->turn(turn_seconds(1)).per_second}; }});
  }
  const std::size_t cells = lane_cells();
  contestants.push_back({"ring", [&] { return Reading{ring_rate(pair, cells, 0, 0.005)}; }});
  contestants.push_back({"flag_ring", [&] { return Reading{flag_ring_rate(pair, cells, 0.005)}; }});
  contestants.push_back(
      {"ring_windowed", [&] { return Reading{ring_rate(pair, cells, window, 0.005)}; }});
  const std::string mode = name_of(options.mode) + (options.own_tags ? "_own_tags" : "");
  Result form = figure("rate", mode, "/s", Better::higher);
  form.size_bytes = options.size;
  form.threads = options.threads;
  form.devices = runtime.device_count();
  form.extra["window"] = window;
  form.extra["ring_cells"] = cells;
  form.extra["waiting"] = options.polls() ? "poll" : "block";
  contest(pair, options, form, contestants);
  return 0;
}

}  // namespace weft::bench
