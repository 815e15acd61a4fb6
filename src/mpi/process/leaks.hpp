// What a program left unfreed at MPI_Finalize; told on request (mpi.report_leaks).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::mpi {

/// Warns of so many handles of a kind (its plural) that nobody freed. `which` says more of each.
void tell_leaks(std::string_view kind, std::size_t number,
                const std::vector<std::string>& which = {});
/// Of what may be used before initialization and after the end: info objects, error handlers. They
/// stay as they are.
void tell_leaks_that_outlast();

}  // namespace weft::mpi
