// Synchronous sends between two ranks: they end when they are matched and not before, and what goes
// with them is whole and in order, whether it comes early or late, short or long.
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <vector>

#include "check.hpp"

namespace {

constexpr int kGo = 1, kTag = 2, kLate = 3;
int rank = 0;
const int kSizes[] = {0, 1, 8, 40, 64, 65, 184, 185, 1000, 4096, 20'000, 200'000};

std::vector<unsigned char> pattern(int size, int seed) {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i)
    bytes[static_cast<std::size_t>(i)] = static_cast<unsigned char>(i * 7 + seed);
  return bytes;
}

void say_go() { MPI_Send(nullptr, 0, MPI_BYTE, 1 - rank, kGo, MPI_COMM_WORLD); }
void await_go() {
  MPI_Recv(nullptr, 0, MPI_BYTE, 1 - rank, kGo, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

sigset_t by_other_ways() {
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, SIGUSR1);
  return only;
}

/// Nobody receives it until the sender says so, who has looked often whether it ended.
void ends_when_matched(int size) {
  const auto data = pattern(size, 1);
  if (rank == 0) {
    MPI_Request request;
    MPI_Issend(data.data(), size, MPI_BYTE, 1, kTag, MPI_COMM_WORLD, &request);
    int over = 0;
    for (int look = 0; look < 200 && over == 0; ++look)
      MPI_Test(&request, &over, MPI_STATUS_IGNORE);
    WEFT_CHECK(over == 0);
    say_go();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    await_go();
    MPI_Status status;
    MPI_Probe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &status);
    int count = -1;
    MPI_Get_count(&status, MPI_BYTE, &count);
    WEFT_CHECK(count == size && status.MPI_SOURCE == 0);
    std::vector<unsigned char> into(data.size());
    MPI_Recv(into.data(), size, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    WEFT_CHECK(status.MPI_TAG == kTag && into == data);
  }
}

void meets_a_receive(int size) {
  const auto data = pattern(size, 2);
  if (rank == 0) {
    await_go();
    MPI_Ssend(data.data(), size, MPI_BYTE, 1, kTag, MPI_COMM_WORLD);
  } else {
    std::vector<unsigned char> into(data.size());
    MPI_Request request;
    MPI_Irecv(into.data(), size, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &request);
    say_go();
    MPI_Status status;
    MPI_Wait(&request, &status);
    int count = -1;
    MPI_Get_count(&status, MPI_BYTE, &count);
    WEFT_CHECK(count == size && into == data);
  }
}

/// The sender's part of a message that comes early, or when its receive is there; how it ended.
int sends(const void* data, int count, MPI_Datatype type, bool early) {
  if (!early) await_go();
  MPI_Request request;
  MPI_Issend(data, count, type, 1, kTag, MPI_COMM_WORLD, &request);
  if (early) say_go();
  return MPI_Wait(&request, MPI_STATUS_IGNORE);
}
int receives(void* into, int count, MPI_Datatype type, bool early) {
  if (early) await_go();
  MPI_Request request;
  MPI_Irecv(into, count, type, 0, kTag, MPI_COMM_WORLD, &request);
  if (!early) say_go();
  return MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/// Leaves MPI until the other rank says so by other ways.
void stay_away() {
  int got = 0;
  const sigset_t only = by_other_ways();
  sigwait(&only, &got);
}

void ends_though_its_receiver_leaves(int size, bool early, pid_t peer) {
  const auto data = pattern(size, 5);
  if (rank == 0) {
    sends(data.data(), size, MPI_BYTE, early);
    kill(peer, SIGUSR1);
    await_go();
  } else {
    std::vector<unsigned char> into(data.size());
    receives(into.data(), size, MPI_BYTE, early);
    WEFT_CHECK(into == data);
    stay_away();
    say_go();
  }
}

/// A short one brings its bytes: nobody need ask its sender for them. (Where they can be read from
/// its memory, this holds of any.)
void comes_though_its_sender_leaves(int size, pid_t peer) {
  const auto data = pattern(size, 6);
  if (rank == 0) {
    MPI_Request request;
    MPI_Issend(data.data(), size, MPI_BYTE, 1, kTag, MPI_COMM_WORLD, &request);
    say_go();
    stay_away();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    std::vector<unsigned char> into(data.size());
    receives(into.data(), size, MPI_BYTE, true);
    WEFT_CHECK(into == data);
    kill(peer, SIGUSR1);
  }
}

/// Early and late, with a receive that has no room for the last byte; its sender ends well.
void is_cut_off(int size, bool early) {
  const auto data = pattern(size, 3);
  if (rank == 0) {
    WEFT_CHECK_CLASS(MPI_SUCCESS, sends(data.data(), size, MPI_BYTE, early));
  } else {
    std::vector<unsigned char> into(data.size() - 1);
    WEFT_CHECK_CLASS(MPI_ERR_TRUNCATE, receives(into.data(), size - 1, MPI_BYTE, early));
  }
}

/// Every other int of one lies in every third of the other.
void goes_by_layouts(int count, bool early) {
  MPI_Datatype every_other;
  MPI_Datatype every_third;
  MPI_Type_vector(count, 1, 2, MPI_INT, &every_other);
  MPI_Type_vector(count, 1, 3, MPI_INT, &every_third);
  MPI_Type_commit(&every_other);
  MPI_Type_commit(&every_third);
  std::vector<int> ints(static_cast<std::size_t>(count) * 3, -1);
  if (rank == 0) {
    for (int i = 0; i < count; ++i) ints[static_cast<std::size_t>(i) * 2] = i;
    sends(ints.data(), 1, every_other, early);
  } else {
    receives(ints.data(), 1, every_third, early);
    for (int i = 0; i < count; ++i) {
      WEFT_CHECK(ints[static_cast<std::size_t>(i) * 3] == i);
      WEFT_CHECK(ints[static_cast<std::size_t>(i) * 3 + 1] == -1);
    }
  }
  MPI_Type_free(&every_other);
  MPI_Type_free(&every_third);
}

/// Hundreds of both kinds, most of them early; matched probes take every fifth.
void keep_their_order() {
  constexpr int kMessages = 600;
  const auto size_of = [](int i) { return i % 3 == 0 ? 8 : i * 37 % 3000; };
  if (rank == 0) {
    std::vector<std::vector<unsigned char>> data;
    std::vector<MPI_Request> requests(kMessages);
    for (int i = 0; i < kMessages; ++i) data.push_back(pattern(size_of(i), i));
    for (int i = 0; i < kMessages; ++i) {
      const auto at = static_cast<std::size_t>(i);
      (i % 4 == 1 ? MPI_Isend : MPI_Issend)(data[at].data(), size_of(i), MPI_BYTE, 1, kTag,
                                            MPI_COMM_WORLD, &requests[at]);
    }
    say_go();
    MPI_Waitall(kMessages, requests.data(), MPI_STATUSES_IGNORE);
  } else {
    MPI_Request go;
    MPI_Irecv(nullptr, 0, MPI_BYTE, 0, kGo, MPI_COMM_WORLD, &go);
    MPI_Wait(&go, MPI_STATUS_IGNORE);
    std::vector<unsigned char> into(3000);
    for (int i = 0; i < kMessages; ++i) {
      MPI_Status status;
      if (i % 5 == 0) {
        MPI_Message message;
        MPI_Mprobe(0, kTag, MPI_COMM_WORLD, &message, &status);
        MPI_Mrecv(into.data(), 3000, MPI_BYTE, &message, &status);
      } else {
        MPI_Recv(into.data(), 3000, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &status);
      }
      int count = -1;
      MPI_Get_count(&status, MPI_BYTE, &count);
      WEFT_CHECK(count == size_of(i));
      const auto wanted = pattern(size_of(i), i);
      WEFT_CHECK(std::memcmp(into.data(), wanted.data(), wanted.size()) == 0);
    }
  }
}

/// One that is taken back early, and one that comes behind it.
void is_taken_back(int size) {
  const auto data = pattern(size, 4);
  if (rank == 0) {
    MPI_Request request;
    MPI_Issend(data.data(), size, MPI_BYTE, 1, kTag, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Status status;
    MPI_Wait(&request, &status);
    int cancelled = 0;
    MPI_Test_cancelled(&status, &cancelled);
    WEFT_CHECK(cancelled != 0);
    MPI_Ssend(data.data(), size, MPI_BYTE, 1, kLate, MPI_COMM_WORLD);
    await_go();
  } else {
    std::vector<unsigned char> into(data.size());
    MPI_Recv(into.data(), size, MPI_BYTE, 0, kLate, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    WEFT_CHECK(into == data);
    int found = 1;
    MPI_Iprobe(0, kTag, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    WEFT_CHECK(found == 0);
    say_go();
  }
}

}  // namespace

int main() {
  // Before there are other threads.
  const sigset_t only = by_other_ways();
  pthread_sigmask(SIG_BLOCK, &only, nullptr);
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int own = getpid();
  int peer = 0;
  MPI_Sendrecv(&own, 1, MPI_INT, 1 - rank, kTag, &peer, 1, MPI_INT, 1 - rank, kTag, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  for (int round = 0; round < 3; ++round) {
    for (const int size : kSizes) {
      ends_though_its_receiver_leaves(size, true, peer);
      ends_though_its_receiver_leaves(size, false, peer);
      if (size <= 4096) comes_though_its_sender_leaves(size, peer);
      ends_when_matched(size);
      meets_a_receive(size);
      is_taken_back(size);
      if (size == 0) continue;
      is_cut_off(size, true);
      is_cut_off(size, false);
    }
    for (const int count : {1, 10, 100, 5000}) {
      goes_by_layouts(count, true);
      goes_by_layouts(count, false);
    }
    keep_their_order();
  }
  MPI_Finalize();
  if (failures == 0 && rank == 0) std::printf("all as it should be\n");
  return failures == 0 ? 0 : 1;
}
