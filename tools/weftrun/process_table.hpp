// What weftrun knows of each rank: its pid, and how it ended.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace weft::run {

/// How a process ended, from its wait(2) status: "exited with code 3", "was killed by signal 9
/// (SIGKILL)", with "(core dumped)" where it did.
std::string describe_end(int status);
/// By a signal for what the process did itself. An abort is more often about another's death.
bool is_crash(int status) noexcept;
/// What the system says of an errno.
std::string error_text(int error);
/// "SIGKILL", or "signal 40" for one without a name.
std::string signal_name(int signal);
/// The exit code that a shell would give: 128 plus the signal for a killed process.
int exit_code_of(int status) noexcept;

class ProcessTable {
 public:
  explicit ProcessTable(int ranks) : rows_(static_cast<std::size_t>(ranks)) {}

  [[nodiscard]] int size() const noexcept { return static_cast<int>(rows_.size()); }
  [[nodiscard]] int running() const noexcept { return running_; }
  [[nodiscard]] bool is_running(int rank) const { return row(rank).running; }
  /// It ended, was lost, or could not be started.
  [[nodiscard]] bool is_over(int rank) const { return row(rank).over; }
  [[nodiscard]] bool has_finalized(int rank) const { return row(rank).finalized; }
  /// Those that run and have not joined the job.
  [[nodiscard]] std::vector<int> missing() const;
  [[nodiscard]] pid_t pid(int rank) const { return row(rank).pid; }
  /// The job's exit code so far: the first that was not 0.
  [[nodiscard]] int exit_code() const noexcept { return exit_code_; }

  void started(int rank, pid_t pid);
  void joined(int rank) { row(rank).joined = true; }
  void finalized(int rank) { row(rank).finalized = true; }
  /// Ends a row; true if that was a failure (a signal, or a code other than 0).
  bool ended(int rank, int status);
  /// Its host was lost: nobody will hear how it ended. Or it could not be started.
  void lost(int rank) noexcept;
  /// Fixes the job's exit code unless something failed before.
  void fail_with(int code) noexcept;

 private:
  struct Row {
    pid_t pid = 0;
    bool running = false;
    bool over = false;  ///< nothing more is expected of it
    bool joined = false;
    bool finalized = false;  ///< left the job in order; how it exits is its own affair
  };
  Row& row(int rank) { return rows_.at(static_cast<std::size_t>(rank)); }
  [[nodiscard]] const Row& row(int rank) const { return rows_.at(static_cast<std::size_t>(rank)); }

  std::vector<Row> rows_;
  int running_ = 0;
  int exit_code_ = 0;
};

}  // namespace weft::run
