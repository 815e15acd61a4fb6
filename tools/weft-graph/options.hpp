// weft-graph's command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft::graph {

enum class Algorithm : uint8_t { bfs, cc, pagerank };

struct Options {
  Algorithm algorithm = Algorithm::bfs;
  std::string file;              ///< empty: generate
  int kronecker_scale = 0;       ///< 0: read the file
  std::optional<uint64_t> root;  ///< as the file numbers vertices; none: the one of most neighbours
  int threads = 1;
  bool verify = false;
  bool all_rounds = false;
  uint32_t iterations = 1000;
  std::optional<uint64_t> parallel_from;
};

/// What the command line asks for. Throws Error(bad_argument) with a sentence for the user.
/// `help` is set, and nothing else, when the user asked for it.
Options parse_options(int argc, char** argv, std::string& help);

}  // namespace weft::graph
