// An MPI program that does nothing but begin and end, the same under any MPI library: init,
// barrier, finalize. scripts/startup measures how long that takes, and what its processes and their
// launcher hold in memory meanwhile.
//
//   mpiexec -n N startup                   init, barrier, finalize
//   mpiexec -n N startup FOLDER [talk]     the same; behind the barrier all wait, asleep, until
//                                          FOLDER/go is there
//
// Rank 0 makes FOLDER/ready once all ranks are there. talk: before that, each rank sends 8 bytes to
// every other one. What would make the figures lie: docs/benchmarks.md.
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

namespace {

constexpr auto kLook = std::chrono::milliseconds(20);
constexpr auto kPatience = std::chrono::minutes(5);  // then who measures is gone

void talk_to_all() {
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int step = 1; step < ranks; ++step) {
    const double out = rank;
    double in = -1;
    const int from = (rank - step + ranks) % ranks;
    MPI_Sendrecv(&out, 1, MPI_DOUBLE, (rank + step) % ranks, 0, &in, 1, MPI_DOUBLE, from, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (in != from) MPI_Abort(MPI_COMM_WORLD, 3);
  }
}

void wait_in(const std::string& folder) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    std::FILE* const ready = std::fopen((folder + "/ready").c_str(), "w");
    if (ready == nullptr) MPI_Abort(MPI_COMM_WORLD, 2);
    std::fclose(ready);
  }
  const std::string go = folder + "/go";
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (access(go.c_str(), F_OK) != 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(kLook);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc > 2 && std::string(argv[2]) == "talk") talk_to_all();
  MPI_Barrier(MPI_COMM_WORLD);
  if (argc > 1) wait_in(argv[1]);
  MPI_Finalize();
  return 0;
}
