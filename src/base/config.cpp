// The registry of configuration: every registered row with its value and origin.
//
// Owner and lifetime: one per process, made at first use, never destroyed (threads may still read
// while statics end). Thread-safe by one mutex; set-up only, never on the message path.
#include "weft/base/config.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "base/base_config.hpp"
#include "base/config_parse.hpp"
#include "weft/base/error.hpp"
#include "weft/base/log.hpp"

namespace weft::base {
namespace {

constexpr ConfigKey kBaseTable[] = {
    {kLogLevelKey, ConfigType::choice, "warn", 0, 0, "error|warn|info|debug|trace",
     "Least urgent kind of line that is written to stderr."},
    {kTopologyKey, ConfigType::text, "", 0, 0, "",
     "A made-up machine in hwloc's synthetic notation, such as 'numa:2 core:4 pu:1', for tests; "
     "empty: the real one."},
    {kFakedAffinityKey, ConfigType::text, "", 0, 0, "",
     "Processors of a made-up machine that this process may use, such as '4-7,9'; empty: all."},
    {"stress.seed", ConfigType::text, "", 0, 0, "",
     "Seed of the stress tests; empty: a new one each time, which they print."},
    {"stress.seconds", ConfigType::integer, "1", 0, 1'000'000, "",
     "How long one stress test of the test suite runs."},
};

struct Entry {
  ConfigKey row;
  std::string value;
  Origin origin;
};

struct Registry {
  std::mutex mutex;
  bool base_registered = false;
  std::map<std::string_view, Entry> entries;          // by key; the views point at literals
  std::map<std::string, std::string_view> variables;  // environment name → key
  std::set<std::string> warned;
};

Registry& registry() {
  static auto* const made = new Registry;
  return *made;
}

// Before any of them is announced, whatever the order of static initialisation.
constinit std::atomic<const AnnouncedConfig*> g_announced{nullptr};

/// Names of environment variables that are settings: of the tables that are registered, and of
/// those that will be.
std::set<std::string> known_variables(const Registry& all) {
  std::set<std::string> names;
  for (const auto& [name, key] : all.variables) names.insert(name);
  // acquire: pairs with the release that announced it.
  for (const AnnouncedConfig* each = g_announced.load(std::memory_order_acquire); each != nullptr;
       each = each->next()) {
    for (const ConfigKey& row : each->table()) names.insert(environment_name(row.key));
  }
  return names;
}

[[noreturn]] void refuse(const std::string& sentence) { throw Error(Errc::bad_config, sentence); }

/// The registered name nearest to `name` among `names`: of those that it begins, the shortest;
/// empty if none shares much with it.
template <class Names, class NameOf>
std::string_view nearest(std::string_view name, const Names& names, NameOf name_of) {
  std::string_view best;
  for (const auto& candidate : names) {
    const std::string_view longer = name_of(candidate);
    if (longer.starts_with(name) && (best.empty() || longer.size() < best.size())) best = longer;
  }
  if (!best.empty()) return best;
  std::size_t least = name.size() / 2 + 1;
  for (const auto& candidate : names) {
    const std::size_t distance = edit_distance(name, name_of(candidate));
    if (distance < least) {
      least = distance;
      best = name_of(candidate);
    }
  }
  return best;
}

/// Row, value and origin as the environment has them now. Throws if it holds nonsense.
Entry read_entry(const ConfigKey& row) {
  const std::string variable = environment_name(row.key);
  if (Environment found = environment(variable.c_str()); found.found) {
    if (std::string wrong = objection(row, found.value); !wrong.empty()) {
      refuse(fmt::format("environment variable {}: {}", variable, wrong));
    }
    return {row, std::move(found.value), Origin::environment};
  }
  if (std::string wrong = objection(row, row.fallback); !wrong.empty()) {
    broken(fmt::format("configuration table: the default is out of its own range: {}", wrong),
           __FILE__, __LINE__);
  }
  return {row, std::string(row.fallback), Origin::fallback};
}

/// All rows or, if one throws, none. A row that is known already keeps its value.
void add_table(Registry& all, std::span<const ConfigKey> table) {
  std::map<std::string_view, Entry> fresh;
  for (const ConfigKey& row : table) {
    if (!all.entries.contains(row.key)) fresh.emplace(row.key, read_entry(row));
  }
  for (auto& [key, entry] : fresh) {
    const auto [where, is_new] = all.variables.emplace(environment_name(key), key);
    WEFT_CHECK(is_new, "configuration table: two keys share an environment variable");
    all.entries.emplace(key, std::move(entry));
  }
}

/// The registry, locked, with base's own table in it.
std::pair<Registry&, std::unique_lock<std::mutex>> locked() {
  Registry& all = registry();
  std::unique_lock lock(all.mutex);
  if (!all.base_registered) {
    add_table(all, kBaseTable);
    all.base_registered = true;
  }
  return {all, std::move(lock)};
}

Entry& find(Registry& all, std::string_view key) {
  const auto found = all.entries.find(key);
  if (found != all.entries.end()) return found->second;
  const std::string_view near =
      nearest(key, all.entries, [](const auto& entry) { return entry.first; });
  refuse(near.empty() ? fmt::format("no configuration key '{}'", key)
                      : fmt::format("no configuration key '{}'; did you mean '{}'?", key, near));
}

}  // namespace

AnnouncedConfig::AnnouncedConfig(std::span<const ConfigKey> table) noexcept
    : table_(table), next_(g_announced.load(std::memory_order_relaxed)) {
  // release: pairs with known_variables' acquire.
  while (!g_announced.compare_exchange_weak(next_, this, std::memory_order_release,
                                            std::memory_order_relaxed)) {
  }
}

void register_config(std::span<const ConfigKey> table) {
  auto [all, lock] = locked();
  add_table(all, table);
}

bool config_bool(std::string_view key) {
  auto [all, lock] = locked();
  const Entry& entry = find(all, key);
  WEFT_CHECK(entry.row.type == ConfigType::boolean, "config_bool of a key of another type");
  return parse_bool(entry.value).value();
}

int64_t config_int(std::string_view key) {
  auto [all, lock] = locked();
  const Entry& entry = find(all, key);
  WEFT_CHECK(entry.row.type == ConfigType::integer || entry.row.type == ConfigType::bytes ||
                 entry.row.type == ConfigType::nanoseconds,
             "config_int of a key of another type");
  return parse_number(entry.row.type, entry.value).value();
}

std::string config_text(std::string_view key) {
  auto [all, lock] = locked();
  return find(all, key).value;
}

void set_config(std::string_view key, std::string_view value) {
  {
    auto [all, lock] = locked();
    Entry& entry = find(all, key);
    if (std::string wrong = objection(entry.row, value); !wrong.empty()) refuse(wrong);
    entry.value = value;
    entry.origin = Origin::program;
  }
  if (key == kLogLevelKey) set_log_level(parse_log_level(value));
}

std::vector<ConfigValue> all_config() {
  auto [all, lock] = locked();
  std::vector<ConfigValue> values;
  values.reserve(all.entries.size());
  for (const auto& [key, entry] : all.entries) {
    values.push_back({&entry.row, entry.value, entry.origin});
  }
  return values;
}

int warn_unknown_config() {
  std::vector<std::string> lines;
  int unknown = 0;
  {
    auto [all, lock] = locked();
    const std::set<std::string> known = known_variables(all);
    for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
      const std::string_view text(*variable);
      const std::string name(text.substr(0, text.find('=')));
      if (!name.starts_with("WEFT_") || known.contains(name)) continue;
      ++unknown;
      if (!all.warned.insert(name).second) continue;
      const std::string_view near =
          nearest(name, known, [](const auto& each) { return std::string_view(each); });
      lines.push_back(near.empty()
                          ? fmt::format("no such setting: {}", name)
                          : fmt::format("no such setting: {}; did you mean {}?", name, near));
    }
  }
  for (const std::string& line : lines) log(LogLevel::warn, line);
  return unknown;
}

Environment environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return {};
  return {value, true};
}

}  // namespace weft::base
