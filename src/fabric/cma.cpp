#include "fabric/cma.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fabric/doorbell.hpp"

namespace weft::fabric {

namespace {

Errc errc_of(int error) noexcept {
  switch (error) {
    case ESRCH:
      return Errc::peer_died;
    case EPERM:
    case EACCES:
    case ENOSYS:
      return Errc::no_permission;
    case ENOMEM:
      return Errc::no_memory;
    default:
      return Errc::bad_argument;
  }
}

/// `copy(local, remote)` moves what it can and answers like process_vm_readv.
template <class Copy>
Errc move_all(void* local, uint64_t address, std::size_t bytes, Copy copy) noexcept {
  std::size_t moved = 0;
  while (moved < bytes) {
    iovec here{static_cast<std::byte*>(local) + moved, bytes - moved};
    iovec there{reinterpret_cast<void*>(address + moved), bytes - moved};
    const ssize_t n = copy(&here, &there);
    if (n > 0)
      moved += static_cast<std::size_t>(n);
    else if (n == 0)
      return Errc::bad_argument;
    else if (errno != EINTR)
      return errc_of(errno);
  }
  return Errc::ok;
}

}  // namespace

void permit_cross_memory() noexcept {
  const Descriptor file(::open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC));
  char scope = '0';
  if (!file || ::read(file.get(), &scope, 1) != 1 || scope == '0') return;
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

std::string probe_cross_memory(int64_t pid, uint64_t address, uint64_t word) noexcept {
  uint64_t read = 0;
  iovec here{&read, sizeof read};
  iovec there{reinterpret_cast<void*>(address), sizeof read};
  const ssize_t n = ::process_vm_readv(static_cast<pid_t>(pid), &here, 1, &there, 1, 0);
  if (n < 0) return fmt::format("process_vm_readv: {}", std::strerror(errno));
  if (n != sizeof read || read != word) return "process_vm_readv read something else";
  return {};
}

Errc cross_read(int64_t pid, uint64_t address, std::span<std::byte> local) noexcept {
  return move_all(local.data(), address, local.size(), [pid](iovec* here, iovec* there) {
    return ::process_vm_readv(static_cast<pid_t>(pid), here, 1, there, 1, 0);
  });
}

Errc cross_write(int64_t pid, uint64_t address, std::span<const std::byte> local) noexcept {
  return move_all(const_cast<std::byte*>(local.data()), address, local.size(),
                  [pid](iovec* here, iovec* there) {
                    return ::process_vm_writev(static_cast<pid_t>(pid), here, 1, there, 1, 0);
                  });
}

}  // namespace weft::fabric
