#include "fabric/ofi/connections.hpp"

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "fabric/ofi/endpoint.hpp"

namespace weft::fabric::ofi {

namespace {

/// The part of a socket's address that counts.
struct Place {
  sa_family_t family = AF_UNSPEC;
  in_port_t port = 0;
  in6_addr host{};  // of version 4: its first bytes

  [[nodiscard]] bool is_of_host(const Place& other) const noexcept {
    return family == other.family && std::memcmp(&host, &other.host, sizeof host) == 0;
  }
  friend bool operator==(const Place& one, const Place& other) noexcept {
    return one.is_of_host(other) && one.port == other.port;
  }
};

Place place_of(const sockaddr_storage& address) noexcept {
  Place place;
  if (address.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    place.family = AF_INET;
    place.port = four.sin_port;
    std::memcpy(&place.host, &four.sin_addr, sizeof four.sin_addr);
  } else if (address.ss_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
    place.family = AF_INET6;
    place.port = six.sin6_port;
    place.host = six.sin6_addr;
  }
  return place;
}

Place place_of(std::span<const std::byte> address) noexcept {
  sockaddr_storage copy{};
  std::memcpy(&copy, address.data(), std::min(sizeof copy, address.size()));
  return place_of(copy);
}

using NameOf = int (*)(int, sockaddr*, socklen_t*);
Place place_of(int socket, NameOf name_of) noexcept {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (name_of(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return {};
  return place_of(address);
}

}  // namespace

void shut_connections(std::span<const std::byte> ours, std::span<const std::byte> theirs) noexcept {
  if (!is_socket_address(ours) || !is_socket_address(theirs)) return;
  const Place here = place_of(ours), there = place_of(theirs);
  struct Close {
    void operator()(DIR* folder) const noexcept { ::closedir(folder); }
  };
  const std::unique_ptr<DIR, Close> folder(::opendir("/proc/self/fd"));
  if (!folder) return;
  while (const dirent* const entry = ::readdir(folder.get())) {
    char* end = nullptr;
    const auto fd = static_cast<int>(std::strtol(entry->d_name, &end, 10));
    if (end == entry->d_name) continue;
    const Place other = place_of(fd, ::getpeername);
    if (other.family == AF_UNSPEC) continue;
    if (other != there && !(other.is_of_host(there) && place_of(fd, ::getsockname) == here))
      continue;
    // Its number may be another's by now, but hardly one's with the same peer.
    if (place_of(fd, ::getpeername) == other) ::shutdown(fd, SHUT_RDWR);
  }
}

}  // namespace weft::fabric::ofi
