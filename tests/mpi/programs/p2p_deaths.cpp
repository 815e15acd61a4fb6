// Rank 2 dies in one phase or another of messages with rank 0: what involves it fails with
// MPI_ERR_PROC_ABORTED, nobody waits for ever, and ranks 0 and 1 go on.
#include <mpi.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

int failures = 0;
void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "failed: %s\n", what);
  ++failures;
}

bool aborted(int code) {
  int error_class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &error_class);
  return error_class == MPI_ERR_PROC_ABORTED;
}

constexpr int kLarge = 1 << 20;
constexpr int kVictim = 2;

/// What rank 0 has under way with the one that dies.
void meet_death(int moment, MPI_Comm pair) {
  std::vector<char> buffer(kLarge);
  std::vector<MPI_Request> requests(200, MPI_REQUEST_NULL);
  MPI_Status status;
  switch (moment) {
    case 0:  // a blocking receive
      expect(aborted(MPI_Recv(buffer.data(), 8, MPI_BYTE, kVictim, 1, MPI_COMM_WORLD, &status)),
             "a receive from the dead");
      break;
    case 1:  // a receive from anybody
      expect(aborted(MPI_Recv(buffer.data(), 8, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD,
                              MPI_STATUS_IGNORE)),
             "a receive from anybody");
      break;
    case 2:  // a synchronous send
      expect(aborted(MPI_Ssend(buffer.data(), 8, MPI_BYTE, kVictim, 1, MPI_COMM_WORLD)),
             "a synchronous send to the dead");
      break;
    case 3:  // a large one
      expect(aborted(MPI_Send(buffer.data(), kLarge, MPI_BYTE, kVictim, 1, MPI_COMM_WORLD)),
             "a large send to the dead");
      break;
    case 4: {  // very many at once
      std::vector<MPI_Request> all(20000);
      for (MPI_Request& each : all) {
        MPI_Isend(buffer.data(), 1024, MPI_BYTE, kVictim, 1, MPI_COMM_WORLD, &each);
      }
      (void)MPI_Waitall(static_cast<int>(all.size()), all.data(), MPI_STATUSES_IGNORE);
      break;
    }
    case 5: {  // several receives, of which some are from others
      for (int i = 0; i < 200; ++i) {
        MPI_Irecv(&buffer[i], 1, MPI_BYTE, i % 2 == 0 ? kVictim : 1, 7, MPI_COMM_WORLD,
                  &requests[i]);
      }
      std::vector<MPI_Status> statuses(200);
      int error_class = MPI_SUCCESS;
      MPI_Error_class(MPI_Waitall(200, requests.data(), statuses.data()), &error_class);
      expect(error_class == MPI_ERR_IN_STATUS, "some of several failed");
      for (int i = 0; i < 200; ++i) {
        const bool from_dead = i % 2 == 0;
        expect(from_dead == aborted(statuses[i].MPI_ERROR), "those from the dead, and no others");
      }
      break;
    }
    case 6:  // a probe
      expect(aborted(MPI_Probe(kVictim, 1, MPI_COMM_WORLD, &status)), "a probe for the dead");
      break;
    case 7: {  // probes that do not wait
      int flag = 0;
      int code = MPI_SUCCESS;
      while (code == MPI_SUCCESS && flag == 0)
        code = MPI_Iprobe(kVictim, 1, MPI_COMM_WORLD, &flag, &status);
      expect(aborted(code), "an MPI_Iprobe for the dead");
      MPI_Message message;
      expect(aborted(MPI_Improbe(kVictim, 1, MPI_COMM_WORLD, &flag, &message, &status)),
             "an MPI_Improbe for the dead");
      expect(
          MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &flag, &status) == MPI_SUCCESS && flag == 0,
          "an MPI_Iprobe for the living");
      break;
    }
    case 8: {  // a probe for anybody
      const double start = MPI_Wtime();
      const int code = MPI_Probe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
      // One that begins after the death, on a busy machine, goes on with the living.
      const bool late = code == MPI_SUCCESS && status.MPI_SOURCE == 1 && MPI_Wtime() - start > 1;
      expect(aborted(code) || late, "a probe for anybody");
      expect(MPI_Recv(buffer.data(), 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &status) == MPI_SUCCESS,
             "what the living send late");
      break;
    }
    case 11:  // what the dead had sent comes, though nobody polled before the death
      usleep(1'000'000);
      for (int i = 199; i >= 0; --i)
        expect(MPI_Recv(buffer.data(), 8, MPI_BYTE, kVictim, i, MPI_COMM_WORLD, &status) ==
                   MPI_SUCCESS,
               "a message that the dead had sent");
      break;
    case 10: {  // and is found
      usleep(1'000'000);
      int flag = 0;
      int code = MPI_SUCCESS;
      while (code == MPI_SUCCESS && flag == 0)
        code = MPI_Iprobe(kVictim, 199, MPI_COMM_WORLD, &flag, &status);
      expect(code == MPI_SUCCESS && flag != 0, "the last message of the dead");
      for (int i = 0; i < 200; ++i)
        expect(MPI_Recv(buffer.data(), 8, MPI_BYTE, kVictim, i, MPI_COMM_WORLD, &status) ==
                   MPI_SUCCESS,
               "a message of the dead");
      break;
    }
    default: {  // one that takes the message out; and where nobody else is left
      MPI_Message message;
      expect(aborted(MPI_Mprobe(kVictim, 1, MPI_COMM_WORLD, &message, &status)),
             "an MPI_Mprobe for the dead");
      expect(aborted(MPI_Recv(buffer.data(), 8, MPI_BYTE, MPI_ANY_SOURCE, 1, pair, &status)),
             "a receive from anybody, of whom none is left");
      expect(aborted(MPI_Probe(MPI_ANY_SOURCE, 1, pair, &status)),
             "a probe for anybody, of whom none is left");
    }
  }
  // Now, at the latest, it is known.
  for (int flag = 0; !aborted(MPI_Iprobe(kVictim, 1, MPI_COMM_WORLD, &flag, &status));) {
  }
  // And whatever comes afterwards.
  expect(aborted(MPI_Send(buffer.data(), 8, MPI_BYTE, kVictim, 1, MPI_COMM_WORLD)), "send later");
  expect(aborted(MPI_Recv(buffer.data(), 8, MPI_BYTE, kVictim, 1, MPI_COMM_WORLD, &status)),
         "receive later");
}

