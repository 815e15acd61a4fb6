// The list of live schedulers, and their dumps on a signal.
#include "weft/task/introspect.hpp"

#include <errno.h>
#include <fmt/format.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

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

void start_thread_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    ::sem_init(&asked, 0, 0);
    try {
      std::thread(dump_when_asked).detach();
    } catch (const std::system_error& e) {
      throw Error(Errc::no_memory, fmt::format("no thread for dumps of tasks: {}", e.what()));
    }
  });
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

std::string dump_all() {
  const std::lock_guard hold(live().mutex);
  const auto& schedulers = live().schedulers;
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
  if (::sigaction(signal, &action, nullptr) != 0) {
    throw Error(Errc::bad_argument,
                fmt::format("signal {} cannot be handled: {}", signal, std::strerror(errno)));
  }
}

}  // namespace weft::task
