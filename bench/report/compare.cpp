// weft-bench compare A B: the same figures in two files, and whether they may be told apart.
//
// Compared are ratios to the limit where both files have one (the machine's mood is in both halves
// of a ratio), else medians; state by state. "no verdict" when noise exceeds the difference.
#include <fmt/format.h>

#include <map>

#include "comm/benches.hpp"
#include "report/results_file.hpp"

namespace weft::bench {
namespace {

// For "lower is better": a lower b is better.
const char* judge(const Summary& a, const Summary& b, bool lower_is_better) {
  switch (compare(b, a)) {
    case Difference::lower:
      return lower_is_better ? "better" : "worse";
    case Difference::higher:
      return lower_is_better ? "worse" : "better";
    default:
      return "no verdict";
  }
}

// A result's limits may stand in either direction of the figure, so judge by the figure's own.
std::string line_of(const Result& a, const Result& b) {
  const bool ratios = a.ratio && b.ratio && a.limit_name == b.limit_name;
  const Summary& before = ratios ? *a.ratio : a.value;
  const Summary& after = ratios ? *b.ratio : b.value;
  std::string verdict = judge(before, after, a.lower_is_better);
  if (a.verdict != "ok" || b.verdict != "ok") verdict = "no verdict";
  const double change =
      before.median != 0 ? (after.median - before.median) * 100 / before.median : 0;
  const auto show = [&](const Summary& s) {
    return ratios
               ? fmt::format("{:.2f} ±{:.2f}", s.median, s.spread())
               : fmt::format("{} ±{}", with_unit(s.median, a.unit), with_unit(s.spread(), a.unit));
  };
  return fmt::format("{:<10}  {:+6.1f} %  {}{}: {} -> {}{}", verdict, change, title(a),
                     a.state == State::none ? "" : fmt::format(", cache {}", name_of(a.state)),
                     show(before), show(after), ratios ? " of " + a.limit_name : "");
}

}  // namespace

int run_compare(const Options& options) {
  const auto before = read_results(options.file);
  const auto after = read_results(options.other_file);
  std::map<std::string, const Result*> known;
  for (const Result& result : after) known.emplace(identity(result), &result);
  std::size_t missing = 0;
  for (const Result& result : before) {
    const auto other = known.find(identity(result));
    if (other == known.end()) {
      ++missing;
      continue;
    }
    fmt::print("{}\n", line_of(result, *other->second));
    known.erase(other);
  }
  fmt::print("only in {}: {}; only in {}: {}\n", options.file, missing, options.other_file,
             known.size());
  return 0;
}

}  // namespace weft::bench
