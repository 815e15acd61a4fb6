// Grids: balanced factors, against trying all, and neighbours.
#include "mpi/comms/dims.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "mpi/comms/topology.hpp"

namespace weft::mpi {
namespace {

/// The closest of all descending sequences of `count` factors of `n` that begin with `begun`.
void try_all(int n, int count, std::vector<int>& begun, std::vector<int>& best) {
  const auto worth = [](const std::vector<int>& factors) {
    return std::tuple(factors.front() - factors.back(), -factors.back(), factors);
  };
  if (count == 0) {
    if (n == 1 && (best.empty() || worth(begun) < worth(best))) best = begun;
    return;
  }
  for (int next = 1; next <= std::min(n, begun.empty() ? n : begun.back()); ++next) {
    if (n % next != 0) continue;
    begun.push_back(next);
    try_all(n / next, count - 1, begun, best);
    begun.pop_back();
  }
}

TEST(Dims, EqualTryingAll) {
  for (int n = 1; n <= 400; ++n) {
    for (int count = 1; count <= 5; ++count) {
      std::vector<int> begun;
      std::vector<int> best;
      try_all(n, count, begun, best);
      EXPECT_EQ(balanced_factors(n, count), best) << n << " by " << count;
    }
  }
}

TEST(Dims, AreClose) {
  EXPECT_EQ(balanced_factors(7488, 3), (std::vector<int>{26, 18, 16}));  // not 24, 24, 13
  EXPECT_EQ(balanced_factors(5040, 3), (std::vector<int>{21, 16, 15}));  // not 20, 18, 14
}

TEST(Dims, LargeNumbersTakeNoTime) {
  EXPECT_EQ(balanced_factors(1 << 30, 3), (std::vector<int>{1024, 1024, 1024}));
  EXPECT_EQ(balanced_factors(2147483647, 2), (std::vector<int>{2147483647, 1}));
  EXPECT_EQ(balanced_factors(735134400, 40).size(), 40U);
  EXPECT_EQ(balanced_factors(2, 100'000).size(), 100'000U);
  EXPECT_TRUE(balanced_factors(5, 0).empty());
  for (int count = 2; count <= 30; ++count) {
    for (const int n : {735134400, 1102701600, 2095133040, 2147483646, 1 << 30, 1162261467}) {
      const std::vector<int> factors = balanced_factors(n, count);
      int64_t product = 1;
      for (const int factor : factors) product *= factor;
      EXPECT_EQ(product, n) << count;
    }
  }
}

TEST(Grids, RanksAndCoordinatesAreInverse) {
  const std::vector<int> dims{3, 4, 2};
  const std::vector<int> periods{0, 1, 0};
  const auto grid = make_grid(dims, periods, 0);
  for (int rank = 0; rank < 24; ++rank) {
    EXPECT_EQ(grid_rank(*grid, grid_coords(*grid, rank)), rank);
  }
  EXPECT_EQ(grid_rank(*grid, std::vector<int>{1, -1, 1}), (1 * 4 + 3) * 2 + 1);
  EXPECT_EQ(grid_rank(*grid, std::vector<int>{3, 0, 0}), MPI_PROC_NULL);
}

TEST(Grids, NeighboursAreInOrder) {
  const std::vector<int> dims{2, 3};
  const std::vector<int> periods{0, 1};
  const auto grid = make_grid(dims, periods, 0);
  EXPECT_EQ(grid->neighbours.in, (std::vector<int>{MPI_PROC_NULL, 3, 2, 1}));
  EXPECT_EQ(grid->neighbours.out, grid->neighbours.in);
  EXPECT_EQ(grid->neighbours.receive_order, (std::vector<int>{1, 0, 3, 2}));
}

}  // namespace
}  // namespace weft::mpi
