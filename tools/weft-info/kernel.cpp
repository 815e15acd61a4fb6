// What the kernel permits of the things that weft's speed or tidiness stands on.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>
#include <system_error>

#include "fabric/cma.hpp"
#include "fabric/membarrier.hpp"
#include "report.hpp"
#include "task/stack.hpp"
#include "weft/base/config.hpp"

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
  return fabric::register_membarrier()
             ? "yes: a sleeper pays for the barrier, senders do not"
             : "no expedited one between processes: every sender fences for itself";
}

/// One process of this user reads another's memory, neither being the other's parent: what two
/// ranks of a job are to each other. Empty if it could, else why not.
std::string refusal_between_siblings() {
  static volatile uint64_t word = 0x7765667420696e66;
  int keep_alive[2];
  int answer[2];
  if (pipe2(keep_alive, O_CLOEXEC) != 0 || pipe2(answer, O_CLOEXEC) != 0) return error_text(errno);
  const pid_t owner = fork();
  if (owner == 0) {
    close(keep_alive[1]);
    fabric::permit_cross_memory();
    char byte = 'r';
    if (write(answer[1], &byte, 1) != 1) _exit(1);
    while (read(keep_alive[0], &byte, 1) > 0) {
    }
    _exit(0);
  }
  char ready = 0;
  if (owner < 0 || read(answer[0], &ready, 1) != 1) return "cannot start a process to try it on";
  const pid_t reader = fork();
  if (reader == 0) {
    const std::string why =
        fabric::probe_cross_memory(owner, reinterpret_cast<uint64_t>(&word), word);
    _exit(write(answer[1], why.data(), why.size()) == static_cast<ssize_t>(why.size()) ? 0 : 1);
  }
  close(answer[1]);
  std::string why;
  if (reader < 0) why = "cannot start a process to try it from";
  // The owner holds the other end open: what the reader wrote is all there once he ended.
  int status = 0;
  if (reader > 0) waitpid(reader, &status, 0);
  close(keep_alive[1]);
  waitpid(owner, nullptr, 0);
  std::array<char, 256> text{};
  for (ssize_t got = 0; (got = read(answer[0], text.data(), text.size())) > 0;) {
    why.append(text.data(), static_cast<std::size_t>(got));
  }
  close(keep_alive[0]);
  close(answer[0]);
  if (WIFSIGNALED(status))
    return fmt::format("who tried it was ended by signal {}", WTERMSIG(status));
  return why;
}

std::string cross_memory_answer() {
  const char* instead = "; large messages are copied through packets";
  if (base::config_text("fabric.cma") == "off")
    return fmt::format("switched off by fabric.cma{}", instead);
  const std::string why = refusal_between_siblings();
  return why.empty() ? "yes: tried between two processes" : fmt::format("no: {}{}", why, instead);
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

std::string guards_answer() {
  try {
    return std::string(task::to_string(task::configured_guard()));
  } catch (const Error& error) {
    return error.what();
  }
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
           {"guards of task stacks", guards_answer()},
           {"/dev/shm", shared_memory_answer()},
           {"open files", limit_of(RLIMIT_NOFILE, "", 0)},
           {"locked memory", limit_of(RLIMIT_MEMLOCK, " KiB", 10)},
           {"autogroup", autogroup == "1" ? "on: a job started from another terminal takes its "
                                            "share whatever the niceness"
                                          : "off"}}};
}

}  // namespace weft::info
