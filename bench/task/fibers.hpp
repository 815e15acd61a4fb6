// Boost.Fiber as a rival, at its best: stacks from a pool that one thread keeps, of a size as ours,
// and a child that starts at once where that order is the better one.
#pragma once

#include <boost/fiber/all.hpp>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "turns.hpp"

// A macro of its headers, a function of ours (weft/base/cache_line.hpp).
#undef cpu_relax

namespace weft::bench::tasks {

/// A sanitizer does not know of its switches: then it, and bare switches, are left out.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSwitchesCanBeMeasured = false;
#else
inline constexpr bool kSwitchesCanBeMeasured = true;
#endif

inline constexpr std::size_t kFiberStackBytes = std::size_t{64} << 10;

/// Fibers of one thread: made, used and dropped there, after the last of its fibers has ended.
class Fibers {
 public:
  using Fiber = boost::fibers::fiber;

  /// The child runs later, as a task that was spawned.
  template <class F>
  Fiber start_later(F&& function) {
    return start(boost::fibers::launch::post, std::forward<F>(function));
  }
  /// The child runs at once, and the caller after it.
  template <class F>
  Fiber start_at_once(F&& function) {
    return start(boost::fibers::launch::dispatch, std::forward<F>(function));
  }

 private:
  template <class F>
  Fiber start(boost::fibers::launch when, F&& function) {
    return Fiber(when, std::allocator_arg, stacks_, std::forward<F>(function));
  }
  boost::fibers::pooled_fixedsize_stack stacks_{kFiberStackBytes};
};

/// Runs `count` fibers of `body` on `threads` bound threads, dealt in turn; the wall time in ns.
template <class Body>
double fiber_crowd_ns(unsigned threads, uint64_t count, Body body) {
  return turns::run_together(threads, [&](unsigned me) {
    Fibers fibers;
    std::vector<Fibers::Fiber> mine;
    for (uint64_t i = me; i < count; i += threads) mine.push_back(fibers.start_later(body));
    for (auto& fiber : mine) fiber.join();
  });
}

}  // namespace weft::bench::tasks
