// Logging to stderr, a whole line at a time, prefixed with the rank once it is known.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft::base {

enum class LogLevel : uint8_t { error, warn, info, debug, trace };

/// The level in force: `WEFT_LOG_LEVEL`, default warn.
LogLevel log_level() noexcept;
void set_log_level(LogLevel level) noexcept;

/// Puts "rank 3: " in front of every later line of this process.
void set_log_rank(int rank) noexcept;

/// Writes one line if `level` is enabled. Thread-safe; one write(2) per line; never throws.
void log(LogLevel level, std::string_view text) noexcept;

}  // namespace weft::base
