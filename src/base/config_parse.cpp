// Reading the text of configuration values.
#include "base/config_parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <vector>

namespace weft::base {
namespace {

struct Suffix {
  std::string_view text;
  int64_t factor;
};
constexpr std::array<Suffix, 4> kBytes{{{"", 1}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}}};
constexpr std::array<Suffix, 5> kNanoseconds{
    {{"", 1}, {"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}}};
constexpr std::array<Suffix, 1> kPlain{{{"", 1}}};

std::span<const Suffix> suffixes_of(ConfigType type) noexcept {
  switch (type) {
    case ConfigType::bytes:
      return kBytes;
    case ConfigType::nanoseconds:
      return kNanoseconds;
    default:
      return kPlain;
  }
}

bool same_word(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

std::string_view kind_of(ConfigType type) noexcept {
  switch (type) {
    case ConfigType::boolean:
      return "true or false";
    case ConfigType::integer:
      return "a whole number";
    case ConfigType::bytes:
      return "a number of bytes, with K, M or G if you like,";
    case ConfigType::nanoseconds:
      return "a time with its unit (ns, us, ms or s)";
    case ConfigType::text:
      return "text";
    case ConfigType::choice:
      return "one of";
  }
  return "";
}

bool is_choice(std::string_view choices, std::string_view text) noexcept {
  while (!choices.empty()) {
    const std::size_t bar = std::min(choices.find('|'), choices.size());
    if (choices.substr(0, bar) == text) return true;
    choices.remove_prefix(std::min(bar + 1, choices.size()));
  }
  return false;
}

}  // namespace

std::string environment_name(std::string_view key) {
  std::string name = "WEFT_";
  for (char c : key) {
    name += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

std::optional<bool> parse_bool(std::string_view text) noexcept {
  for (std::string_view word : {"true", "yes", "on", "1"}) {
    if (same_word(text, word)) return true;
  }
  for (std::string_view word : {"false", "no", "off", "0"}) {
    if (same_word(text, word)) return false;
  }
  return std::nullopt;
}

std::optional<int64_t> parse_number(ConfigType type, std::string_view text) noexcept {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  // A bare number of nanoseconds was meant to be one of seconds, as a rule.
  if (type == ConfigType::nanoseconds && rest.empty() && number != 0) return std::nullopt;
  for (const Suffix& suffix : suffixes_of(type)) {
    if (!same_word(rest, suffix.text)) continue;
    int64_t value = 0;
    if (__builtin_mul_overflow(number, suffix.factor, &value)) return std::nullopt;
    return value;
  }
  return std::nullopt;
}

std::string format_number(ConfigType type, int64_t value) {
  const Suffix* best = nullptr;
  for (const Suffix& suffix : suffixes_of(type)) {
    if (value % suffix.factor == 0 && (value != 0 || suffix.factor == 1)) best = &suffix;
  }
  return fmt::format("{}{}", value / best->factor, best->text);
}

std::string objection(const ConfigKey& row, std::string_view text) {
  switch (row.type) {
    case ConfigType::text:
      return {};
    case ConfigType::boolean:
      if (parse_bool(text)) return {};
      return fmt::format("{} takes {}, not '{}'", row.key, kind_of(row.type), text);
    case ConfigType::choice:
      if (is_choice(row.choices, text)) return {};
      return fmt::format("{} takes {} {}, not '{}'", row.key, kind_of(row.type), row.choices, text);
    default:
      break;
  }
  const auto number = parse_number(row.type, text);
  if (number && *number >= row.low && *number <= row.high) return {};
  return fmt::format("{} takes {} from {} to {}, not '{}'", row.key, kind_of(row.type),
                     format_number(row.type, row.low), format_number(row.type, row.high), text);
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table suffice: the swap of neighbours looks back two.
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace weft::base
