// The error class of each wrong argument of point-to-point calls, truncation, and stale handles
// (which other MPI libraries need not tell).
#include <algorithm>
#include <climits>
#include <cstdlib>

#include "requests_check.hpp"

namespace {

int g_value = 0;
MPI_Datatype g_huge;  ///< 8 GiB

void expect_bad(int code, int wanted, const char* call, const char* what) {
  const int found = class_of(code);
  expect(found == wanted, "%s with %s: error class %d in place of %d", call, what, found, wanted);
}

/// A send or receive with everything given; its code.
struct Call {
  const char* name;
  bool sends;
  int (*run)(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm);
};

template <auto Function>
int run_send(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  return Function(buffer, count, type, peer, tag, comm);
}
/// Requests are never made by these calls: all of them fail.
template <auto Function>
int run_with_request(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  return Function(buffer, count, type, peer, tag, comm, &request);
}
int run_recv(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  return MPI_Recv(buffer, count, type, peer, tag, comm, MPI_STATUS_IGNORE);
}
int run_sendrecv_out(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  return MPI_Sendrecv(buffer, count, type, peer, tag, &g_value, 1, MPI_INT, MPI_PROC_NULL, 0, comm,
                      MPI_STATUS_IGNORE);
}
int run_sendrecv_in(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  return MPI_Sendrecv(&g_value, 1, MPI_INT, MPI_PROC_NULL, 0, buffer, count, type, peer, tag, comm,
                      MPI_STATUS_IGNORE);
}

int run_isendrecv_out(void* buffer, int count, MPI_Datatype type, int peer, int tag,
                      MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  return MPI_Isendrecv(buffer, count, type, peer, tag, &g_value, 1, MPI_INT, MPI_PROC_NULL, 0, comm,
                       &request);
}
int run_isendrecv_in(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  return MPI_Isendrecv(&g_value, 1, MPI_INT, MPI_PROC_NULL, 0, buffer, count, type, peer, tag, comm,
                       &request);
}
int run_replace_out(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  return MPI_Sendrecv_replace(buffer, count, type, peer, tag, MPI_PROC_NULL, 0, comm,
                              MPI_STATUS_IGNORE);
}
int run_replace_in(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  return MPI_Sendrecv_replace(buffer, count, type, MPI_PROC_NULL, 0, peer, tag, comm,
                              MPI_STATUS_IGNORE);
}
int run_ireplace_out(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  return MPI_Isendrecv_replace(buffer, count, type, peer, tag, MPI_PROC_NULL, 0, comm, &request);
}
int run_ireplace_in(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  return MPI_Isendrecv_replace(buffer, count, type, MPI_PROC_NULL, 0, peer, tag, comm, &request);
}

const Call kCalls[] = {
    {"MPI_Send", true, run_send<&MPI_Send>},
    {"MPI_Ssend", true, run_send<&MPI_Ssend>},
    {"MPI_Rsend", true, run_send<&MPI_Rsend>},
    {"MPI_Bsend", true, run_send<&MPI_Bsend>},
    {"MPI_Isend", true, run_with_request<&MPI_Isend>},
    {"MPI_Issend", true, run_with_request<&MPI_Issend>},
    {"MPI_Irsend", true, run_with_request<&MPI_Irsend>},
    {"MPI_Ibsend", true, run_with_request<&MPI_Ibsend>},
    {"MPI_Send_init", true, run_with_request<&MPI_Send_init>},
    {"MPI_Ssend_init", true, run_with_request<&MPI_Ssend_init>},
    {"MPI_Rsend_init", true, run_with_request<&MPI_Rsend_init>},
    {"MPI_Bsend_init", true, run_with_request<&MPI_Bsend_init>},
    {"MPI_Sendrecv (out)", true, run_sendrecv_out},
    {"MPI_Isendrecv (out)", true, run_isendrecv_out},
    {"MPI_Sendrecv_replace (out)", true, run_replace_out},
    {"MPI_Isendrecv_replace (out)", true, run_ireplace_out},
    {"MPI_Recv", false, run_recv},
    {"MPI_Irecv", false, run_with_request<&MPI_Irecv>},
    {"MPI_Recv_init", false, run_with_request<&MPI_Recv_init>},
    {"MPI_Sendrecv (in)", false, run_sendrecv_in},
    {"MPI_Isendrecv (in)", false, run_isendrecv_in},
    {"MPI_Sendrecv_replace (in)", false, run_replace_in},
    {"MPI_Isendrecv_replace (in)", false, run_ireplace_in},
};

/// A matched message stays as it is when the call that receives it is refused.
void test_matched_arguments() {
  int* x = &g_value;
  const int out = 41;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Message message;
  MPI_Send(&out, 1, MPI_INT, g_rank, 9, MPI_COMM_WORLD);
  MPI_Mprobe(g_rank, 9, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
  expect_bad(MPI_Imrecv(x, -1, MPI_INT, &message, &request), MPI_ERR_COUNT, "MPI_Imrecv",
             "count -1");
  expect_bad(MPI_Imrecv(x, 1, MPI_DATATYPE_NULL, &message, &request), MPI_ERR_TYPE, "MPI_Imrecv",
             "no type");
  expect_bad(MPI_Imrecv(nullptr, 1, MPI_INT, &message, &request), MPI_ERR_BUFFER, "MPI_Imrecv",
             "a null buffer");
  expect_bad(MPI_Mrecv(x, -1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_ERR_COUNT, "MPI_Mrecv",
             "count -1");
  expect_bad(MPI_Mrecv(nullptr, 1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_ERR_BUFFER,
             "MPI_Mrecv", "a null buffer");
  expect_bad(MPI_Mrecv(x, 1 << 30, g_huge, &message, MPI_STATUS_IGNORE), MPI_ERR_COUNT, "MPI_Mrecv",
             "too many bytes");
  *x = 0;
  MPI_Imrecv(x, 1, MPI_INT, &message, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(*x == 41, "a matched message after refused calls: %d", *x);
}

void test_arguments(MPI_Comm freed_comm, MPI_Datatype freed_type) {
  MPI_Datatype uncommitted;
  MPI_Type_contiguous(3, MPI_INT, &uncommitted);
  int* upper = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&upper), &found);
  expect(found == 1 && *upper >= 32767, "there is an upper bound of tags");
  int* x = &g_value;
  for (const Call& call : kCalls) {
    const MPI_Comm world = MPI_COMM_WORLD;
    expect_bad(call.run(x, -1, MPI_INT, 0, 0, world), MPI_ERR_COUNT, call.name, "count -1");
    expect_bad(call.run(x, 1 << 30, g_huge, 0, 0, world), MPI_ERR_COUNT, call.name,
               "more bytes than there are");
    expect_bad(call.run(x, 1, MPI_DATATYPE_NULL, 0, 0, world), MPI_ERR_TYPE, call.name, "no type");
    expect_bad(call.run(x, 1, uncommitted, 0, 0, world), MPI_ERR_TYPE, call.name,
               "an uncommitted type");
    expect_bad(call.run(x, 1, freed_type, 0, 0, world), MPI_ERR_TYPE, call.name, "a freed type");
    expect_bad(call.run(x, 1, MPI_INT, g_size, 0, world), MPI_ERR_RANK, call.name, "rank n");
    expect_bad(call.run(x, 1, MPI_INT, -7, 0, world), MPI_ERR_RANK, call.name, "rank -7");
    expect_bad(call.run(x, 1, MPI_INT, 0, -7, world), MPI_ERR_TAG, call.name, "tag -7");
    if (call.sends) {
      expect_bad(call.run(x, 1, MPI_INT, MPI_ANY_SOURCE, 0, world), MPI_ERR_RANK, call.name,
                 "MPI_ANY_SOURCE");
      expect_bad(call.run(x, 1, MPI_INT, 0, MPI_ANY_TAG, world), MPI_ERR_TAG, call.name,
                 "MPI_ANY_TAG");
    }
    expect_bad(call.run(nullptr, 1, MPI_INT, 0, 0, world), MPI_ERR_BUFFER, call.name,
               "a null buffer");
    expect_bad(call.run(x, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM, call.name,
               "MPI_COMM_NULL");
    expect_bad(call.run(x, 1, MPI_INT, 0, 0, freed_comm), MPI_ERR_COMM, call.name,
               "a freed communicator");
  }
  MPI_Type_free(&uncommitted);
  int flag = 0;
  MPI_Message message;
  expect_bad(MPI_Probe(g_size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_RANK, "MPI_Probe",
             "rank n");
  expect_bad(MPI_Iprobe(0, -7, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE), MPI_ERR_TAG, "MPI_Iprobe",
             "tag -7");
  expect_bad(MPI_Mprobe(0, 0, MPI_COMM_NULL, &message, MPI_STATUS_IGNORE), MPI_ERR_COMM,
             "MPI_Mprobe", "MPI_COMM_NULL");
  expect_bad(MPI_Improbe(-9, 0, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE), MPI_ERR_RANK,
             "MPI_Improbe", "rank -9");
  message = MPI_MESSAGE_NULL;
  expect_bad(MPI_Mrecv(x, 1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "MPI_Mrecv",
             "MPI_MESSAGE_NULL");
  MPI_Request request = MPI_REQUEST_NULL;
  expect_bad(MPI_Imrecv(x, 1, MPI_INT, &message, &request), MPI_ERR_REQUEST, "MPI_Imrecv",
             "MPI_MESSAGE_NULL");
  test_matched_arguments();
}

/// Null pointers where calls answer.
void test_no_place() {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status = {};
  int number = 0;
  const int codes[] = {
      MPI_Testall(1, &request, nullptr, MPI_STATUSES_IGNORE),
      MPI_Testany(1, &request, nullptr, &number, MPI_STATUS_IGNORE),
      MPI_Testany(1, &request, &number, nullptr, MPI_STATUS_IGNORE),
      MPI_Testsome(1, &request, nullptr, &number, MPI_STATUSES_IGNORE),
      MPI_Testsome(1, &request, &number, nullptr, MPI_STATUSES_IGNORE),
      MPI_Waitany(1, &request, nullptr, MPI_STATUS_IGNORE),
      MPI_Waitsome(1, &request, nullptr, &number, MPI_STATUSES_IGNORE),
      MPI_Waitsome(1, &request, &number, nullptr, MPI_STATUSES_IGNORE),
      MPI_Request_get_status(request, nullptr, MPI_STATUS_IGNORE),
      MPI_Request_get_status_all(1, &request, nullptr, MPI_STATUSES_IGNORE),
      MPI_Request_get_status_any(1, &request, nullptr, &number, MPI_STATUS_IGNORE),
      MPI_Request_get_status_any(1, &request, &number, nullptr, MPI_STATUS_IGNORE),
      MPI_Request_get_status_some(1, &request, nullptr, &number, MPI_STATUSES_IGNORE),
      MPI_Request_get_status_some(1, &request, &number, nullptr, MPI_STATUSES_IGNORE),
      MPI_Test_cancelled(&status, nullptr),
      MPI_Status_get_source(&status, nullptr),
      MPI_Status_get_tag(&status, nullptr),
      MPI_Status_get_error(&status, nullptr),
  };
  for (const int code : codes) expect_class(code, MPI_ERR_ARG, "no place for an answer");
  expect_class(MPI_Waitsome(0, nullptr, &number, nullptr, MPI_STATUSES_IGNORE), MPI_SUCCESS,
               "Waitsome of nothing");
}

void test_requests() {
  MPI_Request null = MPI_REQUEST_NULL;
  expect_class(MPI_Start(&null), MPI_ERR_REQUEST, "Start of null");
  expect_class(MPI_Cancel(&null), MPI_ERR_REQUEST, "Cancel of null");
  expect_class(MPI_Request_free(&null), MPI_ERR_REQUEST, "Request_free of null");
  MPI_Request request;
  MPI_Irecv(&g_value, 1, MPI_INT, g_rank, 3, MPI_COMM_WORLD, &request);
  expect_class(MPI_Start(&request), MPI_ERR_REQUEST, "Start of one that is not persistent");
  expect_class(MPI_Grequest_complete(request), MPI_ERR_REQUEST, "completing a receive");
  MPI_Request copy = request;
  MPI_Send(&g_rank, 1, MPI_INT, g_rank, 3, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request again = copy;
  expect_class(MPI_Wait(&again, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "a stale handle");
  int flag = 0;
  again = copy;
  expect_class(MPI_Test(&again, &flag, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "Test of it");
  // Its place has a new user by now.
  MPI_Request other;
  MPI_Irecv(&g_value, 1, MPI_INT, g_rank, 3, MPI_COMM_WORLD, &other);
  again = copy;
  expect_class(MPI_Waitall(1, &again, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST, "Waitall of it");
  again = copy;
  int index = 0;
  expect_class(MPI_Waitany(1, &again, &index, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "Waitany of it");
  again = copy;
  int ended = 0;
  expect_class(MPI_Waitsome(1, &again, &ended, &index, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST,
               "Waitsome of it");
  again = copy;
  expect_class(MPI_Testsome(1, &again, &ended, &index, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST,
               "Testsome of it");
  again = copy;
  expect_class(MPI_Testall(1, &again, &flag, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST,
               "Testall of it");
  again = copy;
  expect_class(MPI_Testany(1, &again, &index, &flag, MPI_STATUS_IGNORE), MPI_ERR_REQUEST,
               "Testany of it");
  expect_class(MPI_Request_get_status(copy, &flag, MPI_STATUS_IGNORE), MPI_ERR_REQUEST,
               "Request_get_status of it");
  again = copy;
  expect_class(MPI_Cancel(&again), MPI_ERR_REQUEST, "Cancel of it");
  again = copy;
  expect_class(MPI_Request_free(&again), MPI_ERR_REQUEST, "Request_free of it");
  MPI_Cancel(&other);
  MPI_Wait(&other, MPI_STATUS_IGNORE);
  MPI_Recv_init(&g_value, 1, MPI_INT, g_rank, 3, MPI_COMM_WORLD, &request);
  MPI_Start(&request);
  expect_class(MPI_Start(&request), MPI_ERR_REQUEST, "Start of an active one");
  MPI_Cancel(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
  expect_class(MPI_Waitall(-1, &null, MPI_STATUSES_IGNORE), MPI_ERR_COUNT, "-1 requests");
  expect_class(MPI_Waitany(-1, &null, &index, MPI_STATUS_IGNORE), MPI_ERR_COUNT, "any of -1");
  expect_class(MPI_Waitsome(-1, &null, &ended, &index, MPI_STATUSES_IGNORE), MPI_ERR_COUNT,
               "some of -1");
  expect_class(MPI_Testall(-1, &null, &flag, MPI_STATUSES_IGNORE), MPI_ERR_COUNT, "all of -1");
  expect_class(MPI_Testany(-1, &null, &index, &flag, MPI_STATUS_IGNORE), MPI_ERR_COUNT,
               "one of -1");
  expect_class(MPI_Testsome(-1, &null, &ended, &index, MPI_STATUSES_IGNORE), MPI_ERR_COUNT,
               "some of -1, tested");
  expect_class(MPI_Startall(-1, &null), MPI_ERR_COUNT, "-1 started");
}

/// A pending request that is given twice is told, and stays as it is.
void test_same_twice() {
  int in[2] = {0, 0};
  MPI_Request one;
  MPI_Request other;
  MPI_Irecv(&in[0], 1, MPI_INT, g_rank, 11, MPI_COMM_WORLD, &one);
  MPI_Irecv(&in[1], 1, MPI_INT, g_rank, 12, MPI_COMM_WORLD, &other);
  MPI_Request twice[3] = {one, other, one};
  const std::vector<MPI_Request> before(twice, twice + 3);
  int number = 0;
  int indices[3];
  expect_class(MPI_Waitany(3, twice, &number, MPI_STATUS_IGNORE), MPI_ERR_REQUEST,
               "Waitany of one twice");
  expect_class(MPI_Waitsome(3, twice, &number, indices, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST,
               "Waitsome of one twice");
  expect(std::equal(before.begin(), before.end(), twice), "they stay as they are");
  MPI_Send(&g_rank, 1, MPI_INT, g_rank, 12, MPI_COMM_WORLD);
  expect_class(MPI_Waitany(2, twice, &number, MPI_STATUS_IGNORE), MPI_SUCCESS,
               "Waitany of the other");
  expect(number == 1, "index %d", number);
  MPI_Send(&g_rank, 1, MPI_INT, g_rank, 11, MPI_COMM_WORLD);
  expect_class(MPI_Wait(&one, MPI_STATUS_IGNORE), MPI_SUCCESS, "Wait for the one");
}

void test_truncation(std::size_t size) {
  std::vector<unsigned char> out(size, 1);
  std::vector<unsigned char> in(size, 0);
  const int bytes = static_cast<int>(size);
  MPI_Request sent;
  MPI_Status status{};
  MPI_Isend(out.data(), bytes, MPI_BYTE, g_rank, 5, MPI_COMM_WORLD, &sent);
  expect_class(MPI_Recv(in.data(), bytes - 1, MPI_BYTE, g_rank, 5, MPI_COMM_WORLD, &status),
               MPI_ERR_TRUNCATE, "a receive that is too small");
  expect(in[size - 1] == 0, "nothing is written behind the buffer");
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
  MPI_Request requests[3];
  MPI_Status statuses[3];
  for (MPI_Status& each : statuses) each.MPI_ERROR = 77;
  MPI_Irecv(in.data(), 1, MPI_BYTE, g_rank, 6, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(in.data() + 1, bytes - 2, MPI_BYTE, g_rank, 7, MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(out.data(), 1, MPI_BYTE, g_rank, 6, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(out.data(), bytes, MPI_BYTE, g_rank, 7, MPI_COMM_WORLD, &sent);
  expect_class(MPI_Waitall(3, requests, statuses), MPI_ERR_IN_STATUS, "Waitall");
  expect(statuses[0].MPI_ERROR == MPI_SUCCESS && statuses[2].MPI_ERROR == MPI_SUCCESS,
         "two are well");
  expect_class(statuses[1].MPI_ERROR, MPI_ERR_TRUNCATE, "the third");
  for (const MPI_Request request : requests) expect(request == MPI_REQUEST_NULL, "all have ended");
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
  MPI_Irecv(in.data(), 2, MPI_BYTE, g_rank, 7, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(out.data(), bytes, MPI_BYTE, g_rank, 7, MPI_COMM_WORLD, &sent);
  int index = -1;
  expect_class(MPI_Waitany(1, requests, &index, &status), MPI_ERR_TRUNCATE, "Waitany");
  expect(index == 0 && requests[0] == MPI_REQUEST_NULL, "its index");
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
  MPI_Irecv(in.data(), 2, MPI_BYTE, g_rank, 7, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(out.data(), bytes, MPI_BYTE, g_rank, 7, MPI_COMM_WORLD, &sent);
  int number = 0;
  expect_class(MPI_Waitsome(1, requests, &number, &index, statuses), MPI_ERR_IN_STATUS, "Waitsome");
  expect(number == 1 && index == 0, "its index");
  expect_class(statuses[0].MPI_ERROR, MPI_ERR_TRUNCATE, "its status");
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
}

/// A look at a request that failed tells it, and leaves it to whoever waits.
void test_look_at_failed() {
  const int out[2] = {1, 2};
  int in = 0;
  MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Irecv(&in, 1, MPI_INT, g_rank, 8, MPI_COMM_WORLD, &requests[1]);
  MPI_Send(out, 2, MPI_INT, g_rank, 8, MPI_COMM_WORLD);
  int flag = 0;
  int index = -1;
  int number = -1;
  int indices[3] = {-1, -1, -1};
  MPI_Status statuses[3];
  int code = MPI_Request_get_status(requests[1], &flag, &statuses[0]);
  expect_class(code, MPI_ERR_TRUNCATE, "Request_get_status");
  expect(flag == 1 && statuses[0].MPI_TAG == 8, "it has ended");
  code = MPI_Request_get_status_any(3, requests, &index, &flag, &statuses[0]);
  expect_class(code, MPI_ERR_TRUNCATE, "Request_get_status_any");
  expect(flag == 1 && index == 1, "it is the second");
  for (MPI_Status& each : statuses) each.MPI_ERROR = 77;
  code = MPI_Request_get_status_all(3, requests, &flag, statuses);
  expect_class(code, MPI_ERR_IN_STATUS, "Request_get_status_all");
  expect_class(statuses[1].MPI_ERROR, MPI_ERR_TRUNCATE, "the second");
  expect(flag == 1 && statuses[0].MPI_ERROR == MPI_SUCCESS && statuses[2].MPI_ERROR == MPI_SUCCESS,
         "the others are well");
  code = MPI_Request_get_status_some(3, requests, &number, indices, statuses);
  expect_class(code, MPI_ERR_IN_STATUS, "Request_get_status_some");
  expect(number == 1 && indices[0] == 1, "it is the one");
  expect_class(statuses[0].MPI_ERROR, MPI_ERR_TRUNCATE, "its status");
  expect_class(MPI_Wait(&requests[1], &statuses[0]), MPI_ERR_TRUNCATE, "Wait after all that");
  expect(requests[1] == MPI_REQUEST_NULL, "it has gone");
}

/// A bad handle among many, wherever it stands, is told before any of the others is concluded.
void test_bad_among_many() {
  constexpr int kMany = 300;
  static int in[kMany];
  std::vector<MPI_Request> requests(kMany);
  std::vector<int> indices(kMany);
  MPI_Request gone;
  MPI_Irecv(in, 1, MPI_INT, g_rank, 10, MPI_COMM_WORLD, &gone);
  MPI_Request stale = gone;
  MPI_Send(in, 1, MPI_INT, g_rank, 10, MPI_COMM_WORLD);
  MPI_Wait(&gone, MPI_STATUS_IGNORE);
  for (const int bad : {0, 60, 200, kMany - 1}) {
    for (int i = 0; i < kMany; ++i)
      MPI_Irecv(&in[i], 1, MPI_INT, g_rank, 9, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < kMany; ++i) MPI_Send(&i, 1, MPI_INT, g_rank, 9, MPI_COMM_WORLD);
    std::swap(requests[bad], stale);
    const std::vector<MPI_Request> before = requests;
    int number = 0;
    expect_class(MPI_Waitall(kMany, requests.data(), MPI_STATUSES_IGNORE), MPI_ERR_REQUEST,
                 "Waitall");
    expect(requests == before, "Waitall leaves the others");
    expect_class(MPI_Waitsome(kMany, requests.data(), &number, indices.data(), MPI_STATUSES_IGNORE),
                 MPI_ERR_REQUEST, "Waitsome");
    expect(requests == before, "Waitsome leaves the others");
    expect_class(MPI_Testsome(kMany, requests.data(), &number, indices.data(), MPI_STATUSES_IGNORE),
                 MPI_ERR_REQUEST, "Testsome");
    expect(requests == before, "Testsome leaves the others");
    std::swap(requests[bad], stale);
    expect(MPI_Waitall(kMany, requests.data(), MPI_STATUSES_IGNORE) == MPI_SUCCESS,
           "without it all end");
    for (int i = 0; i < kMany; ++i) expect(in[i] == i, "message %d, not %d", i, in[i]);
  }
}

std::atomic<int> g_wanted{MPI_ERR_TRUNCATE};
std::atomic<int> g_handled{0};
void count_errors(MPI_Comm* comm, int* code, ...) {
  int result = MPI_UNEQUAL;
  MPI_Comm_compare(*comm, MPI_COMM_SELF, &result);
  expect(result == MPI_CONGRUENT || result == MPI_IDENT || g_size == 1,
         "the handler gets its communicator");
  expect_class(*code, g_wanted.load(), "the handler's code");
  g_handled.fetch_add(1);
}

/// Where the call returns MPI_ERR_IN_STATUS the handler is given the request's error (MPI 9.3).
void test_handler_of_several(MPI_Comm comm) {
  int in = 0;
  const int out[2] = {1, 2};
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Status statuses[2];
  int number = 0;
  int indices[2];
  const auto begin_bad = [&] {
    MPI_Irecv(&in, 1, MPI_INT, 0, 0, comm, &requests[1]);
    MPI_Send(out, 2, MPI_INT, 0, 0, comm);
  };
  begin_bad();
  expect_class(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS, "Waitall under a handler");
  begin_bad();
  int code = MPI_SUCCESS;
  for (number = 0; number == 0;) code = MPI_Testall(2, requests, &number, MPI_STATUSES_IGNORE);
  expect_class(code, MPI_ERR_IN_STATUS, "Testall under a handler");
  begin_bad();
  expect_class(MPI_Waitsome(2, requests, &number, indices, statuses), MPI_ERR_IN_STATUS,
               "Waitsome under a handler");
  expect(g_handled.load() == 4, "once more each, not %d", g_handled.load() - 1);
}

/// Errors go to the handler of the request's communicator.
void test_handler() {
  MPI_Comm comm;
  MPI_Errhandler handler;
  MPI_Comm_dup(MPI_COMM_SELF, &comm);
  MPI_Comm_create_errhandler(count_errors, &handler);
  MPI_Comm_set_errhandler(comm, handler);
  int in = 0;
  const int out[2] = {1, 2};
  MPI_Request requests[2];
  MPI_Irecv(&in, 1, MPI_INT, 0, 0, comm, &requests[0]);
  MPI_Isend(out, 2, MPI_INT, 0, 0, comm, &requests[1]);
  const int code = MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  expect_class(code, MPI_ERR_TRUNCATE, "Wait under a handler of one's own");
  expect(g_handled.load() == 1, "it was called once, not %d times", g_handled.load());
  MPI_Wait(&requests[1], MPI_STATUS_IGNORE);

  test_handler_of_several(comm);

  // Of a message that was probed there: its communicator's, too.
  MPI_Send(out, 2, MPI_INT, 0, 0, comm);
  MPI_Message message;
  MPI_Mprobe(0, 0, comm, &message, MPI_STATUS_IGNORE);
  g_wanted = MPI_ERR_COUNT;
  expect_class(MPI_Mrecv(&in, -1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_ERR_COUNT, "count -1");
  g_wanted = MPI_ERR_TYPE;
  expect_class(MPI_Imrecv(&in, 1, MPI_DATATYPE_NULL, &message, &requests[0]), MPI_ERR_TYPE,
               "no type");
  g_wanted = MPI_ERR_TRUNCATE;
  expect_class(MPI_Mrecv(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE,
               "Mrecv of too much");
  expect(message == MPI_MESSAGE_NULL, "the message has gone");
  expect(g_handled.load() == 7, "three more calls, not %d", g_handled.load() - 4);
  MPI_Errhandler_free(&handler);
  MPI_Comm_free(&comm);
}

std::atomic<int> g_of_freed{0};
void count_errors_of_freed(MPI_Comm* /*comm*/, int* code, ...) {
  expect_class(*code, g_wanted.load(), "the code of a freed communicator's handler");
  g_of_freed.fetch_add(1);
}

/// The handler of a communicator goes with its operations after MPI_Comm_free.
void test_handler_after_free() {
  int in = 0;
  const int out[2] = {1, 2};
  MPI_Errhandler handler;
  MPI_Comm_create_errhandler(count_errors_of_freed, &handler);
  const auto duplicate = [&](MPI_Comm original) {
    MPI_Comm comm;
    MPI_Comm_dup(original, &comm);
    MPI_Comm_set_errhandler(comm, handler);
    return comm;
  };
  // Receives: one that has failed by then, and two that fail later.
  MPI_Comm comm = duplicate(MPI_COMM_SELF);
  MPI_Request requests[3];
  for (MPI_Request& each : requests) MPI_Irecv(&in, 1, MPI_INT, 0, 0, comm, &each);
  MPI_Request sends[3];
  MPI_Isend(out, 2, MPI_INT, 0, 0, comm, &sends[0]);
  MPI_Send_init(out, 2, MPI_INT, 0, 0, comm, &sends[1]);
  MPI_Send_init(out, 2, MPI_INT, 0, 0, comm, &sends[2]);
  MPI_Request buffered;
  MPI_Bsend_init(out, 2, MPI_INT, 0, 0, comm, &buffered);
  MPI_Comm_free(&comm);
  g_wanted = MPI_ERR_TRUNCATE;
  expect_class(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE, "Wait after the free");
  MPI_Startall(2, &sends[1]);
  MPI_Waitall(3, sends, MPI_STATUSES_IGNORE);
  int code = MPI_SUCCESS;
  MPI_Status status;
  for (int flag = 0; flag == 0;) code = MPI_Request_get_status(requests[1], &flag, &status);
  expect_class(code, MPI_ERR_TRUNCATE, "Request_get_status after the free");
  expect_class(MPI_Waitall(2, &requests[1], MPI_STATUSES_IGNORE), MPI_ERR_IN_STATUS,
               "Waitall after the free");
  expect(g_of_freed.load() == 3, "three calls of the handler, not %d", g_of_freed.load());
  // No buffer is attached.
  g_wanted = MPI_ERR_BUFFER;
  expect_class(MPI_Start(&buffered), MPI_ERR_BUFFER, "Start after the free");
  expect(g_of_freed.load() == 4, "one call more, not %d", g_of_freed.load() - 3);
  MPI_Request_free(&buffered);
  for (int i = 1; i < 3; ++i) MPI_Request_free(&sends[i]);

  // A collective, of which rank 0 gives more than the others take.
  comm = duplicate(MPI_COMM_WORLD);
  int data[2] = {1, 2};
  MPI_Request collective;
  MPI_Ibcast(data, g_rank == 0 ? 2 : 1, MPI_INT, 0, comm, &collective);
  MPI_Comm_free(&comm);
  g_of_freed = 0;
  g_wanted = MPI_ERR_TRUNCATE;
  code = MPI_Wait(&collective, MPI_STATUS_IGNORE);
  expect_class(code, g_rank == 0 ? MPI_SUCCESS : MPI_ERR_TRUNCATE, "a collective after the free");
  expect(g_of_freed.load() == (g_rank == 0 ? 0 : 1), "%d calls for it", g_of_freed.load());
  MPI_Errhandler_free(&handler);
}

}  // namespace

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const MPI_Comm freed_comm = comm;
  MPI_Comm_free(&comm);
  MPI_Datatype type;
  MPI_Type_contiguous(2, MPI_INT, &type);
  MPI_Type_commit(&type);
  const MPI_Datatype freed_type = type;
  MPI_Type_free(&type);
  MPI_Type_contiguous(1 << 30, MPI_DOUBLE, &g_huge);
  MPI_Type_commit(&g_huge);
  test_arguments(freed_comm, freed_type);
  test_requests();
  test_no_place();
  test_same_twice();
  for (const std::size_t size : {4U, 100U, 10000U, 1U << 20}) test_truncation(size);
  test_look_at_failed();
  test_bad_among_many();
  test_handler();
  test_handler_after_free();
  MPI_Type_free(&g_huge);
  return finish();
}
