#include "fabric/pmi1_connection.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <utility>

#include "weft/base/error.hpp"

namespace weft::fabric {
namespace {

std::string why(const char* step, int error) {
  return fmt::format("the launcher's PMI-1 server is gone: {}: {}", step,
                     error == 0 ? "end of the connection" : std::generic_category().message(error));
}

}  // namespace

Pmi1Connection::Pmi1Connection(int descriptor) : descriptor_(descriptor) {
  struct stat what {};
  if (fstat(descriptor, &what) != 0 || !S_ISSOCK(what.st_mode))
    throw Error(Errc::launcher,
                fmt::format("PMI_FD={} is no open socket: this program was not started by the "
                            "launcher itself but by one of its ranks, or by a wrapper that closes "
                            "descriptors; unset PMI_FD to run it as a job of one",
                            descriptor));
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

/// Waits until the server has read what was sent before: of two requests that it reads at once,
/// which only a barrier and another can be, Slurm's forgets the second.
void Pmi1Connection::await_reader() const {
  constexpr int kMostLooks = 100'000;  // a server that reads nothing for so long is out of order
  int unread = 0;
  for (int look = 0; look < kMostLooks; ++look) {
    if (ioctl(descriptor_, SIOCOUTQ, &unread) != 0 || unread == 0) return;
    usleep(50);
  }
}

void Pmi1Connection::send(std::string_view line) {
  await_reader();
  std::string text(line);
  text.push_back('\n');
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t sent = ::send(descriptor_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      pollfd room{descriptor_, POLLOUT, 0};
      poll(&room, 1, -1);
    } else if (errno != EINTR) {
      lost_ = why("send", errno);
      changed_.notify_all();
      throw Error(Errc::launcher, lost_);
    }
  }
}

/// Blocks until a whole line is there. Called by one thread at a time, without the lock.
std::string Pmi1Connection::read_line() {
  for (;;) {
    if (const std::size_t end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    if (unread_.size() > kPmi1MostAnswer) throw Error(Errc::launcher, "an answer without an end");
    std::array<char, 4096> block{};
    const ssize_t got = ::read(descriptor_, block.data(), block.size());
    if (got > 0) {
      unread_.append(block.data(), static_cast<std::size_t>(got));
    } else if (got < 0 && errno == EAGAIN) {
      pollfd something{descriptor_, POLLIN, 0};
      poll(&something, 1, -1);
    } else if (got == 0 || errno != EINTR) {
      throw Error(Errc::launcher, why("read", got == 0 ? 0 : errno));
    }
  }
}

/// Gives a line to whom it is for. Throws if nobody waits for anything.
void Pmi1Connection::deliver(std::string_view line) {
  Pmi1Message message = parse_pmi1(line);
  if (message.command == "barrier_out" && in_barrier_) {
    if (message.fields.contains("rc") && pmi1_number(message, "rc", INT32_MIN, INT32_MAX) != 0)
      throw Error(Errc::launcher, fmt::format("the launcher ends a barrier with '{}'", line));
    barrier_over_ = true;
  } else if (asking_ && !answer_) {
    answer_ = std::move(message);
  } else {
    throw Error(Errc::launcher, fmt::format("the launcher says '{}', unasked", line));
  }
}

/// Until what this thread asked for has come: it reads, unless another does.
template <class Over>
void Pmi1Connection::wait(std::unique_lock<std::mutex>& hold, Over over) {
  while (!over()) {
    if (!lost_.empty()) throw Error(Errc::launcher, lost_);
    if (reading_) {
      changed_.wait(hold);
      continue;
    }
    reading_ = true;
    hold.unlock();
    std::string line;
    std::string wrong;
    try {
      line = read_line();
    } catch (const Error& error) {
      wrong = error.what();
    }
    hold.lock();
    reading_ = false;
    try {
      if (wrong.empty()) deliver(line);
    } catch (const Error& error) {
      wrong = error.what();
    }
    if (!wrong.empty()) lost_ = std::move(wrong);
    changed_.notify_all();
  }
}

Pmi1Message Pmi1Connection::ask(std::string_view line, std::string_view answer) {
  std::unique_lock hold(lock_);
  // Without reading for who asks: his answer may be the last line that comes, and whoever read on
  // behind it would wait in there though it is his turn.
  changed_.wait(hold, [this] { return !asking_ || !lost_.empty(); });
  if (!lost_.empty()) throw Error(Errc::launcher, lost_);
  send(line);
  asking_ = true;
  wait(hold, [this] { return answer_.has_value(); });
  asking_ = false;
  Pmi1Message message = *std::exchange(answer_, std::nullopt);
  if (message.command != answer) {
    lost_ = fmt::format("the launcher answers '{}' where '{}' was due", message.command, answer);
    changed_.notify_all();
    throw Error(Errc::launcher, lost_);
  }
  changed_.notify_all();
  return message;
}

void Pmi1Connection::barrier() {
  std::unique_lock hold(lock_);
  if (!lost_.empty()) throw Error(Errc::launcher, lost_);
  if (in_barrier_) throw Error(Errc::bad_argument, "a fence of this rank is under way already");
  in_barrier_ = true;
  barrier_over_ = false;
  send("cmd=barrier_in");
  wait(hold, [this] { return barrier_over_; });
  in_barrier_ = false;
}

void Pmi1Connection::tell(std::string_view line) noexcept {
  try {
    const std::lock_guard hold(lock_);
    if (lost_.empty()) send(line);
  } catch (const Error&) {
    // It is gone: nobody is there to be told.
  }
}

}  // namespace weft::fabric
