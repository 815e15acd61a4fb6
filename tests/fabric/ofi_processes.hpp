// What tests of the ofi transport between processes share.
#pragma once

#include <dirent.h>
#include <sys/socket.h>

#include <cstdlib>
#include <string>

#include "base/config_override.hpp"
#include "fabric/conformance_ranks.hpp"
#include "weft/fabric/config.hpp"

namespace weft::fabric::test {

/// Polls until `done`, for a minute at most: the watchdog of these tests.
template <class Done>
bool poll_long(Port& port, Sink& sink, Done done) {
  return poll_until(port, sink, done, 60);
}

/// Values of the room's configuration, changed for a scope.
class Configured : weft::test::ConfigOverride {
 public:
  using ConfigOverride::List;
  explicit Configured(const List& values) : ConfigOverride((register_fabric_config(), values)) {}
  Configured(const std::string& key, const std::string& value) : Configured(List{{key, value}}) {}
};

/// Ends every TCP connection of this process, as a network's equipment may do; how many.
inline int break_connections() {
  int broken = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  while (const dirent* const entry = ::readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) continue;
    if (::shutdown(fd, SHUT_RDWR) == 0) ++broken;
  }
  ::closedir(folder);
  return broken;
}

}  // namespace weft::fabric::test
