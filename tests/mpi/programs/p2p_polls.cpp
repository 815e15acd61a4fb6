// Ranks that share one core and poll instead of waiting: who looks in vain time after time leaves
// the core to whoever is to answer, or each hop would cost the others' time slices.
#include <mpi.h>
#include <sched.h>

#include <cstdio>

#include "check.hpp"

namespace {

constexpr int kTag = 3;

void bind_to_one_core() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed)) continue;
    CPU_ZERO(&allowed);
    CPU_SET(core, &allowed);
    (void)sched_setaffinity(0, sizeof allowed, &allowed);
    return;
  }
}

/// Each way of polling for a token.
void await_token(int how, int& token) {
  int flag = 0;
  if (how == 0) {
    while (flag == 0) MPI_Iprobe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    MPI_Recv(&token, 1, MPI_INT, MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return;
  }
  if (how == 1) {
    MPI_Message message = MPI_MESSAGE_NULL;
    while (flag == 0) {
      MPI_Improbe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE);
    }
    MPI_Mrecv(&token, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Irecv(&token, 1, MPI_INT, MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &request);
  int index = 0;
  while (flag == 0) {
    if (how == 2) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    if (how == 3) MPI_Testany(1, &request, &index, &flag, MPI_STATUS_IGNORE);
    if (how == 4) MPI_Testall(1, &request, &flag, MPI_STATUSES_IGNORE);
    if (how == 5) MPI_Testsome(1, &request, &flag, &index, MPI_STATUSES_IGNORE);
  }
}

}  // namespace

int main(int argc, char** argv) {
  bind_to_one_core();
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  constexpr int kRounds = 3000;  // of eight ranks: minutes of time slices where nobody yields
  for (int how = 0; how < 6; ++how) {
    for (int round = 0; round < kRounds / 6; ++round) {
      int token = round;
      if (rank == 0) MPI_Send(&token, 1, MPI_INT, 1 % size, kTag, MPI_COMM_WORLD);
      await_token(how, token);
      WEFT_CHECK(token == round);
      if (rank != 0) MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, kTag, MPI_COMM_WORLD);
    }
  }
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
