// Grids: balanced factors, against trying all, and neighbours.
#include "mpi/comms/dims.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "mpi/comms/topology.hpp"

namespace weft::mpi {
namespace {

/// The least descending sequence of `count` factors of `n`, by trying all.
std::vector<int> least_by_trying(int n, int count, int most) {
  if (count == 1) return n <= most ? std::vector<int>{n} : std::vector<int>{};
  for (int first = 1; first <= std::min(n, most); ++first) {
    if (n % first != 0) continue;
    std::vector<int> rest = least_by_trying(n / first, count - 1, first);
    if (rest.empty()) continue;
    rest.insert(rest.begin(), first);
    return rest;
  }
  return {};
}

TEST(Dims, EqualTryingAll) {
  for (int n = 1; n <= 300; ++n) {
    for (int count = 1; count <= 5; ++count) {
      EXPECT_EQ(balanced_factors(n, count), least_by_trying(n, count, n)) << n << " by " << count;
    }
  }
}

TEST(Dims, LargeNumbersTakeNoTime) {
  EXPECT_EQ(balanced_factors(1 << 30, 3), (std::vector<int>{1024, 1024, 1024}));
  EXPECT_EQ(balanced_factors(2147483647, 2), (std::vector<int>{2147483647, 1}));
  EXPECT_EQ(balanced_factors(735134400, 40).size(), 40U);
  EXPECT_EQ(balanced_factors(2, 1000).size(), 1000U);
  EXPECT_TRUE(balanced_factors(5, 0).empty());
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
