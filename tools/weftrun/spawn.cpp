// Starting one rank: the steps between fork and exec.
#include "weftrun/spawn.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <stdexcept>

namespace weft::run {
namespace {

/// What the child, which shares our memory until its exec, tells of its failure. Not locals: the
/// compiler, which does not know that the child comes back as the parent, would not keep them.
volatile int g_error = 0;
const char* volatile g_step = "";

/// What these did before we changed it, which an exec would pass on; SIG_ERR: we did not.
sighandler_t g_sigpipe = SIG_ERR;
sighandler_t g_sigchld = SIG_ERR;

[[noreturn]] void give_up(const char* step) {
  g_error = errno;
  g_step = step;
  _exit(126);
}

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

/// Runs in the child, on the parent's stack and memory: touches nothing of it but the two above,
/// and the heap through bind_to, which gives back what it took.
[[noreturn]] void become(const SpawnPlan& plan, pid_t parent) {
  // Killed with the guardian; a guardian that died before this call is noticed by the second.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  // Not a session of its own: Linux schedules sessions as groups (sched_autogroup), each fairly,
  // and between groups a rank that yields keeps the core for those it waits for.
  setpgid(0, 0);
  if (plan.place != nullptr && !bind_to(*plan.place) && !plan.place_may_fail) give_up("bind");
  dup2(plan.in, STDIN_FILENO);
  dup2(plan.out, STDOUT_FILENO);
  dup2(plan.err, STDERR_FILENO);
  setrlimit(RLIMIT_NOFILE, &plan.descriptors);
  if (g_sigpipe != SIG_ERR) signal(SIGPIPE, g_sigpipe);
  if (g_sigchld != SIG_ERR) signal(SIGCHLD, g_sigchld);
  pthread_sigmask(SIG_SETMASK, &plan.signal_mask, nullptr);
  if (plan.folder != nullptr && chdir(plan.folder) != 0) give_up("enter the folder");
  execve(plan.program, plan.argv, plan.envp);
  give_up("exec");
}

}  // namespace

// vfork and not fork: no page tables are copied, which is most of what starting 64 ranks costs.
__attribute__((noinline)) SpawnResult spawn(const SpawnPlan& plan) {
  g_error = 0;
  const pid_t parent = getpid();
  const pid_t pid = vfork();
  if (pid == 0) become(plan, parent);
  if (pid < 0) return {-1, errno, "fork"};
  if (g_error != 0) {
    waitpid(pid, nullptr, 0);
    return {-1, g_error, g_step};
  }
  return {pid, 0, ""};
}

void ignore_sigpipe() noexcept { g_sigpipe = signal(SIGPIPE, SIG_IGN); }

rlimit take_descriptors(int ranks, int hosts) {
  // Both ends of two pipes each, later one and a connection; beside them the guardian and PMIx's
  // server. Of a host the launch agent, what it says, and a connection; beside them where they
  // connect, and one who is not known yet.
  constexpr rlim_t kOwn = 20, kEach = 4, kOwnOfHosts = 8, kEachHost = 4;
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit most = before;
  most.rlim_cur = most.rlim_max;
  setrlimit(RLIMIT_NOFILE, &most);
  rlim_t needed = kOwn + kEach * static_cast<rlim_t>(ranks);
  if (hosts > 0) needed += kOwnOfHosts + kEachHost * static_cast<rlim_t>(hosts);
  if (most.rlim_max < needed)
    throw std::runtime_error(fmt::format(
        "{} ranks{} take up to {} open files, and this shell may have {} (ulimit -Hn)", ranks,
        hosts > 0 ? fmt::format(" and {} other hosts", hosts) : "", needed, most.rlim_max));
  return before;
}

void hear_of_children() noexcept { g_sigchld = signal(SIGCHLD, SIG_DFL); }

}  // namespace weft::run
