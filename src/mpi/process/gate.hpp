// What the fronts of MPI functions ask first: is MPI up? One load of one word.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::mpi {

enum class Gate : uint8_t {
  open,     ///< calls are served
  checked,  ///< they are, and threads are checked (mpi.check_threads)
  before,   ///< not yet initialized
  after,    ///< finalized
};

/// Written by the thread that initializes or finalizes. Relaxed loads are enough: who may call has
/// been told so by the program's own synchronization with that thread.
extern constinit std::atomic<Gate> g_gate __attribute__((visibility("hidden")));

/// `mpi.check_threads`: a call begins and ends. `enter_checked` throws Failure if the thread may
/// not call now, at the level that was provided.
void enter_checked();
void leave_checked() noexcept;

}  // namespace weft::mpi
