// Beginning and ending this process in MPI: what MPI_Init_thread and MPI_Session_init share.
#pragma once

namespace weft::mpi {

/// Makes the process (process.hpp) if it is not there yet, and counts its users. `required`:
/// MPI_THREAD_…; `world`: for MPI_Init and MPI_Init_thread, which may succeed once. The answer: the
/// level provided. Throws Failure. Collective over the job where it makes the process. Thread-safe.
int acquire_process(int required, bool world);
/// One user less. The last one ends the process, collectively over the job, if MPI_Finalize has
/// been called; else it stays until it is acquired again, or the program ends.
void release_process(bool world);

/// Whether the world model is up: MPI_COMM_WORLD and MPI_COMM_SELF may be used.
[[nodiscard]] bool is_world_up() noexcept;
/// The level that MPI_Init or MPI_Init_thread provided. While the world model is up.
[[nodiscard]] int world_level() noexcept;

}  // namespace weft::mpi
