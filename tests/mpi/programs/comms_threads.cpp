// Several threads make communicators at once, each over a parent of its own or by tags of its own:
// no deadlock, and no two communicators get each other's messages. And one frees what others use.
#include <mpi.h>

#include <array>
#include <cstddef>
#include <thread>
#include <vector>

#include "comms_check.hpp"

namespace {

constexpr int kThreads = 6;
constexpr int kRounds = 25;

/// All that a thread makes in a round lives at once with what others make.
void make_and_use(int thread, MPI_Comm parent) {
  for (int round = 0; round < kRounds; ++round) {
    const int number = thread * 100 + round;
    MPI_Comm dup;
    MPI_Comm later[3];
    MPI_Request requests[3];
    MPI_Comm half;
    for (int i = 0; i < 3; ++i) MPI_Comm_idup(parent, &later[i], &requests[i]);
    MPI_Comm_dup(parent, &dup);
    MPI_Comm_split(dup, check::rank_in(parent) % 2, 0, &half);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    WEFT_EXPECT(check::goes_round(dup, number));
    WEFT_EXPECT(check::goes_round(half, number));
    for (MPI_Comm& comm : later) WEFT_EXPECT(check::goes_round(comm, number));
    MPI_Comm_free(&half);
    MPI_Comm_free(&dup);
    for (MPI_Comm& comm : later) MPI_Comm_free(&comm);
  }
}

/// Threads share MPI_COMM_WORLD as the parent; tags tell their calls apart.
void make_groups(int thread, MPI_Group all, MPI_Group even) {
  int rank_in_even = MPI_UNDEFINED;
  MPI_Group_rank(even, &rank_in_even);
  for (int round = 0; round < kRounds; ++round) {
    MPI_Comm comm;
    MPI_Comm_create_group(MPI_COMM_WORLD, all, thread, &comm);
    WEFT_EXPECT(check::goes_round(comm, thread * 100 + round));
    if (rank_in_even != MPI_UNDEFINED) {
      MPI_Comm part;
      MPI_Comm_create_group(MPI_COMM_WORLD, even, 1000 + thread, &part);
      WEFT_EXPECT(check::goes_round(part, thread * 100 + round));
      MPI_Comm_free(&part);
    }
    MPI_Comm_free(&comm);
  }
}

constexpr int kNote = 11;
constexpr int kAnswer = 12;
constexpr std::array<int, 5> kWords{1, 2, 3, 4, 5};

MPI_Datatype every_other(int words) {
  MPI_Datatype type;
  MPI_Type_vector(words, 1, 2, MPI_INT, &type);
  MPI_Type_commit(&type);
  return type;
}

/// How others know that a receive has begun: it sends first, or MPI_T says that it waits; and one
/// that is told, into too short a buffer.
enum class Known { told, posted, too_short };

/// Returns when a receive waits on it.
void await_receive(MPI_Comm comm) {
  int provided = -1;
  int index = -1;
  int count = 0;
  MPI_T_pvar_session session;
  MPI_T_pvar_handle handle;
  MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided);
  MPI_T_pvar_get_index("comm_posted_length", MPI_T_PVAR_CLASS_LEVEL, &index);
  MPI_T_pvar_session_create(&session);
  MPI_T_pvar_handle_alloc(session, index, &comm, &handle, &count);
  unsigned long long posted = 0;
  while (MPI_T_pvar_read(session, handle, &posted) == MPI_SUCCESS && posted == 0) {
    std::this_thread::yield();
  }
  WEFT_EXPECT(posted == 1);
  MPI_T_pvar_session_free(&session);
  MPI_T_finalize();
}

