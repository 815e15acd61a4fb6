// Logging: level, rank prefix, one write per line.
#include "weft/base/log.hpp"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <string>

#include "base/base_config.hpp"
#include "weft/base/config.hpp"

namespace weft::base {
namespace {

constexpr int kUnknown = -1;
// Both words stand alone and order nothing: relaxed throughout.
constinit std::atomic<int> level_in_force{kUnknown};
constinit std::atomic<int> rank_known{kUnknown};

constexpr std::array<const char*, 5> kNames{"error", "warn", "info", "debug", "trace"};

/// The level that the configuration names; warn if it cannot be read, since whoever registers a
/// table hears of that by an Error.
LogLevel configured_level() noexcept {
  try {
    return parse_log_level(config_text(kLogLevelKey));
  } catch (...) {
    return LogLevel::warn;
  }
}

}  // namespace

LogLevel parse_log_level(std::string_view text) noexcept {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (text == kNames[i]) return static_cast<LogLevel>(i);
  }
  return LogLevel::warn;
}

LogLevel log_level() noexcept {
  const int known = level_in_force.load(std::memory_order_relaxed);
  if (known != kUnknown) [[likely]] {
    return static_cast<LogLevel>(known);
  }
  const LogLevel level = configured_level();
  int expected = kUnknown;  // a level that the program set meanwhile stays
  level_in_force.compare_exchange_strong(expected, static_cast<int>(level),
                                         std::memory_order_relaxed);
  return static_cast<LogLevel>(level_in_force.load(std::memory_order_relaxed));
}

void set_log_level(LogLevel level) noexcept {
  level_in_force.store(static_cast<int>(level), std::memory_order_relaxed);
}

void set_log_rank(int rank) noexcept { rank_known.store(rank, std::memory_order_relaxed); }

int log_rank() noexcept { return rank_known.load(std::memory_order_relaxed); }

void write_line(std::string_view head, std::string_view text) noexcept {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  char end = '\n';
  std::array<iovec, 3> parts{{{const_cast<char*>(head.data()), head.size()},
                              {const_cast<char*>(text.data()), text.size()},
                              {&end, 1}}};
  std::size_t first = 0;
  while (first < parts.size()) {
    const ssize_t wrote =
        writev(STDERR_FILENO, &parts[first], static_cast<int>(parts.size() - first));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return;  // nobody to tell
    auto left = static_cast<std::size_t>(wrote);
    while (first < parts.size() && left >= parts[first].iov_len) left -= parts[first++].iov_len;
    if (first < parts.size()) {
      parts[first].iov_base = static_cast<char*>(parts[first].iov_base) + left;
      parts[first].iov_len -= left;
    }
  }
}

void log(LogLevel level, std::string_view text) noexcept {
  if (level > log_level()) return;
  std::array<char, 48> head{};
  const char* name = kNames[static_cast<std::size_t>(level)];
  const int rank = log_rank();
  const int length =
      rank == kUnknown ? std::snprintf(head.data(), head.size(), "weft %s: ", name)
                       : std::snprintf(head.data(), head.size(), "rank %d: weft %s: ", rank, name);
  const int saved = errno;  // a line about a failed call must not change what the call left
  write_line({head.data(), static_cast<std::size_t>(length)}, text);
  errno = saved;
}

}  // namespace weft::base
