#include "fabric/ofi/probe.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "fabric/ofi/endpoint.hpp"

namespace weft::fabric::ofi {

bool ConnectProbe::is_refused(std::span<const std::byte> address, uint64_t now_ns) noexcept {
  int answer = EINPROGRESS;
  if (knock_) {
    pollfd ask{knock_.get(), POLLOUT, 0};
    if (::poll(&ask, 1, 0) > 0) {
      socklen_t size = sizeof answer;
      ::getsockopt(knock_.get(), SOL_SOCKET, SO_ERROR, &answer, &size);
    }
  } else if (now_ns >= next_ns_ && is_socket_address(address)) {
    next_ns_ = now_ns + kEveryNs;
    const auto* const to = reinterpret_cast<const sockaddr*>(address.data());
    knock_.reset(::socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!knock_) return false;
    const auto size = static_cast<socklen_t>(address.size());
    answer = ::connect(knock_.get(), to, size) == 0 ? 0 : errno;
  }
  if (answer == EINPROGRESS) return false;
  knock_.reset();
  refused_ = answer == ECONNREFUSED ? refused_ + 1 : 0;
  return refused_ >= kSure;
}

}  // namespace weft::fabric::ofi
