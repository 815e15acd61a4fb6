// An array of counts or displacements, as ints or as large counts: the two forms of one call.
#pragma once

#include <cstddef>
#include <type_traits>

#include "mpi/abi/mpi.h"

namespace weft::mpi {

static_assert(std::is_same_v<MPI_Aint, MPI_Count>);

/// A view; the program's array must outlive it. MPI_Aint is MPI_Count's
/// type here.
class Counts {
 public:
  Counts() noexcept = default;
  Counts(const int* narrow) noexcept : narrow_(narrow) {}  // NOLINT: both forms convert
  Counts(const MPI_Count* wide) noexcept : wide_(wide) {}  // NOLINT
  [[nodiscard]] MPI_Count operator[](std::size_t i) const noexcept {
    return narrow_ != nullptr ? narrow_[i] : wide_[i];
  }
  [[nodiscard]] bool null() const noexcept { return narrow_ == nullptr && wide_ == nullptr; }

 private:
  const int* narrow_ = nullptr;
  const MPI_Count* wide_ = nullptr;
};

}  // namespace weft::mpi
