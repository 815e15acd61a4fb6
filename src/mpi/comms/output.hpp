// Where a call puts its results.
#pragma once

#include "mpi/abi/mpi.h"
#include "mpi/failure.hpp"

namespace weft::mpi {

inline void require_output(const void* where) {
  require(where != nullptr, MPI_ERR_ARG, "a null pointer for a result");
}

/// The same of a new communicator: no communicator, should the call fail from here on.
inline void begin_output(MPI_Comm* newcomm) {
  require_output(newcomm);
  *newcomm = MPI_COMM_NULL;
}

}  // namespace weft::mpi
