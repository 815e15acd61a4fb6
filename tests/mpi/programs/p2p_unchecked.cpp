// With WEFT_MPI_CHECK_ARGUMENTS=false: arguments are not looked at, handles are, and what is right
// goes as ever, with tags up to the bound.
#include "check.hpp"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int word = rank;
  // Nothing is sent to nobody, so nothing comes of the count either.
  WEFT_CHECK(MPI_Send(&word, -1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
  WEFT_CHECK_CLASS(MPI_ERR_COMM, MPI_Send(&word, 1, MPI_INT, 0, 0, MPI_COMM_NULL));
  WEFT_CHECK_CLASS(MPI_ERR_TYPE, MPI_Send(&word, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD));

  int* bound = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&bound), &found);
  WEFT_CHECK(found != 0 && *bound >= 32767);
  const int right = (rank + 1) % size;
  const int left = (rank + size - 1) % size;
  for (const int tag : {0, *bound - 1, *bound}) {
    int got = -1;
    MPI_Status status;
    MPI_Sendrecv(&word, 1, MPI_INT, right, tag, &got, 1, MPI_INT, left, tag, MPI_COMM_WORLD,
                 &status);
    WEFT_CHECK(got == left && status.MPI_TAG == tag);
    MPI_Sendrecv(&word, 1, MPI_INT, right, tag, &got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
                 MPI_COMM_WORLD, &status);
    WEFT_CHECK(got == left && status.MPI_TAG == tag && status.MPI_SOURCE == left);
  }
  MPI_Finalize();
  return result();
}
