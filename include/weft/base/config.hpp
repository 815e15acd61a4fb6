// Configuration: one table per room, values from the environment, origins kept, typos named.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::base {

enum class ConfigType : uint8_t { boolean, integer, bytes, nanoseconds, text, choice };

/// One row of a room's table. Key "comm.eager_bytes" is WEFT_COMM_EAGER_BYTES in the environment.
/// Bytes take K, M, G suffixes (powers of 1024); nanoseconds take ns, us, ms, s.
struct ConfigKey {
  std::string_view key;
  ConfigType type;
  std::string_view fallback;   ///< default, written as a user would write it
  int64_t low = 0, high = 0;   ///< range of numbers, both ends allowed
  std::string_view choices{};  ///< "a|b|c" for ConfigType::choice
  std::string_view help{};     ///< one sentence, for --config and the generated docs page
};

/// Where a value came from.
enum class Origin : uint8_t { fallback, environment, program };

struct ConfigValue {
  const ConfigKey* key;
  std::string text;
  Origin origin;
};

/// Registers a room's table; call once per room, from the function that reads it first.
/// Throws Error(bad_config) naming key, value and range if the environment holds nonsense.
void register_config(std::span<const ConfigKey> table);

/// A table that its room registers only when it first reads it: announced by an object of static
/// lifetime beside the table, its names are known from the start of every program that the room is
/// linked into (`warn_unknown_config`). Nothing of the environment is read or refused for that.
class AnnouncedConfig {
 public:
  explicit AnnouncedConfig(std::span<const ConfigKey> table) noexcept;
  AnnouncedConfig(const AnnouncedConfig&) = delete;
  AnnouncedConfig& operator=(const AnnouncedConfig&) = delete;

  [[nodiscard]] std::span<const ConfigKey> table() const noexcept { return table_; }
  /// The one announced before it.
  [[nodiscard]] const AnnouncedConfig* next() const noexcept { return next_; }

 private:
  std::span<const ConfigKey> table_;
  const AnnouncedConfig* next_;
};

/// Values; Error(bad_config) if `key` was never registered. Thread-safe; not for the hot path.
bool config_bool(std::string_view key);
int64_t config_int(std::string_view key);  ///< also bytes and nanoseconds
std::string config_text(std::string_view key);

/// Overrides a value from the program (options, tests). Throws on nonsense, as above.
void set_config(std::string_view key, std::string_view value);

/// All registered keys with value and origin, sorted by key.
std::vector<ConfigValue> all_config();

/// Warns once, through the log, of each WEFT_* variable that no table knows, naming the nearest
/// that one does. Call after all tables are registered or announced. Returns how many there were.
int warn_unknown_config();

/// The one getenv of the house: an environment variable's value, or empty with `found` false.
struct Environment {
  std::string value;
  bool found = false;
};
Environment environment(const char* name);

}  // namespace weft::base
