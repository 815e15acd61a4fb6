// What failures said that went back to the program as a code alone: for MPI_Error_string.
#pragma once

#include <string>
#include <string_view>

namespace weft::mpi {

/// The calling thread's last failure: the code that the call returns, that of the request that
/// failed first if it is another, and a sentence. Of the threads that failed last, 64, it is known.
void note_failure(int code, int request_code, std::string_view text) noexcept;
/// What it said, if it was of this code; else "".
std::string last_failure(int code);

}  // namespace weft::mpi
