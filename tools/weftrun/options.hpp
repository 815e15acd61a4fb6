// What the user asked weftrun for.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace weft::run {

enum class Bind { none, core, numa };
enum class OnFailure { end, go_on };

struct Options {
  int ranks = 0;
  Bind bind = Bind::none;
  OnFailure on_failure = OnFailure::end;
  std::vector<std::string> env;  ///< "K=V"
  double timeout_s = 0;          ///< 0: none
  int fake_nodes = 1;
  bool tag_output = false;
  bool quiet = false;
  bool verbose = false;
  std::vector<std::string> command;  ///< program and its arguments
  std::string program;               ///< the file to execute, found in PATH
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
