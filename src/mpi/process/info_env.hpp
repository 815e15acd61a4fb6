// What a process was started with (MPI_INFO_ENV).
#pragma once

#include "mpi/info.hpp"

namespace weft::mpi {

/// Sets the reserved keys of MPI 11.2.1 as far as they are known.
void describe_start(Info& info);

}  // namespace weft::mpi
