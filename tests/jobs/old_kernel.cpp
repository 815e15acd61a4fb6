// Runs a program as on a kernel of 2018, which many clusters have yet: Linux 4.18. System calls
// that came later fail as unknown, as they do in a container whose filter does not know them.
//
//   old_kernel PROGRAM [ARGUMENT]...
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <vector>

namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif

// Since Linux 5 the numbers are every architecture's.
constexpr uint32_t kFirstLater = 424;  // pidfd_send_signal, 5.1; 334 (rseq) to there is no call
constexpr uint32_t kLastLater = 500;

/// The advice that Linux 4.18 does not know either begins with MADV_COLD.
constexpr uint32_t kFirstLaterAdvice = 20;
constexpr uint32_t kLastLaterAdvice = 103;

constexpr uint32_t argument(unsigned number) {
  return static_cast<uint32_t>(offsetof(seccomp_data, args) + number * sizeof(uint64_t));
}
sock_filter load(std::size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset));
}
sock_filter if_equal(uint32_t value, uint8_t then, uint8_t otherwise) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, then, otherwise);
}
sock_filter if_at_least(uint32_t value, uint8_t then, uint8_t otherwise) {
  return BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, value, then, otherwise);
}
sock_filter answer(uint32_t what) { return BPF_STMT(BPF_RET | BPF_K, what); }

int install() {
  std::vector<sock_filter> filter{
      load(offsetof(seccomp_data, arch)),
      if_equal(kArchitecture, 1, 0),
      answer(SECCOMP_RET_ALLOW),
      load(offsetof(seccomp_data, nr)),
      if_equal(SYS_madvise, 0, 4),
      load(argument(2)),
      if_at_least(kFirstLaterAdvice, 0, 5),
      if_at_least(kLastLaterAdvice + 1, 4, 0),
      answer(SECCOMP_RET_ERRNO | EINVAL),
      if_at_least(kFirstLater, 0, 2),
      if_at_least(kLastLater + 1, 1, 0),
      answer(SECCOMP_RET_ERRNO | ENOSYS),
      answer(SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("old_kernel PROGRAM [ARGUMENT]...\n", stderr);
    return 2;
  }
  if (install() != 0) {
    std::perror("old_kernel: prctl");
    return 1;
  }
  execvp(argv[1], argv + 1);
  std::perror(argv[1]);
  return 1;
}
