// A configuration value of the room, changed for a scope.
#pragma once

#include <string>

#include "base/config_override.hpp"
#include "weft/task/config.hpp"

namespace weft::test {

class Configured : ConfigOverride {
 public:
  Configured(const std::string& key, const std::string& value)
      : ConfigOverride((task::register_task_config(), List{{key, value}})) {}
};

}  // namespace weft::test
