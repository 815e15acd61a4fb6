// Names of errors, and the end of a job whose contract is broken.
#include "weft/base/error.hpp"

#include <execinfo.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "base/base_config.hpp"

namespace weft {

std::string_view to_string(Errc code) noexcept {
  switch (code) {
    case Errc::ok:
      return "ok";
    case Errc::bad_config:
      return "bad_config";
    case Errc::bad_argument:
      return "bad_argument";
    case Errc::no_such_peer:
      return "no_such_peer";
    case Errc::no_permission:
      return "no_permission";
    case Errc::no_memory:
      return "no_memory";
    case Errc::truncated:
      return "truncated";
    case Errc::bad_key:
      return "bad_key";
    case Errc::peer_died:
      return "peer_died";
    case Errc::cancelled:
      return "cancelled";
    case Errc::not_initialized:
      return "not_initialized";
    case Errc::protocol:
      return "protocol";
    case Errc::launcher:
      return "launcher";
    case Errc::bad_memory:
      return "bad_memory";
  }
  return "unknown";
}

namespace base {
namespace {

// The first thread that finds a contract broken ends the process; others say theirs and wait for
// the end. relaxed: it guards no data.
constinit std::atomic<pid_t> ending{0};

}  // namespace

void broken(std::string_view what, const char* file, int line) noexcept {
  const auto thread = static_cast<pid_t>(syscall(SYS_gettid));
  pid_t first = 0;
  const bool is_first = ending.compare_exchange_strong(first, thread, std::memory_order_relaxed);
  if (!is_first && first == thread) std::abort();  // broken while saying so

  std::array<char, 32> rank{};
  if (log_rank() >= 0) std::snprintf(rank.data(), rank.size(), "rank %d: ", log_rank());
  std::array<char, 512> head{};
  const int length = std::snprintf(head.data(), head.size(),
                                   "%sweft broken contract in thread %d at %s:%d: ", rank.data(),
                                   static_cast<int>(thread), file, line);
  write_line({head.data(), std::min(static_cast<std::size_t>(length), head.size() - 1)}, what);
  if (!is_first) {
    for (;;) pause();
  }
  std::array<void*, 64> frames{};
  const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
  // Names of the program's own functions need -rdynamic; the offsets serve addr2line without it.
  backtrace_symbols_fd(frames.data(), depth, STDERR_FILENO);
  std::abort();
}

}  // namespace base
}  // namespace weft
