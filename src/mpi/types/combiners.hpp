// Names of type constructors.
#pragma once

namespace weft::mpi {

/// The MPI function that makes types of this combiner.
[[nodiscard]] const char* maker_name(int combiner) noexcept;

}  // namespace weft::mpi
