// mpi.check_collectives: ranks that call unlike collectives are told which rank called what.
#include "collectives_check.hpp"

namespace {

using namespace check;

int size, rank;

/// The last rank calls something else.
bool odd_one() { return rank == size - 1; }

void expect(int code, int wanted, const char* what) {
  int error_class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &error_class);
  WEFT_EXPECT(error_class == wanted, std::string(what) + ": class " + std::to_string(error_class) +
                                         ", not " + std::to_string(wanted));
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const MPI_Comm world = MPI_COMM_WORLD;
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  int x = 1;
  int y = 0;
  int many[64] = {};
  expect(MPI_Barrier(world), MPI_SUCCESS, "Barrier");
  expect(odd_one() ? MPI_Barrier(world) : MPI_Bcast(&x, 1, MPI_INT, 0, world), MPI_ERR_OTHER,
         "Barrier with Bcast");
  expect(MPI_Bcast(&x, 1, MPI_INT, odd_one() ? 1 : 0, world), MPI_ERR_ROOT, "two roots");
  expect(MPI_Bcast(many, odd_one() ? 3 : 1, MPI_INT, 0, world), MPI_ERR_COUNT, "two sizes");
  expect(MPI_Allreduce(&x, &y, 1, MPI_INT, odd_one() ? MPI_MAX : MPI_SUM, world), MPI_ERR_OP,
         "two operations");
  MPI_Request request;
  int code = MPI_Ibarrier(world, &request);
  WEFT_EXPECT(code == MPI_SUCCESS, "Ibarrier");
  expect(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS, "Ibarrier's end");
  if (odd_one()) {
    code = MPI_Iallgather(&x, 1, MPI_INT, many, 1, MPI_INT, world, &request);
  } else {
    code = MPI_Ialltoall(many + 32, 1, MPI_INT, many, 1, MPI_INT, world, &request);
  }
  if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(code, MPI_ERR_OTHER, "Iallgather with Ialltoall");
  expect(MPI_Allreduce(&rank, &y, 1, MPI_INT, MPI_SUM, world), MPI_SUCCESS, "Allreduce after that");
  WEFT_EXPECT(y == size * (size - 1) / 2, "Allreduce's sum");
  return finish();
}
