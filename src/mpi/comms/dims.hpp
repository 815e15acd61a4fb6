// How to lay a number of processes out as a grid.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::mpi {

/// `count` factors of `processes`, descending, as close to each other as there are: the largest as
/// small as possible, then the next, and so on. processes > 0.
[[nodiscard]] std::vector<int> balanced_factors(int processes, int count);

}  // namespace weft::mpi
