// A rank dies between collectives, or within: the others are told so by an error class, none of
// them waits forever, and among themselves they go on.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "collectives_check.hpp"

namespace {

using namespace check;

int class_of(int code) {
  int error_class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &error_class);
  return error_class;
}

/// A sum that meets what ranks gave, or sums of that, and nothing else.
void sum_of_ones(void* in, void* inout, int* count, MPI_Datatype* /*type*/) {
  for (int i = 0; i < *count; ++i) {
    const double more = static_cast<const double*>(in)[i];
    double& sum = static_cast<double*>(inout)[i];
    if (!(more >= 1 && more <= 64 && sum >= 1 && sum <= 64)) {
      std::fprintf(stderr, "an operation met what nobody gave\n");
      std::abort();
    }
    sum += more;
  }
}

/// Blocks of unlike sizes between pairs, some by agents of nodes and some straight; or to a root
/// and back.
int of_unlike(bool has_root, int root, const std::vector<double>& from, std::vector<double>& to,
              MPI_Comm comm) {
  int rank;
  int size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const auto between = [](int a, int b) { return (a + b) % 3 == 0 ? 3000 : (a + b) % 3; };
  const int mine = between(rank, root);
  std::vector<int> counts;
  std::vector<int> places;
  for (int i = 0; i < size; ++i) {
    counts.push_back(between(i, has_root ? root : rank));
    places.push_back(3000 * i);
  }
  if (!has_root) {
    return MPI_Alltoallv(from.data(), counts.data(), places.data(), MPI_DOUBLE, to.data(),
                         counts.data(), places.data(), MPI_DOUBLE, comm);
  }
  const int code = MPI_Gatherv(from.data(), mine, MPI_DOUBLE, to.data(), counts.data(),
                               places.data(), MPI_DOUBLE, root, comm);
  const int back = MPI_Scatterv(from.data(), counts.data(), places.data(), MPI_DOUBLE, to.data(),
                                mine, MPI_DOUBLE, root, comm);
  return code != MPI_SUCCESS ? code : back;
}

/// One of several collectives, blocking or not.
int any_collective(int which, MPI_Comm comm) {
  static std::vector<double> from(100000, 1.0);
  static std::vector<double> to(100000 * 8);
  static MPI_Op ours = [] {
    MPI_Op op;
    MPI_Op_create(sum_of_ones, 1, &op);
    return op;
  }();
  int size;
  MPI_Comm_size(comm, &size);
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_SUCCESS;
  switch (which % 13) {
    case 0:
      return MPI_Allreduce(from.data(), to.data(), 1, MPI_DOUBLE, MPI_SUM, comm);
    case 1:
      return MPI_Barrier(comm);
    case 2:
      return MPI_Allreduce(from.data(), to.data(), 100000, MPI_DOUBLE, MPI_SUM, comm);
    case 3:
      return MPI_Bcast(to.data(), 50000, MPI_DOUBLE, which % size, comm);
    case 4:
      return MPI_Alltoall(from.data(), 1000, MPI_DOUBLE, to.data(), 1000, MPI_DOUBLE, comm);
    case 5:
      code =
          MPI_Iallgather(from.data(), 500, MPI_DOUBLE, to.data(), 500, MPI_DOUBLE, comm, &request);
      break;
    case 6:
      code = MPI_Ibarrier(comm, &request);
      break;
    case 7:
      return MPI_Scan(from.data(), to.data(), 40, MPI_DOUBLE, ours, comm);
    case 8:
      return MPI_Exscan(from.data(), to.data(), 2000, MPI_DOUBLE, ours, comm);
    case 9: {
      code =
          MPI_Gather(from.data(), 100, MPI_DOUBLE, to.data(), 100, MPI_DOUBLE, which % size, comm);
      const int back =
          MPI_Scatter(from.data(), 100, MPI_DOUBLE, to.data(), 100, MPI_DOUBLE, which % size, comm);
      return code != MPI_SUCCESS ? code : back;
    }
    case 10:
    case 11:
      return of_unlike(which % 13 == 11, which % size, from, to, comm);
    default:
      code = MPI_Ireduce(from.data(), to.data(), 20000, MPI_DOUBLE, MPI_MAX, which % size, comm,
                         &request);
  }
  return code != MPI_SUCCESS ? code : MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/// One of those in which few members of a node show each other what is theirs.
int short_exchange(int which, MPI_Comm comm) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<double> mine;
  for (int i = 1; i <= size; ++i) mine.push_back(i);
  std::vector<double> got(ranks, 0.0);
  if (which % 2 == 0) {
    const int code = MPI_Alltoall(mine.data(), 1, MPI_DOUBLE, got.data(), 1, MPI_DOUBLE, comm);
    WEFT_EXPECT(code != MPI_SUCCESS || got == std::vector<double>(ranks, rank + 1),
                "an Alltoall that succeeded is right");
    return code;
  }
  const int code = MPI_Reduce_scatter_block(mine.data(), got.data(), 1, MPI_DOUBLE, MPI_SUM, comm);
  WEFT_EXPECT(code != MPI_SUCCESS || got[0] == size * mine[static_cast<std::size_t>(rank)],
              "a Reduce_scatter that succeeded is right");
  return code;
}

