// Any exception that a call may end with, as a Failure.
#pragma once

#include "mpi/failure.hpp"

namespace weft::mpi {

/// In a catch block: the exception being handled. Forced unwinding (a cancelled thread) goes on.
Failure caught();

}  // namespace weft::mpi
