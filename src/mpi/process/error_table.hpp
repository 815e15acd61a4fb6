// Names of error classes.
#pragma once

#include <string>

namespace weft::mpi {

/// "MPI_ERR_RANK"; for classes that the program added: "class 16384".
std::string error_name(int error_class);

}  // namespace weft::mpi
