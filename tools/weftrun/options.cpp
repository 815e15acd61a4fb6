// What the user asked weftrun for: the command line, checked before anything is started.
#include "weftrun/options.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "weft/base/config.hpp"
#include "weftrun/classic.hpp"
#include "weftrun/host_options.hpp"
#include "weftrun/process_table.hpp"

namespace weft::run {
namespace {

/// Exit codes of a shell for what it cannot run.
constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;

constexpr double kMostSeconds = 50'000;

bool is_directory(const std::string& path) {
  struct stat about {};
  return stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
}

/// What --bind-to's values of other launchers come to; what follows a colon there is left out.
std::optional<Bind> bind_to(const std::string& value) {
  static const std::map<std::string_view, Bind> meanings{
      {"none", Bind::none},    {"core", Bind::core},    {"hwthread", Bind::core},
      {"numa", Bind::numa},    {"socket", Bind::numa},  {"package", Bind::numa},
      {"board", Bind::none},   {"machine", Bind::none}, {"l1cache", Bind::core},
      {"l2cache", Bind::core}, {"l3cache", Bind::numa}, {"user", Bind::none}};
  const auto found = meanings.find(std::string_view(value).substr(0, value.find(':')));
  return found == meanings.end() ? std::nullopt : std::optional(found->second);
}

/// One program's part of the command line.
struct Section {
  App app;
  std::vector<std::string> genv;     ///< "K=V", of all ranks
  std::vector<std::string> exports;  ///< -x: "K" or "K=V"
  std::string hosts, host_file;
  std::string bind_to, errhandler;
  std::vector<std::string> ignored;
  bool oversubscribe = false;
  bool accepted = false;
};

void add_app_options(CLI::App& app, Section& section) {
  app.add_option("-n,-c,--ranks,--np,--n", section.app.ranks, "how many processes to start");
  app.add_option("--env", section.app.env,
                 "set an environment variable of the program's ranks; "
                 "may be repeated; also -env K V, and -genv K V for all "
                 "programs of the job")
      ->type_name("K=V")
      ->allow_extra_args(false);
  app.add_option("--genv", section.genv)->allow_extra_args(false)->group("");
  app.add_option("-x", section.exports, "the same, as Open MPI spells it; K alone: as it is here")
      ->type_name("K[=V]")
      ->allow_extra_args(false);
  app.add_option(
         "-H,--host,--hosts", section.hosts,
         "hosts to run on, and how many ranks each takes; they get blocks of ranks, in this "
         "order, the same number each where none is given [this one]")
      ->type_name("HOST[:N],…");
  app.add_option("-f,--hostfile,--machinefile", section.host_file,
                 "the same from a file, a line for each host: HOST [slots=N]")
      ->type_name("FILE");
  app.add_flag("--oversubscribe", section.oversubscribe,
               "start more ranks than the hosts were said to take");
  app.add_option("--bind-to", section.bind_to, "as --bind, by the names of other launchers")
      ->type_name("none|core|numa|…");
  app.add_option("--initial-errhandler", section.errhandler,
                 "the error handler that MPI programs begin with (MPI 11.5)")
      ->check(CLI::IsMember({"mpi_errors_are_fatal", "mpi_errors_abort", "mpi_errors_return"}))
      ->type_name("NAME");
  app.add_option("--wdir,--wd", section.app.folder,
                 "the folder in which the program's ranks start, and from which its path counts")
      ->type_name("DIR");
  // For command lines that were written for other launchers; they change nothing.
  app.add_option("--map-by,--rank-by", section.ignored)->allow_extra_args(false)->group("");
  app.add_flag("--allow-run-as-root,--envall,--genvall", section.accepted, "accepted")->group("");
}

std::optional<Usage> check_variables(const std::vector<std::string>& pairs) {
  for (const std::string& pair : pairs)
    if (pair.find('=') == std::string::npos || pair.front() == '=')
      return Usage{kUsage, fmt::format("--env {}: expected NAME=VALUE", pair)};
  return std::nullopt;
}

/// The folder as the ranks are to find it, and in PWD.
std::optional<Usage> check_folder(App& app) {
  if (app.folder.empty()) return std::nullopt;
  std::error_code error;
  const auto folder = std::filesystem::absolute(app.folder, error).lexically_normal();
  if (error || !is_directory(folder.string()))
    return Usage{kUsage, fmt::format("--wdir {}: no such folder", app.folder)};
  app.folder = folder;
  app.env.insert(app.env.begin(), "PWD=" + app.folder);
  return std::nullopt;
}

std::optional<Usage> check(Section& section, Options& options) {
  App& app = section.app;
  if (app.ranks < 1 || app.ranks > kMostRanks)
    return Usage{kUsage, fmt::format("-n {}: the number of ranks must be from 1 to {}", app.ranks,
                                     kMostRanks)};
  for (const std::string& variable : section.exports)
    if (variable.find('=') != std::string::npos) app.env.push_back(variable);
  if (!section.errhandler.empty())
    app.env.push_back("WEFT_MPI_INITIAL_ERRHANDLER=" + section.errhandler);
  if (auto usage = check_variables(app.env)) return usage;
  if (auto usage = check_variables(section.genv)) return usage;
  options.env.insert(options.env.end(), section.genv.begin(), section.genv.end());
  if (!section.bind_to.empty()) {
    const std::optional<Bind> bind = bind_to(section.bind_to);
    if (!bind) return Usage{kUsage, fmt::format("--bind-to {}: not known", section.bind_to)};
    options.bind = *bind;
  }
  if (app.command.empty()) return Usage{kUsage, "no program given: weftrun -n N prog args…"};
  if (auto usage = check_folder(app)) return usage;
  if (app.folder.empty()) return find_program(app.command.front(), app.program);
  const std::string& name = app.command.front();
  const bool counts_from_folder = name.front() != '/' && name.find('/') != std::string::npos;
  if (auto usage = find_program(counts_from_folder ? app.folder + "/" + name : name, app.program))
    return usage;
  app.program = std::filesystem::absolute(app.program).lexically_normal();
  return std::nullopt;
}

std::optional<Usage> check(const Options& options) {
  if (options.ranks > kMostRanks)
    return Usage{kUsage, fmt::format("{} ranks in all: at most {}", options.ranks, kMostRanks)};
  if (options.fake_nodes < 1 || options.fake_nodes > options.ranks)
    return Usage{kUsage, fmt::format("--fake-nodes {}: must be from 1 to the number of ranks, {}",
                                     options.fake_nodes, options.ranks)};
  if (!(options.timeout_s >= 0 && options.timeout_s <= kMostSeconds))
    return Usage{kUsage, fmt::format("--timeout {}: must be from 0 (none) to {}", options.timeout_s,
                                     kMostSeconds)};
  for (const auto& [name, seconds] : {std::pair("launch-timeout", options.launch_timeout_s),
                                      std::pair("host-timeout", options.host_timeout_s)})
    if (!(seconds > 0 && seconds <= kMostSeconds))
      return Usage{kUsage, fmt::format("--{} {}: must be positive, and {} at most", name, seconds,
                                       kMostSeconds)};
  if (!(options.report_missing_s >= 0 && options.report_missing_s <= kMostSeconds))
    return Usage{kUsage, fmt::format("--report-missing {}: must be from 0 (never) to {}",
                                     options.report_missing_s, kMostSeconds)};
  if (options.launch_degree < 1)
    return Usage{kUsage,
                 fmt::format("--launch-degree {}: must be 1 or more", options.launch_degree)};
  if (options.fake_nodes > 1 && !options.nodes.empty())
    return Usage{kUsage, "--fake-nodes: not with other hosts, which are nodes indeed"};
  return std::nullopt;
}

/// One of a few words, as CLI11 reads an enumerator: by its number.
template <class E>
CLI::Validator one_of(std::map<std::string, E> words) {
  return CLI::Validator(
      [words = std::move(words)](std::string& text) {
        if (const auto found = words.find(text); found != words.end()) {
          text = std::to_string(static_cast<int>(found->second));
          return std::string();
        }
        std::string all;
        for (const auto& [word, value] : words) all += (all.empty() ? "" : ", ") + word;
        return fmt::format("'{}' is none of {}", text, all);
      },
      "");
}

void add_job_options(CLI::App& app, Options& options, HostOptions& hosts) {
  const std::map<std::string, Bind> binds{
      {"none", Bind::none}, {"share", Bind::share}, {"core", Bind::core}, {"numa", Bind::numa}};
  app.add_option(
         "--bind", options.bind,
         "bind each of a host's ranks to its share of the allowed cores, if there is a core "
         "for each; rank r to core r, modulo the allowed cores, or to the cores of memory "
         "node r, modulo the nodes; or leave them to the system [share]")
      ->transform(one_of(binds))
      ->type_name("share|core|numa|none");
  app.add_option("--timeout", options.timeout_s,
                 "end the job after so many seconds, with exit code 124")
      ->type_name("S");
  app.add_flag("-l,--tag-output,--prepend-rank", options.tag_output,
               "put [rank] in front of every line");
  app.add_option(
         "--report-missing", options.report_missing_s,
         "say which ranks have not joined the job, for example by MPI_Init, so many seconds "
         "after the first one did; 0: never [30]")
      ->type_name("S");
  app.add_option("-N,--ppn,--perhost,--npernode", hosts.each,
                 "how many ranks each of the hosts takes that are named")
      ->type_name("N");
  app.add_flag("-q,--quiet", options.quiet, "say nothing about how ranks ended");
  app.add_flag("-v,--verbose,--report-bindings", options.verbose,
               "print rank, pid, host and cores of each process");
  const std::map<std::string, OnFailure> policies{{"end", OnFailure::end},
                                                  {"continue", OnFailure::go_on}};
  app.add_option("--on-failure", options.on_failure,
                 "when a rank fails, end the others or let them go on [end]")
      ->transform(one_of(policies))
      ->type_name("end|continue");
  app.add_option("--fake-nodes", options.fake_nodes,
                 "pretend that the ranks are dealt to so many nodes, in blocks; for tests")
      ->type_name("K");
  app.add_option("--launch-agent", hosts.agent,
                 "what starts a command on another host, run as CMD HOST COMMAND… [ssh -x -o "
                 "BatchMode=yes; or WEFTRUN_LAUNCH_AGENT]")
      ->type_name("CMD");
  app.add_option("--launch-degree", options.launch_degree,
                 "how many hosts one host starts; the others are started by these [32]")
      ->type_name("D");
  app.add_option("--launch-timeout", options.launch_timeout_s,
                 "give up a host that does not answer for so many seconds [60]")
      ->type_name("S");
  app.add_option("--host-timeout", options.host_timeout_s,
                 "a host of the job that is silent for so many seconds is lost [30]")
      ->type_name("S");
}

/// Adds one program to the options. Those of the whole job stand before the first.
std::optional<Usage> parse_section(const std::vector<std::string>& words, Options& options,
                                   HostOptions& hosts) {
  Section section;
  CLI::App app("Runs N processes of a program as one job: weftrun -n N [options] prog args…",
               "weftrun");
  // Everything from the program's name on is the program's.
  app.prefix_command();
  app.set_version_flag("--version", "weftrun " WEFT_VERSION);
  add_app_options(app, section);
  if (options.apps.empty()) add_job_options(app, options, hosts);
  app.footer(
      "Several programs make one job: weftrun -n 2 a : -n 3 b; their ranks are numbered through.\n"
      "On several hosts: weftrun --hosts a:2,b:2,c -n 5 prog; ranks 0 and 1 run on a. They are "
      "reached\n"
      "by ssh without a password, and find weftrun, program and folder under the same paths.\n"
      "Rank 0 reads weftrun's standard input. Signals INT, TERM, HUP, QUIT, USR1, USR2, TSTP and\n"
      "CONT are passed on to all ranks. The exit code is the first one that is not 0, or 128 plus\n"
      "the signal that killed a rank.");
  try {
    std::vector<std::string> rest = with_two_dashes(words, options.notes);
    std::reverse(rest.begin(), rest.end());  // as CLI11 takes them
    app.parse(rest);
  } catch (const CLI::Success& asked) {
    const bool version = dynamic_cast<const CLI::CallForVersion*>(&asked) != nullptr;
    return Usage{0, version ? std::string(asked.what()) + "\n" : app.help()};
  } catch (const CLI::ParseError& error) {
    return Usage{kUsage, error.what()};
  }
  section.app.command = app.remaining();
  const std::vector<std::string>& left = section.app.command;
  if (!left.empty() && left.front() != "--" && left.front().starts_with('-'))
    return Usage{
        kUsage,
        fmt::format(
            "unknown option {} (see --help){}", left.front(),
            options.apps.empty() ? "" : "; those of the whole job stand before the first program")};
  if (app.count("-n") == 0) return Usage{kUsage, "how many ranks? weftrun -n N prog args…"};
  for (const char* option : {"--hosts", "--hostfile", "--wdir"})
    if (app.count(option) > 0 && app[option]->as<std::string>().empty())
      return Usage{kUsage, fmt::format("{} '': names nothing", option)};
  if (app.get_option_no_throw("--ppn") != nullptr && app.count("--ppn") > 0 && hosts.each < 1)
    return Usage{kUsage, fmt::format("--ppn {}: must be 1 or more", hosts.each)};
  if (!section.app.command.empty() && section.app.command.front() == "--")
    section.app.command.erase(section.app.command.begin());
  if (auto usage = check(section, options)) return usage;
  hosts.oversubscribe = hosts.oversubscribe || section.oversubscribe;
  if (auto usage = add_hosts(section.hosts, section.host_file, section.app.ranks, hosts))
    return usage;
  options.ranks += section.app.ranks;
  options.apps.push_back(std::move(section.app));
  return std::nullopt;
}

}  // namespace

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

const App& Options::app_of(int rank) const {
  const App* app = apps.data();
  while (rank >= app->ranks) rank -= (app++)->ranks;
  return *app;
}

Parsed parse_options(int argc, const char* const* argv) {
  Options options;
  HostOptions hosts;
  for (const auto& words : split_programs(argc, argv))
    if (auto usage = parse_section(words, options, hosts)) return {std::nullopt, std::move(usage)};
  if (auto usage = choose_hosts(hosts, options)) return {std::nullopt, std::move(usage)};
  if (auto usage = check(options)) return {std::nullopt, std::move(usage)};
  return {std::move(options), std::nullopt};
}

}  // namespace weft::run
