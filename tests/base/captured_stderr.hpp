// What the process writes to stderr while a test looks at it, as it comes.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace weft::test {

/// From its beginning to its end, stderr is a pipe that only this reads.
class CapturedStderr {
 public:
  CapturedStderr() : before_(::dup(STDERR_FILENO)) {
    EXPECT_EQ(::pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK), 0);
    ::fcntl(ends_[1], F_SETPIPE_SZ, 1 << 20);
    ::dup2(ends_[1], STDERR_FILENO);
  }
  ~CapturedStderr() {
    ::dup2(before_, STDERR_FILENO);
    for (const int file : {before_, ends_[0], ends_[1]}) ::close(file);
  }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;

  /// Everything so far.
  const std::string& text() {
    std::array<char, 4096> piece;
    for (ssize_t got = 0; (got = ::read(ends_[0], piece.data(), piece.size())) > 0;) {
      text_.append(piece.data(), static_cast<std::size_t>(got));
    }
    return text_;
  }
  /// Returns once that has been written, `times` times in all.
  void wait_for(std::string_view what, int times = 1) {
    while (count(what) < times) {
      pollfd readable{ends_[0], POLLIN, 0};
      ::poll(&readable, 1, -1);
    }
  }
  int count(std::string_view what) {
    const std::string_view all = text();
    int found = 0;
    for (std::size_t at = 0; (at = all.find(what, at)) != std::string_view::npos; ++at) ++found;
    return found;
  }

 private:
  int before_;
  std::array<int, 2> ends_{};
  std::string text_;
};

}  // namespace weft::test
