#include "harness/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "weft/base/clock.hpp"

namespace weft::bench {
namespace {

// Finds "Name:   123 kB" lines in a file of /proc.
template <class Field>
void read_fields(const std::string& path, Field field) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    field(line.substr(0, colon), std::strtoull(line.c_str() + colon + 1, nullptr, 10) * 1024);
  }
}

std::string folder_of(int pid) {
  return pid == 0 ? std::string("/proc/self") : fmt::format("/proc/{}", pid);
}

}  // namespace

ProcessMemory process_memory(int pid) {
  ProcessMemory memory;
  read_fields(folder_of(pid) + "/status", [&](const std::string& name, std::size_t bytes) {
    if (name == "VmRSS") memory.resident = bytes;
    if (name == "RssAnon") memory.anonymous = bytes;
    if (name == "RssShmem") memory.shared = bytes;
  });
  read_fields(folder_of(pid) + "/smaps_rollup", [&](const std::string& name, std::size_t bytes) {
    if (name == "Pss") memory.proportional = bytes;
  });
  return memory;
}

std::size_t resident_bytes(int pid) {
  std::ifstream file(folder_of(pid) + "/statm");
  std::size_t whole = 0;
  std::size_t resident = 0;
  file >> whole >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

Finished run_program(const std::vector<std::string>& words, double limit_seconds, bool quiet) {
  Finished finished;
  std::vector<char*> raw;
  for (const auto& word : words) raw.push_back(const_cast<char*>(word.c_str()));
  raw.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return finished;
  finished.started_ns = base::now_ns();
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    dup2(ends[1], STDOUT_FILENO);
    if (quiet) {
      const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
      if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
    }
    execv(raw[0], raw.data());
    _exit(127);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return finished;
  }
  const uint64_t until = finished.started_ns + static_cast<uint64_t>(limit_seconds * 1e9);
  for (;;) {
    const uint64_t now = base::now_ns();
    if (now >= until) {
      kill(-child, SIGKILL);
      break;
    }
    pollfd wait{ends[0], POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>((until - now) / 1'000'000 + 1)) <= 0) continue;
    char piece[4096];
    const ssize_t got = read(ends[0], piece, sizeof(piece));
    if (got <= 0) break;
    finished.output.append(piece, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  finished.ended_ns = base::now_ns();
  finished.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return finished;
}

}  // namespace weft::bench
