// Where in the program a thread is, and in which MPI call, as its stack tells.
#pragma once

#include <string>

namespace weft::mpi {

/// Whether program_call (handle.hpp) notes places; from MPI_Init to the end. Before, nobody knows
/// yet.
void note_makers(bool noted) noexcept;
/// ", made at FILE+0xOFFSET" for what program_call gave: for addr2line, and the function's name
/// where it has one. "" for nullptr.
std::string made_at(const void* call);
/// The MPI function that the calling thread is in; "" where that is not to be seen: outside of MPI,
/// or where MPI is linked into the program.
std::string mpi_call();

}  // namespace weft::mpi