/// With four ranks. A persistent send that was freed while active is sent although MPI_Finalize,
/// which cannot wait for the dead, does not wait for the others either.
void leave_a_send_behind(int rank) {
  MPI_Status status;
  for (int flag = 0; !aborted(MPI_Iprobe(kVictim, 1, MPI_COMM_WORLD, &flag, &status));) {
  }
  int value = 42;
  if (rank == 3) {
    MPI_Request request;
    MPI_Ssend_init(&value, 1, MPI_INT, 0, 12, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Request_free(&request);
    (void)MPI_Finalize();
    return;
  }
  value = 0;
  const double start = MPI_Wtime();
  for (int flag = 0; MPI_Wtime() - start < 1;) {  // what is taken back is answered meanwhile
    MPI_Iprobe(3, 13, MPI_COMM_WORLD, &flag, &status);
  }
  if (rank != 0) return;
  expect(MPI_Recv(&value, 1, MPI_INT, 3, 12, MPI_COMM_WORLD, &status) == MPI_SUCCESS && value == 42,
         "a persistent send that was freed");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int moment = argc > 1 ? std::atoi(argv[1]) : 0;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  // Rank 0 and the victim.
  MPI_Comm pair = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 1 ? MPI_UNDEFINED : 0, rank, &pair);
  if (pair != MPI_COMM_NULL) MPI_Comm_set_errhandler(pair, MPI_ERRORS_RETURN);
  if (rank == kVictim) {
    char bytes[8] = {};
    for (int i = 0; i < 200 && (moment == 10 || moment == 11); ++i)
      MPI_Send(bytes, 8, MPI_BYTE, 0, i, MPI_COMM_WORLD);
    usleep(200'000);
    std::raise(SIGKILL);
  }
  if (moment == 12) {
    leave_a_send_behind(rank);
    if (failures == 0 && rank == 0) std::printf("the living went on\n");
    std::fflush(stdout);
    std::_Exit(failures == 0 ? 0 : 1);
  }
  if (rank == 0) {
    meet_death(moment, pair);
  } else if (moment == 8) {
    char bytes[8] = {};
    usleep(4'000'000);
    MPI_Send(bytes, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
  } else if (moment == 5) {
    char byte = 1;
    for (int i = 0; i < 100; ++i) MPI_Send(&byte, 1, MPI_BYTE, 0, 7, MPI_COMM_WORLD);
  }
  // The others go on, also with receives from anybody.
  for (int i = 0; i < 1000; ++i) {
    int value = i;
    if (rank == 0) {
      MPI_Send(&value, 1, MPI_INT, 1, 9, MPI_COMM_WORLD);
      const int code =
          MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      expect(code == MPI_SUCCESS && value == i + 1, "messages among the living");
    } else {
      // One that waits for anybody when the death becomes known is told of it; the next is not.
      int code = MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (aborted(code)) {
        code = MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      }
      expect(code == MPI_SUCCESS && value == i, "messages among the living");
      ++value;
      MPI_Send(&value, 1, MPI_INT, 0, 9, MPI_COMM_WORLD);
    }
  }
  if (failures == 0 && rank == 0) std::printf("the living went on\n");
  std::fflush(stdout);
  // Finalize is collective over all, of which one is dead.
  std::_Exit(failures == 0 ? 0 : 1);
}
