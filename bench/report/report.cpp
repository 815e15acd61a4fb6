// weft-bench report FILE: the table of figures with their limits, ratios and targets, and after it
// everything else that was measured.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "comm/benches.hpp"
#include "report/results_file.hpp"
#include "report/targets.hpp"

namespace weft::bench {
namespace {

struct Row {
  std::string what, state, figure, limit, ratio, target, reached;
};

const char* name_of(Reached reached) {
  switch (reached) {
    case Reached::yes:
      return "yes";
    case Reached::no:
      return "no";
    default:
      return "no verdict";
  }
}

std::string with_noise(const Summary& value, const std::string& unit) {
  return fmt::format("{} ±{}", with_unit(value.median, unit), with_unit(value.spread(), unit));
}

Row row_of(const std::string& what, const Result& result) {
  Row row;
  row.what = what;
  row.state = result.state == State::none ? std::string() : name_of(result.state);
  row.figure = result.value.samples != 0 ? with_noise(result.value, result.unit) : "none";
  if (result.value.samples == 0 && result.extra.contains("ns")) {
    row.figure = fmt::format("none; {:.1f} ns", result.extra.value("ns", 0.0));
  }
  if (result.limit) {
    row.limit =
        fmt::format("{} ({})", with_unit(result.limit->median, result.unit), result.limit_name);
  }
  if (result.ratio) {
    row.ratio = fmt::format("{:.2f} ±{:.2f}", result.ratio->median, result.ratio->spread());
  }
  return row;
}

// Characters, not bytes: the tables hold µ and ±.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

void print_table(const std::vector<Row>& rows) {
  std::vector<std::string Row::*> columns{&Row::what,  &Row::state,  &Row::figure, &Row::limit,
                                          &Row::ratio, &Row::target, &Row::reached};
  std::vector<std::size_t> widths(columns.size(), 0);
  for (const Row& row : rows) {
    for (std::size_t c = 0; c < columns.size(); ++c) {
      widths[c] = std::max(widths[c], width_of(row.*columns[c]));
    }
  }
  bool head = true;
  for (const Row& row : rows) {
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const std::string& cell = row.*columns[c];
      fmt::print("| {}{:{}} ", cell, "", widths[c] - width_of(cell));
    }
    fmt::print("|\n");
    if (!std::exchange(head, false)) continue;
    for (const std::size_t width : widths) fmt::print("|{:->{}}", "", width + 2);
    fmt::print("|\n");
  }
}

const Row kHead{"what", "cache", "figure", "limit", "ratio", "target", "reached"};

}  // namespace

int run_report(const Options& options) {
  const auto results = read_results(options.file);
  if (results.empty()) throw std::runtime_error(options.file + " holds no results");
  const auto& about = results.front().extra;
  fmt::print("{}, {} cores, {}; commit {}, {}, {}; {}; fabric.security {}\n\n",
             about.value("cpu", "unknown processor"), about.value("cores", 0),
             about.value("kernel", "unknown kernel"), about.value("commit", "unknown"),
             about.value("compiler", "unknown compiler"), about.value("flags", ""),
             about.value("date", ""), about.value("security", "not told"));
  std::set<const Result*> shown;
  std::vector<Row> rows{kHead};
  unsigned counts[3]{};
  std::size_t unseen = 0;
  for (const Target& target : all_targets()) {
    bool found = false;
    const std::string what =
        target.size_bytes > 8
            ? fmt::format("{}, {}", target.what, with_unit(double(target.size_bytes), "B"))
            : target.what;
    for (const Result& result : results) {
      if (!target.speaks_of(result)) continue;
      found = true;
      shown.insert(&result);
      Row row = row_of(what, result);
      const Reached reached = check(target, result);
      ++counts[static_cast<int>(reached)];
      if (target.measure == "fairness" && result.fairness) {
        row.figure = fmt::format("{:.2f}", *result.fairness);
        row.limit = row.ratio = "";
      }
      row.target = target.text(result);
      row.reached = name_of(reached);
      if (result.verdict != "ok") row.reached = result.verdict;
      rows.push_back(std::move(row));
    }
    if (!found) {
      rows.push_back({what, target.only_state ? name_of(*target.only_state) : "", "not measured",
                      "", "", "", ""});
    }
    // A target that was reached in one state says nothing of the other.
    for (const State state : states_missing(target, results)) {
      rows.push_back({what, name_of(state), "not measured", "", "", "", ""});
      ++unseen;
    }
  }
  print_table(rows);
  fmt::print(
      "\nreached: {}; not reached: {}; no verdict: {}; not measured in one of the cache states: "
      "{}\n\n",
      counts[0], counts[1], counts[2], unseen);
  rows = {kHead};
  for (const Result& result : results) {
    if (shown.contains(&result)) continue;
    rows.push_back(row_of(title(result), result));
    if (result.verdict != "ok") rows.back().reached = result.verdict;
  }
  if (rows.size() > 1) print_table(rows);
  return 0;
}

}  // namespace weft::bench
