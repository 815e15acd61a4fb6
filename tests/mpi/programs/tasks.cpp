// Tasks with blocking MPI calls (weft_mpi.h): far more conversations than threads, each blocking
// for its answer; collectives, probes and waits in tasks; spawned tasks; wrong calls.
#include <mpi.h>
#include <weft_mpi.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

std::atomic<int> failures{0};
int rank = 0;
int size = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "rank %d: failed: %s\n", rank, what);
  ++failures;
}

constexpr int kTasks = 2000;

/// A conversation with the same task of another rank: whoever is lower asks. Of one rank, with the
/// next task.
void converse(int64_t number, void* argument) {
  auto& done = *static_cast<std::atomic<int>*>(argument);
  const int peer = size - 1 - rank;
  const bool within = size == 1;
  const bool asks = within ? number % 2 == 0 : rank < peer;
  const int tag = static_cast<int>(within ? number / 2 : number);
  const int answers = tag + kTasks;  // so that who asks itself does not answer, too
  for (int turn = 0; turn < 5; ++turn) {
    int value = tag * 10 + turn;
    if (asks) {
      MPI_Send(&value, 1, MPI_INT, peer, tag, MPI_COMM_WORLD);
      MPI_Recv(&value, 1, MPI_INT, peer, answers, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      expect(value == tag * 10 + turn + 1, "an answer");
    } else if (within || peer < rank) {
      MPI_Status status;
      MPI_Probe(peer, tag, MPI_COMM_WORLD, &status);
      MPI_Recv(&value, 1, MPI_INT, peer, tag, MPI_COMM_WORLD, &status);
      expect(value == tag * 10 + turn, "a question");
      ++value;
      MPI_Request request;
      MPI_Isend(&value, 1, MPI_INT, peer, answers, MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    weft_mpi_yield();
  }
  ++done;
}

/// One task asks again and again, in each way that does not wait; the other, of the same worker, is
/// the one that will answer.
void ask_in_vain(int64_t number, void* /*argument*/) {
  constexpr int kWays = 4;
  for (int way = 0; way < kWays; ++way) {
    int word = 0;
    if (number == 1) {
      for (int i = 0; i < 20; ++i) weft_mpi_yield();
      MPI_Send(&way, 1, MPI_INT, 0, way, MPI_COMM_SELF);
      continue;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    int done = 0;
    int index = 0;
    if (way != 3) MPI_Irecv(&word, 1, MPI_INT, 0, way, MPI_COMM_SELF, &request);
    while (done == 0) {
      if (way == 0) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (way == 1) MPI_Testany(1, &request, &index, &done, MPI_STATUS_IGNORE);
      if (way == 2) MPI_Testall(1, &request, &done, MPI_STATUSES_IGNORE);
      if (way == 3) MPI_Iprobe(0, way, MPI_COMM_SELF, &done, MPI_STATUS_IGNORE);
    }
    if (way == 3) MPI_Recv(&word, 1, MPI_INT, 0, way, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    expect(word == way, "what was asked for");
  }
}

/// Each task blocks in a collective of its own communicator.
void reduce(int64_t number, void* argument) {
  const auto& comms = *static_cast<std::vector<MPI_Comm>*>(argument);
  for (int i = 0; i < 20; ++i) {
    int64_t sum = 0;
    const int64_t mine = number + rank;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT64_T, MPI_SUM, comms[static_cast<std::size_t>(number)]);
    expect(sum == number * size + size * (size - 1) / 2, "a sum");
  }
}

void count_one(void* argument) { ++*static_cast<std::atomic<int>*>(argument); }
void spawn_some(int64_t /*number*/, void* argument) {
  for (int i = 0; i < 10; ++i) {
    expect(weft_mpi_spawn(count_one, argument) == MPI_SUCCESS, "a spawn");
  }
  expect(weft_mpi_run(1, 1, spawn_some, argument) == MPI_ERR_OTHER, "no run within a task");
}

}  // namespace

int main(int argc, char** argv) {
  expect(weft_mpi_run(1, 1, spawn_some, nullptr) == MPI_ERR_OTHER, "not before MPI");
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);

  for (const int workers : {1, 2}) {
    std::atomic<int> done{0};
    expect(weft_mpi_run(workers, kTasks, converse, &done) == MPI_SUCCESS, "conversations run");
    expect(done == kTasks, "all conversations end");
    MPI_Barrier(MPI_COMM_WORLD);
  }
  for (const int workers : {1, 2})
    expect(weft_mpi_run(workers, 2, ask_in_vain, nullptr) == MPI_SUCCESS, "askers run");
  std::vector<MPI_Comm> comms(30);
  for (MPI_Comm& each : comms) MPI_Comm_dup(MPI_COMM_WORLD, &each);
  expect(weft_mpi_run(2, static_cast<int64_t>(comms.size()), reduce, &comms) == MPI_SUCCESS,
         "collectives run");
  for (MPI_Comm& each : comms) MPI_Comm_free(&each);

  std::atomic<int> spawned{0};
  expect(weft_mpi_run(0, 10, spawn_some, &spawned) == MPI_SUCCESS, "spawners run");
  expect(spawned == 100, "what was spawned has ended");
  expect(weft_mpi_run(1, -1, spawn_some, nullptr) == MPI_ERR_ARG, "a negative number");
  expect(weft_mpi_run(1, 1, nullptr, nullptr) == MPI_ERR_ARG, "no body");
  expect(weft_mpi_spawn(count_one, &spawned) == MPI_ERR_OTHER, "no spawn outside");
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
