#include "report/results_file.hpp"

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace weft::bench {

std::vector<Result> parse_results(const std::string& text, const std::string& name) {
  std::vector<Result> results;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty()) continue;
    try {
      results.push_back(from_json(nlohmann::ordered_json::parse(line)));
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("{}:{}: {}", name, number, error.what()));
    }
  }
  return results;
}

std::vector<Result> read_results(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::stringstream text;
  text << file.rdbuf();
  return parse_results(text.str(), path);
}

std::string identity(const Result& r) {
  std::string key = fmt::format("{} {} {} {} {} {}", r.bench, r.mode, r.size_bytes, r.threads,
                                r.devices, name_of(r.state));
  // Runs that differ in how threads wait, in whose memory, or in what library, are different
  // figures.
  for (const char* name : {"waiting", "memory", "window", "ranks", "library", "setting", "settings",
                           "length", "hosts", "bind"}) {
    if (const auto extra = r.extra.find(name); extra != r.extra.end()) {
      key += fmt::format(" {}", extra->dump());
    }
  }
  // Files from before it was told have no such figures with tags.
  const auto security = r.extra.find("security");
  if (security != r.extra.end() && *security != "plain")
    key += fmt::format(" {}", security->dump());
  return key;
}

std::string short_text(const Result& r) {
  Result bare = r;
  bare.extra.clear();  // read back from a file it holds the whole line
  return to_text(bare);
}

}  // namespace weft::bench