/// Rank 0: a thread receives into every other word, while this one frees communicator and type.
void free_while_received(MPI_Comm comm, Known known) {
  const std::size_t words = known == Known::too_short ? 2 : kWords.size();
  MPI_Datatype type = every_other(static_cast<int>(words));
  std::thread receiver([=] {
    std::array<int, 2 * kWords.size()> got{};
    MPI_Status status;
    const int code = known == Known::posted
                         ? MPI_Recv(got.data(), 1, type, MPI_ANY_SOURCE, kAnswer, comm, &status)
                         : MPI_Sendrecv(nullptr, 0, MPI_INT, 1, kNote, got.data(), 1, type,
                                        MPI_ANY_SOURCE, kAnswer, comm, &status);
    const int error = known == Known::too_short ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
    WEFT_EXPECT(check::class_of(code) == error && status.MPI_SOURCE == 1);
    if (error != MPI_SUCCESS) return;
    for (std::size_t i = 0; i < kWords.size(); ++i) {
      WEFT_EXPECT(got[2 * i] == kWords[i] && got[2 * i + 1] == 0);
    }
  });
  if (known == Known::posted) {
    await_receive(comm);
  } else {
    MPI_Recv(nullptr, 0, MPI_INT, 1, kNote, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Type_free(&type);
  MPI_Comm_free(&comm);
  // Others that have the freed ones' memory, if it was given back.
  std::array<MPI_Datatype, 8> others;
  for (MPI_Datatype& other : others) other = every_other(1);
  MPI_Send(nullptr, 0, MPI_INT, 1, kNote, MPI_COMM_WORLD);
  receiver.join();
  for (MPI_Datatype& other : others) MPI_Type_free(&other);
}

void answer(MPI_Comm comm, Known known) {
  if (known != Known::posted) {
    MPI_Recv(nullptr, 0, MPI_INT, 0, kNote, comm, MPI_STATUS_IGNORE);
    MPI_Send(nullptr, 0, MPI_INT, 0, kNote, MPI_COMM_WORLD);
  }
  MPI_Recv(nullptr, 0, MPI_INT, 0, kNote, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Send(kWords.data(), kWords.size(), MPI_INT, 0, kAnswer, comm);
  MPI_Comm_free(&comm);
}

/// What is under way when a communicator or a type is freed ends as ever, blocking calls of other
/// threads, too; errors go to the freed communicator's handler, others would end the job.
void free_what_others_use() {
  for (const Known known : {Known::told, Known::posted, Known::too_short}) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    const int rank = check::rank_in(comm);
    if (rank == 0) {
      free_while_received(comm, known);
    } else if (rank == 1) {
      answer(comm, known);
    } else {
      MPI_Comm_free(&comm);
    }
  }
}

/// Every word of a receive that another thread waits for is there when MPI_Comm_disconnect returns.
void disconnect_what_others_use() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const int rank = check::rank_in(comm);
  if (rank == 1) {
    MPI_Recv(nullptr, 0, MPI_INT, 0, kNote, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(kWords.data(), kWords.size(), MPI_INT, 0, kAnswer, comm);
  }
  std::array<int, kWords.size()> got{};
  std::thread receiver;
  if (rank == 0) {
    receiver = std::thread([&got, comm] {
      MPI_Recv(got.data(), kWords.size(), MPI_INT, 1, kAnswer, comm, MPI_STATUS_IGNORE);
    });
    await_receive(comm);
    MPI_Send(nullptr, 0, MPI_INT, 1, kNote, MPI_COMM_WORLD);
  }
  MPI_Comm_disconnect(&comm);
  if (rank == 0) {
    WEFT_EXPECT(got == kWords);
    receiver.join();
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided = -1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  if (provided < MPI_THREAD_MULTIPLE) {
    MPI_Finalize();
    return 0;
  }
  MPI_Group all;
  MPI_Group even;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  int range[1][3] = {{0, check::size_of(MPI_COMM_WORLD) - 1, 2}};
  MPI_Group_range_incl(all, 1, range, &even);
  std::vector<MPI_Comm> parents(kThreads);
  for (MPI_Comm& parent : parents) MPI_Comm_dup(MPI_COMM_WORLD, &parent);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back(make_and_use, t, parents[static_cast<std::size_t>(t)]);
    threads.emplace_back(make_groups, t, all, even);
  }
  for (std::thread& thread : threads) thread.join();
  for (MPI_Comm& parent : parents) MPI_Comm_free(&parent);
  MPI_Group_free(&even);
  MPI_Group_free(&all);
  if (check::size_of(MPI_COMM_WORLD) > 1) {
    free_what_others_use();
    disconnect_what_others_use();
  }
  MPI_Finalize();
  return check::failures == 0 ? 0 : 1;
}
