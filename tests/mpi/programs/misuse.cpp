// A program that does what it is told to do wrong: misuse <what>.
#include <mpi.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/asleep.hpp"

namespace {

int rank = 0;

bool asked(const char* what, const char* name) { return std::strcmp(what, name) == 0; }

/// A thread receives, for ever.
void leave_a_thread_in_mpi() {
  static std::atomic<pid_t> its_id{0};
  std::thread([] {
    its_id = weft::test::this_thread_id();
    static int word = 0;
    MPI_Recv(&word, 1, MPI_INT, 0, 98, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  }).detach();
  weft::test::wait_until_asleep(its_id);
}

/// Two threads at once in MPI; how many of the calls were refused.
int concurrent_calls() {
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  std::atomic<pid_t> its_id{0};
  std::thread other([&] {
    its_id = weft::test::this_thread_id();
    int word = 0;
    MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  });
  weft::test::wait_until_asleep(its_id);
  int word = 0;
  int refused = 0;
  // The other thread is inside of MPI until it gets its message.
  if (MPI_Send(&word, 1, MPI_INT, 0, 0, MPI_COMM_SELF) != MPI_SUCCESS) ++refused;
  if (refused > 0) {
    std::printf("refused\n");
    std::fflush(stdout);
    std::_Exit(0);
  }
  other.join();
  std::printf("served\n");
  return 0;
}

int from_another_thread() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int code = MPI_SUCCESS;
  std::thread([&] {
    int size = 0;
    code = MPI_Comm_size(MPI_COMM_WORLD, &size);
  }).join();
  std::printf("%s\n", code == MPI_SUCCESS ? "served" : "refused");
  return 0;
}

void say_nothing(MPI_Comm*, int*, ...) {}

/// One of each kind of handle, or two, none of them freed.
void leave_handles() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_name(comm, "forgotten");
  MPI_Group group;
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  MPI_Datatype types[2];
  MPI_Type_contiguous(3, MPI_INT, &types[0]);
  MPI_Type_vector(2, 1, 2, MPI_INT, &types[1]);
  MPI_Op op;
  MPI_Op_create([](void*, void*, int*, MPI_Datatype*) {}, 1, &op);
  MPI_Errhandler handler;
  MPI_Comm_create_errhandler(say_nothing, &handler);
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "a key", "its value");
  int keyval = 0;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval, nullptr);
  MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &keyval, nullptr);
  static int words[2];
  MPI_Request requests[2];
  MPI_Irecv(&words[0], 1, MPI_INT, rank, 77, MPI_COMM_WORLD, &requests[0]);
  MPI_Send_init(&words[1], 1, MPI_INT, rank, 78, MPI_COMM_WORLD, &requests[1]);
  MPI_Message message;
  MPI_Send(&words[1], 1, MPI_INT, rank, 79, MPI_COMM_WORLD);
  MPI_Mprobe(rank, 79, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
}

/// Buffers of the process and of a communicator, and what is MPI_T's.
void leave_buffers_and_tools() {
  static char room[3][MPI_BSEND_OVERHEAD];
  MPI_Buffer_attach(room[0], sizeof room[0]);
  MPI_Comm_attach_buffer(MPI_COMM_WORLD, room[1], sizeof room[1]);
  MPI_Comm_attach_buffer(MPI_COMM_SELF, room[2], sizeof room[2]);
  void* back = nullptr;
  int bytes = 0;
  MPI_Comm_detach_buffer(MPI_COMM_SELF, &back, &bytes);
  int provided = 0;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_T_pvar_session session;
  MPI_T_pvar_session_create(&session);
  int index = 0;
  int count = 0;
  MPI_T_pvar_get_index("waits", MPI_T_PVAR_CLASS_COUNTER, &index);
  MPI_T_pvar_handle variable;
  MPI_T_pvar_handle_alloc(session, index, nullptr, &variable, &count);
  MPI_T_cvar_get_index("mpi.stats", &index);
  MPI_T_cvar_handle setting;
  MPI_T_cvar_handle_alloc(index, nullptr, &setting, &count);
  MPI_T_finalize();
}

/// All ranks send to the first what it does not receive, the second on a communicator that it has
/// freed, too; and each to itself on one that it frees.
void leave_messages() {
  const int word = 1;
  for (int i = 0; i < 2; ++i) MPI_Send(&word, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
  MPI_Send(&word, 0, MPI_INT, 0, 6 + rank, MPI_COMM_WORLD);
  MPI_Comm own, all;
  MPI_Comm_dup(MPI_COMM_WORLD, &all);
  MPI_Comm_dup(MPI_COMM_SELF, &own);
  MPI_Comm_set_name(own, "the bird's own");
  MPI_Send(&word, 1, MPI_INT, 0, 7, own);
  MPI_Comm_free(&own);
  std::fprintf(stderr, "rank %d has freed it\n", rank);
  if (rank == 0) MPI_Comm_free(&all);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) MPI_Send(&word, 1, MPI_INT, 0, 9, all);
  if (rank != 0) MPI_Comm_free(&all);
}

