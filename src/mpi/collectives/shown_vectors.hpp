// Vectors that members of a node have shown on its board, and the order in which they combine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "mpi/collectives/blocks.hpp"
#include "mpi/collectives/board.hpp"
#include "mpi/collectives/posts.hpp"
#include "mpi/collectives/reduction.hpp"
#include "mpi/collectives/team.hpp"

namespace weft::mpi {

// Each combines vectors of a team's members, with their right neighbours or with what those have
// become, in the order in which messages would do it: results shall not depend on the way. (But a
// program's function that commutes may be given the two the other way round.) The result is in the
// first.

/// As an Allreduce that is short: by recursive doubling.
void fold_as_all_reduce(const Team& team, const Reduction& reduction, std::byte* const* vectors);
/// As a Reduce to the first of vectors of so many bytes, of which these may be parts.
void fold_as_reduce(const Team& team, int64_t bytes, const Reduction& reduction,
                    std::byte* const* vectors);

/// Of an exchange's members, their vectors or one part of each, in rooms of its own, where they may
/// be combined. Lives on the stack of who combines them, outside of schedules.
class ShownVectors {
 public:
  /// `reduction.count` elements of each: this rank's own are at `own`; others have shown theirs
  /// behind `first` others, among `of` in all.
  ShownVectors(const Team& team, const Reduction& reduction, const void* own, int64_t first,
               int64_t of);
  ShownVectors(const ShownVectors&) = delete;
  ShownVectors& operator=(const ShownVectors&) = delete;

  /// What was wrong with one; then none of them is to be used.
  [[nodiscard]] const Trouble& trouble() const noexcept { return trouble_; }
  [[nodiscard]] bool are_whole() const noexcept { return trouble_.error == MPI_SUCCESS; }
  [[nodiscard]] std::byte* const* data() const noexcept { return vectors_; }
  [[nodiscard]] std::byte* operator[](int rank) const noexcept { return vectors_[rank]; }

 private:
  Trouble trouble_;
  std::byte* vectors_[Board::kExchangers];
  /// Of types with holes, whose vectors may interlace, and of a program's function, for which they
  /// lie in memory as its own do.
  std::unique_ptr<Scratch[]> rooms_;
  static_assert(Board::kBytes % Scratch::kAlignment == 0);
  alignas(Scratch::kAlignment) std::byte room_[Board::kExchangers * Board::kBytes];
};

/// Of two members: `reduction.count` elements that the other one has shown, and nothing else,
/// combined with this rank's at `own`, at `to`. `theirs_first`: in that order. Where `own` and `to`
/// overlap, they are the same, or `theirs_first`.
[[nodiscard]] Trouble combine_of_two(const Team& team, const Reduction& reduction, const void* own,
                                     void* to, bool theirs_first);

}  // namespace weft::mpi
