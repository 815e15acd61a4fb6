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

/// Where this thread's last copy found no memory.
struct Missing {
  int64_t pid;  ///< the peer's; 0: of this process
  uint64_t address;
};
constinit thread_local Missing g_missing{};

/// process_vm_readv or process_vm_writev.
using Copy = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                         unsigned long);

ssize_t read_byte(pid_t pid, uint64_t address) noexcept {
  std::byte byte{};
  const iovec here{&byte, 1};
  const iovec there{reinterpret_cast<void*>(address), 1};
  return ::process_vm_readv(pid, &here, 1, &there, 1, 0);
}

Errc move_all(Copy copy, pid_t pid, void* local, uint64_t address, std::size_t bytes) noexcept {
  std::size_t moved = 0;
  while (moved < bytes) {
    const iovec here{static_cast<std::byte*>(local) + moved, bytes - moved};
    const iovec there{reinterpret_cast<void*>(address + moved), bytes - moved};
    const ssize_t n = copy(pid, &here, 1, &there, 1, 0);
    if (n > 0) {
      moved += static_cast<std::size_t>(n);
    } else if (n == 0) {
      return Errc::bad_argument;
    } else if (errno == EFAULT) {
      // The next byte is missing, here or there: of who is read from, if it cannot be read.
      const bool is_theirs =
          copy == &::process_vm_readv
              ? read_byte(pid, address + moved) != 1
              : first_unreadable({static_cast<std::byte*>(local) + moved, 1}) == nullptr;
      g_missing = {is_theirs ? pid : 0,
                   (is_theirs ? address : reinterpret_cast<uint64_t>(local)) + moved};
      return Errc::bad_memory;
    } else if (errno != EINTR) {
      return errc_of(errno);
    }
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
  return move_all(&::process_vm_readv, static_cast<pid_t>(pid), local.data(), address,
                  local.size());
}

Errc cross_write(int64_t pid, uint64_t address, std::span<const std::byte> local) noexcept {
  return move_all(&::process_vm_writev, static_cast<pid_t>(pid),
                  const_cast<std::byte*>(local.data()), address, local.size());
}

std::string last_missing() {
  return fmt::format(
      "{} has no memory at {:#x}",
      g_missing.pid != 0 ? fmt::format("the peer (process {})", g_missing.pid) : "this process",
      g_missing.address);
}

const std::byte* first_unreadable(std::span<const std::byte> memory) noexcept {
  constexpr std::size_t kPageBytes = 4096, kAtOnce = 64;
  const std::byte* at = memory.data();
  const std::byte* const end = at + memory.size();
  while (at < end) {
    std::byte bytes[kAtOnce];
    iovec here{bytes, 0};
    iovec there[kAtOnce];
    for (; here.iov_len < kAtOnce && at < end; ++here.iov_len) {
      there[here.iov_len] = {const_cast<std::byte*>(at), 1};
      at += kPageBytes - reinterpret_cast<uintptr_t>(at) % kPageBytes;
    }
    const ssize_t n = ::process_vm_readv(::getpid(), &here, 1, there, here.iov_len, 0);
    if (n < 0 && errno != EFAULT) return nullptr;  // it cannot be told
    const auto read = static_cast<std::size_t>(n < 0 ? 0 : n);
    if (read < here.iov_len) return static_cast<const std::byte*>(there[read].iov_base);
  }
  return nullptr;
}

}  // namespace weft::fabric
