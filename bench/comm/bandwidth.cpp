// Bandwidth in one direction.
//
// Measured: payload bytes per second from rank 0 to rank 1, windows of messages acknowledged once a
// window, as the sender sees them (one thread: from the median of its windows; several: all of them
// from the first start to the last acknowledgement); a buffer of its own per message of the window,
// 4 MiB of buffers on each side (at least two messages a thread).
//
// Limit, ordinary buffers (matched, queue, handler; put and get with --ordinary): cross-memory
// attach, rank 1 reading as many buffers of the same size. Limit, put and get in memory that weft
// allocated: memcpy in one process between as many buffers; the target does not read them.
//
// It lies when buffers were not touched before, when limit and figure differ in the number of
// buffers (caches), and when the ranks share a core.
#include <algorithm>

#include "comm/benches.hpp"
#include "comm/ping_pong.hpp"
#include "comm/stream.hpp"

namespace weft::bench {
namespace {

unsigned window_for(std::size_t bytes) {
  constexpr std::size_t kFootprint = std::size_t{4} << 20;
  return static_cast<unsigned>(
      std::clamp<std::size_t>(kFootprint / std::max<std::size_t>(bytes, 1), 2, 64));
}

}  // namespace

int run_bandwidth(const Options& options) {
  if (options.size == 0) throw std::runtime_error("bandwidth needs messages of at least one byte");
  Pair pair;
  Runtime runtime(runtime_options(pair, options));
  const unsigned window =
      options.window != 0 ? options.window : window_for(options.size * options.threads);
  const auto stream =
      make_stream(options.mode, {pair, runtime, options.size, window, options.threads,
                                 options.polls(), options.ordinary_memory});
  const double turn = std::max(0.02, turn_seconds(options.threads));
  const auto bytes = static_cast<double>(options.size);
  std::vector<Contestant> contestants{
      {"bandwidth", [&]() -> Reading {
         const auto rate = stream->turn(turn);
         return {rate.per_second * bytes, options.threads > 1 ? rate.fairness : -1};
       }}};
  const bool copies =
      (options.mode == Mode::put || options.mode == Mode::get) && !options.ordinary_memory;
  const std::size_t slots = std::size_t{window} * options.threads;
  std::unique_ptr<CopyLimit> copy;
  std::unique_ptr<AttachLimit> attach;
  if (copies) {
    copy = std::make_unique<CopyLimit>(options.size, slots);
    contestants.push_back(
        {"memcpy", [&] { return Reading{pair.leads() ? copy->rate(0.02) : 0.0}; }});
  } else {
    attach = std::make_unique<AttachLimit>(pair, options.size, slots);
    contestants.push_back({"cross_memory_attach", [&] { return Reading{attach->rate(0.02)}; }});
  }
  Result form = figure("bandwidth", name_of(options.mode), "B/s", Better::higher);
  form.size_bytes = options.size;
  form.threads = options.threads;
  form.devices = runtime.device_count();
  form.extra["window"] = window;
  form.extra["memory"] = copies ? "weft" : "ordinary";
  form.extra["waiting"] = options.polls() ? "poll" : "block";
  contest(pair, options, form, contestants);
  return 0;
}

}  // namespace weft::bench
