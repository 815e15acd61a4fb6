// A rank dies while others begin, make communicators, or end: they are told so by an error class
// (MPI_Init: by an error that names it), nobody waits for ever, and the living go on.
// comms_deaths WHEN: "init", "dup", "idup", "split", "create", "group",
// "inter", "graph", "session", "finalize".
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "check.hpp"

namespace {

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "check failed: %s\n", what.c_str());
  ++failures;
}

int after_wait(int code, MPI_Request* request) {
  return code == MPI_SUCCESS ? MPI_Wait(request, MPI_STATUS_IGNORE) : code;
}

/// What makes a communicator out of `comm`, with the dead one in it.
int make(const std::string& how, MPI_Comm comm, MPI_Comm* made) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Group group;
  MPI_Comm_group(comm, &group);
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_SUCCESS;
  if (how == "dup") code = MPI_Comm_dup(comm, made);
  if (how == "idup") {
    code = MPI_Comm_idup(comm, made, &request);
    code = after_wait(code, &request);
  }
  if (how == "split") code = MPI_Comm_split(comm, rank % 2, 0, made);
  if (how == "create") code = MPI_Comm_create(comm, group, made);
  if (how == "group") code = MPI_Comm_create_group(comm, group, 3, made);
  if (how == "session") {
    code = MPI_Comm_create_from_group(group, "all", MPI_INFO_NULL, MPI_ERRORS_RETURN, made);
  }
  if (how == "inter") {
    // Between the first and the last one, which is dead; the others have no part of it.
    if (rank != 0) return MPI_ERR_PROC_ABORTED;
    code = MPI_Intercomm_create(MPI_COMM_SELF, 0, comm, size - 1, 5, made);
  }
  if (how == "graph") {
    const int one = 1;
    const int next = (rank + 1) % size;
    code =
        MPI_Dist_graph_create(comm, 1, &rank, &one, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, made);
  }
  MPI_Group_free(&group);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string when = argc > 1 ? argv[1] : "dup";
  // Before MPI is there only the launcher knows who is who.
  const char* number = std::getenv("PMIX_RANK");
  const bool last_of_launcher = number != nullptr && std::atoi(number) == 3;
  if (when == "init" && last_of_launcher) {
    usleep(200'000);
    std::raise(SIGKILL);
  }
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  const int victim = size - 1;
  if (rank == victim) {
    usleep(200'000);
    std::raise(SIGKILL);
  }
  if (when != "finalize") {
    // Twice: when it happens, and when it is known.
    for (int i = 0; i < 2; ++i) {
      MPI_Comm made = MPI_COMM_NULL;
      const int code = class_of(make(when, MPI_COMM_WORLD, &made));
      expect(code == MPI_ERR_PROC_ABORTED,
             when + ": class " + std::to_string(code) + " with a dead member");
    }
  }
  // The living make one of their own, and use it.
  MPI_Group world;
  MPI_Group living;
  MPI_Comm rest = MPI_COMM_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_excl(world, 1, &victim, &living);
  expect(MPI_Comm_create_group(MPI_COMM_WORLD, living, 7, &rest) == MPI_SUCCESS, "of the living");
  int sum = 0;
  const int one = 1;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, rest);
  expect(sum == size - 1, "Allreduce of the living");
  MPI_Comm copy = MPI_COMM_NULL;
  expect(MPI_Comm_dup(rest, &copy) == MPI_SUCCESS, "a copy for the living");
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, copy);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&rest);
  MPI_Group_free(&living);
  MPI_Group_free(&world);
  // Those that are there end together, and say that somebody is missing.
  expect(MPI_Finalize() == MPI_SUCCESS, "Finalize without the dead");
  if (all == 0 && failures == 0 && rank == 0) std::printf("the living went on\n");
  return failures == 0 ? 0 : 1;
}
