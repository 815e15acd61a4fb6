// The MPI library's configuration table.
#pragma once

namespace weft::mpi {

/// Registers the `mpi.` keys (docs/configuration.md) and those of the rooms below; harmless if they
/// are already. MPI does so itself; for programs that print the configuration.
/// Throws Error(bad_config) if the environment holds nonsense for one of them.
void register_mpi_config();

}  // namespace weft::mpi
