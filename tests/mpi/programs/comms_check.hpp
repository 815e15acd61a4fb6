// What the programs about communicators share: checking, and telling communicators apart.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdio>

namespace check {

inline std::atomic<int> failures{0};

inline void failed(const char* file, int line, const char* what) {
  int rank = -1;
  int up = 0;
  MPI_Initialized(&up);
  int over = 0;
  MPI_Finalized(&over);
  if (up != 0 && over == 0) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::printf("%s:%d: rank %d: %s\n", file, line, rank, what);
  std::fflush(stdout);
  ++failures;
}

inline int size_of(MPI_Comm comm) {
  int size = -1;
  MPI_Comm_size(comm, &size);
  return size;
}

inline int rank_in(MPI_Comm comm) {
  int rank = -1;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

/// Goes around an intra-communicator: each sends to the next a number that only this communicator's
/// members exchange just now. True: it got what the one before it sent.
inline bool goes_round(MPI_Comm comm, int number) {
  const int size = size_of(comm);
  const int rank = rank_in(comm);
  int sent = number * 1000 + rank;
  int got = -1;
  MPI_Sendrecv(&sent, 1, MPI_INT, (rank + 1) % size, 3, &got, 1, MPI_INT, (rank + size - 1) % size,
               3, comm, MPI_STATUS_IGNORE);
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
  return got == number * 1000 + (rank + size - 1) % size && sum == size * (size - 1) / 2;
}

inline int class_of(int code) {
  int error_class = -1;
  MPI_Error_class(code, &error_class);
  return error_class;
}

}  // namespace check

#define WEFT_EXPECT(holds) \
  ((holds) ? static_cast<void>(0) : check::failed(__FILE__, __LINE__, #holds))
