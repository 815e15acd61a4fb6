// Configuration values, changed for a scope.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/config.hpp"

namespace weft::test {

/// While it lives, keys have other values. They are registered before.
class ConfigOverride {
 public:
  using List = std::vector<std::pair<std::string, std::string>>;

  explicit ConfigOverride(const List& values) {
    for (const auto& [key, value] : values) {
      before_.emplace_back(key, base::config_text(key));
      base::set_config(key, value);
    }
  }
  ~ConfigOverride() {
    for (const auto& [key, value] : before_) base::set_config(key, value);
  }
  ConfigOverride(const ConfigOverride&) = delete;
  ConfigOverride& operator=(const ConfigOverride&) = delete;

 private:
  List before_;
};

}  // namespace weft::test
