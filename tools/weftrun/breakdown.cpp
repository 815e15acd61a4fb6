// What weftrun does when it breaks down itself.
//
// The signal handler may run while any lock is held, the heap's included: it calls only what is
// safe in a signal handler.
#include "weftrun/breakdown.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string_view>

#include "weftrun/process_table.hpp"

namespace weft::run {
namespace {

/// What the main thread gets for ending the job: the time from SIGTERM to SIGKILL, and some.
constexpr unsigned kMainThreadSeconds = 4;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kLeftToSanitizer = true;  // it has its own way to tell of them
#else
constexpr bool kLeftToSanitizer = false;
#endif
constexpr std::array kDeadly{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
constexpr std::string_view kBegin = "the PMIx server broke down (";
constexpr std::string_view kEnd = "); ending the job";

BreakdownPlan g_plan;  ///< written before the handler is there
// All relaxed: each is a value of its own.
std::atomic<int> g_signal{0};
std::atomic<int> g_code{0};
std::atomic<bool> g_said{false};
std::atomic<bool> g_over{false};

void print(std::string_view text) {
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

/// Without the main thread: the guardian does the work.
[[noreturn]] void end_here(int signal) {
  if (!g_plan.quiet && !g_said.load(std::memory_order_relaxed)) {
    const char* const name = sigabbrev_np(signal);
    for (const std::string_view part :
         {std::string_view("weftrun: "), kBegin, std::string_view("SIG"),
          std::string_view(name == nullptr ? "" : name), kEnd, std::string_view("\n")})
      print(part);
  }
  shutdown(g_plan.guardian, SHUT_RDWR);
  waitpid(g_plan.guardian_pid, nullptr, 0);
  const int code = g_code.load(std::memory_order_relaxed);
  _exit(code != 0 ? code : 1);
}

void on_breakdown(int signal) {
  if (gettid() == getpid()) end_here(signal);
  const bool first = g_signal.exchange(signal, std::memory_order_relaxed) == 0;
  eventfd_write(g_plan.bell, 1);
  if (first) {
    for (unsigned left = kMainThreadSeconds; left > 0;) left = sleep(left);
    if (!g_over.load(std::memory_order_relaxed)) end_here(signal);
  }
  for (;;) pause();
}

}  // namespace

void survive_breakdowns(const BreakdownPlan& plan) {
  if (kLeftToSanitizer) return;
  g_plan = plan;
  struct sigaction action {};
  action.sa_handler = on_breakdown;
  sigfillset(&action.sa_mask);
  for (const int signal : kDeadly) sigaction(signal, &action, nullptr);
}

int breakdown() noexcept { return g_signal.load(std::memory_order_relaxed); }

std::string describe_breakdown() {
  g_said.store(true, std::memory_order_relaxed);
  return fmt::format("{}{}{}", kBegin, signal_name(breakdown()), kEnd);
}

void note_exit_code(int code) noexcept { g_code.store(code, std::memory_order_relaxed); }

void note_job_is_over() noexcept { g_over.store(true, std::memory_order_relaxed); }

}  // namespace weft::run
