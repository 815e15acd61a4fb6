// Handles as numbers and back, what a status holds, requests looked at without being completed, the
// error handlers and buffers of sessions.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "check.hpp"

namespace {

void numbers() {
  MPI_Group group;
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  WEFT_CHECK(MPI_Group_fromint(MPI_Group_toint(group)) == group);
  MPI_Group_free(&group);
  MPI_Info info;
  MPI_Info_create(&info);
  WEFT_CHECK(MPI_Info_fromint(MPI_Info_toint(info)) == info);
  MPI_Info_free(&info);
  MPI_Op op;
  MPI_Op_create([](void*, void*, int*, MPI_Datatype*) {}, 0, &op);
  WEFT_CHECK(MPI_Op_fromint(MPI_Op_toint(op)) == op);
  int commutes = -1;
  MPI_Op_commutative(op, &commutes);
  WEFT_CHECK(commutes == 0);
  MPI_Op_commutative(MPI_SUM, &commutes);
  WEFT_CHECK(commutes == 1);
  MPI_Op_free(&op);
  WEFT_CHECK(MPI_Op_fromint(MPI_Op_toint(MPI_MAX)) == MPI_MAX);
  WEFT_CHECK(MPI_Errhandler_fromint(MPI_Errhandler_toint(MPI_ERRORS_RETURN)) == MPI_ERRORS_RETURN);
  int word = 5;
  MPI_Request request;
  MPI_Isend(&word, 1, MPI_INT, 0, 3, MPI_COMM_SELF, &request);
  WEFT_CHECK(MPI_Request_fromint(MPI_Request_toint(request)) == request);
  MPI_Message message;
  MPI_Mprobe(0, 3, MPI_COMM_SELF, &message, MPI_STATUS_IGNORE);
  WEFT_CHECK(MPI_Message_fromint(MPI_Message_toint(message)) == message);
  MPI_Mrecv(&word, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void statuses() {
  MPI_Status status = {};
  int value = 0;
  MPI_Status_set_source(&status, 11);
  MPI_Status_set_tag(&status, 12);
  MPI_Status_set_error(&status, MPI_ERR_TRUNCATE);
  WEFT_CHECK(status.MPI_SOURCE == 11 && status.MPI_TAG == 12);
  MPI_Status_get_source(&status, &value);
  WEFT_CHECK(value == 11);
  MPI_Status_get_tag(&status, &value);
  WEFT_CHECK(value == 12);
  MPI_Status_get_error(&status, &value);
  WEFT_CHECK(value == MPI_ERR_TRUNCATE);
}

/// Two receives, one of which has ended: asked for, neither goes away.
void looked_at() {
  int got[2] = {0, 0};
  int sent = 4;
  MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Irecv(&got[0], 1, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[0]);
  MPI_Irecv(&got[1], 1, MPI_INT, 0, 2, MPI_COMM_SELF, &requests[1]);
  const MPI_Request both[2] = {requests[0], requests[1]};
  MPI_Send(&sent, 1, MPI_INT, 0, 2, MPI_COMM_SELF);
  int flag = 0;
  int index = -1;
  MPI_Status status;
  while (flag == 0) MPI_Request_get_status_any(3, requests, &index, &flag, &status);
  WEFT_CHECK(index == 1 && status.MPI_TAG == 2 && requests[1] == both[1]);
  int number = 0;
  int indices[3];
  MPI_Status statuses[3];
  MPI_Request_get_status_some(3, requests, &number, indices, statuses);
  WEFT_CHECK(number == 1 && indices[0] == 1 && statuses[0].MPI_TAG == 2);
  MPI_Request_get_status_all(3, requests, &flag, statuses);
  WEFT_CHECK(flag == 0);
  MPI_Send(&sent, 1, MPI_INT, 0, 1, MPI_COMM_SELF);
  while (flag == 0) MPI_Request_get_status_all(3, requests, &flag, statuses);
  WEFT_CHECK(statuses[0].MPI_TAG == 1 && requests[0] == both[0] && requests[1] == both[1]);
  MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  WEFT_CHECK(got[0] == 4 && got[1] == 4);
  MPI_Request_get_status_some(3, requests, &number, indices, statuses);
  WEFT_CHECK(number == MPI_UNDEFINED);
}

int errors_told = 0;
void tell(MPI_Session* session, int* code, ...) {
  if (*session != MPI_SESSION_NULL && *code != MPI_SUCCESS) ++errors_told;
}

void session_handlers() {
  MPI_Errhandler own;
  MPI_Session_create_errhandler(tell, &own);
  MPI_Session session;
  MPI_Session_init(MPI_INFO_NULL, own, &session);
  MPI_Errhandler known;
  MPI_Session_get_errhandler(session, &known);
  WEFT_CHECK(known == own);
  MPI_Errhandler_free(&known);
  MPI_Group group;
  WEFT_CHECK_CLASS(MPI_ERR_ARG, MPI_Group_from_session_pset(session, "none such", &group));
  WEFT_CHECK(errors_told == 1);
  MPI_Session_call_errhandler(session, MPI_ERR_TAG);
  WEFT_CHECK(errors_told == 2);
  MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN);
  WEFT_CHECK_CLASS(MPI_ERR_ARG, MPI_Group_from_session_pset(session, "none such", &group));
  WEFT_CHECK(errors_told == 2);
  MPI_Errhandler_free(&own);
  MPI_Session_finalize(&session);
}

/// Buffered sends on a communicator of a session take the session's buffer.
void session_buffers() {
  MPI_Session session;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
  MPI_Group group;
  MPI_Group_from_session_pset(session, "mpi://SELF", &group);
  MPI_Comm comm;
  MPI_Comm_create_from_group(group, "alone", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
  int word = 6;
  WEFT_CHECK_CLASS(MPI_ERR_BUFFER, MPI_Bsend(&word, 1, MPI_INT, 0, 1, comm));
  std::vector<char> buffer(1000 + MPI_BSEND_OVERHEAD);
  WEFT_CHECK(MPI_Session_attach_buffer(session, buffer.data(), static_cast<int>(buffer.size())) ==
             MPI_SUCCESS);
  WEFT_CHECK(MPI_Bsend(&word, 1, MPI_INT, 0, 1, comm) == MPI_SUCCESS);
  MPI_Request flush;
  WEFT_CHECK(MPI_Session_iflush_buffer(session, &flush) == MPI_SUCCESS);
  int got = 0;
  MPI_Recv(&got, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
  MPI_Wait(&flush, MPI_STATUS_IGNORE);
  WEFT_CHECK(got == 6 && MPI_Session_flush_buffer(session) == MPI_SUCCESS);
  void* back = nullptr;
  int size = 0;
  WEFT_CHECK(MPI_Session_detach_buffer(session, &back, &size) == MPI_SUCCESS);
  WEFT_CHECK(back == buffer.data() && size == static_cast<int>(buffer.size()));
  MPI_Comm_free(&comm);
  MPI_Group_free(&group);
  MPI_Session_finalize(&session);
}

/// Each session's communicators use that session's buffer, which ends with it.
void buffers_of_two_sessions() {
  MPI_Session sessions[2];
  MPI_Comm comms[2];
  std::vector<char> buffers[2] = {std::vector<char>(100 + MPI_BSEND_OVERHEAD),
                                  std::vector<char>(1000 + MPI_BSEND_OVERHEAD)};
  for (int i = 0; i < 2; ++i) {
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &sessions[i]);
    MPI_Group whole;
    MPI_Group group;
    MPI_Group_from_session_pset(sessions[i], "mpi://SELF", &whole);
    const int first = 0;
    MPI_Group_incl(whole, 1, &first, &group);
    MPI_Comm_create_from_group(group, i == 0 ? "one" : "other", MPI_INFO_NULL, MPI_ERRORS_RETURN,
                               &comms[i]);
    MPI_Session_attach_buffer(sessions[i], buffers[i].data(), static_cast<int>(buffers[i].size()));
    MPI_Group_free(&group);
    MPI_Group_free(&whole);
  }
  // What fits the second session's buffer alone.
  std::vector<char> data(500, 'd');
  WEFT_CHECK_CLASS(MPI_ERR_BUFFER, MPI_Bsend(data.data(), 500, MPI_CHAR, 0, 1, comms[0]));
  WEFT_CHECK(MPI_Bsend(data.data(), 500, MPI_CHAR, 0, 1, comms[1]) == MPI_SUCCESS);
  std::vector<char> came(500);
  MPI_Recv(came.data(), 500, MPI_CHAR, 0, 1, comms[1], MPI_STATUS_IGNORE);
  WEFT_CHECK(came == data);
  // Whose it is, groups tell by way of other communicators, too.
  MPI_Comm split;
  MPI_Comm_split(comms[0], 0, 0, &split);
  MPI_Group group;
  MPI_Comm_group(split, &group);
  MPI_Comm derived;
  MPI_Comm_create_from_group(group, "derived", MPI_INFO_NULL, MPI_ERRORS_RETURN, &derived);
  WEFT_CHECK_CLASS(MPI_ERR_BUFFER, MPI_Bsend(data.data(), 500, MPI_CHAR, 0, 1, derived));
  WEFT_CHECK(MPI_Bsend(data.data(), 50, MPI_CHAR, 0, 1, derived) == MPI_SUCCESS);
  MPI_Recv(came.data(), 50, MPI_CHAR, 0, 1, derived, MPI_STATUS_IGNORE);
  MPI_Comm_free(&derived);
  MPI_Comm_free(&split);
  MPI_Group_free(&group);
  // The memory of a session that has ended is the program's again.
  MPI_Comm_free(&comms[1]);
  MPI_Session_finalize(&sessions[1]);
  std::fill(buffers[1].begin(), buffers[1].end(), 'x');
  WEFT_CHECK(MPI_Bsend(data.data(), 50, MPI_CHAR, 0, 1, comms[0]) == MPI_SUCCESS);
  MPI_Recv(came.data(), 50, MPI_CHAR, 0, 1, comms[0], MPI_STATUS_IGNORE);
  WEFT_CHECK(buffers[1] == std::vector<char>(buffers[1].size(), 'x'));
  MPI_Comm_free(&comms[0]);
  MPI_Session_finalize(&sessions[0]);
}

void never_on_comm(MPI_Comm* /*comm*/, int* /*code*/, ...) { std::abort(); }
void never_on_session(MPI_Session* /*session*/, int* /*code*/, ...) { std::abort(); }

/// Handlers of communicators are none of sessions, nor the other way round.
void handlers_of_another_kind() {
  MPI_Errhandler of_comms;
  MPI_Errhandler of_sessions;
  MPI_Comm_create_errhandler(never_on_comm, &of_comms);
  MPI_Session_create_errhandler(never_on_session, &of_sessions);
  MPI_Errhandler before;
  MPI_Comm_get_errhandler(MPI_COMM_SELF, &before);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Session session;
  WEFT_CHECK_CLASS(MPI_ERR_ERRHANDLER, MPI_Session_init(MPI_INFO_NULL, of_comms, &session));
  MPI_Group group;
  MPI_Comm_group(MPI_COMM_SELF, &group);
  MPI_Comm comm;
  WEFT_CHECK_CLASS(MPI_ERR_ERRHANDLER,
                   MPI_Comm_create_from_group(group, "kinds", MPI_INFO_NULL, of_sessions, &comm));
  MPI_Group_free(&group);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, before);
  MPI_Errhandler_free(&before);
  MPI_Errhandler_free(&of_comms);
  MPI_Errhandler_free(&of_sessions);
}

void graphs() {
  // A ring of as many as there are.
  int size = 0;
  int rank = -1;
  int placed = -1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<int> ends;
  std::vector<int> edges;
  for (int i = 0; i < size; ++i) {
    edges.push_back((i + 1) % size);
    edges.push_back((i + size - 1) % size);
    ends.push_back(static_cast<int>(edges.size()));
  }
  MPI_Graph_map(MPI_COMM_WORLD, size, ends.data(), edges.data(), &placed);
  std::vector<int> seen(static_cast<std::size_t>(size), 0);
  MPI_Allgather(&placed, 1, MPI_INT, seen.data(), 1, MPI_INT, MPI_COMM_WORLD);
  std::vector<int> times(static_cast<std::size_t>(size), 0);
  for (const int place : seen) {
    if (place >= 0 && place < size) ++times[static_cast<std::size_t>(place)];
  }
  WEFT_CHECK(times == std::vector<int>(static_cast<std::size_t>(size), 1));
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  numbers();
  statuses();
  looked_at();
  session_handlers();
  session_buffers();
  buffers_of_two_sessions();
  handlers_of_another_kind();
  graphs();
  MPI_Finalize();
  return result();
}
