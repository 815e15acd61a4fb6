// Reading the room's configuration.
#pragma once

#include "mpi/process.hpp"

namespace weft::mpi {

/// The room's configuration and what it says. Throws weft::Error for nonsense in the environment.
Settings read_settings();
/// The error handler that MPI begins and ends with (MPI 9.3); nonsense in the environment is as if
/// nothing were said. At any time.
MPI_Errhandler initial_errhandler() noexcept;
/// What `checking()` says from now on.
void set_checking(bool on) noexcept;

}  // namespace weft::mpi
