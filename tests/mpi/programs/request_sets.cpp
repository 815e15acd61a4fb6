// Requests in numbers and of all kinds: any, some, all; null, inactive, persistent, generalized;
// cancelled, freed while active; a hundred thousand at once.
#include <cstdlib>

#include "requests_check.hpp"

namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kMany = 10'000;  // slow there
#else
constexpr int kMany = 100'000;
#endif

bool is_empty(const MPI_Status& status) {
  int cancelled = 1;
  MPI_Test_cancelled(&status, &cancelled);
  return status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG &&
         count_of(status, MPI_INT) == 0 && cancelled == 0;
}

MPI_Status junk() {
  MPI_Status status{};
  status.MPI_SOURCE = 77;
  status.MPI_TAG = 77;
  status.MPI_ERROR = 77;
  return status;
}

/// Null and inactive requests answer at once, with the empty status.
void test_nothing_active() {
  MPI_Request inactive;
  int value = 0;
  MPI_Recv_init(&value, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &inactive);
  MPI_Request requests[3] = {MPI_REQUEST_NULL, inactive, MPI_REQUEST_NULL};
  MPI_Status status = junk();
  MPI_Status statuses[3] = {junk(), junk(), junk()};
  int flag = 0;
  int index = 0;
  int number = 0;
  int indices[3];
  MPI_Wait(&requests[0], &status);
  expect(is_empty(status) && status.MPI_ERROR == 77, "Wait of null");
  status = junk();
  MPI_Wait(&requests[1], &status);
  expect(is_empty(status) && requests[1] == inactive, "Wait of an inactive one");
  status = junk();
  MPI_Test(&requests[1], &flag, &status);
  expect(flag == 1 && is_empty(status), "Test of an inactive one");
  MPI_Waitall(3, requests, statuses);
  expect(is_empty(statuses[0]) && is_empty(statuses[1]) && is_empty(statuses[2]), "Waitall");
  statuses[1] = junk();
  flag = 0;
  MPI_Testall(3, requests, &flag, statuses);
  expect(flag == 1 && is_empty(statuses[1]), "Testall");
  status = junk();
  MPI_Waitany(3, requests, &index, &status);
  expect(index == MPI_UNDEFINED && is_empty(status), "Waitany");
  status = junk();
  index = flag = 0;
  MPI_Testany(3, requests, &index, &flag, &status);
  expect(flag == 1 && index == MPI_UNDEFINED && is_empty(status), "Testany");
  MPI_Waitsome(3, requests, &number, indices, statuses);
  expect(number == MPI_UNDEFINED, "Waitsome");
  number = 0;
  MPI_Testsome(3, requests, &number, indices, statuses);
  expect(number == MPI_UNDEFINED, "Testsome");
  flag = 0;
  status = junk();
  MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &status);
  expect(flag == 1 && is_empty(status), "Request_get_status of null");
  flag = 0;
  MPI_Request_get_status(inactive, &flag, &status);
  expect(flag == 1 && is_empty(status), "Request_get_status of an inactive one");
  MPI_Waitall(0, nullptr, MPI_STATUSES_IGNORE);
  MPI_Waitany(0, nullptr, &index, MPI_STATUS_IGNORE);
  expect(index == MPI_UNDEFINED, "Waitany of none");
  MPI_Request_free(&requests[1]);
}

void test_proc_null() {
  MPI_Status status = junk();
  int value = 5;
  MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status);
  expect(value == 5 && status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG &&
             count_of(status, MPI_INT) == 0,
         "a receive from nobody");
  MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD);
  MPI_Ssend(&value, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD);
  MPI_Bsend(&value, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD);
  MPI_Request requests[4];
  MPI_Status statuses[4];
  MPI_Isend(&value, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &requests[1]);
  MPI_Recv_init(&value, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &requests[2]);
  MPI_Ssend_init(&value, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &requests[3]);
  MPI_Startall(2, &requests[2]);
  MPI_Waitall(4, requests, statuses);
  for (const int receive : {1, 2}) {
    expect(
        statuses[receive].MPI_SOURCE == MPI_PROC_NULL && statuses[receive].MPI_TAG == MPI_ANY_TAG,
        "receive %d from nobody", receive);
  }
  expect(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL, "requests are null");
  MPI_Request_free(&requests[2]);
  MPI_Request_free(&requests[3]);
}

