// The one function of libpmix that weftrun replaces: how its server answers a rank that connects.
//
// When the rank was killed between its connecting and the answer, libpmix 4.2.2 gives up one
// reference too many to what it knows of that rank, leaves it in its list, and closes the socket's
// number twice: a later connection then reads freed memory or loses its socket. To answer a dead
// rank as if it could hear avoids that path: reading from the socket tells its end right after, and
// libpmix handles that as it does for any rank that dies.
//
// The name is found in the program before it is found in libpmix, which exports it with this
// signature from 3.2 to 6.0. A libpmix that has it no more never calls this.
#include <pmix_common.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>

static constexpr int kPatienceMs = 1000;

// NOLINTNEXTLINE(readability-identifier-naming): libpmix's name
extern "C" __attribute__((visibility("default"))) pmix_status_t pmix_ptl_base_send_blocking(
    int socket, char* bytes, std::size_t count);

extern "C" pmix_status_t pmix_ptl_base_send_blocking(int socket, char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t sent = send(socket, bytes, count, MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) {
      // A few bytes into a fresh socket: it has room, or whoever should read is no use to wait for.
      pollfd room{.fd = socket, .events = POLLOUT, .revents = 0};
      if (poll(&room, 1, kPatienceMs) <= 0) break;
      continue;
    }
    if (sent < 0 && errno != EINTR) break;
    if (sent <= 0) continue;
    bytes += sent;
    count -= static_cast<std::size_t>(sent);
  }
  return PMIX_SUCCESS;
}
