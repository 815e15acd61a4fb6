// Several threads make communicators at once, each over a parent of its own or by tags of its own:
// no deadlock, and no two communicators get each other's messages.
#include <mpi.h>

#include <thread>
#include <vector>

#include "comms_check.hpp"

namespace {

constexpr int kThreads = 6;
constexpr int kRounds = 25;

/// All that a thread makes in a round lives at once with what others make.
void make_and_use(int thread, MPI_Comm parent) {
  for (int round = 0; round < kRounds; ++round) {
    const int number = thread * 100 + round;
    MPI_Comm dup;
    MPI_Comm later[3];
    MPI_Request requests[3];
    MPI_Comm half;
    for (int i = 0; i < 3; ++i) MPI_Comm_idup(parent, &later[i], &requests[i]);
    MPI_Comm_dup(parent, &dup);
    MPI_Comm_split(dup, check::rank_in(parent) % 2, 0, &half);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    WEFT_EXPECT(check::goes_round(dup, number));
    WEFT_EXPECT(check::goes_round(half, number));
    for (MPI_Comm& comm : later) WEFT_EXPECT(check::goes_round(comm, number));
    MPI_Comm_free(&half);
    MPI_Comm_free(&dup);
    for (MPI_Comm& comm : later) MPI_Comm_free(&comm);
  }
}

/// Threads share MPI_COMM_WORLD as the parent; tags tell their calls apart.
void make_groups(int thread, MPI_Group all, MPI_Group even) {
  int rank_in_even = MPI_UNDEFINED;
  MPI_Group_rank(even, &rank_in_even);
  for (int round = 0; round < kRounds; ++round) {
    MPI_Comm comm;
    MPI_Comm_create_group(MPI_COMM_WORLD, all, thread, &comm);
    WEFT_EXPECT(check::goes_round(comm, thread * 100 + round));
    if (rank_in_even != MPI_UNDEFINED) {
      MPI_Comm part;
      MPI_Comm_create_group(MPI_COMM_WORLD, even, 1000 + thread, &part);
      WEFT_EXPECT(check::goes_round(part, thread * 100 + round));
      MPI_Comm_free(&part);
    }
    MPI_Comm_free(&comm);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided = -1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  if (provided < MPI_THREAD_MULTIPLE) {
    MPI_Finalize();
    return 0;
  }
  MPI_Group all;
  MPI_Group even;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  int range[1][3] = {{0, check::size_of(MPI_COMM_WORLD) - 1, 2}};
  MPI_Group_range_incl(all, 1, range, &even);
  std::vector<MPI_Comm> parents(kThreads);
  for (MPI_Comm& parent : parents) MPI_Comm_dup(MPI_COMM_WORLD, &parent);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back(make_and_use, t, parents[static_cast<std::size_t>(t)]);
    threads.emplace_back(make_groups, t, all, even);
  }
  for (std::thread& thread : threads) thread.join();
  for (MPI_Comm& parent : parents) MPI_Comm_free(&parent);
  MPI_Group_free(&even);
  MPI_Group_free(&all);
  MPI_Finalize();
  return check::failures == 0 ? 0 : 1;
}
