// Synchronous and long sends both ways, more than a rank has records of operations, all posted
// before their receives: each fetches while it has none left for itself.
#include <mpi.h>

#include <cstdio>
#include <vector>

namespace {

int failures = 0;
void expect(bool holds, int message) {
  if (holds) return;
  std::fprintf(stderr, "failed: message %d is another one\n", message);
  ++failures;
}

constexpr int kRecords = 64;  // WEFT_MPI_OPERATIONS
constexpr int kMany = 2000;
constexpr int kFewer = 100;
constexpr int kLongInts = 100'000;

void exchange(int rank, int count, int ints, bool all_announced = false) {
  const int peer = 1 - rank;
  const auto length = static_cast<std::size_t>(ints);
  std::vector<int> out(static_cast<std::size_t>(count) + length);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int>(i);
  std::vector<int> in(static_cast<std::size_t>(count) * length);
  std::vector<MPI_Request> requests(2 * static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    MPI_Issend(out.data() + i, ints, MPI_INT, peer, 0, MPI_COMM_WORLD, &requests[i]);
  if (all_announced) MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) {
    MPI_Irecv(in.data() + static_cast<std::size_t>(i) * length, ints, MPI_INT, peer, 0,
              MPI_COMM_WORLD, &requests[count + i]);
  }
  MPI_Waitall(2 * count, requests.data(), MPI_STATUSES_IGNORE);
  for (int i = 0; i < count; ++i) {
    const int* message = in.data() + static_cast<std::size_t>(i) * length;
    expect(message[0] == i && message[length - 1] == i + ints - 1, i);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  exchange(rank, kRecords, 1, true);
  exchange(rank, kMany, 1);
  exchange(rank, kFewer, kLongInts);
  MPI_Finalize();
  return failures != 0;
}
