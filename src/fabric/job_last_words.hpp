// The end of a process that aborts its job by itself: what it says, and what it exits with.
#pragma once

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <string_view>

namespace weft::fabric {

/// The exit code that an abort with `code` leaves: what wait(2) can carry, and never success.
inline int abort_exit_code(int code) noexcept {
  const int low = code & 255;
  return low == 0 ? 1 : low;
}

/// Prints `line` and a newline to stderr in one write, so that no other line gets into it.
inline void print_line(std::string_view line) noexcept {
  const iovec parts[2] = {{const_cast<char*>(line.data()), line.size()},
                          {const_cast<char*>("\n"), 1}};
  [[maybe_unused]] const ssize_t written = writev(STDERR_FILENO, parts, 2);
}

/// Waits, a second at most, until the launcher has read what this process printed: a launcher that
/// hears of an abort kills, and an abort overtakes what is still in a pipe.
inline void await_readers() noexcept {
  constexpr int kMostMilliseconds = 1000;
  const auto is_unread = [](int fd) {
    struct stat about {};
    int bytes = 0;
    return fstat(fd, &about) == 0 && S_ISFIFO(about.st_mode) && ioctl(fd, FIONREAD, &bytes) == 0 &&
           bytes > 0;
  };
  for (int waited = 0; waited < kMostMilliseconds; ++waited) {
    if (!is_unread(STDERR_FILENO) && !is_unread(STDOUT_FILENO)) return;
    usleep(1000);
  }
}

}  // namespace weft::fabric
