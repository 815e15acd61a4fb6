// Medians, spreads, fairness, and when two figures may be told apart.
#include <gtest/gtest.h>

#include "harness/statistics.hpp"

namespace weft::bench {
namespace {

TEST(Statistics, MedianAndQuartilesInterpolate) {
  const Summary s = summarize({4, 1, 3, 2, 5});
  EXPECT_DOUBLE_EQ(s.median, 3);
  EXPECT_DOUBLE_EQ(s.low, 2);
  EXPECT_DOUBLE_EQ(s.high, 4);
  EXPECT_DOUBLE_EQ(s.spread(), 1);
  EXPECT_EQ(s.samples, 5U);
  EXPECT_DOUBLE_EQ(summarize({1, 2}).median, 1.5);
}

TEST(Statistics, OneSampleHasNoSpreadAndNoneHasNoValue) {
  const Summary one = summarize({7});
  EXPECT_DOUBLE_EQ(one.median, 7);
  EXPECT_DOUBLE_EQ(one.spread(), 0);
  EXPECT_EQ(summarize({}).samples, 0U);
}

TEST(Statistics, OneOutlierMovesNeitherMedianNorSpread) {
  const Summary s = summarize({10, 11, 10, 11, 10, 11, 10, 11, 1e9});
  EXPECT_LE(s.median, 11);
  EXPECT_LE(s.spread(), 1);
}

TEST(Statistics, ComparisonNeedsADistanceBeyondTheNoise) {
  const Summary quiet_low{100, 99, 101, 20};
  const Summary quiet_high{110, 109, 111, 20};
  const Summary noisy{105, 90, 120, 20};
  EXPECT_EQ(compare(quiet_low, quiet_high), Difference::lower);
  EXPECT_EQ(compare(quiet_high, quiet_low), Difference::higher);
  EXPECT_EQ(compare(quiet_low, noisy), Difference::no_verdict);
  EXPECT_EQ(compare(quiet_low, quiet_low), Difference::no_verdict);
}

TEST(Statistics, TwoSamplesAreNoGroundForAVerdict) {
  EXPECT_EQ(compare({1, 1, 1, 2}, {100, 100, 100, 50}), Difference::no_verdict);
}

TEST(Statistics, FairnessIsLeastOverMost) {
  EXPECT_DOUBLE_EQ(fairness_of({10, 5, 20}), 0.25);
  EXPECT_DOUBLE_EQ(fairness_of({3}), 1);
  EXPECT_DOUBLE_EQ(fairness_of({0, 4}), 0);
  EXPECT_DOUBLE_EQ(fairness_of({0, 0}), 1);
  EXPECT_DOUBLE_EQ(fairness_of({}), 1);
}

}  // namespace
}  // namespace weft::bench
