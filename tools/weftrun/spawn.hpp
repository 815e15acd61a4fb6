// Starting one rank: the steps between fork and exec, and the descriptors they need.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <utility>

#include "weftrun/placement.hpp"

namespace weft::run {

/// A descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    reset(std::exchange(other.fd_, -1));
    return *this;
  }
  [[nodiscard]] int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  void reset(int fd = -1) noexcept {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

/// Everything that one rank's process gets. All memory is the caller's.
struct SpawnPlan {
  const char* program = nullptr;
  const char* folder = nullptr;  ///< where it starts; nullptr: here
  char* const* argv = nullptr;
  char* const* envp = nullptr;
  int in = -1, out = -1, err = -1;  ///< each above 2
  const Place* place = nullptr;
  bool place_may_fail = false;
  sigset_t signal_mask{};
  rlimit descriptors{};  ///< the limit that the user's shell had
};

struct SpawnResult {
  pid_t pid = -1;         ///< -1: failed
  int error = 0;          ///< errno of the failed step
  const char* step = "";  ///< "fork", "bind", "enter the folder", "exec"
};

/// Starts a process in a process group of its own that the kernel kills when the calling thread
/// ends. The caller's thread stands still until the exec, and must be its process's only one.
/// (Under ThreadSanitizer, which makes a fork of vfork, a failed exec looks like exit code 126.)
SpawnResult spawn(const SpawnPlan& plan);

/// Ignores SIGPIPE in this process. What it or its forks `spawn` from then on finds that signal as
/// this process did.
void ignore_sigpipe() noexcept;
/// Takes as many descriptors as this process may have; throws if so many ranks of this host, and
/// other hosts that are started from here, need more (PMIx's server would wait for ever for those
/// that it cannot meet). What was the limit is that of the ranks.
rlimit take_descriptors(int ranks, int hosts);
/// Takes SIGCHLD as it is by default: where it is ignored, children end without a word. Ranks find
/// it, too, as this process did.
void hear_of_children() noexcept;

}  // namespace weft::run
