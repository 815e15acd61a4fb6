// The debug check of thread levels: which thread is inside of MPI.
#include "mpi/process/gate.hpp"

#include <unistd.h>

#include <cstdint>

#include "mpi/failure.hpp"
#include "mpi/process.hpp"
#include "mpi/process/main_thread.hpp"

namespace weft::mpi {

constinit std::atomic<Gate> g_gate{Gate::before};

namespace {

/// The thread that is inside of MPI, by the address of its `my_depth`; 0: none. Levels below
/// MPI_THREAD_MULTIPLE only.
constinit std::atomic<uintptr_t> g_inside{0};
/// How many calls deep this thread is: callbacks of programs may call MPI again.
constinit thread_local unsigned my_depth = 0;

uintptr_t me() noexcept { return reinterpret_cast<uintptr_t>(&my_depth); }

}  // namespace

void enter_checked() {
  const int level = process().thread_level();
  if (level == MPI_THREAD_MULTIPLE) return;
  if (level <= MPI_THREAD_FUNNELED && !is_main_thread())
    fail(MPI_ERR_OTHER, level == MPI_THREAD_SINGLE
                            ? "called by a second thread at MPI_THREAD_SINGLE"
                            : "not called by the main thread, at MPI_THREAD_FUNNELED");
  uintptr_t inside = 0;
  // acquire: pairs with the release in leave_checked.
  if (my_depth == 0 && !g_inside.compare_exchange_strong(inside, me(), std::memory_order_acquire))
    fail(MPI_ERR_OTHER, "called while another thread is inside of MPI, below MPI_THREAD_MULTIPLE");
  ++my_depth;
}

void leave_checked() noexcept {
  // A call may initialize or finalize the process, or have entered at another level.
  if (my_depth == 0 || --my_depth > 0) return;
  g_inside.store(0, std::memory_order_release);
}

}  // namespace weft::mpi
