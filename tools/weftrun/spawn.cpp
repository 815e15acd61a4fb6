// Starting one rank: the steps between fork and exec.
#include "weftrun/spawn.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>

namespace weft::run {
namespace {

/// What the child, which shares our memory until its exec, tells of its failure.
struct Failure {
  volatile int error = 0;
  const char* volatile step = "";
};

bool bind_to(const Place& place) {
  cpu_set_t* const set = CPU_ALLOC(place.cpus.back() + 1);
  if (set == nullptr) return false;
  const std::size_t bytes = CPU_ALLOC_SIZE(place.cpus.back() + 1);
  CPU_ZERO_S(bytes, set);
  for (const int cpu : place.cpus) CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set);
  const bool bound = sched_setaffinity(0, bytes, set) == 0;
  CPU_FREE(set);
  return bound;
}

/// Runs in the child, on the parent's stack and memory: touches nothing of it but `failure`, and
/// the heap through bind_to, which gives back what it took.
[[noreturn]] void become(const SpawnPlan& plan, pid_t parent, Failure& failure) {
  // Killed with the guardian; a guardian that died before this call is noticed by the second.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  setsid();
  if (plan.place != nullptr && !bind_to(*plan.place) && !plan.place_may_fail) {
    failure.error = errno;
    failure.step = "bind";
    _exit(126);
  }
  dup2(plan.in, STDIN_FILENO);
  dup2(plan.out, STDOUT_FILENO);
  dup2(plan.err, STDERR_FILENO);
  setrlimit(RLIMIT_NOFILE, &plan.descriptors);
  sigprocmask(SIG_SETMASK, &plan.signal_mask, nullptr);
  execve(plan.program, plan.argv, plan.envp);
  failure.error = errno;
  failure.step = "exec";
  _exit(126);
}

}  // namespace

// vfork and not fork: no page tables are copied, which is most of what starting 64 ranks costs.
__attribute__((noinline)) SpawnResult spawn(const SpawnPlan& plan) {
  Failure failure;
  const pid_t parent = getpid();
  const pid_t pid = vfork();
  if (pid == 0) become(plan, parent, failure);
  if (pid < 0) return {-1, errno, "fork"};
  if (failure.error != 0) {
    waitpid(pid, nullptr, 0);
    return {-1, failure.error, failure.step};
  }
  return {pid, 0, ""};
}

}  // namespace weft::run
