// Threads that wait for the last of many completions (000 §2.2).
//
// Measured: windows a second of T threads, each of which hands 64 operations at a time to one
// server thread and waits until all are complete. The server completes one operation of each thread
// in turn. `sync_counter`: the window is one counter, whose last completion wakes; `condition`: a
// count under a mutex and a std::condition_variable, what a user would write; `each`: a turn for
// each operation, as a waitall without a counter waits, one request after the other; `semaphore`:
// one std::counting_semaphore, acquired once for each.
//
// Limit: `condition`, in the same round.
//
// It lies where waiters have cores of their own and are never asleep (few threads): then it is the
// cost of the stores alone.
#include "weft/base/sync_counter.hpp"

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <semaphore>
#include <thread>
#include <vector>

#include "comm/benches.hpp"
#include "harness/result.hpp"
#include "harness/statistics.hpp"
#include "turns.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/clock.hpp"

namespace weft::bench {
namespace {

constexpr uint32_t kOperations = 64;

/// How a window is waited for: `arm` and `wait` by its thread, `complete` once for each operation,
/// by the server.
class ByCounter {
 public:
  void arm() noexcept { left_.reset(kOperations); }
  void complete(uint32_t /*operation*/) noexcept { left_.signal(); }
  void wait() noexcept { left_.wait(); }

 private:
  base::SyncCounter left_{0};
};

class ByCondition {
 public:
  void arm() {
    const std::lock_guard hold(lock_);
    left_ = kOperations;
  }
  void complete(uint32_t /*operation*/) {
    const std::lock_guard hold(lock_);
    if (--left_ == 0) over_.notify_one();
  }
  void wait() {
    std::unique_lock hold(lock_);
    over_.wait(hold, [this] { return left_ == 0; });
  }

 private:
  std::mutex lock_;
  std::condition_variable over_;
  uint32_t left_ = 0;
};

class ByEach {
 public:
  void arm() noexcept {
    for (base::Turn& each : turns_) each.reset(false);
  }
  void complete(uint32_t operation) noexcept { turns_[operation].give(); }
  void wait() noexcept {
    for (base::Turn& each : turns_) each.wait();
  }

 private:
  std::array<base::Turn, kOperations> turns_;
};

class BySemaphore {
 public:
  void arm() noexcept {}
  void complete(uint32_t /*operation*/) noexcept { done_.release(); }
  void wait() noexcept {
    for (uint32_t i = 0; i < kOperations; ++i) done_.acquire();
  }

 private:
  std::counting_semaphore<> done_{0};
};

/// One thread's window, as the server sees it.
template <class Window>
struct alignas(base::kCacheLine) Place {
  std::atomic<uint32_t> asked{0};  ///< windows, counted
  Window window;
  alignas(base::kCacheLine) uint32_t served = 0;  // the server's
  uint32_t completed = kOperations;               ///< of the window that is being served
};

/// Completes an operation of each window that has some left; false: none has.
template <class Window>
bool serve(std::vector<Place<Window>>& places) {
  bool some = false;
  for (auto& place : places) {
    // acquire: pairs with the release behind `arm`.
    if (place.completed == kOperations &&
        place.asked.load(std::memory_order_acquire) != place.served) {
      ++place.served;
      place.completed = 0;
    }
    if (place.completed == kOperations) continue;
    place.window.complete(place.completed++);
    some = true;
  }
  return some;
}

template <class Window>
double windows_per_second(unsigned threads, double seconds) {
  std::vector<Place<Window>> places(threads);
  std::vector<double> windows(threads);
  std::atomic<unsigned> waiting{threads};
  const double wall_ns = turns::run_together(threads + 1, [&](unsigned me) {
    if (me == threads) {
      while (waiting.load(std::memory_order_relaxed) != 0) {
        if (!serve(places)) std::this_thread::yield();
      }
      return;
    }
    auto& place = places[me];
    const uint64_t until = base::now_ns() + static_cast<uint64_t>(seconds * 1e9);
    do {
      place.window.arm();
      place.asked.fetch_add(1, std::memory_order_release);
      place.window.wait();
      ++windows[me];
    } while (base::now_ns() < until);
    waiting.fetch_sub(1, std::memory_order_relaxed);
  });
  double all = 0;
  for (const double each : windows) all += each;
  return all * 1e9 / wall_ns;
}

struct Way {
  const char* name;
  double (*rate)(unsigned threads, double seconds);
  std::vector<double> rates, ratios;
};

}  // namespace

int run_windows(const Options& options) {
  constexpr double kTurn = 0.05;
  // The limit first.
  std::vector<Way> ways{{"condition", windows_per_second<ByCondition>, {}, {}},
                        {"sync_counter", windows_per_second<ByCounter>, {}, {}},
                        {"each", windows_per_second<ByEach>, {}, {}},
                        {"semaphore", windows_per_second<BySemaphore>, {}, {}}};
  const uint64_t until = base::now_ns() + static_cast<uint64_t>(options.seconds * 1e9);
  for (unsigned round = 0; round < 4 || base::now_ns() < until; ++round) {
    double limit = 0;
    for (Way& way : ways) {
      const double rate = way.rate(options.threads, kTurn);
      if (&way == &ways.front()) limit = rate;
      if (round == 0) continue;  // cold
      way.rates.push_back(rate);
      way.ratios.push_back(rate / limit);
    }
  }
  for (const Way& way : ways) {
    Result result = figure("windows", way.name, "/s", Better::higher);
    result.threads = options.threads;
    result.value = summarize(way.rates);
    if (&way != &ways.front()) {
      result.limit_name = ways.front().name;
      result.limit = summarize(ways.front().rates);
      result.ratio = summarize(way.ratios);
    }
    print(result, options.json);
  }
  return 0;
}

}  // namespace weft::bench
