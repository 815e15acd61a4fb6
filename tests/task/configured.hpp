// A configuration value of the room, changed for a scope.
#pragma once

#include <string>
#include <utility>

#include "weft/base/config.hpp"
#include "weft/task/config.hpp"

namespace weft::test {

class Configured {
 public:
  Configured(std::string key, const char* value) : key_(std::move(key)) {
    task::register_task_config();
    before_ = base::config_text(key_);
    base::set_config(key_, value);
  }
  ~Configured() { base::set_config(key_, before_); }
  Configured(const Configured&) = delete;
  Configured& operator=(const Configured&) = delete;

 private:
  std::string key_;
  std::string before_;
};

}  // namespace weft::test
