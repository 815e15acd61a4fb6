// Reading the room's configuration.
#pragma once

#include "mpi/process.hpp"

namespace weft::mpi {

/// The room's configuration and what it says. Throws weft::Error for nonsense in the environment.
Settings read_settings();
/// What `checking()` says from now on.
void set_checking(bool on) noexcept;

}  // namespace weft::mpi
