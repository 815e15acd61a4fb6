// Where a call puts its results.
#pragma once

#include "mpi/failure.hpp"

namespace weft::mpi {

inline void require_output(const void* where) {
  require(where != nullptr, MPI_ERR_ARG, "a null pointer for a result");
}

}  // namespace weft::mpi
