// One measured figure with its limit, and how it is printed: a line of text, or of JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "harness/options.hpp"
#include "harness/statistics.hpp"

namespace weft::bench {

/// How the two cores stood to each other while a sample was taken (harness/state.hpp).
enum class State { shared, unshared, one_core, unknown, none };
/// Those that a figure can be of.
inline constexpr State kKnownStates[] = {State::shared, State::unshared, State::one_core};
inline constexpr const char* kNoVerdictOnOneCore =
    "no verdict: both virtual cores were threads of one core";
std::string name_of(State state);

enum class Better { lower, higher };

/// A figure. `ratio` is always figure ÷ limit, taken pair by pair.
struct Result {
  std::string bench;
  std::string mode;
  std::size_t size_bytes = 0;
  unsigned threads = 1;
  unsigned devices = 0;
  std::string unit;
  bool lower_is_better = false;
  Summary value;
  std::string limit_name;  ///< empty: it has none
  std::optional<Summary> limit;
  std::optional<Summary> ratio;
  State state = State::none;
  std::string verdict = "ok";      ///< or "no verdict: why"
  std::optional<double> fairness;  ///< least ÷ most served thread, median of the samples
  nlohmann::ordered_json extra = nlohmann::ordered_json::object();
};

/// A result of which only its name is known.
Result figure(std::string bench, std::string mode, std::string unit, Better better);

nlohmann::ordered_json to_json(const Result& result);
/// The other direction, for report and compare. Throws std::runtime_error on what is no result.
Result from_json(const nlohmann::ordered_json& line);

/// The figure's name for people: "rate matched, 8 B, 64 x 64 threads, 1 device".
std::string title(const Result& result);

std::string to_text(const Result& result);

/// Writes one line to stdout.
void print(const Result& result, bool json);

/// "812 ns", "1.43 µs", "23.1 M/s": a value of `unit` with three digits.
std::string with_unit(double value, const std::string& unit);

}  // namespace weft::bench
