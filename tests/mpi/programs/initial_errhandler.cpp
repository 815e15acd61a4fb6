// The error handler that the launcher was told to begin with: errors return, though nothing here
// sets a handler; also before MPI_Init and after MPI_Finalize.
#include "check.hpp"

namespace {

/// Calls that are wrong while MPI is not up.
void check_outside() {
  int number = 0;
  WEFT_CHECK_CLASS(MPI_ERR_OTHER, MPI_Comm_rank(MPI_COMM_WORLD, &number));
  WEFT_CHECK_CLASS(MPI_ERR_OTHER, MPI_Barrier(MPI_COMM_SELF));
  MPI_Request request = MPI_REQUEST_NULL;
  WEFT_CHECK_CLASS(MPI_ERR_OTHER, MPI_Wait(&request, MPI_STATUS_IGNORE));
  MPI_Session session = MPI_SESSION_NULL;
  WEFT_CHECK_CLASS(MPI_ERR_OTHER, MPI_Session_get_num_psets(session, MPI_INFO_NULL, &number));
  WEFT_CHECK_CLASS(MPI_ERR_OTHER, MPI_Finalize());
}

}  // namespace

int main(int argc, char** argv) {
  check_outside();
  MPI_Init(&argc, &argv);
  for (const MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_SELF}) {
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(comm, &handler);
    WEFT_CHECK(handler == MPI_ERRORS_RETURN);
    const int word = 0;
    WEFT_CHECK_CLASS(MPI_ERR_COUNT, MPI_Send(&word, -1, MPI_INT, 0, 0, comm));
  }
  MPI_Finalize();
  check_outside();
  WEFT_CHECK_CLASS(MPI_ERR_OTHER, MPI_Init(&argc, &argv));
  return result();
}