/// One of those that a node's board is for.
int short_collective(int which, MPI_Comm comm) {
  static double one = 1.0;
  static double sum = 0;
  static double all[64];
  int size;
  MPI_Comm_size(comm, &size);
  if (which % 3 == 2) return short_exchange(which / 3, comm);
  int code = MPI_SUCCESS;
  switch (which % 4) {
    case 0:
      sum = 0;
      code = MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
      WEFT_EXPECT(code != MPI_SUCCESS || sum == size, "an Allreduce that succeeded is right");
      return code;
    case 1:
      return MPI_Barrier(comm);
    case 2:
      all[0] = all[size - 1] = 0;
      code = MPI_Allgather(&one, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, comm);
      WEFT_EXPECT(code != MPI_SUCCESS || (all[0] == 1.0 && all[size - 1] == 1.0),
                  "an Allgather that succeeded is right");
      return code;
    default:
      if (which % 8 == 3) return MPI_Bcast(&sum, 1, MPI_DOUBLE, which % size, comm);
      sum = 0;
      std::fill(all, all + size, 2.0);
      code = MPI_Scatter(all, 1, MPI_DOUBLE, &sum, 1, MPI_DOUBLE, which % size, comm);
      WEFT_EXPECT(code != MPI_SUCCESS || sum == 2.0, "a Scatter that succeeded is right");
      return code;
  }
}

}  // namespace

/// collectives_deaths MOMENT [any|short|midst|outside [VICTIM]]: which collectives are called, and
/// when the victim (the last rank) dies: before its call MOMENT; in the midst of short ones, by a
/// signal of another thread; or before a barrier, when one of the others has learnt of it
/// elsewhere.
int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  int size;
  int rank;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int moment = argc > 1 ? std::atoi(argv[1]) : 3;
  const std::string_view how = argc > 2 ? argv[2] : "any";
  const int victim = argc > 3 ? std::atoi(argv[3]) : size - 1;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Group world;
  MPI_Group survivors;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  const int dead[] = {victim};
  MPI_Group_excl(world, 1, dead, &survivors);

  std::atomic<int> calls{0};
  std::jthread killer;
  if (rank == victim && how == "midst") {
    killer = std::jthread([&calls, moment] {
      while (calls.load() < moment) sched_yield();
      std::raise(SIGKILL);
    });
  }
  int error_class = MPI_SUCCESS;
  // All live ranks make the same calls, whatever they return: some know of it earlier than others.
  for (int i = 0; i < moment + 64; ++i) {
    if (rank == victim && i == moment && how != "midst") std::raise(SIGKILL);
    // Nobody comes past it, if the killer is late.
    while (rank == victim && i == moment + 32) pause();
    if (how == "outside" && i == moment) {
      // Its root learns of the death, and comes to the next one late: the others sleep there.
      const int root = (victim + size - 1) % size;
      static int gathered[64];
      if (rank == root) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      MPI_Gather(&rank, 1, MPI_INT, gathered, 1, MPI_INT, root, MPI_COMM_WORLD);
    }
    const int now =
        class_of(how != "any" ? short_collective(how == "outside" ? i + 1 : i, MPI_COMM_WORLD)
                              : any_collective(i, MPI_COMM_WORLD));
    if (now != MPI_SUCCESS) error_class = now;
    calls.store(i + 1);
  }
  WEFT_EXPECT(error_class == MPI_ERR_PROC_ABORTED,
              "the class of a death: " + std::to_string(error_class));

  MPI_Comm rest;
  MPI_Comm_create_group(MPI_COMM_WORLD, survivors, 5, &rest);
  int sum = 0;
  const int one = 1;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, rest);
  WEFT_EXPECT(sum == size - 1, "Allreduce of the survivors");
  MPI_Barrier(rest);
  const int mine = failed_checks;
  int all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, rest);
  if (all == 0 && rank == (victim == 0 ? 1 : 0)) std::printf("the survivors went on\n");
  std::fflush(stdout);
  MPI_Barrier(rest);
  // MPI_Finalize needs all.
  std::quick_exit(failed_checks == 0 ? 0 : 1);
}
