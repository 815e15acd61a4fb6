// What a program left unfreed at MPI_Finalize; told on request (mpi.report_leaks).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::mpi {

/// Whether places are to be noted; from MPI_Init to the end. Before, nobody knows yet.
void note_makers(bool noted) noexcept;
/// Warns of so many handles of a kind (its plural) that nobody freed. `which` says more of each.
void tell_leaks(std::string_view kind, std::size_t number,
                const std::vector<std::string>& which = {});
/// ", made at FILE+0xOFFSET" for what program_call gave: for addr2line, and the function's name
/// where it has one. "" for nullptr.
std::string made_at(const void* call);
/// Of what may be used before initialization and after the end: info objects, error handlers. They
/// stay as they are.
void tell_leaks_that_outlast();

}  // namespace weft::mpi
