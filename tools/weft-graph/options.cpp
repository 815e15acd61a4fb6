#include "options.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <map>
#include <string_view>

#include "graph/generator.hpp"
#include "weft/base/error.hpp"

namespace weft::graph {
namespace {

/// The SCALE of "kron:SCALE".
int parse_kronecker(std::string_view text) {
  constexpr std::string_view kKind = "kron:";
  int scale = 0;
  if (text.starts_with(kKind)) {
    const std::string_view number = text.substr(kKind.size());
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), scale);
    if (error != std::errc{} || end != number.data() + number.size()) scale = 0;
  }
  if (scale < 1 || scale > kMaxKroneckerScale) {
    throw Error(Errc::bad_argument,
                fmt::format("--generate {}: write kron:SCALE with a scale from 1 to {}", text,
                            kMaxKroneckerScale));
  }
  return scale;
}

/// An option that only one algorithm has a use for must not be given to another.
void check_use(const CLI::App& app, const char* option, Algorithm chosen, Algorithm user) {
  static constexpr std::array kNames{"bfs", "cc", "pagerank"};
  if (chosen == user || app.count(option) == 0) return;
  throw Error(Errc::bad_argument, fmt::format("{} is for {} alone; {} has no use for it", option,
                                              kNames[static_cast<std::size_t>(user)],
                                              kNames[static_cast<std::size_t>(chosen)]));
}

}  // namespace

Options parse_options(int argc, char** argv, std::string& help) {
  static const std::map<std::string, Algorithm> algorithms{
      {"bfs", Algorithm::bfs}, {"cc", Algorithm::cc}, {"pagerank", Algorithm::pagerank}};
  Options options;
  std::string generate;
  CLI::App app{
      "Breadth-first search, connected components or PageRank of a graph, by all ranks of a job.\n"
      "Start it under weftrun, or alone."};
  app.name("weft-graph");
  app.add_option("algorithm", options.algorithm, "bfs, cc or pagerank")
      ->required()
      ->transform(CLI::CheckedTransformer(algorithms).description(""))
      ->type_name("");
  app.add_option("file", options.file,
                 "edge list (two ids a line; plain, gzip or xz) or Matrix Market file");
  app.add_option("--generate", generate,
                 "kron:SCALE instead of a file: 2^SCALE vertices, 16 times as many edges");
  app.add_option("--root", options.root,
                 "bfs: where to start, as the file calls it (default: the vertex with most "
                 "neighbours)");
  app.add_option("--threads", options.threads, "threads of each rank (default 1)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--iterations", options.iterations,
                 "pagerank: stop after so many steps (default 1000, or a change below 1e-12)");
  app.add_option("--parallel-from", options.parallel_from,
                 "rounds with less work (arcs to look at) than this use one thread a rank");
  app.add_flag("--verify", options.verify,
               "compare every vertex's value with a serial run on rank 0");
  app.add_flag("--rounds", options.all_rounds, "print every round, not only the first and last");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    help = app.help();
    return options;
  } catch (const CLI::ParseError& error) {
    throw Error(Errc::bad_argument, fmt::format("{} (--help tells more)", error.what()));
  }
  check_use(app, "--root", options.algorithm, Algorithm::bfs);
  check_use(app, "--iterations", options.algorithm, Algorithm::pagerank);
  if (options.file.empty() == generate.empty()) {
    throw Error(Errc::bad_argument,
                options.file.empty()
                    ? "a FILE or --generate kron:SCALE is needed (--help tells more)"
                    : "FILE and --generate exclude each other");
  }
  if (!generate.empty()) options.kronecker_scale = parse_kronecker(generate);
  return options;
}

}  // namespace weft::graph
