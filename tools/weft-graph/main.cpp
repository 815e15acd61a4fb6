// weft-graph: the first real job. Rank 0 reads or generates a graph, all ranks work on their
// blocks of it and exchange what crosses between them, rank 0 prints and verifies.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <new>
#include <numeric>
#include <string_view>

#include "graph/distributed.hpp"
#include "graph/generator.hpp"
#include "graph/reader.hpp"
#include "graph/share.hpp"
#include "options.hpp"
#include "report.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/error.hpp"
#include "weft/fabric/job.hpp"
#include "weft/weft.hpp"

namespace weft::graph {
namespace {

constexpr int kBadInput = 2;
constexpr int kWrongResult = 3;

double seconds_since(uint64_t ns) { return static_cast<double>(base::now_ns() - ns) / 1e9; }

void complain(std::string_view what) {
  // Not by fmt::print, which throws where nobody reads that either.
  std::fputs(fmt::format("weft-graph: {}\n", what).c_str(), stderr);
  std::fflush(stderr);
}

/// The whole graph, on rank 0.
struct Input {
  Csr graph;
  std::vector<uint64_t> ids;
  Vertex root = 0;
};

Input load(const Options& options) {
  Input input;
  const uint64_t began = base::now_ns();
  EdgeList list;
  std::string name = options.file;
  if (options.file.empty()) {
    name = fmt::format("kron:{}", options.kronecker_scale);
    fmt::print("making    {} ...\n", name);
    std::fflush(stdout);
    list.edges = kronecker_edges(options.kronecker_scale);
    list.ids.resize(std::size_t{1} << options.kronecker_scale);
    std::iota(list.ids.begin(), list.ids.end(), uint64_t{0});
  } else {
    fmt::print("reading   {} ...\n", name);
    std::fflush(stdout);
    list = read_edge_list(options.file);
  }
  input.graph = build_csr(static_cast<Vertex>(list.ids.size()), list.edges);
  input.root = vertex_of_max_degree(input.graph);
  if (options.root) {
    const auto root = list.find(*options.root);
    if (!root) {
      throw Error(
          Errc::bad_argument,
          fmt::format("--root {}: {} has no such vertex; its {} ids lie between {} and {}",
                      *options.root, name, list.ids.size(), list.ids.front(), list.ids.back()));
    }
    input.root = *root;
  }
  input.ids = std::move(list.ids);
  fmt::print("graph     {} vertices, {} edges ({:.2f} s)\n", input.graph.vertices(),
             input.graph.edges(), seconds_since(began));
  return input;
}

bool is_equal(uint32_t a, uint32_t b) { return a == b; }
bool is_equal(double a, double b) { return std::fabs(a - b) <= 1e-9 * std::fabs(b); }

/// Compares all ranks' values with the serial ones, on rank 0. Collective. True: no difference.
template <class Value, class Serial>
bool verify(Exchange& exchange, const LocalGraph& graph, const std::vector<Value>& mine,
            const Input& input, Serial serial) {
  const auto all = collect<Value>(exchange, graph, mine);
  if (exchange.rank() != 0) return true;
  const uint64_t began = base::now_ns();
  const std::vector<Value> right = serial();
  const double seconds = seconds_since(began);
  uint64_t wrong = 0;
  for (Vertex v = 0; v < right.size(); ++v) {
    if (is_equal(all[v], right[v])) continue;
    if (wrong++ == 0) {
      complain(
          fmt::format("vertex {}: {} where a serial run has {}", input.ids[v], all[v], right[v]));
    }
  }
  if (wrong != 0)
    complain(fmt::format("{} of {} values differ from a serial run's", wrong, right.size()));
  if (wrong == 0) {
    fmt::print("verify    all {} values equal a serial run's ({:.3f} s)\n", right.size(), seconds);
  }
  return wrong == 0;
}

/// The chosen algorithm from its start to its report. Collective; true unless verified wrong.
template <class Run, class Summarize, class Serial>
bool perform(Exchange& exchange, const LocalGraph& graph, const Input& input,
             const Options& options, Run run, Summarize summarize, Serial serial) {
  RoundLog log;
  gather_all(exchange, 0);  // so that the clocks start together
  const auto values = run(log);
  Summary whole;
  for (const Summary& part : gather_all(exchange, summarize(graph, values))) whole.add(part);
  if (exchange.rank() == 0) {
    print_rounds(log, options.all_rounds);
    print_result(options.algorithm, log, whole, input.ids);
  }
  return !options.verify || verify(exchange, graph, values, input, [&] { return serial(log); });
}

/// What rank 0 tells the others before any work; the rest have no file to fail on.
struct Start {
  int32_t code = 0;
  Vertex root = 0;
};

int work(Runtime& runtime, const Options& options) {
  ThreadTeam team(options.threads);
  Exchange exchange(runtime, team);
  const bool is_root = exchange.rank() == 0;
  Input input;
  Start start;
  if (is_root) {
    try {
      input = load(options);
      start.root = input.root;
    } catch (const Error& error) {
      complain(error.what());
      start.code = kBadInput;
    } catch (const std::bad_alloc&) {
      complain("the graph does not fit into memory");
      start.code = kBadInput;
    }
  }
  start = gather_all(exchange, start)[0];
  if (start.code != 0) return is_root ? start.code : 0;

  const LocalGraph graph = distribute(exchange, is_root ? &input.graph : nullptr);
  const auto mirrors = gather_all(exchange, uint64_t{graph.mirrors.size()});
  if (is_root) {
    fmt::print("job       {} ranks x {} threads, {} mirrors\n", exchange.size(), team.size(),
               std::accumulate(mirrors.begin(), mirrors.end(), uint64_t{0}));
    if (!options.verify) input.graph = Csr{};
  }

  RunOptions run;
  run.pagerank.iterations = options.iterations;
  if (options.parallel_from) run.parallel_from = *options.parallel_from;
  bool right = true;
  switch (options.algorithm) {
    case Algorithm::bfs:
      if (is_root) fmt::print("bfs       from vertex {}\n", input.ids[start.root]);
      right = perform(
          exchange, graph, input, options,
          [&](RoundLog& log) { return bfs(exchange, graph, start.root, run, log); },
          [](const auto& g, const auto& v) { return summarize_levels(g, v); },
          [&](const RoundLog&) { return serial_bfs(input.graph, start.root); });
      break;
    case Algorithm::cc:
      right = perform(
          exchange, graph, input, options,
          [&](RoundLog& log) { return components(exchange, graph, run, log); },
          [](const auto& g, const auto& v) { return summarize_labels(g, v); },
          [&](const RoundLog&) { return serial_components(input.graph); });
      break;
    case Algorithm::pagerank:
      right = perform(
          exchange, graph, input, options,
          [&](RoundLog& log) { return pagerank(exchange, graph, run, log); },
          [](const auto& g, const auto& v) { return summarize_ranks(g, v); },
          [&](const RoundLog& log) {
            // As many steps: at the very edge of the tolerance, rounding may decide on one more.
            PageRankRule rule = run.pagerank;
            rule.tolerance = 0;
            rule.iterations = static_cast<uint32_t>(log.lines.size() - 1);
            return serial_pagerank(input.graph, rule);
          });
      break;
  }
  return right ? 0 : kWrongResult;
}

int run_program(int argc, char** argv) {
  std::string help;
  Options options;
  try {
    options = parse_options(argc, argv, help);
  } catch (const Error& error) {
    // One rank speaks for all of them.
    if (fabric::join_job()->rank().value != 0) return 0;
    complain(error.what());
    return kBadInput;
  }
  if (!help.empty()) {
    if (fabric::join_job()->rank().value == 0) fmt::print("{}", help);
    return 0;
  }
  Runtime runtime;
  return work(runtime, options);
}

}  // namespace
}  // namespace weft::graph

int main(int argc, char** argv) {
  try {
    const int code = weft::graph::run_program(argc, argv);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    weft::graph::complain("what it found could not be written to standard output");
    return code != 0 ? code : 1;
  } catch (const std::exception& error) {
    weft::graph::complain(error.what());
    return 1;
  }
}
