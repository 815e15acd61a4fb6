#include "harness/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace weft::bench {
namespace {

// Linear interpolation between the two nearest order statistics.
double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
}

}  // namespace

Summary summarize(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  return {.median = quantile(samples, 0.5),
          .low = quantile(samples, 0.25),
          .high = quantile(samples, 0.75),
          .samples = samples.size()};
}

Difference compare(const Summary& a, const Summary& b) noexcept {
  constexpr std::size_t kLeast = 3;
  if (a.samples < kLeast || b.samples < kLeast) return Difference::no_verdict;
  const double distance = a.median - b.median;
  if (std::abs(distance) <= a.spread() + b.spread()) return Difference::no_verdict;
  return distance < 0 ? Difference::lower : Difference::higher;
}

double fairness_of(const std::vector<double>& counts) noexcept {
  if (counts.empty()) return 1;
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  return *most > 0 ? *least / *most : 1;
}

}  // namespace weft::bench
