// What base's own files share of configuration and logging.
#pragma once

#include <string_view>

#include "weft/base/log.hpp"

namespace weft::base {

inline constexpr std::string_view kLogLevelKey = "log.level";
inline constexpr std::string_view kTopologyKey = "base.topology";
inline constexpr std::string_view kFakedAffinityKey = "base.faked_affinity";

/// The level called `text`; warn if there is none.
LogLevel parse_log_level(std::string_view text) noexcept;

/// The rank given to set_log_rank, or -1.
int log_rank() noexcept;

/// Writes head, text and a newline to stderr with one system call.
void write_line(std::string_view head, std::string_view text) noexcept;

}  // namespace weft::base
