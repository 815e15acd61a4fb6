// How to lay a number of processes out as a grid.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::mpi {

/// `count` factors of `processes`, descending, as close to each other as there are: the largest and
/// the smallest differ as little as can be; of such the one whose smallest is largest; then the
/// first ones as small as can be. processes > 0.
[[nodiscard]] std::vector<int> balanced_factors(int processes, int count);

}  // namespace weft::mpi
