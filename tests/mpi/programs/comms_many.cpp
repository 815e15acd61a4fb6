// A thousand communicators at once, several thousand one after another.
#include <mpi.h>

#include <algorithm>
#include <vector>

#include "comms_check.hpp"

int main(int argc, char** argv) {
  constexpr std::size_t kAtOnce = 1000;
  constexpr int kOneByOne = 3000;
  MPI_Init(&argc, &argv);
  std::vector<MPI_Comm> comms(kAtOnce, MPI_COMM_WORLD);
  for (std::size_t i = 0; i < kAtOnce; ++i) {
    // Each from one made before it.
    MPI_Comm_dup(i == 0 ? MPI_COMM_WORLD : comms[i / 2], &comms[i]);
  }
  for (std::size_t i = 0; i < kAtOnce; ++i) {
    WEFT_EXPECT(check::goes_round(comms[i], static_cast<int>(i)));
  }
  // Handles differ.
  std::vector<MPI_Comm> sorted = comms;
  std::sort(sorted.begin(), sorted.end());
  WEFT_EXPECT(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
  for (int i = 0; i < kOneByOne; ++i) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (i % 100 == 0) WEFT_EXPECT(check::goes_round(comm, i));
    MPI_Comm_free(&comm);
  }
  MPI_Finalize();
  return check::failures == 0 ? 0 : 1;
}