/// Waits twice for a send that had ended at once, by a copy of its handle.
void use_stale_send() {
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  int word = 1;
  MPI_Request nobody;
  MPI_Irecv(&word, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &nobody);
  MPI_Request sent;
  MPI_Isend(&word, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, &sent);
  for (MPI_Request* first : {&sent, &nobody}) {
    MPI_Request copy = *first;
    MPI_Wait(first, MPI_STATUS_IGNORE);
    const int code = MPI_Wait(&copy, MPI_STATUS_IGNORE);
    std::printf("%s\n", code == MPI_SUCCESS ? "served" : "refused");
  }
  MPI_Recv(&word, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/// Forgets a send that had ended at once.
void leave_send() {
  int word = 1;
  MPI_Request request;
  MPI_Isend(&word, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, &request);
  MPI_Recv(&word, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int level_named(const char* name) {
  if (asked(name, "funneled")) return MPI_THREAD_FUNNELED;
  if (asked(name, "serialized")) return MPI_THREAD_SERIALIZED;
  return asked(name, "multiple") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
}

/// Each rank waits for what does not come, until somebody ends the job.
void wait_for_ever(const char* how) {
  int word = 0;
  const int other = 1 - rank;
  if (asked(how, "ring")) MPI_Recv(&word, 1, MPI_INT, other, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (asked(how, "sends")) MPI_Ssend(&word, 1, MPI_INT, other, 4, MPI_COMM_WORLD);
  if (asked(how, "collectives")) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_name(comm, "the dog's own");
    MPI_Barrier(rank == 0 ? MPI_COMM_WORLD : comm);
  }
  if (asked(how, "freed-send")) {
    constexpr int kBytes = 4 << 20;
    void* const buffer =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MPI_Request request;
    if (rank == 0) {
      MPI_Isend(buffer, kBytes, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &request);
      ::munmap(buffer, kBytes);
      MPI_Send(&word, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(&word, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Recv(buffer, kBytes, MPI_BYTE, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }
  if (asked(how, "asks")) {
    MPI_Request request;
    MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    for (int done = 0; done == 0;) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  }
  if (asked(how, "other-tag") && rank == 1) {
    MPI_Send(&word, 1, MPI_INT, 0, 6, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (asked(how, "other-tag")) {
    MPI_Probe(1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(&word, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "nothing";
  int word = 0;
  if (asked(what, "before")) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int provided = 0;
  MPI_Init_thread(&argc, &argv, level_named(argc > 2 ? argv[2] : "single"), &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (asked(what, "twice")) MPI_Init(&argc, &argv);
  if (asked(what, "fatal") && rank == 0) MPI_Send(&word, 1, MPI_INT, 4711, 0, MPI_COMM_WORLD);
  if (asked(what, "fatal-named")) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_name(comm, "the cat's own");
    if (rank == 0) MPI_Send(&word, -1, MPI_INT, 0, 0, comm);
  }
  if (asked(what, "fatal") || asked(what, "fatal-named"))
    MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (asked(what, "abort") && rank == 0) MPI_Abort(MPI_COMM_WORLD, std::atoi(argv[2]));
  if (asked(what, "abort"))
    MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (asked(what, "wait")) wait_for_ever(argv[2]);
  if (asked(what, "leave")) return 0;
  if (asked(what, "leave-one") && rank == 0) return 0;
  if (asked(what, "leave-unmet")) {
    if (rank == 0) return 0;
    MPI_Recv(&word, 1, MPI_INT, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (asked(what, "stay")) leave_a_thread_in_mpi();
  if (asked(what, "leak")) leave_handles();
  if (asked(what, "leak-buffers")) leave_buffers_and_tools();
  if (asked(what, "leak-messages")) leave_messages();
  if (asked(what, "leak-send")) leave_send();
  if (asked(what, "stale-send")) use_stale_send();
  if (asked(what, "leak-session")) {
    MPI_Session session;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    static char room[MPI_BSEND_OVERHEAD];
    MPI_Session_attach_buffer(session, room, sizeof room);
  }
  if (asked(what, "session-abort")) {
    MPI_Session session;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ABORT, &session);
    MPI_Group group;
    if (rank == 0) MPI_Group_from_session_pset(session, "nobody://knows", &group);
    std::printf("rank %d goes on\n", rank);
    MPI_Session_finalize(&session);
    if (rank != 0) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  if (asked(what, "too-long")) {
    const int words[2] = {1, 2};
    if (rank == 0) MPI_Send(words, 2, MPI_INT, 1, 3, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(&word, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0)
      MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (asked(what, "talk")) {  // three messages to oneself, each of four bytes, the receive first
    for (int i = 0; i < 3; ++i) {
      MPI_Request request;
      MPI_Irecv(&word, 1, MPI_INT, rank, i, MPI_COMM_WORLD, &request);
      MPI_Send(&rank, 1, MPI_INT, rank, i, MPI_COMM_WORLD);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
  }
  if (asked(what, "concurrent")) concurrent_calls();
  if (asked(what, "other-thread")) from_another_thread();
  MPI_Finalize();
  if (asked(what, "after")) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (asked(what, "finalize-twice")) MPI_Finalize();
  return 0;
}
