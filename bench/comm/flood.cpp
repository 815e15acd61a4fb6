// The flood: a sender that never waits against a receiver that sleeps.
//
// Measured: the most that the resident memory (VmRSS) of either rank grew above what it was before,
// in bytes, while rank 0 sends as fast as it is let and rank 1 first sleeps without a single call
// into weft (half of the time), then progresses but receives nothing (a sixth), then takes
// everything. Each message carries its number; rank 1 counts them and sums a value made of each,
// and both must agree with rank 0 in the end.
//
// Limit: what configuration allows, both ranks' packets, rings and queues together (flood_bound).
//
// It lies when the sender is slower than the bound is large (`retries` > 0 says that it was held
// back), and when memory is shared: VmRSS counts shared pages in both ranks, so it is an upper
// limit.
#include <algorithm>
#include <cstring>

#include "comm/benches.hpp"
#include "comm/flood_bound.hpp"
#include "comm/session.hpp"
#include "harness/process.hpp"
#include "harness/result.hpp"
#include "weft/base/clock.hpp"

namespace weft::bench {
namespace {

constexpr uint64_t kLast = ~uint64_t{0};

uint64_t mix(uint64_t x) noexcept {
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15U;
  return x ^ (x >> 29);
}

struct Tally {
  uint64_t messages = 0;
  uint64_t sum = 0;
  bool ended = false;
  void take(std::span<const std::byte> data) {
    uint64_t number = 0;
    std::memcpy(&number, data.data(), sizeof(number));
    if (number == kLast) {
      ended = true;
      return;
    }
    ++messages;
    sum += mix(number);
  }
};

class Flood {
 public:
  Flood(Pair& pair, Runtime& runtime, const Options& options)
      : pair_(pair),
        runtime_(runtime),
        mode_(options.mode),
        out_(std::max(options.size, sizeof(uint64_t))),
        in_(out_.bytes()),
        endpoint_(runtime, spec()) {}

  // Rank 0 ---------------------------------------------------------------------------------------
  void send_for(double seconds) {
    const uint64_t until = base::now_ns() + static_cast<uint64_t>(seconds * 1e9);
    while (base::now_ns() < until) {
      for (int i = 0; i < 64; ++i) send(tally_.messages);
      watch_memory();
    }
    const uint64_t messages = tally_.messages;
    send(kLast);
    tally_.messages = messages;
    runtime_.wait_until([this] { return sent_.value() >= posted_; });
  }

  // Rank 1 ---------------------------------------------------------------------------------------
  /// Lets messages in that nobody has asked for yet.
  void progress_for(double seconds) {
    const uint64_t until = base::now_ns() + static_cast<uint64_t>(seconds * 1e9);
    while (base::now_ns() < until) runtime_.relax();
  }
  void drain() {
    Message message;
    while (!tally_.ended) {
      switch (mode_) {
        case Mode::queue:
          message = endpoint_.dequeue_wait();
          if (!message.ready()) runtime_.wait(message);
          expect_ok(message.error(), "dequeue");
          tally_.take(message.data());
          break;
        case Mode::handler:
          runtime_.wait_until([this] { return tally_.ended; });
          break;
        default: {
          const Event event = endpoint_.recv_wait(pair_.peer(), Tag{0}, {in_.data(), in_.bytes()});
          expect_ok(event.error, "receive");
          tally_.take({in_.data(), event.bytes});
        }
      }
    }
  }

  void start_watching() {
    mine_ = resident_bytes();
    theirs_ = resident_bytes(pair_.peer_pid());
  }
  [[nodiscard]] const Tally& tally() const noexcept { return tally_; }
  [[nodiscard]] uint64_t retries() const noexcept { return retries_; }
  [[nodiscard]] double growth() const noexcept {
    return static_cast<double>(std::max(growth_[0], growth_[1]));
  }

 private:
  EndpointSpec spec() {
    EndpointSpec made;
    if (mode_ == Mode::queue) made.arrival = Arrival::queue;
    if (mode_ == Mode::handler) {
      made.arrival = Arrival::handler;
      made.handler_argument = &tally_;
      made.handler = [](void* tally, const Incoming& message) {
        static_cast<Tally*>(tally)->take(message.data);
      };
    }
    return made;
  }

  void send(uint64_t number) {
    std::memcpy(out_.data(), &number, sizeof(number));
    for (;;) {
      const Post answer = endpoint_.send(pair_.peer(), Tag{0}, {out_.data(), out_.bytes()}, &sent_);
      if (answer != Post::retry) {
        if (answer == Post::posted) {
          ++posted_;  // lent: wait, or the next number would overwrite it
          runtime_.wait_until([this] { return sent_.value() >= posted_; });
        }
        break;
      }
      if (++retries_ % 4096 == 0) watch_memory();
      runtime_.relax();
    }
    ++tally_.messages;
    tally_.sum += number == kLast ? 0 : mix(number);
  }

  void watch_memory() {
    const uint64_t now = base::now_ns();
    if (now < next_look_) return;
    next_look_ = now + 5'000'000;
    const auto above = [](std::size_t bytes, std::size_t before) {
      return bytes > before ? bytes - before : 0;
    };
    growth_[0] = std::max(growth_[0], above(resident_bytes(), mine_));
    growth_[1] = std::max(growth_[1], above(resident_bytes(pair_.peer_pid()), theirs_));
  }

  Pair& pair_;
  Runtime& runtime_;
  Mode mode_;
  Buffer out_, in_;
  Tally tally_;
  Counter sent_;
  uint64_t posted_ = 0;
  uint64_t retries_ = 0;
  uint64_t next_look_ = 0;
  std::size_t mine_ = 0, theirs_ = 0;
  std::size_t growth_[2]{};
  Endpoint endpoint_;
};

}  // namespace

int run_flood(const Options& options) {
  if (options.mode == Mode::put || options.mode == Mode::get) {
    throw std::runtime_error("flood: puts and gets take no memory; use matched, queue or handler");
  }
  Pair pair;
  Runtime runtime(runtime_options(pair, options));
  Flood flood(pair, runtime, options);
  flood.start_watching();
  pair.meet();
  if (pair.leads()) {
    flood.send_for(options.seconds);
  } else {
    sleep_for_seconds(options.seconds / 2);
    flood.progress_for(options.seconds / 6);
    flood.drain();
  }
  const uint64_t received = pair.yard().trade(flood.tally().messages);
  const uint64_t sum = pair.yard().trade(flood.tally().sum);
  if (!pair.leads()) return 0;
  const bool whole = received == flood.tally().messages && sum == flood.tally().sum;
  Result result = figure("flood", name_of(options.mode), "B", Better::lower);
  result.size_bytes = std::max(options.size, sizeof(uint64_t));
  result.devices = runtime.device_count();
  const double growth = flood.growth();
  const double bound = flood_bound(runtime.device_count());
  result.value = {growth, growth, growth, 1};
  result.limit_name = "configured_bound";
  result.limit = Summary{bound, bound, bound, 1};
  result.ratio = Summary{growth / bound, growth / bound, growth / bound, 1};
  result.extra["sent"] = flood.tally().messages;
  result.extra["received"] = received;
  result.extra["nothing_lost"] = whole;
  result.extra["retries"] = flood.retries();
  if (!whole) result.verdict = "failed: messages were lost or changed";
  print(result, options.json);
  return whole ? 0 : 1;
}

}  // namespace weft::bench
