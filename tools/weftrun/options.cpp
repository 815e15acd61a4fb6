// What the user asked weftrun for: the command line, checked before anything is started.
#include "weftrun/options.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <map>
#include <string_view>

#include "weft/base/config.hpp"
#include "weftrun/process_table.hpp"

namespace weft::run {
namespace {

/// Exit codes of a shell for what it cannot run, and sysexits' for a bad command line.
constexpr int kUsage = 2;
constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;

constexpr int kMostRanks = 4096;

bool is_directory(const std::string& path) {
  struct stat about {};
  return stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
}

/// The file that a shell would run for `name`, or why there is none.
std::optional<Usage> find_program(const std::string& name, std::string& found) {
  if (name.find('/') != std::string::npos) {
    if (access(name.c_str(), F_OK) != 0)
      return Usage{kNotFound, fmt::format("no such program: {}: {}", name, error_text(errno))};
    if (is_directory(name)) return Usage{kNotExecutable, fmt::format("{} is a directory", name)};
    if (access(name.c_str(), X_OK) != 0)
      return Usage{kNotExecutable, fmt::format("cannot run {}: {}", name, error_text(errno))};
    found = name;
    return std::nullopt;
  }
  const base::Environment path = base::environment("PATH");
  for (std::string_view rest = path.value; !rest.empty();) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    std::string candidate = fmt::format("{}/{}", folder.empty() ? "." : folder, name);
    if (access(candidate.c_str(), X_OK) == 0 && !is_directory(candidate)) {
      found = std::move(candidate);
      return std::nullopt;
    }
  }
  const bool here = access(name.c_str(), X_OK) == 0 && !is_directory(name);
  return Usage{kNotFound, fmt::format("no such program in PATH: {}{}", name,
                                      here ? fmt::format(" (did you mean ./{}?)", name) : "")};
}

std::optional<Usage> check(Options& options) {
  if (options.ranks < 1 || options.ranks > kMostRanks)
    return Usage{kUsage, fmt::format("-n {}: the number of ranks must be from 1 to {}",
                                     options.ranks, kMostRanks)};
  if (options.fake_nodes < 1 || options.fake_nodes > options.ranks)
    return Usage{kUsage, fmt::format("--fake-nodes {}: must be from 1 to the number of ranks, {}",
                                     options.fake_nodes, options.ranks)};
  if (options.timeout_s < 0)
    return Usage{kUsage, fmt::format("--timeout {}: must be positive", options.timeout_s)};
  for (const std::string& pair : options.env)
    if (pair.find('=') == std::string::npos || pair.front() == '=')
      return Usage{kUsage, fmt::format("--env {}: expected NAME=VALUE", pair)};
  if (options.command.empty()) return Usage{kUsage, "no program given: weftrun -n N prog args…"};
  if (options.command.front().starts_with('-'))
    return Usage{kUsage, fmt::format("unknown option {} (see --help)", options.command.front())};
  return find_program(options.command.front(), options.program);
}

}  // namespace

Parsed parse_options(int argc, const char* const* argv) {
  Options options;
  CLI::App app("Runs N processes of a program as one job: weftrun -n N [options] prog args…",
               "weftrun");
  // Everything from the program's name on is the program's.
  app.prefix_command();
  app.set_version_flag("--version", "weftrun " WEFT_VERSION);
  app.add_option("-n,--ranks", options.ranks, "how many processes to start");
  const std::map<std::string, Bind> binds{
      {"none", Bind::none}, {"core", Bind::core}, {"numa", Bind::numa}};
  app.add_option("--bind", options.bind,
                 "bind rank r to core r, modulo the allowed cores, or to the cores of memory "
                 "node r, modulo the nodes [none]")
      ->transform(CLI::CheckedTransformer(binds))
      ->type_name("core|numa|none");
  app.add_option("--env", options.env, "set an environment variable of all ranks; may be repeated")
      ->type_name("K=V")
      ->allow_extra_args(false);
  app.add_option("--timeout", options.timeout_s,
                 "end the job after so many seconds, with exit code 124")
      ->type_name("S");
  app.add_flag("--tag-output", options.tag_output, "put [rank] in front of every line");
  app.add_flag("-q,--quiet", options.quiet, "say nothing about how ranks ended");
  app.add_flag("-v,--verbose", options.verbose, "print rank, pid and host of each process");
  const std::map<std::string, OnFailure> policies{{"end", OnFailure::end},
                                                  {"continue", OnFailure::go_on}};
  app.add_option("--on-failure", options.on_failure,
                 "when a rank fails, end the others or let them go on [end]")
      ->transform(CLI::CheckedTransformer(policies))
      ->type_name("end|continue");
  app.add_option("--fake-nodes", options.fake_nodes,
                 "pretend that the ranks are dealt to so many nodes, in blocks; for tests")
      ->type_name("K");
  app.footer(
      "Rank 0 reads weftrun's standard input. Signals INT, TERM, HUP, QUIT, USR1, USR2, TSTP and\n"
      "CONT are passed on to all ranks. The exit code is the first one that is not 0, or 128 plus\n"
      "the signal that killed a rank.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    const bool version = dynamic_cast<const CLI::CallForVersion*>(&asked) != nullptr;
    return {std::nullopt, Usage{0, version ? std::string(asked.what()) + "\n" : app.help()}};
  } catch (const CLI::ParseError& error) {
    return {std::nullopt, Usage{kUsage, error.what()}};
  }
  if (app.count("-n") == 0)
    return {std::nullopt, Usage{kUsage, "how many ranks? weftrun -n N prog args…"}};
  options.command = app.remaining();
  if (!options.command.empty() && options.command.front() == "--")
    options.command.erase(options.command.begin());
  if (std::optional<Usage> usage = check(options)) return {std::nullopt, std::move(usage)};
  return {std::move(options), std::nullopt};
}

}  // namespace weft::run
