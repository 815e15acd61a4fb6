#include "fabric/doorbell.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace weft::fabric {

void Descriptor::reset(int fd) noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

BellPipe make_bell_pipe(PortControl& port) {
  int ends[2];
  struct stat status;
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0 || ::fstat(ends[1], &status) != 0)
    throw Error(Errc::no_memory, fmt::format("no pipe for a doorbell: {}", std::strerror(errno)));
  port.bell_fd = ends[1];
  port.bell_inode = status.st_ino;
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

void knock(int write_fd, Knock what) noexcept {
  const char byte = static_cast<char>(what);
  // EAGAIN: the pipe is full, hence readable. EPIPE: nobody reads any more.
  while (::write(write_fd, &byte, 1) < 0 && errno == EINTR) {
  }
}

void ring(PortControl& port, uint32_t seen, int write_fd, Knock what) noexcept {
  knock(write_fd, what);
  has_rung(port, seen);
}

void has_rung(PortControl& port, uint32_t seen) noexcept {
  // relaxed: the number orders nothing, the pipe does; failure means a later sleep, or rung
  // already.
  port.asleep.compare_exchange_strong(seen, 0, std::memory_order_relaxed);
}

Doorbell::Doorbell(PortControl& port, const BellPipe& pipe, int deaths_fd)
    : port_(port), read_fd_(pipe.read.get()), write_fd_(pipe.write.get()) {
  if (deaths_fd < 0) return;
  epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  for (const int fd : {read_fd_, deaths_fd}) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (!epoll_ || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
      throw Error(Errc::no_memory,
                  fmt::format("no epoll set for a doorbell: {}", std::strerror(errno)));
  }
}

void Doorbell::arm() noexcept {
  sleeps_ += 2;
  // relaxed: arming_barrier orders it before the caller's last poll (invariant 2).
  port_.asleep.store(sleeps_ | 1, std::memory_order_relaxed);
}

Doorbell::Rung Doorbell::disarm() noexcept {
  port_.asleep.store(0, std::memory_order_relaxed);  // relaxed: says only "no need to ring"
  std::array<char, 256> bytes;
  Rung rung = Rung::nothing;
  for (;;) {
    const ssize_t n = ::read(read_fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return rung;
    if (rung == Rung::nothing) rung = Rung::frames;
    if (std::memchr(bytes.data(), static_cast<char>(Knock::news), static_cast<std::size_t>(n)))
      rung = Rung::news;
    if (n < static_cast<ssize_t>(bytes.size())) return rung;
  }
}

}  // namespace weft::fabric