/// Receives answered in a known order by messages that are asked for one by one.
void test_any_and_some() {
  if (g_rank > 1 || g_size < 2) return;
  constexpr int kReceives = 100;
  if (g_rank == 1) {
    for (int i = 0; i < kReceives; ++i) {
      int tag = 0;
      MPI_Recv(&tag, 1, MPI_INT, 0, 1000, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(&tag, 1, MPI_INT, 0, tag, MPI_COMM_WORLD);
    }
    return;
  }
  std::vector<int> values(kReceives, -1);
  std::vector<MPI_Request> requests(kReceives);
  for (int i = 0; i < kReceives; ++i) {
    MPI_Irecv(&values[i], 1, MPI_INT, 1, i, MPI_COMM_WORLD, &requests[i]);
  }
  int index = -1;
  int flag = 1;
  MPI_Testany(kReceives, requests.data(), &index, &flag, MPI_STATUS_IGNORE);
  expect(flag == 0 && index == MPI_UNDEFINED, "nothing has come yet");
  MPI_Testall(kReceives, requests.data(), &flag, MPI_STATUSES_IGNORE);
  expect(flag == 0, "Testall: nothing has come yet");
  int number = -1;
  std::vector<int> indices(kReceives);
  std::vector<MPI_Status> statuses(kReceives);
  MPI_Testsome(kReceives, requests.data(), &number, indices.data(), statuses.data());
  expect(number == 0, "Testsome: nothing has come yet");
  for (int i = 0; i < kReceives; ++i) {
    const int tag = (i * 37) % kReceives;
    MPI_Send(&tag, 1, MPI_INT, 1, 1000, MPI_COMM_WORLD);
    MPI_Status status = junk();
    switch (i % 4) {
      case 0:
        MPI_Waitany(kReceives, requests.data(), &index, &status);
        break;
      case 1:
        for (flag = 0; flag == 0;) {
          MPI_Testany(kReceives, requests.data(), &index, &flag, &status);
        }
        break;
      case 2:
        MPI_Waitsome(kReceives, requests.data(), &number, indices.data(), statuses.data());
        expect(number == 1, "Waitsome: %d", number);
        index = indices[0];
        status = statuses[0];
        break;
      default:
        for (number = 0; number == 0;) {
          MPI_Testsome(kReceives, requests.data(), &number, indices.data(), statuses.data());
        }
        index = indices[0];
        status = statuses[0];
    }
    expect(index == tag && status.MPI_TAG == tag && status.MPI_SOURCE == 1 && values[tag] == tag,
           "step %d: request %d ended, not %d", i, index, tag);
    expect(requests[tag] == MPI_REQUEST_NULL, "it is null");
  }
  MPI_Waitany(kReceives, requests.data(), &index, MPI_STATUS_IGNORE);
  expect(index == MPI_UNDEFINED, "all are done");
}

void test_get_status() {
  if (g_rank > 1 || g_size < 2) return;
  int go = 1;
  if (g_rank == 1) {
    MPI_Recv(&go, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&go, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
    return;
  }
  int value = 0;
  MPI_Request request;
  MPI_Irecv(&value, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, &request);
  int flag = 1;
  MPI_Status status = junk();
  MPI_Request_get_status(request, &flag, &status);
  expect(flag == 0, "get_status: pending");
  MPI_Send(&go, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
  while (flag == 0) MPI_Request_get_status(request, &flag, &status);
  expect(status.MPI_SOURCE == 1 && count_of(status, MPI_INT) == 1, "get_status: ended");
  MPI_Status again = junk();
  MPI_Wait(&request, &again);
  expect(request == MPI_REQUEST_NULL && again.MPI_SOURCE == 1 && value == 1,
         "and then the wait tells it again");
}

void test_cancel() {
  int value = 9;
  MPI_Request request;
  MPI_Status status;
  int cancelled = 0;
  MPI_Irecv(&value, 1, MPI_INT, g_rank, 4, MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  expect(cancelled == 1 && value == 9, "a cancelled receive");
  // One that has matched ends as usual.
  const int out = 3;
  MPI_Irecv(&value, 1, MPI_INT, g_rank, 4, MPI_COMM_WORLD, &request);
  MPI_Send(&out, 1, MPI_INT, g_rank, 4, MPI_COMM_WORLD);
  for (int flag = 0; flag == 0;) MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  expect(cancelled == 0 && value == 3, "too late to cancel");
  MPI_Recv_init(&value, 1, MPI_INT, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &request);
  MPI_Start(&request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  expect(cancelled == 1 && request != MPI_REQUEST_NULL, "a cancelled persistent receive");
  MPI_Start(&request);
  MPI_Send(&out, 1, MPI_INT, g_rank, 4, MPI_COMM_WORLD);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  expect(cancelled == 0 && status.MPI_SOURCE == g_rank, "and started again");
  MPI_Request_free(&request);
}

/// Freed while active: sent, received, and then forgotten. The communicator may go before.
void test_free_active() {
  if (g_rank > 1 || g_size < 2) return;
  MPI_Comm comm;
  MPI_Group world;
  MPI_Group pair;
  const int both[2] = {0, 1};
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 2, both, &pair);
  MPI_Comm_create_group(MPI_COMM_WORLD, pair, 0, &comm);
  static std::vector<unsigned char> data(1 << 20);
  MPI_Request request;
  std::vector<unsigned char> in(1 << 20);
  if (g_rank == 0) {
    fill_pattern(data, 12);
    MPI_Isend(data.data(), 1 << 20, MPI_BYTE, 1, 1, comm, &request);
    MPI_Request_free(&request);
    expect(request == MPI_REQUEST_NULL, "a freed request is null");
    MPI_Recv(nullptr, 0, MPI_BYTE, 1, 2, comm, MPI_STATUS_IGNORE);
    MPI_Irecv(in.data(), 1 << 20, MPI_BYTE, 1, 3, comm, &request);
    MPI_Comm_free(&comm);
    MPI_Status status;
    MPI_Wait(&request, &status);
    expect(has_pattern(in.data(), in.size(), 13) && status.MPI_SOURCE == 1,
           "a receive goes on when its communicator is freed");
  } else {
    MPI_Recv(in.data(), 1 << 20, MPI_BYTE, 0, 1, comm, MPI_STATUS_IGNORE);
    expect(has_pattern(in.data(), in.size(), 12), "a freed send arrives");
    MPI_Send(nullptr, 0, MPI_BYTE, 0, 2, comm);
    fill_pattern(data, 13);
    MPI_Isend(data.data(), 1 << 20, MPI_BYTE, 0, 3, comm, &request);
    MPI_Comm_free(&comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Group_free(&pair);
  MPI_Group_free(&world);
}

/// The type of a pending receive may go, too.
void test_free_type() {
  MPI_Datatype type;
  MPI_Type_vector(10, 1, 2, MPI_INT, &type);
  MPI_Type_commit(&type);
  int in[20] = {};
  int out[10];
  MPI_Request request;
  MPI_Irecv(in, 1, type, g_rank, 6, MPI_COMM_WORLD, &request);
  MPI_Type_free(&type);
  for (int i = 0; i < 10; ++i) out[i] = i + 1;
  MPI_Send(out, 10, MPI_INT, g_rank, 6, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < 20; ++i) {
    expect(in[i] == (i % 2 == 0 ? i / 2 + 1 : 0), "element %d is %d", i, in[i]);
  }
}

struct Operation {
  int queried = 0;
  int freed = 0;
  int cancelled = 0;
  int complete = -1;
};
int query(void* state, MPI_Status* status) {
  ++static_cast<Operation*>(state)->queried;
  MPI_Status_set_elements(status, MPI_INT, 11);
  MPI_Status_set_cancelled(status, static_cast<Operation*>(state)->cancelled);
  status->MPI_SOURCE = 4;
  status->MPI_TAG = 5;
  return MPI_SUCCESS;
}
int free_operation(void* state) {
  ++static_cast<Operation*>(state)->freed;
  return MPI_SUCCESS;
}
int cancel_operation(void* state, int complete) {
  static_cast<Operation*>(state)->complete = complete;
  if (complete == 0) static_cast<Operation*>(state)->cancelled = 1;
  return MPI_SUCCESS;
}

void test_generalized() {
  Operation operation;
  MPI_Request request;
  MPI_Status status = junk();
  int flag = 1;
  MPI_Grequest_start(query, free_operation, cancel_operation, &operation, &request);
  MPI_Test(&request, &flag, &status);
  expect(flag == 0 && operation.queried == 0, "not complete yet");
  std::thread worker([&] { MPI_Grequest_complete(request); });
  MPI_Request copy = request;
  MPI_Wait(&copy, &status);
  worker.join();
  expect(status.MPI_SOURCE == 4 && status.MPI_TAG == 5 && count_of(status, MPI_INT) == 11,
         "what the query function said");
  expect(operation.queried == 1 && operation.freed == 1, "queried %d times, freed %d times",
         operation.queried, operation.freed);

  operation = Operation();
  MPI_Grequest_start(query, free_operation, cancel_operation, &operation, &request);
  MPI_Cancel(&request);
  expect(operation.complete == 0, "cancelled before it was complete");
  MPI_Grequest_complete(request);
  MPI_Request_get_status(request, &flag, &status);
  int cancelled = 0;
  MPI_Test_cancelled(&status, &cancelled);
  expect(flag == 1 && cancelled == 1 && operation.freed == 0, "get_status asks, and frees nothing");
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(operation.freed == 1, "freed by the wait");

  // Freed before, and after, it is complete.
  operation = Operation();
  MPI_Grequest_start(query, free_operation, cancel_operation, &operation, &request);
  copy = request;
  MPI_Request_free(&copy);
  expect(operation.freed == 0 && copy == MPI_REQUEST_NULL, "freed, but not complete");
  MPI_Grequest_complete(request);
  expect(operation.freed == 1 && operation.queried == 0, "its free function was called");
  operation = Operation();
  MPI_Grequest_start(query, free_operation, cancel_operation, &operation, &request);
  MPI_Grequest_complete(request);
  MPI_Request_free(&request);
  expect(operation.freed == 1, "freed after completion");
}

/// All kinds in one Waitall.
void test_mixture() {
  Operation operation;
  const int right = (g_rank + 1) % g_size;
  const int left = (g_rank + g_size - 1) % g_size;
  int out[3] = {g_rank, g_rank + 100, g_rank + 200};
  int in[3] = {-1, -1, -1};
  for (int round = 0; round < 20; ++round) {
    MPI_Request requests[7];
    MPI_Status statuses[7];
    for (MPI_Status& status : statuses) status = junk();
    MPI_Grequest_start(query, free_operation, cancel_operation, &operation, &requests[0]);
    MPI_Irecv(&in[0], 1, MPI_INT, left, 0, MPI_COMM_WORLD, &requests[1]);
    requests[2] = MPI_REQUEST_NULL;
    MPI_Recv_init(&in[1], 1, MPI_INT, left, 1, MPI_COMM_WORLD, &requests[3]);
    MPI_Isend(&out[0], 1, MPI_INT, right, 0, MPI_COMM_WORLD, &requests[4]);
    MPI_Ssend_init(&out[1], 1, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[5]);
    MPI_Isendrecv(&out[2], 1, MPI_INT, right, 2, &in[2], 1, MPI_INT, left, 2, MPI_COMM_WORLD,
                  &requests[6]);
    MPI_Start(&requests[3]);
    MPI_Start(&requests[5]);
    std::thread worker([handle = requests[0]] { MPI_Grequest_complete(handle); });
    if (round % 2 == 0) {
      MPI_Waitall(7, requests, statuses);
    } else {
      for (int flag = 0; flag == 0;) MPI_Testall(7, requests, &flag, statuses);
    }
    worker.join();
    expect(in[0] == left && in[1] == left + 100 && in[2] == left + 200, "the data");
    expect(count_of(statuses[0], MPI_INT) == 11 && statuses[0].MPI_TAG == 5, "the generalized one");
    expect(statuses[1].MPI_SOURCE == left && statuses[3].MPI_TAG == 1, "the receives");
    expect(is_empty(statuses[2]), "the null one");
    expect(requests[3] != MPI_REQUEST_NULL && requests[5] != MPI_REQUEST_NULL, "persistent ones");
    for (const MPI_Status& status : statuses) {
      expect(status.MPI_ERROR == 77, "MPI_ERROR is left alone");
    }
    MPI_Request_free(&requests[3]);
    MPI_Request_free(&requests[5]);
  }
}

void test_many_outstanding(int number) {
  std::vector<int> in(static_cast<std::size_t>(number), -1);
  std::vector<MPI_Request> requests(static_cast<std::size_t>(number));
  const int right = (g_rank + 1) % g_size;
  const int left = (g_rank + g_size - 1) % g_size;
  for (int i = 0; i < number; ++i) {
    MPI_Irecv(&in[i], 1, MPI_INT, left, i % 1000, MPI_COMM_WORLD, &requests[i]);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < number; ++i) MPI_Send(&i, 1, MPI_INT, right, i % 1000, MPI_COMM_WORLD);
  MPI_Waitall(number, requests.data(), MPI_STATUSES_IGNORE);
  for (int i = 0; i < number; ++i) {
    if (!expect(in[i] == i, "receive %d got %d", i, in[i])) return;
  }
}

/// Synchronous sends to both sides, none of which is received before all were posted.
void test_many_announced(int number) {
  std::vector<int> out(static_cast<std::size_t>(number));
  std::vector<int> in(static_cast<std::size_t>(number), -1);
  std::vector<MPI_Request> requests(2 * static_cast<std::size_t>(number));
  const int right = (g_rank + 1) % g_size;
  const int left = (g_rank + g_size - 1) % g_size;
  for (int i = 0; i < number; ++i) {
    out[i] = i;
    MPI_Issend(&out[i], 1, MPI_INT, right, 4, MPI_COMM_WORLD, &requests[number + i]);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < number; ++i)
    MPI_Irecv(&in[i], 1, MPI_INT, left, 4, MPI_COMM_WORLD, &requests[i]);
  MPI_Waitall(2 * number, requests.data(), MPI_STATUSES_IGNORE);
  expect(in == out, "each receive got its message");
}

/// The last of very many sends is received first: those before it do not keep it.
void test_last_first(int number) {
  if (g_rank > 1 || g_size < 2) return;
  int value = 0;
  if (g_rank == 0) {
    std::vector<int> out(static_cast<std::size_t>(number));
    std::vector<MPI_Request> requests(static_cast<std::size_t>(number));
    for (int i = 0; i < number; ++i) {
      out[i] = i;
      MPI_Isend(&out[i], 1, MPI_INT, 1, i == number - 1 ? 6 : 5, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(number, requests.data(), MPI_STATUSES_IGNORE);
    return;
  }
  MPI_Recv(&value, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  expect(value == number - 1, "the last came first, not %d", value);
  for (int i = 0; i < number - 1; ++i) {
    MPI_Recv(&value, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!expect(value == i, "message %d, not %d", i, value)) return;
  }
}

/// Waits of different requests in different threads, of whatever kind.
void test_threads(int threads) {
  if (g_rank > 1 || g_size < 2) return;
  in_threads(threads, [&](int number) {
    const int peer = 1 - g_rank;
    for (int round = 0; round < 30; ++round) {
      int in[4] = {-1, -1, -1, -1};
      int out[4];
      MPI_Request requests[8];
      for (int i = 0; i < 4; ++i) {
        out[i] = round * 10 + i;
        MPI_Irecv(&in[i], 1, MPI_INT, peer, number * 4 + i, MPI_COMM_WORLD, &requests[i]);
        MPI_Isend(&out[i], 1, MPI_INT, peer, number * 4 + i, MPI_COMM_WORLD, &requests[4 + i]);
      }
      for (int left = 8; left > 0;) {
        int indices[8];
        int ended = 0;
        if (number % 3 == 0) {
          MPI_Waitany(8, requests, &indices[0], MPI_STATUS_IGNORE);
          ended = 1;
        } else if (number % 3 == 1) {
          MPI_Waitsome(8, requests, &ended, indices, MPI_STATUSES_IGNORE);
        } else {
          MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
          ended = 8;
        }
        left -= ended;
      }
      for (int i = 0; i < 4; ++i) expect(in[i] == round * 10 + i, "thread %d: %d", number, in[i]);
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const int threads = argc > 1 ? std::atoi(argv[1]) : 8;
  test_nothing_active();
  test_proc_null();
  test_any_and_some();
  test_get_status();
  test_cancel();
  test_free_type();
  test_generalized();
  MPI_Barrier(MPI_COMM_WORLD);
  test_free_active();
  MPI_Barrier(MPI_COMM_WORLD);
  test_mixture();
  MPI_Barrier(MPI_COMM_WORLD);
  test_threads(threads);
  MPI_Barrier(MPI_COMM_WORLD);
  test_many_outstanding(100000);
  test_many_announced(kMany);
  test_last_first(2 * kMany);
  return finish();
}
