// The counters at exit (mpi.stats).
#pragma once

namespace weft::mpi {

/// Prints all counters of this rank to standard error, while the process is still there.
void print_stats();

}  // namespace weft::mpi
