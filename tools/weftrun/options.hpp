// What the user asked weftrun for.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "weftrun/hosts.hpp"

namespace weft::run {

/// Most ranks of a job.
constexpr int kMostRanks = 4096;

/// Which cores a rank may use: all that the host allows; its share, where there is one at least for
/// each of the host's ranks; one; those of a memory node.
enum class Bind { none, share, core, numa };
enum class OnFailure { end, go_on };

/// One of the programs of a job; ranks are numbered through, the first program's first.
struct App {
  int ranks = 0;
  std::vector<std::string> env;      ///< "K=V", of its ranks
  std::vector<std::string> command;  ///< program and its arguments
  std::string program;               ///< the file to execute, found in PATH
  std::string folder;                ///< where its ranks start; empty: where weftrun is
};

struct Options {
  int ranks = 0;  ///< of all programs
  /// Hosts and their ranks. Empty: all on this one, and no other is asked for.
  std::vector<NodePart> nodes;
  int this_node = -1;                     ///< which of `nodes` this host is; -1: none
  std::vector<std::string> launch_agent;  ///< the words of the command that starts daemons
  int launch_degree = 32;                 ///< daemons that one starts
  double launch_timeout_s = 60;
  double host_timeout_s = 30;
  double report_missing_s = 30;  ///< 0: never
  Bind bind = Bind::share;
  OnFailure on_failure = OnFailure::end;
  std::vector<std::string> env;  ///< "K=V", of all ranks
  double timeout_s = 0;          ///< 0: none
  int fake_nodes = 1;
  bool tag_output = false;
  bool quiet = false;
  bool verbose = false;
  std::vector<App> apps;           ///< at least one
  std::vector<std::string> notes;  ///< what of the command line means nothing here

  [[nodiscard]] const App& app_of(int rank) const;
};

/// The exit code for a bad command line.
constexpr int kUsage = 2;

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

/// The environment variable that names the launch agent.
inline constexpr const char* kLaunchAgentVariable = "WEFTRUN_LAUNCH_AGENT";
/// Makes weftrun a daemon of another weftrun: its only argument then.
inline constexpr const char* kDaemonOption = "--daemon-of-weftrun";

/// The file that a shell would run for `name`, or why there is none.
std::optional<Usage> find_program(const std::string& name, std::string& found);

Parsed parse_options(int argc, const char* const* argv);

}  // namespace weft::run
