// What the ranks print: read from their pipes, put together to lines, and written out whole.
#include "weftrun/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

namespace weft::run {
namespace {

constexpr int kOwnSource = -2;
/// Pieces in which text is collected, so that a line costs no allocation of its own.
constexpr std::size_t kPieceBytes = std::size_t{1} << 16;

bool can_wait_on(int fd) {
  struct stat about {};
  if (fstat(fd, &about) != 0) return false;
  return S_ISFIFO(about.st_mode) || S_ISCHR(about.st_mode) || S_ISSOCK(about.st_mode);
}

/// A terminal takes less at once than poll(2) lets hope, and nothing while it is stopped (Ctrl-S):
/// it is opened anew, so as not to block. Not the other end of one, which would be a new one.
Fd open_terminal(int fd) {
  unsigned int number = 0;
  if (isatty(fd) == 0 || ioctl(fd, TIOCGPTN, &number) == 0) return {};
  return Fd(open(fmt::format("/proc/self/fd/{}", fd).c_str(),
                 O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

bool writable_now(int fd) {
  pollfd one{fd, POLLOUT, 0};
  return poll(&one, 1, 0) > 0;
}

}  // namespace

Sink::Sink(int fd)
    : terminal_(open_terminal(fd)),
      fd_(terminal_ ? terminal_.get() : fd),
      can_wait_(can_wait_on(fd)) {}

void Sink::add(int source, std::string_view text) {
  if (text.empty() || error_ != 0) return;
  if (open_line_of_ != -1 && open_line_of_ != source) {
    open_line_of_ = -1;
    add(source, "\n");
  }
  open_line_of_ = text.back() == '\n' ? -1 : source;
  if (pending_.empty() || pending_.back().size() + text.size() > kPieceBytes) {
    pending_.emplace_back();
    pending_.back().reserve(std::max(kPieceBytes, text.size()));
  }
  pending_.back().append(text);
  pending_bytes_ += text.size();
}

void Sink::add_line(std::string_view line) {
  add(kOwnSource, fmt::format("{}\n", line));
  flush();
}

void Sink::flush() {
  while (!pending_.empty()) {
    const std::string& front = pending_.front();
    std::size_t most = front.size() - written_of_front_;
    if (can_wait_) {
      // A descriptor that poll(2) calls writable takes this much without waiting. (Not made
      // non-blocking: others, such as the user's shell, share it.)
      if (!writable_now(fd_)) return;
      most = std::min<std::size_t>(most, PIPE_BUF);
    }
    const ssize_t wrote = write(fd_, front.data() + written_of_front_, most);
    if (wrote < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return;
      error_ = errno;
      pending_.clear();
      pending_bytes_ = 0;
      written_of_front_ = 0;
      return;
    }
    written_of_front_ += static_cast<std::size_t>(wrote);
    pending_bytes_ -= static_cast<std::size_t>(wrote);
    if (written_of_front_ == front.size()) {
      pending_.pop_front();
      written_of_front_ = 0;
    }
  }
}

void Sink::drain() {
  for (flush(); waits(); flush()) {
    pollfd one{fd_, POLLOUT, 0};
    if (poll(&one, 1, -1) < 0 && errno != EINTR) return;
  }
}

bool Stream::read_some(std::size_t most) {
  std::array<char, 65536> buffer;
  for (std::size_t taken = 0; taken < most;) {
    const ssize_t got = read(pipe_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return false;
    if (got <= 0) {
      finish();
      pipe_.reset();
      return false;
    }
    taken += static_cast<std::size_t>(got);
    take({buffer.data(), static_cast<std::size_t>(got)});
  }
  return true;
}

void Stream::take(std::string_view text) {
  if (raw_) return emit(text);
  if (!partial_.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      partial_.append(text);
      text = {};
    } else {
      partial_.append(text.substr(0, end + 1));
      text.remove_prefix(end + 1);
    }
    if (end != std::string_view::npos || partial_.size() > kLongestLine) {
      emit(partial_);
      partial_.clear();
    }
  }
  const std::size_t whole = text.rfind('\n') + 1;  // npos + 1 is 0
  if (whole > 0) emit(text.substr(0, whole));
  partial_.append(text.substr(whole));
}

/// Passes on lines, the last of which may be a piece of a long or unfinished one.
void Stream::emit(std::string_view text) {
  if (tag_.empty()) {
    sink_->add(source_, text);
    return;
  }
  std::string tagged;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    if (!line_is_open_) tagged.append(tag_);
    tagged.append(text.substr(0, end));
    line_is_open_ = tagged.back() != '\n';
    text.remove_prefix(end);
  }
  sink_->add(source_, tagged);
}

void Stream::finish() {
  emit(partial_);
  partial_.clear();
}

}  // namespace weft::run
