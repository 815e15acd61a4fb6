// Sleeping on doorbells: the sleeper (see waiting.hpp), idle workers, and the threads of mode
// server.
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>

#include "comm/runtime_impl.hpp"
#include "comm/waiting.hpp"
#include "weft/base/clock.hpp"

namespace weft {

using comm::Awaited;

namespace {

/// For poll(2) and its kin: the time until `deadline_ns`.
timespec time_until(uint64_t deadline_ns) noexcept {
  const uint64_t now = base::now_ns();
  const uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
  return {.tv_sec = static_cast<time_t>(left / 1'000'000'000),
          .tv_nsec = static_cast<long>(left % 1'000'000'000)};
}

}  // namespace

/// False: nothing rang until then. (epoll_pwait2 would say which, which nobody asks, and is younger
/// than many a cluster's kernel.)
bool Runtime::Impl::sleep_until(uint64_t deadline_ns) noexcept {
  pollfd bells{sleep_fd, POLLIN, 0};
  for (;;) {
    timespec left = time_until(deadline_ns);
    const int rung = ::ppoll(&bells, 1, deadline_ns == kNever ? nullptr : &left, nullptr);
    if (rung >= 0 || errno != EINTR) return rung != 0;
  }
}

/// The same, and tells if that takes suspiciously long.
void Runtime::Impl::sleep_long(uint64_t deadline_ns) noexcept {
  for (;;) {
    const uint64_t quiet = quiet_deadline();
    const bool rang = sleep_until(std::min(quiet, deadline_ns));
    report_if_quiet(true);
    if (rang || deadline_ns <= quiet) return;
  }
}

/// The sleeper: arms all doorbells, looks once more, sleeps until one rings; after a moment it
/// looks once again (fabric::kSecondLookNs).
void Runtime::Impl::sleep(Device& device, Awaited& awaited, uint64_t deadline_ns) {
  deadline_ns = std::min(deadline_ns, awaited.deadline_ns());
  if (awaited.enroll(device.bell())) {
    uint32_t served = 0;
    // seq_cst: announce, then look for work; Device::enqueue adds work, then looks here.
    asleep.fetch_add(1, std::memory_order_seq_cst);
    for (auto& each : devices) each->arm();
    fabric::arming_barrier();
    for (auto& each : devices) served += each->look();
    const auto nothing_came = [&] {
      return served == 0 && turns.owed.empty() && !any_busy() && !self.has_deferred() &&
             !awaited.ready();
    };
    if (nothing_came()) probes.deal();
    if (nothing_came()) {
      device.note_sleep();
      waiting.fetch_sub(1, std::memory_order_relaxed);
      const uint64_t again = base::now_ns() + fabric::kSecondLookNs;
      const bool rang = sleep_until(std::min(again, deadline_ns));
      if (!rang && again >= deadline_ns) report_if_quiet(false);
      if (!rang && again < deadline_ns) {
        for (auto& each : devices) {
          const uint32_t found = each->look();
          if (found != 0) each->note_unrung();
          served += found;
        }
        if (nothing_came()) sleep_long(deadline_ns);
      }
      waiting.fetch_add(1, std::memory_order_relaxed);
    }
    for (auto& each : devices) {
      each->with_lock([&] { each->port().disarm(); });
    }
    asleep.fetch_sub(1, std::memory_order_relaxed);
  }
  awaited.withdraw();
  // Invariant 4: give the role up first; leave() looks for parked threads later.
  sleeper.store(false, std::memory_order_seq_cst);
}

// --- Mode workers: what idle workers of a task scheduler do --------------------------------------

/// An idle worker runs what it wakes as soon as this returns. Few at once: while it looks at more
/// of them it answers none, and whoever waits for those answers has nothing to do either.
uint32_t Runtime::Impl::poll(Poller poller) noexcept {
  Device& own = this_device();
  if (poller == Poller::busy) return progress(own);
  const uint32_t served = own.try_progress_a_little();
  return served != 0 || only_device != nullptr ? served : progress_others(own);
}

/// A worker takes the sleeper's role, if nobody has it.
bool Runtime::Impl::try_sleep(Awaited& awaited, uint64_t deadline_ns) noexcept {
  if (sleeper.exchange(true, std::memory_order_acq_rel)) {
    refused.store(true, std::memory_order_seq_cst);  // invariant 6
    return false;
  }
  refused.store(false, std::memory_order_seq_cst);  // those are called when this one goes
  waiting.fetch_add(1, std::memory_order_relaxed);  // as Impl::wait
  sleep(this_device(), awaited, deadline_ns);
  waiting.fetch_sub(1, std::memory_order_relaxed);
  // It goes on with its tasks: threads that parked relying on it need a server; if there are none,
  // another worker is to sleep here, and else when the last of them has left.
  refused.store(true, std::memory_order_seq_cst);
  if (!serve_the_unserved()) call_the_refused();
  return true;
}

// --- Mode server: one thread per device ----------------------------------------------------------

void Runtime::Impl::serve(Device& device, const std::stop_token& stop) {
  uint64_t idle_since = 0;
  while (!stop.stop_requested()) {
    if (device.try_progress_often(kPollsPerTurn) != 0) {
      idle_since = 0;
      continue;
    }
    const uint64_t now = base::ticks();
    if (idle_since == 0) {
      idle_since = now;
    } else if (now - idle_since > yield_ticks) {
      sched_yield();
      if (now - idle_since > quiet_ticks && device.busy()) [[unlikely]]
        report_if_quiet(false);
      if (now - idle_since > spin_ticks && !device.busy()) {
        asleep.fetch_add(1, std::memory_order_seq_cst);  // as in sleep()
        device.arm();
        fabric::arming_barrier();
        const auto nothing_to_do = [&] {
          return !device.busy() && !self.has_deferred() && !stop.stop_requested();
        };
        bool nothing_came = device.look() == 0 && nothing_to_do();
        if (nothing_came) {
          probes.deal();
          nothing_came = nothing_to_do();
        }
        if (nothing_came) {
          device.note_sleep();
          pollfd bell{device.port().bell_fd(), POLLIN, 0};
          timespec soon = time_until(base::now_ns() + fabric::kSecondLookNs);  // as in sleep()
          if (::ppoll(&bell, 1, &soon, nullptr) == 0) {
            if (device.look() != 0) {
              device.note_unrung();
            } else if (nothing_to_do()) {
              const uint64_t quiet = quiet_deadline();
              soon = time_until(quiet);
              ::ppoll(&bell, 1, quiet == kNever ? nullptr : &soon, nullptr);
              report_if_quiet(true);
            }
          }
        }
        device.with_lock([&] { device.port().disarm(); });
        asleep.fetch_sub(1, std::memory_order_relaxed);
        idle_since = 0;
      }
    }
  }
}

}  // namespace weft
