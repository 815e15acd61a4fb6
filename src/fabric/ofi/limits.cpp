#include "fabric/ofi/limits.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <cerrno>

#include "fabric/doorbell.hpp"

namespace weft::fabric::ofi {

std::string files_remark() {
  // Whoever failed for want of one may have closed those that it had got.
  std::array<Descriptor, 16> spare;
  for (Descriptor& one : spare) {
    one = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (one) continue;
    if (errno == ENFILE) return " (the system can open no more files: fs.file-max)";
    if (errno != EMFILE) return {};
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return fmt::format(" (this process may have only {} files open: ulimit -n)", limit.rlim_cur);
  }
  return {};
}

std::string memory_remark() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return fmt::format(" (this process may have only {} KiB of addresses: ulimit -v)",
                     limit.rlim_cur / 1024);
}

std::string locked_memory_remark() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return fmt::format(" (this process may lock only {} KiB of memory: ulimit -l)",
                     limit.rlim_cur / 1024);
}

}  // namespace weft::fabric::ofi
