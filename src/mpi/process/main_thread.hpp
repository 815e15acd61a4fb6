// The thread that initialized MPI.
#pragma once

namespace weft::mpi {

/// Whether the caller is the thread that called MPI_Init or MPI_Init_thread first, or the first
/// session's; false before.
[[nodiscard]] bool is_main_thread() noexcept;

}  // namespace weft::mpi
