// MPI_Finalize in the destructor of a static object, made before MPI_Init; with an argument in an
// exit handler. Both come after whatever MPI has to do at the exit.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

namespace {

bool by_object = true;

void end() {
  int is_over = 1, size = 0, sum = 0;
  MPI_Finalized(&is_over);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int one = 1;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  const int code = MPI_Finalize();
  if (is_over == 0 && sum == size && code == MPI_SUCCESS) return;
  std::fprintf(stderr, "over: %d, sum %d of %d, MPI_Finalize: %d\n", is_over, sum, size, code);
  std::_Exit(1);
}

struct Guard {
  ~Guard() {
    if (by_object) end();
  }
};
Guard guard;

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    by_object = false;
    std::atexit(end);
  }
  MPI_Init(&argc, &argv);
  return 0;
}
