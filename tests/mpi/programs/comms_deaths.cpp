// A rank dies while others begin, make communicators, or end: they are told so by an error class
// (MPI_Init: by an error that names it), nobody waits for ever, and the living go on.
// comms_deaths WHEN: "init", "dup", "idup", "split", "create", "group",
// "inter", "graph", "session", "finalize"; "wrong", with wrong arguments, too; "sides" and
// "sides_leader", in which the second side of an inter-communicator loses a rank; "split_some" and
// "graph_some", of which some hear from the dead.
#include <unistd.h>

#include <csignal>
#include <cstddef>
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
  if (how == "wrong") {
    // All know of the death. The leader fails for its arguments, the others for what they hear.
    MPI_Barrier(comm);
    const auto either = [&](int given, int wrong) {
      const int found = class_of(given);
      return found == wrong || (rank != 0 && found == MPI_ERR_PROC_ABORTED);
    };
    const bool create = either(MPI_Intercomm_create(comm, 0, comm, size, 5, made), MPI_ERR_RANK);
    const bool groups =
        either(MPI_Intercomm_create_from_groups(group, 0, group, 1, "wrong", MPI_INFO_NULL,
                                                MPI_ERRORS_RETURN, made),
               MPI_ERR_GROUP);
    code = create && groups ? MPI_ERR_PROC_ABORTED : MPI_SUCCESS;
  }
  MPI_Group_free(&group);
  return code;
}

/// Makers over an inter-communicator, and what makes one, after a death on the second side: all
/// ranks of both are told.
void make_of_sides(MPI_Comm sides, MPI_Comm mine, bool first) {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Group world;
  MPI_Group local;
  MPI_Group remote;
  const int halves[] = {0, 1, 2, 3};
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 2, first ? halves : halves + 2, &local);
  MPI_Group_incl(world, 2, first ? halves + 2 : halves, &remote);
  // Twice: when it happens, and when it is known.
  for (int i = 0; i < 2; ++i) {
    for (const std::string how : {"dup", "idup", "split", "create"}) {
      const int code = class_of(make(how, sides, &made));
      expect(code == MPI_ERR_PROC_ABORTED, how + " of sides: class " + std::to_string(code));
    }
    int code = class_of(MPI_Intercomm_merge(sides, 0, &made));
    expect(code == MPI_ERR_PROC_ABORTED, "merge: class " + std::to_string(code));
    code = class_of(MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, first ? 2 : 0, 5, &made));
    expect(code == MPI_ERR_PROC_ABORTED, "Intercomm_create: class " + std::to_string(code));
    code = class_of(MPI_Intercomm_create_from_groups(local, 0, remote, 0, "sides", MPI_INFO_NULL,
                                                     MPI_ERRORS_RETURN, &made));
    expect(code == MPI_ERR_PROC_ABORTED, "of groups: class " + std::to_string(code));
  }
  MPI_Group_free(&local);
  MPI_Group_free(&remote);
  MPI_Group_free(&world);
  if (!first) return;
  // All of this side live.
  int sum = 0;
  const int one = 1;
  expect(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, mine) == MPI_SUCCESS && sum == 2,
         "Allreduce of the living side");
}

/// The dying rank's part of a maker: the first message of one rank, and no more.
void give_to_one(int to, int bytes) {
  const std::byte nothing[8] = {};
  int counts[4] = {};
  const int none[4] = {};
  counts[to] = bytes;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ialltoallv(nothing, counts, none, MPI_BYTE, nullptr, none, none, MPI_BYTE, MPI_COMM_WORLD,
                 &request);
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
  const bool in_sides = when == "sides" || when == "sides_leader";
  const int victim = when == "sides_leader" ? 2 : size - 1;
  MPI_Comm mine = MPI_COMM_NULL;
  MPI_Comm sides = MPI_COMM_NULL;
  const bool first = rank < 2;
  if (in_sides) {
    MPI_Comm_split(MPI_COMM_WORLD, first ? 0 : 1, 0, &mine);
    MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, first ? 2 : 0, 4, &sides);
  }
  if (rank == victim) {
    if (when == "split_some") give_to_one(2, 8);
    if (when == "graph_some") give_to_one(0, 4);
    usleep(200'000);
    std::raise(SIGKILL);
  }
  if (in_sides) {
    make_of_sides(sides, mine, first);
    MPI_Comm_free(&sides);
    MPI_Comm_free(&mine);
  } else if (when != "finalize") {
    // Twice: when it happens, and when it is known.
    for (int i = 0; i < 2; ++i) {
      MPI_Comm made = MPI_COMM_NULL;
      const int code = class_of(make(when.substr(0, when.find('_')), MPI_COMM_WORLD, &made));
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
