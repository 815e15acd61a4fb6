// One launch agent: the process that starts a daemon on another host, ssh as a rule.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weftrun/spawn.hpp"

namespace weft::run {

/// Owner and lifetime: the parent's Branch; the kernel kills the agent should the parent die. Start
/// it before there are threads.
class Agent {
 public:
  /// Starts `words`, the first of which is found in PATH, with `input` for it to read. What goes
  /// wrong is told as the agent's last words and end.
  Agent(const std::vector<std::string>& words, char** environment, std::string_view input);

  /// Readable when it said something; when it ended. -1 when there is nothing more to come, and the
  /// latter where the kernel has no such thing.
  [[nodiscard]] int said_fd() const noexcept { return said_.get(); }
  [[nodiscard]] int end_fd() const noexcept { return end_.get(); }
  /// That it ended is told by no descriptor: call take_end now and then.
  [[nodiscard]] bool ends_unseen() const noexcept { return running() && !end_; }

  /// Takes what it printed: calls `line` for each line.
  void listen(const std::function<void(const std::string&)>& line);
  /// How it ended ("exited with code 255"), if it did, once.
  std::optional<std::string> take_end();
  [[nodiscard]] bool running() const noexcept { return pid_ > 0; }
  void end_it() const noexcept;

 private:
  pid_t pid_ = -1;
  Fd said_;
  Fd end_;
  std::string partial_;
  std::string failure_;  ///< it could not be started
};

}  // namespace weft::run
