// The futex wake-and-wait round trip.
//
// Measured: one thread wakes a sleeping partner and sleeps until the partner, having woken, wakes
// it: two system calls and a switch each way, in ns per round trip, mean of one call. On one core
// this is two context switches; on two cores it is two wake-ups of an idle core, ten times as dear.
// It lies when either side polls before it sleeps, or when the partner is not where it was said to
// be.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "limits/limits.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/topology.hpp"

namespace weft::bench {
namespace {

struct alignas(base::kCacheLine) Permit {
  std::atomic<uint32_t> given{0};

  void give() noexcept {
    given.store(1, std::memory_order_release);
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&given), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr,
            0);
  }
  void take() noexcept {
    // acquire: pairs with give's release.
    while (given.load(std::memory_order_acquire) == 0) {
      syscall(SYS_futex, reinterpret_cast<uint32_t*>(&given), FUTEX_WAIT_PRIVATE, 0, nullptr,
              nullptr, 0);
    }
    given.store(0, std::memory_order_relaxed);  // the giver waits for our own permit meanwhile
  }
};

}  // namespace

double futex_round_trip_ns(int core, double seconds) {
  Permit ping;
  Permit pong;
  std::atomic<bool> last{false};
  std::thread partner([&] {
    if (core >= 0) base::bind_this_thread(core);
    for (;;) {
      ping.take();
      const bool end = last.load(std::memory_order_relaxed);  // ordered by the permit
      pong.give();
      if (end) return;
    }
  });
  ping.give();
  pong.take();  // the partner runs where it should
  const uint64_t start = base::now_ns();
  const uint64_t until = start + static_cast<uint64_t>(seconds * 1e9);
  uint64_t trips = 0;
  uint64_t now = start;
  do {
    for (int i = 0; i < 16; ++i) {
      ping.give();
      pong.take();
    }
    trips += 16;
    now = base::now_ns();
  } while (now < until);
  last.store(true, std::memory_order_relaxed);
  ping.give();
  partner.join();
  return static_cast<double>(now - start) / static_cast<double>(trips);
}

}  // namespace weft::bench
