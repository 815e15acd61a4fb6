// What a program left unfreed at MPI_Finalize; told on request (mpi.report_leaks).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::mpi {

/// Warns of what is left, if there is any: what (a plural), how many, and of each what `which`
/// says.
void tell_left(std::string_view what, const std::vector<std::string>& which);
/// The same of handles of a kind (its plural) that nobody freed.
void tell_leaks(std::string_view kind, const std::vector<std::string>& which);
/// Of what may be used before initialization and after the end: info objects, error handlers, what
/// is MPI_T's. They stay as they are.
void tell_leaks_that_outlast();

}  // namespace weft::mpi
