// The list of live schedulers, and their dumps on a signal.
#include "weft/task/introspect.hpp"

#include <errno.h>
#include <fmt/format.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/forks.hpp"
#include "task/live.hpp"
#include "task/scheduler_impl.hpp"
#include "weft/base/error.hpp"

namespace weft::task {
namespace {

struct List {
  std::mutex mutex;
  std::vector<Scheduler::Impl*> schedulers;
};
/// Never destroyed: schedulers and the thread of dumps may end after everything static.
List& live() {
  static List& list = *new List;
  return list;
}

sem_t asked;

/// What was done with the signals that ask for dumps, before: for a child, which has no thread to
/// write them.
struct Asking {
  std::array<std::atomic<bool>, NSIG> handled{};
  std::array<struct sigaction, NSIG> before{};
};
Asking asking;

void write_all(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void on_signal(int /*signal*/) noexcept {
  const int before = errno;
  ::sem_post(&asked);
  errno = before;
}

[[noreturn]] void dump_when_asked() {
  for (;;) {
    if (::sem_wait(&asked) != 0) continue;  // a signal
    try {
      write_all(dump_all());
    } catch (const std::exception& e) {
      write_all(fmt::format("weft: no dump of tasks: {}\n", e.what()));
    }
  }
}

/// The only thread of a child: signals do there what they did before.
void after_fork() noexcept {
  for (int signal = 1; signal < NSIG; ++signal) {
    const auto at = static_cast<std::size_t>(signal);
    struct sigaction now = {};
    if (asking.handled[at].exchange(false, std::memory_order_relaxed) &&
        ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == on_signal) {
      ::sigaction(signal, &asking.before[at], nullptr);
    }
  }
}

/// Once in a process. A child makes its own.
void start_thread_once() {
  static std::mutex mutex;
  static std::optional<uint32_t> forks;
  const std::lock_guard hold(mutex);
  if (forks == base::count_forks()) return;
  if (!forks) ::pthread_atfork(nullptr, nullptr, after_fork);
  ::sem_init(&asked, 0, 0);
  try {
    std::thread(dump_when_asked).detach();
  } catch (const std::exception& e) {
    throw Error(Errc::no_memory, fmt::format("no thread for dumps of tasks: {}", e.what()));
  }
  forks = base::count_forks();
}

}  // namespace

Enlisted::Enlisted(Scheduler::Impl& scheduler) : scheduler_(scheduler) {
  const std::lock_guard hold(live().mutex);
  live().schedulers.push_back(&scheduler);
}

Enlisted::~Enlisted() {
  const std::lock_guard hold(live().mutex);
  std::erase(live().schedulers, &scheduler_);
}

void hold_live() noexcept { live().mutex.lock(); }
void let_live_go() noexcept { live().mutex.unlock(); }

std::string dump_all() {
  const std::lock_guard hold(live().mutex);
  std::vector<Scheduler::Impl*> schedulers;
  for (Scheduler::Impl* each : live().schedulers) {
    if (each->is_of_this_process()) schedulers.push_back(each);  // a parent's has no threads here
  }
  if (schedulers.empty()) return "weft: no scheduler\n";
  std::string text;
  for (std::size_t i = 0; i < schedulers.size(); ++i) {
    text += fmt::format("weft: scheduler {} of {}, {} workers: {}", i + 1, schedulers.size(),
                        schedulers[i]->workers.size(), schedulers[i]->dump());
  }
  return text;
}

void dump_on_signal(int signal) {
  start_thread_once();
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  struct sigaction before = {};
  if (::sigaction(signal, &action, &before) != 0) {
    throw Error(Errc::bad_argument,
                fmt::format("signal {} cannot be handled: {}", signal, std::strerror(errno)));
  }
  if (before.sa_handler == on_signal) return;
  const auto at = static_cast<std::size_t>(signal);
  asking.before[at] = before;
  asking.handled[at].store(true, std::memory_order_relaxed);  // for this thread's child, or later
}

}  // namespace weft::task
