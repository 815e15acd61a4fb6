// The figures to reach on a 2-core machine, and whether results reach them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/result.hpp"

namespace weft::bench {

enum class Reached { yes, no, no_verdict };

/// One line of the table of figures.
struct Target {
  std::string what;   ///< for people: "8 B one-way latency, matched"
  std::string bench;  ///< the result it speaks of
  std::string mode;
  std::size_t size_bytes = 0;
  unsigned threads = 0;
  unsigned devices = 0;  ///< 0: any
  std::string measure;   ///< "ratio", "value", "fairness", or the name of an extra
  bool at_most = false;  ///< else at least
  double reach = 0;
  std::optional<double> reach_shared{};  ///< where a shared cache has a target of its own
  std::optional<double> or_value{};      ///< or the figure itself reaches this
  std::optional<State> only_state{};     ///< the target is given for this cache state alone
  std::string memory{};                  ///< whose memory, where results tell: "weft", "ordinary"

  [[nodiscard]] bool speaks_of(const Result& result) const;
  [[nodiscard]] double reach_in(State state) const;
  /// "<= 1.5", ">= 0.5 or >= 12.0 M/s".
  [[nodiscard]] std::string text(const Result& result) const;
};

const std::vector<Target>& all_targets();

/// Adds, and returns, a target of `bench` for messages of no size and any number of devices.
Target& add_target(std::vector<Target>& targets, std::string bench, std::string what,
                   std::string mode, unsigned threads, std::string measure, bool at_most,
                   double reach);

/// Those of the structures alone (report/structure_targets.cpp).
void add_structure_targets(std::vector<Target>& targets);

/// Those of MPI's matching engines (report/matching_targets.cpp).
void add_matching_targets(std::vector<Target>& targets);

/// Those of tasks (report/task_targets.cpp).
void add_task_targets(std::vector<Target>& targets);

/// No verdict when the noise of the measure exceeds its distance from the target, or when the
/// result itself has none.
Reached check(const Target& target, const Result& result);

/// The cache states in which nothing was measured of what `target` speaks of, of shared and
/// unshared. Empty where the figure has no state, and where `results` know nothing of it at all.
std::vector<State> states_missing(const Target& target, const std::vector<Result>& results);

}  // namespace weft::bench
