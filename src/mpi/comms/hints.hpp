// What a program promises about a communicator by info keys (MPI 7.4.4).
#pragma once

#include "mpi/comm.hpp"
#include "mpi/info.hpp"

namespace weft::mpi {

inline constexpr const char* kHardwareKey = "mpi_hw_resource_type";
inline constexpr const char* kSharedMemory = "mpi_shared_memory";
/// Which memory may be given to MPI (MPI 4.1 12.4.3): what MPI_Alloc_mem gives, and the system's.
inline constexpr const char* kMemoryKindsKey = "mpi_memory_alloc_kinds";
inline constexpr const char* kMemoryKinds = "mpi,system";

/// Takes the hints that are known over; others are ignored. `info` may be nullptr. Of an open
/// communicator, its channels are told.
void take_hints(Comm& comm, const Info* info);
/// The hints in use, as a new info object.
[[nodiscard]] Held<Info> hints_in_use(Comm& comm);
/// Remembers what kind of hardware its members share.
void note_hardware(Comm& comm, const char* kind);
/// The same in the program's own object (MPI 7.4.2), where it gave one.
void note_hardware(Info* info, const char* kind);

}  // namespace weft::mpi
