// Reductions of which each rank combines a part (`pairwise` in configuration).
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "mpi/collectives/blocks.hpp"
#include "mpi/collectives/node_map.hpp"
#include "mpi/collectives/reduction.hpp"
#include "mpi/collectives/team.hpp"

namespace weft::mpi {

/// Whether each rank shall combine a part of a vector: of many bytes, on one node, where parts can
/// be shown to all at once.
[[nodiscard]] inline bool goes_by_parts(const Team& team, const Reduction& reduction) {
  constexpr int64_t kLeastBytes = 256 << 10;
  constexpr int64_t kLeastPart = 8 << 10;
  return team.size > 2 && reduction.op->commutative && reduction.count >= team.size &&
         reduction.bytes() >= std::max(kLeastBytes, team.size * kLeastPart) && on_one_node(team);
}

/// A vector in a part for each rank, which differ by one element at most.
class EvenParts {
 public:
  EvenParts(const Reduction& reduction, int ranks)
      : type_(reduction.type), counts_(static_cast<std::size_t>(ranks)), begins_(counts_.size()) {
    const int64_t each = reduction.count / ranks;
    const auto longer = static_cast<std::size_t>(reduction.count % ranks);
    int64_t begin = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      counts_[i] = each + (i < longer ? 1 : 0);
      begins_[i] = std::exchange(begin, begin + counts_[i]);
    }
  }
  /// Of the vector at `at`. As long as this object lives.
  [[nodiscard]] Parts of(const void* at) const noexcept {
    return {.base = static_cast<std::byte*>(const_cast<void*>(at)),
            .type = type_,
            .counts = Counts(counts_.data()),
            .places = Counts(begins_.data())};
  }

 private:
  const Datatype* type_;
  std::vector<MPI_Count> counts_;
  std::vector<MPI_Count> begins_;
};

}  // namespace weft::mpi
