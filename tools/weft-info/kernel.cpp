// What the kernel permits of the things that weft's speed or tidiness stands on.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/membarrier.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>

#include "report.hpp"

namespace weft::info {
namespace {

std::string first_word_of(const char* path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

std::string error_text(int error) { return std::generic_category().message(error); }

std::string membarrier_answer() {
  const long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  if (commands < 0) return fmt::format("no ({})", error_text(errno));
  if ((commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0) return "yes, expedited between processes";
  if ((commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0) return "within a process only";
  return "not expedited";
}

/// One process of this user reads another's memory, neither being the other's parent: what two
/// ranks of a job are to each other. 0 or the errno.
int cross_memory_errno() {
  volatile int treasure = 0x77656674;
  int keep_alive[2];
  if (pipe2(keep_alive, O_CLOEXEC) != 0) return errno;
  const pid_t owner = fork();
  if (owner == 0) {
    close(keep_alive[1]);
    // As every rank does: where Yama restricts tracing to parents, siblings are let in.
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    char byte = 0;
    [[maybe_unused]] const ssize_t end = read(keep_alive[0], &byte, 1);
    _exit(0);
  }
  const pid_t reader = owner < 0 ? -1 : fork();
  if (reader == 0) {
    int found = 0;
    iovec here{&found, sizeof found};
    iovec there{const_cast<int*>(&treasure), sizeof treasure};
    int error = 0;
    // The owner may not have called prctl yet: a refusal is believed only after a while.
    for (int attempt = 0; attempt < 50; ++attempt) {
      error = process_vm_readv(owner, &here, 1, &there, 1, 0) == sizeof found ? 0 : errno;
      if (error == 0) break;
      usleep(2000);
    }
    _exit(error == 0 && found != treasure ? EIO : error);
  }
  int status = 0;
  int answer = EAGAIN;
  if (reader > 0 && waitpid(reader, &status, 0) == reader && WIFEXITED(status)) {
    answer = WEXITSTATUS(status);
  }
  close(keep_alive[0]);
  close(keep_alive[1]);
  if (owner > 0) waitpid(owner, &status, 0);
  return answer;
}

std::string cross_memory_answer() {
  const int error = cross_memory_errno();
  if (error == 0) return "yes (probed between two processes)";
  std::string why = fmt::format("no: {}", error_text(error));
  if (error == EPERM) {
    const std::string scope = first_word_of("/proc/sys/kernel/yama/ptrace_scope");
    why += scope.empty() || scope == "0" ? " (a container's rules?)"
                                         : fmt::format(" (Yama's ptrace_scope is {})", scope);
  }
  return why + "; large messages are copied through packets";
}

std::string shared_memory_answer() {
  struct statvfs room {};
  if (statvfs("/dev/shm", &room) != 0) return fmt::format("no /dev/shm: {}", error_text(errno));
  return fmt::format("{} MiB free of {} MiB", (room.f_bavail * room.f_frsize) >> 20,
                     (room.f_blocks * room.f_frsize) >> 20);
}

std::string limit_text(rlim_t value, const char* unit, unsigned shift) {
  if (value == RLIM_INFINITY) return "unlimited";
  return fmt::format("{}{}", value >> shift, unit);
}

std::string limit_of(__rlimit_resource resource, const char* unit, unsigned shift) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return error_text(errno);
  return limit_text(limit.rlim_cur, unit, shift);
}

}  // namespace

Section about_kernel() {
  utsname name{};
  uname(&name);
  const std::string autogroup = first_word_of("/proc/sys/kernel/sched_autogroup_enabled");
  return {"Kernel",
          {{"release", fmt::format("{} {}", name.sysname, name.release)},
           {"cross-memory attach", cross_memory_answer()},
           {"membarrier", membarrier_answer()},
           {"/dev/shm", shared_memory_answer()},
           {"open files", limit_of(RLIMIT_NOFILE, "", 0)},
           {"locked memory", limit_of(RLIMIT_MEMLOCK, " KiB", 10)},
           {"autogroup", autogroup == "1" ? "on: a job started from another terminal takes its "
                                            "share whatever the niceness"
                                          : "off"}}};
}

}  // namespace weft::info
