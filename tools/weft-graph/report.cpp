#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace weft::graph {
namespace {

/// 1234567 as 1,234,567.
std::string grouped(uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

void print_round(std::size_t number, const RoundLog::Line& line) {
  fmt::print("  {:>7} {:>12.1f} {:>12} {:>10} {:>12}\n", number, static_cast<double>(line.ns) / 1e3,
             grouped(line.totals.sum.active), grouped(line.totals.messages),
             grouped(line.totals.bytes));
}

void print_answer(Algorithm algorithm, std::size_t rounds, const Summary& summary,
                  std::span<const uint64_t> ids) {
  switch (algorithm) {
    case Algorithm::bfs:
      fmt::print("result    reached {}, highest level {}, sum of levels {}\n", summary.reached,
                 summary.max_level, summary.sum_of_levels);
      fmt::print("checksum  {:016x}\n", summary.hash);
      return;
    case Algorithm::cc:
      fmt::print("result    components {}\n", summary.components);
      fmt::print("checksum  {:016x}\n", summary.hash);
      return;
    case Algorithm::pagerank:
      fmt::print("result    steps {}, sum {:.9f}\n", rounds - 1, summary.sum);
      for (const auto& [vertex, value] : summary.top) {
        if (value >= 0) fmt::print("          vertex {} has rank {:.12e}\n", ids[vertex], value);
      }
      fmt::print("checksum  {:.9f} {:.9f}\n", summary.l1_from_even, summary.weighted);
      return;
  }
}

}  // namespace

void print_rounds(const RoundLog& log, bool all) {
  constexpr std::size_t kFirst = 6, kLast = 3;
  const auto& lines = log.lines;
  fmt::print("  {:>7} {:>12} {:>12} {:>10} {:>12}\n", "round", "time us", "active", "messages",
             "bytes");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!all && lines.size() > kFirst + kLast + 1 && i == kFirst) {
      fmt::print("      ... {} rounds (--rounds prints all)\n", lines.size() - kFirst - kLast);
      i = lines.size() - kLast;
    }
    print_round(i, lines[i]);
  }
}

void print_result(Algorithm algorithm, const RoundLog& log, const Summary& summary,
                  std::span<const uint64_t> ids) {
  uint64_t messages = 0, bytes = 0;
  std::vector<uint64_t> times;
  for (const auto& line : log.lines) {
    messages += line.totals.messages;
    bytes += line.totals.bytes;
    times.push_back(line.ns);
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  const std::size_t rounds = times.size();
  const double seconds = static_cast<double>(log.ns) / 1e9;
  const uint64_t passes = algorithm == Algorithm::pagerank ? rounds - 1 : 1;
  fmt::print("time      {:.6f} s in {} rounds, median {:.1f} us a round\n", seconds, rounds,
             static_cast<double>(times[rounds / 2]) / 1e3);
  fmt::print("speed     {:.2f} million traversed edges a second\n",
             static_cast<double>(summary.arcs * passes) / 2e6 / seconds);
  fmt::print("traffic   {} messages, {} bytes\n", grouped(messages), grouped(bytes));
  print_answer(algorithm, rounds, summary, ids);
}

}  // namespace weft::graph
