// Medians and spreads of samples, and when two of them may be told apart.
#pragma once

#include <cstddef>
#include <vector>

namespace weft::bench {

/// What remains of a series of samples.
struct Summary {
  double median = 0;
  double low = 0;   ///< lower quartile
  double high = 0;  ///< upper quartile
  std::size_t samples = 0;
  /// Half the distance between the quartiles, in the unit of the median: this is called noise.
  [[nodiscard]] double spread() const noexcept { return (high - low) / 2; }
};

/// Of any number of samples; all zero for none.
Summary summarize(std::vector<double> samples);

/// What a comparison of two noisy figures may say.
enum class Difference { lower, higher, no_verdict };

/// `a` against `b`: no verdict when the two spreads together exceed the distance of the medians,
/// or when one of them stands on fewer than three samples.
Difference compare(const Summary& a, const Summary& b) noexcept;

/// Fairness of a round: the least served thread's count over the most served one's; 1 for none.
double fairness_of(const std::vector<double>& counts) noexcept;

}  // namespace weft::bench
