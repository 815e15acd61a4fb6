#include "fabric/ofi/probe.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "fabric/ofi/endpoint.hpp"

namespace weft::fabric::ofi {

bool ConnectProbe::is_refused(std::span<const std::byte> address, uint64_t now_ns) noexcept {
  int error = 0;
  if (knock_) {
    pollfd ask{knock_.get(), POLLOUT, 0};
    if (::poll(&ask, 1, 0) > 0) {
      socklen_t size = sizeof error;
      ::getsockopt(knock_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      knock_.reset();
    }
  } else if (now_ns >= next_ns_ && is_socket_address(address)) {
    next_ns_ = now_ns + kEveryNs;
    const auto* const to = reinterpret_cast<const sockaddr*>(address.data());
    knock_.reset(::socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!knock_) return false;
    if (::connect(knock_.get(), to, static_cast<socklen_t>(address.size())) == 0)
      knock_.reset();
    else if (errno != EINPROGRESS) {
      error = errno;
      knock_.reset();
    }
  }
  return error == ECONNREFUSED;
}

}  // namespace weft::fabric::ofi
