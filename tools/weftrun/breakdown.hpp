// What weftrun does when it breaks down itself: libpmix, which lives in it, has crashes of its own.
//
// A thread of PMIx that hits SIGSEGV or the like is stopped where it is, and the main thread ends
// the job in its usual way, without PMIx. If it cannot, or is the one that was hit, the process
// ends, with the exit code that is known so far, once the guardian has ended the job.
#pragma once

#include <string>

#include "weftrun/guardian.hpp"

namespace weft::run {

struct BreakdownPlan {
  int bell = -1;      ///< eventfd that wakes the main thread
  int guardian = -1;  ///< our end of its socket
  pid_t guardian_pid = -1;
  bool quiet = false;
};

/// From now on such a signal does not end the process at once. Call once, from the main thread.
void survive_breakdowns(const BreakdownPlan& plan);

/// The signal that hit a thread of PMIx; 0 if none did. PMIx must not be called after one.
int breakdown() noexcept;

/// The sentence for it, which the caller prints.
std::string describe_breakdown();

/// The job's exit code as it is known now.
void note_exit_code(int code) noexcept;

/// The job is over and cleaned up: the main thread may take as long as it likes from here on.
void note_job_is_over() noexcept;

}  // namespace weft::run
