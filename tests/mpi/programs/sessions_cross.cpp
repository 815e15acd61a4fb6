// A rank ends its last session while a send has still to be received, and another of its threads
// begins the next one, which the receiver waits for first.
#include <mpi.h>
#include <sys/types.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/asleep.hpp"
#include "comms_check.hpp"

namespace {

MPI_Session begin_session() {
  MPI_Session session = MPI_SESSION_NULL;
  WEFT_EXPECT(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session) == MPI_SUCCESS);
  return session;
}

MPI_Comm everybody(MPI_Session session, const char* tag) {
  MPI_Group group;
  MPI_Comm comm;
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  MPI_Group_free(&group);
  return comm;
}

void meet_again() {
  MPI_Session session = begin_session();
  MPI_Comm comm = everybody(session, "second");
  MPI_Comm_free(&comm);
  WEFT_EXPECT(MPI_Session_finalize(&session) == MPI_SUCCESS);
}

}  // namespace

int main() {
  std::vector<char> letter(10 << 20), buffer(letter.size() + 4096);
  MPI_Session first = begin_session();
  MPI_Comm comm = everybody(first, "first");
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  if (rank == 0) {
    std::atomic<pid_t> ends{0};
    std::thread begins([&] {
      weft::test::wait_until_asleep(ends);
      meet_again();
    });
    MPI_Buffer_attach(buffer.data(), static_cast<int>(buffer.size()));
    MPI_Bsend(letter.data(), static_cast<int>(letter.size()), MPI_CHAR, 1, 0, comm);
    MPI_Comm_free(&comm);
    ends = weft::test::this_thread_id();
    WEFT_EXPECT(MPI_Session_finalize(&first) == MPI_SUCCESS);
    begins.join();
  } else {
    meet_again();
    MPI_Recv(letter.data(), static_cast<int>(letter.size()), MPI_CHAR, 0, 0, comm,
             MPI_STATUS_IGNORE);
    MPI_Comm_free(&comm);
    WEFT_EXPECT(MPI_Session_finalize(&first) == MPI_SUCCESS);
  }
  return check::failures == 0 ? 0 : 1;
}
