// What weftrun knows of each rank: its pid, and how it ended.
#include "weftrun/process_table.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include <system_error>
#include <utility>

namespace weft::run {

std::string error_text(int error) { return std::generic_category().message(error); }

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

std::string describe_end(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({}){}", WTERMSIG(status),
                       signal_name(WTERMSIG(status)), WCOREDUMP(status) ? ", core dumped" : "");
  return fmt::format("exited with code {}", WEXITSTATUS(status));
}

bool is_crash(int status) noexcept {
  if (!WIFSIGNALED(status)) return false;
  const int signal = WTERMSIG(status);
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
         signal == SIGSYS || signal == SIGTRAP;
}

int exit_code_of(int status) noexcept {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void ProcessTable::started(int rank, pid_t pid) {
  row(rank).pid = pid;
  row(rank).running = true;
  ++running_;
}

bool ProcessTable::ended(int rank, int status) {
  row(rank).running = false;
  row(rank).over = true;
  --running_;
  fail_with(exit_code_of(status));
  return exit_code_of(status) != 0;
}

std::vector<int> ProcessTable::missing() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank)
    if (!row(rank).joined && !row(rank).over) ranks.push_back(rank);
  return ranks;
}

void ProcessTable::lost(int rank) noexcept {
  row(rank).over = true;
  if (!std::exchange(row(rank).running, false)) return;
  --running_;
}

void ProcessTable::fail_with(int code) noexcept {
  if (exit_code_ == 0) exit_code_ = code;
}

}  // namespace weft::run
