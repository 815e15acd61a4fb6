// The error handler that the launcher was told to begin with: errors return, though nothing here
// sets a handler.
#include "check.hpp"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  for (const MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_SELF}) {
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(comm, &handler);
    WEFT_CHECK(handler == MPI_ERRORS_RETURN);
    const int word = 0;
    WEFT_CHECK_CLASS(MPI_ERR_COUNT, MPI_Send(&word, -1, MPI_INT, 0, 0, comm));
  }
  MPI_Finalize();
  return result();
}
