// The first program to try: messages both ways, a window of nonblocking ones, a wildcard.
#include <mpi.h>

#include <cstdio>
#include <vector>

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("failed: %s\n", what);
  ++failures;
}

void ping_pong(int rank) {
  const int peer = 1 - rank;
  for (int i = 0; i < 100; ++i) {
    int value = i;
    MPI_Status status;
    if (rank == 0) {
      MPI_Send(&value, 1, MPI_INT, peer, i, MPI_COMM_WORLD);
      MPI_Recv(&value, 1, MPI_INT, peer, i, MPI_COMM_WORLD, &status);
      expect(value == i + 1, "the answer is one more");
    } else {
      MPI_Recv(&value, 1, MPI_INT, peer, i, MPI_COMM_WORLD, &status);
      expect(value == i, "the question's number");
      ++value;
      MPI_Send(&value, 1, MPI_INT, peer, i, MPI_COMM_WORLD);
    }
    expect(status.MPI_SOURCE == peer && status.MPI_TAG == i, "source and tag");
  }
}

void window(int rank, int ints) {
  constexpr int kWindow = 64;
  const int peer = 1 - rank;
  const auto size = static_cast<std::size_t>(kWindow * ints);
  std::vector<int> out(size);
  std::vector<int> in(size, -1);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<int>(i) * 2 + rank;
  std::vector<MPI_Request> requests(2 * kWindow);
  for (int i = 0; i < kWindow; ++i) {
    MPI_Irecv(&in[static_cast<std::size_t>(i * ints)], ints, MPI_INT, peer, 7, MPI_COMM_WORLD,
              &requests[static_cast<std::size_t>(i)]);
  }
  for (int i = 0; i < kWindow; ++i) {
    MPI_Isend(&out[static_cast<std::size_t>(i * ints)], ints, MPI_INT, peer, 7, MPI_COMM_WORLD,
              &requests[static_cast<std::size_t>(kWindow + i)]);
  }
  MPI_Waitall(2 * kWindow, requests.data(), MPI_STATUSES_IGNORE);
  for (std::size_t i = 0; i < size; ++i) {
    if (in[i] == static_cast<int>(i) * 2 + peer) continue;
    std::printf("window of %d ints: element %zu is %d\n", ints, i, in[i]);
    ++failures;
    break;
  }
  for (const MPI_Request request : requests) {
    expect(request == MPI_REQUEST_NULL, "requests are null after Waitall");
  }
}

void wildcard(int rank, int size) {
  if (rank != 0) {
    MPI_Send(&rank, 1, MPI_INT, 0, 100 + rank, MPI_COMM_WORLD);
    return;
  }
  std::vector<int> seen(static_cast<std::size_t>(size), 0);
  for (int i = 1; i < size; ++i) {
    int value = -1;
    MPI_Status status;
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    expect(value == status.MPI_SOURCE && status.MPI_TAG == 100 + value, "who sent what");
    if (value > 0 && value < size) ++seen[static_cast<std::size_t>(value)];
  }
  for (int i = 1; i < size; ++i) expect(seen[static_cast<std::size_t>(i)] == 1, "each rank once");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank < 2 && size >= 2) {
    ping_pong(rank);
    window(rank, 1);
    window(rank, 1000);
    window(rank, 100000);
  }
  wildcard(rank, size);
  MPI_Finalize();
  if (failures == 0 && rank == 0) std::printf("well\n");
  return failures == 0 ? 0 : 1;
}
