#include "task/quiet_watch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "task/scheduler_impl.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/log.hpp"

namespace weft::task {

QuietWatch::QuietWatch(Scheduler::Impl& scheduler, uint64_t quiet_ns)
    : scheduler_(scheduler), quiet_ns_(quiet_ns), thread_([this] { watch(); }) {
  started_.wait();
}

QuietWatch::~QuietWatch() {
  stopping_.store(true, std::memory_order_release);  // pairs with watch's acquire
  parker_->unpark();
  thread_.join();
}

void QuietWatch::watch() {
  parker_ = &base::this_parker();
  started_.count_down();
  uint64_t quiet_since = 0;
  uint64_t activity = 0;
  bool reported = false;
  // acquire: pairs with the destructor's release.
  while (!stopping_.load(std::memory_order_acquire)) {
    const uint64_t now = base::now_ns();
    const uint64_t activity_now = scheduler_.activity();
    if (!scheduler_.is_quiet() || activity_now != activity || quiet_since == 0) {
      activity = activity_now;
      quiet_since = now;
      reported = false;
    } else if (!reported && now - quiet_since >= quiet_ns_ && scheduler_.live() != 0) {
      reported = true;
      base::log(base::LogLevel::warn,
                fmt::format("nothing can run, and nothing happened for {} ms: {}",
                            (now - quiet_since) / 1'000'000, scheduler_.dump()));
    }
    (void)parker_->park_until(now + std::max<uint64_t>(quiet_ns_ / 2, 1'000'000));
  }
}

}  // namespace weft::task
