// Reductions are under way when another collective on the same communicator meets a death. What
// they take from all ranks comes nevertheless: those that succeed have combined all of it.
#include <csignal>
#include <cstdlib>
#include <deque>
#include <vector>

#include "collectives_check.hpp"

namespace {

using namespace check;

/// As MPI_SUM; how often it is called is of no interest, but with what.
void add(void* from, void* to, int* count, MPI_Datatype* /*type*/) {
  for (int i = 0; i < *count; ++i) {
    const int term = static_cast<int*>(from)[i];
    WEFT_EXPECT(term >= 1, "the operation meets vectors of ranks only");
    static_cast<int*>(to)[i] += term;
  }
}

struct Case {
  int count;
  MPI_Op op;
};
/// Begun, everywhere in the same order. Rank 0 gets the sums.
struct Running {
  explicit Running(const Case& of, int rank)
      : from(static_cast<std::size_t>(of.count), rank + 1), to(from.size()) {
    MPI_Ireduce(from.data(), to.data(), of.count, MPI_INT, of.op, 0, MPI_COMM_WORLD, &request);
  }
  std::vector<int> from;
  std::vector<int> to;
  MPI_Request request = MPI_REQUEST_NULL;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int size;
  int rank;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm letters;  // not touched by what the other one meets
  MPI_Comm_dup(MPI_COMM_WORLD, &letters);
  MPI_Op commuting;
  MPI_Op ordered;
  MPI_Op_create(&add, 1, &commuting);
  MPI_Op_create(&add, 0, &ordered);
  std::vector<Case> cases;
  // Straight, by a tree eagerly, by a tree and rendezvous.
  for (const int count : {1, 900, 1500, 16000}) {
    for (MPI_Op op : {MPI_SUM, commuting, ordered}) cases.push_back({count, op});
  }
  const int victim = size - 1;
  const int late = 1;
  std::deque<Running> running;
  const auto begin = [&] {
    for (const Case& each : cases) running.emplace_back(each, rank);
  };
  const auto end = [&] {
    for (Running& each : running)
      WEFT_EXPECT(MPI_Wait(&each.request, MPI_STATUS_IGNORE) == MPI_SUCCESS, "a reduction ends");
  };

  if (rank == victim) {
    begin();
    end();
    // Rank 0 has what was sent before this.
    MPI_Sendrecv(nullptr, 0, MPI_INT, 0, 1, nullptr, 0, MPI_INT, 0, 1, letters, MPI_STATUS_IGNORE);
    std::raise(SIGKILL);
  } else if (rank == 0) {
    begin();
    MPI_Request told;
    int word = 0;
    MPI_Ibcast(&word, 1, MPI_INT, victim, MPI_COMM_WORLD, &told);
    MPI_Sendrecv(nullptr, 0, MPI_INT, victim, 1, nullptr, 0, MPI_INT, victim, 1, letters,
                 MPI_STATUS_IGNORE);
    int error_class = MPI_SUCCESS;
    MPI_Error_class(MPI_Wait(&told, MPI_STATUS_IGNORE), &error_class);
    WEFT_EXPECT(error_class == MPI_ERR_PROC_ABORTED, "the broadcast meets the death");
    // Only now the last contribution.
    MPI_Send(nullptr, 0, MPI_INT, late, 2, letters);
    end();
    for (const Running& each : running) {
      for (const int sum : each.to) {
        if (sum == size * (size + 1) / 2) continue;
        WEFT_EXPECT(false,
                    "of " + std::to_string(each.to.size()) + " sums one is " + std::to_string(sum));
        break;
      }
    }
  } else {
    if (rank == late) MPI_Recv(nullptr, 0, MPI_INT, 0, 2, letters, MPI_STATUS_IGNORE);
    begin();
    end();
  }
  // MPI_Finalize needs all. Nobody leaves before its messages are out, and all went well.
  if (rank == 0) {
    int all = failed_checks;
    for (int other = 1; other < victim; ++other) {
      int theirs = 0;
      MPI_Sendrecv(nullptr, 0, MPI_INT, other, 3, &theirs, 1, MPI_INT, other, 3, letters,
                   MPI_STATUS_IGNORE);
      all += theirs;
    }
    if (all == 0) std::printf("all sums are whole\n");
    std::fflush(stdout);
  } else {
    const int mine = failed_checks;
    MPI_Sendrecv(&mine, 1, MPI_INT, 0, 3, nullptr, 0, MPI_INT, 0, 3, letters, MPI_STATUS_IGNORE);
  }
  std::quick_exit(failed_checks == 0 ? 0 : 1);
}
