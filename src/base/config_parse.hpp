// Text of configuration values: reading it, checking it against its row, and guessing at typos.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weft/base/config.hpp"

namespace weft::base {

/// "comm.eager_bytes" → "WEFT_COMM_EAGER_BYTES".
std::string environment_name(std::string_view key);

/// true|false, yes|no, on|off, 1|0, in any case.
std::optional<bool> parse_bool(std::string_view text) noexcept;

/// A number of the row's type with its suffix; nothing if it is none, or does not fit 64 bits.
std::optional<int64_t> parse_number(ConfigType type, std::string_view text) noexcept;

/// The number as a user would write it, with the largest suffix that divides it: 65536 → "64K".
std::string format_number(ConfigType type, int64_t value);

/// The sentence that says what is wrong with `text` for `row`; empty if nothing is.
std::string objection(const ConfigKey& row, std::string_view text);

/// Least number of insertions, deletions, replacements and swaps of neighbours from a to b.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace weft::base
