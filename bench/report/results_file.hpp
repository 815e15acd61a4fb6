// Files of results: one JSON object a line.
#pragma once

#include <string>
#include <vector>

#include "harness/result.hpp"

namespace weft::bench {

/// Throws std::runtime_error naming file and line on what is no result.
std::vector<Result> read_results(const std::string& path);
std::vector<Result> parse_results(const std::string& text, const std::string& name);

/// What makes two results speak of the same figure.
std::string identity(const Result& result);
/// A line for people: title, figure, limit, ratio, state and verdict.
std::string short_text(const Result& result);

}  // namespace weft::bench
