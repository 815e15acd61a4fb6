// What the user asked weftrun for.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace weft::run {

enum class Bind { none, core, numa };
enum class OnFailure { end, go_on };

/// One of the programs of a job; ranks are numbered through, the first program's first.
struct App {
  int ranks = 0;
  std::vector<std::string> env;      ///< "K=V", of its ranks
  std::vector<std::string> command;  ///< program and its arguments
  std::string program;               ///< the file to execute, found in PATH
};

struct Options {
  int ranks = 0;  ///< of all programs
  Bind bind = Bind::none;
  OnFailure on_failure = OnFailure::end;
  std::vector<std::string> env;  ///< "K=V", of all ranks
  double timeout_s = 0;          ///< 0: none
  int fake_nodes = 1;
  bool tag_output = false;
  bool quiet = false;
  bool verbose = false;
  std::vector<App> apps;  ///< at least one

  [[nodiscard]] const App& app_of(int rank) const;
};

/// What is wrong with a command line, or that it only asked for help; `code` is weftrun's own.
struct Usage {
  int code;
  std::string text;  ///< for stdout if code is 0, else for stderr
};

/// Exactly one of `options` and `usage` is set.
struct Parsed {
  std::optional<Options> options;
  std::optional<Usage> usage;
};

Parsed parse_options(int argc, const char* const* argv);

}  // namespace weft::run
