// Wrong arguments of calls about groups, communicators and topologies: each its error class, and
// everything goes on.
#include <mpi.h>

#include "comms_check.hpp"

namespace {

void expect_class(int code, int expected, const char* call, int line) {
  const int found = check::class_of(code);
  if (found == expected) return;
  std::printf("class %d, not %d: ", found, expected);
  check::failed(__FILE__, line, call);
}

#define WEFT_GIVES(error_class, call) expect_class((call), (error_class), #call, __LINE__)

void check_groups(MPI_Group group, int size) {
  MPI_Group made = MPI_GROUP_NULL;
  int number = 0;
  int twice[2] = {0, 0};
  int far[1] = {size};
  int still[1][3] = {{0, 0, 0}};
  int beyond[1][3] = {{0, size, 1}};
  int outside[1][3] = {{size + 5, size, 1}};
  int past_end[1][3] = {{0, size, size + 1}};
  int up[1][3] = {{0, size - 1, -1}};
  int down[1][3] = {{size - 1, 0, 1}};
  WEFT_GIVES(MPI_ERR_GROUP, MPI_Group_size(MPI_GROUP_NULL, &number));
  WEFT_GIVES(MPI_ERR_GROUP, MPI_Group_union(group, MPI_GROUP_NULL, &made));
  WEFT_GIVES(MPI_ERR_RANK, MPI_Group_incl(group, 2, twice, &made));
  WEFT_GIVES(MPI_ERR_RANK, MPI_Group_incl(group, 1, far, &made));
  WEFT_GIVES(MPI_ERR_RANK, MPI_Group_excl(group, 1, far, &made));
  WEFT_GIVES(MPI_ERR_ARG, MPI_Group_incl(group, -1, far, &made));
  WEFT_GIVES(MPI_ERR_ARG, MPI_Group_range_incl(group, 1, still, &made));
  WEFT_GIVES(MPI_ERR_RANK, MPI_Group_range_incl(group, 1, beyond, &made));
  WEFT_GIVES(MPI_ERR_RANK, MPI_Group_range_incl(group, 1, outside, &made));
  WEFT_GIVES(MPI_SUCCESS, MPI_Group_range_excl(group, 1, past_end, &made));
  MPI_Group_free(&made);
  if (size > 1) {
    WEFT_GIVES(MPI_ERR_ARG, MPI_Group_range_incl(group, 1, up, &made));
    WEFT_GIVES(MPI_ERR_ARG, MPI_Group_range_excl(group, 1, down, &made));
  }
  WEFT_GIVES(MPI_ERR_RANK, MPI_Group_translate_ranks(group, 1, far, group, twice));
  MPI_Group copy;
  MPI_Comm_group(MPI_COMM_WORLD, &copy);
  const MPI_Group freed = copy;
  MPI_Group_free(&copy);
  WEFT_GIVES(MPI_ERR_GROUP, MPI_Group_size(freed, &number));
}

void check_comms(MPI_Comm comm, MPI_Group group, int size) {
  MPI_Comm made = MPI_COMM_NULL;
  int number = 0;
  WEFT_GIVES(MPI_ERR_COMM, MPI_Comm_size(MPI_COMM_NULL, &number));
  WEFT_GIVES(MPI_ERR_COMM, MPI_Comm_remote_size(comm, &number));
  MPI_Request request = MPI_REQUEST_NULL;
  WEFT_GIVES(MPI_ERR_COMM, MPI_Comm_idup(MPI_COMM_NULL, &made, &request));
  WEFT_GIVES(MPI_ERR_ARG, MPI_Comm_idup(MPI_COMM_WORLD, nullptr, &request));
  WEFT_GIVES(MPI_ERR_ARG, MPI_Comm_idup(MPI_COMM_WORLD, &made, nullptr));
  WEFT_GIVES(MPI_ERR_COMM, MPI_Comm_dup(MPI_COMM_NULL, &made));
  WEFT_GIVES(MPI_ERR_GROUP, MPI_Comm_create(comm, MPI_GROUP_NULL, &made));
  WEFT_GIVES(MPI_ERR_TAG, MPI_Comm_create_group(comm, group, -1, &made));
  WEFT_GIVES(MPI_ERR_ARG, MPI_Comm_split(comm, -5, 0, &made));
  WEFT_GIVES(MPI_ERR_ARG, MPI_Comm_split_type(comm, 12345, 0, MPI_INFO_NULL, &made));
  MPI_Comm world = MPI_COMM_WORLD;
  WEFT_GIVES(MPI_ERR_COMM, MPI_Comm_free(&world));
  WEFT_GIVES(MPI_ERR_COMM, MPI_Intercomm_merge(comm, 0, &made));
  WEFT_GIVES(MPI_ERR_RANK, MPI_Intercomm_create(comm, size, comm, 0, 0, &made));
  WEFT_GIVES(MPI_ERR_RANK, MPI_Intercomm_create(comm, 0, comm, size, 0, &made));
  WEFT_GIVES(MPI_ERR_INFO,
             MPI_Comm_dup_with_info(comm, reinterpret_cast<MPI_Info>(0x123456789), &made));
  MPI_Comm_dup(comm, &made);
  const MPI_Comm freed = made;
  MPI_Comm_free(&made);
  WEFT_GIVES(MPI_ERR_COMM, MPI_Comm_size(freed, &number));
  WEFT_GIVES(MPI_ERR_COMM, MPI_Send(&number, 1, MPI_INT, 0, 0, freed));
}

/// All are told of what only the leader of each side can know.
void check_from_groups(MPI_Group group, int size) {
  MPI_Comm made = MPI_COMM_NULL;
  const auto make = [&](MPI_Group remote, int remote_leader) {
    return MPI_Intercomm_create_from_groups(group, 0, remote, remote_leader, "wrong", MPI_INFO_NULL,
                                            MPI_ERRORS_RETURN, &made);
  };
  WEFT_GIVES(MPI_ERR_GROUP, make(group, size > 1 ? 1 : 0));
  WEFT_GIVES(MPI_ERR_GROUP, make(group, 0));
  WEFT_GIVES(MPI_ERR_RANK, make(group, size));
  WEFT_GIVES(MPI_ERR_GROUP, make(MPI_GROUP_NULL, 0));
  WEFT_EXPECT(made == MPI_COMM_NULL);
}

void check_sessions() {
  MPI_Session session = MPI_SESSION_NULL;
  int number = 0;
  WEFT_GIVES(MPI_ERR_SESSION, MPI_Session_get_num_psets(session, MPI_INFO_NULL, &number));
  WEFT_GIVES(MPI_ERR_SESSION, MPI_Session_finalize(&session));
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
  MPI_Group group = MPI_GROUP_NULL;
  WEFT_GIVES(MPI_ERR_ARG, MPI_Group_from_session_pset(session, "no such set", &group));
  MPI_Session freed = session;
  MPI_Session_finalize(&session);
  MPI_Info info = MPI_INFO_NULL;
  WEFT_GIVES(MPI_ERR_SESSION, MPI_Session_get_num_psets(freed, MPI_INFO_NULL, &number));
  WEFT_GIVES(MPI_ERR_SESSION, MPI_Session_get_info(freed, &info));
  WEFT_GIVES(MPI_ERR_SESSION, MPI_Group_from_session_pset(freed, "mpi://WORLD", &group));
  WEFT_GIVES(MPI_ERR_SESSION, MPI_Session_finalize(&freed));
}

void check_topologies(MPI_Comm comm, int size) {
  MPI_Comm made = MPI_COMM_NULL;
  int number = 0;
  int dims[2] = {size + 1, 1};
  int zero[1] = {0};
  int seven[2] = {7, 0};
  int minus[1] = {-1};
  int periods[2] = {0, 0};
  WEFT_GIVES(MPI_ERR_TOPOLOGY, MPI_Cartdim_get(comm, &number));
  WEFT_GIVES(MPI_ERR_TOPOLOGY, MPI_Graph_neighbors_count(comm, 0, &number));
  WEFT_GIVES(MPI_ERR_TOPOLOGY, MPI_Dist_graph_neighbors_count(comm, &number, &number, &number));
  WEFT_GIVES(MPI_ERR_DIMS, MPI_Cart_create(comm, 2, dims, periods, 0, &made));
  WEFT_GIVES(MPI_ERR_DIMS, MPI_Cart_create(comm, 1, zero, periods, 0, &made));
  WEFT_GIVES(MPI_ERR_DIMS, MPI_Cart_create(comm, -1, dims, periods, 0, &made));
  WEFT_GIVES(MPI_ERR_DIMS, MPI_Dims_create(12, 2, seven));
  WEFT_GIVES(MPI_ERR_DIMS, MPI_Dims_create(12, 1, minus));
  WEFT_GIVES(MPI_ERR_ARG, MPI_Dims_create(0, 1, zero));
  dims[0] = size;
  MPI_Cart_create(comm, 1, dims, periods, 0, &made);
  MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
  WEFT_GIVES(MPI_ERR_DIMS, MPI_Cart_shift(made, 1, 1, &number, &number));
  WEFT_GIVES(MPI_ERR_ARG, MPI_Cart_rank(made, dims, &number));
  WEFT_GIVES(MPI_ERR_RANK, MPI_Cart_coords(made, size, 1, periods));
  WEFT_GIVES(MPI_ERR_ARG, MPI_Cart_coords(made, 0, 0, periods));
  MPI_Comm_free(&made);
}

/// MPI_Comm_idup's request is that of a collective: neither cancelled, nor freed before its end.
void check_idup(MPI_Comm comm) {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  // The others' cannot end before rank 0 begins its own.
  const bool first = check::rank_in(comm) == 0;
  if (first) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Comm_idup(comm, &made, &request);
  if (!first) {
    MPI_Request copy = request;
    WEFT_GIVES(MPI_ERR_REQUEST, MPI_Request_free(&copy));
    copy = request;
    WEFT_GIVES(MPI_ERR_REQUEST, MPI_Cancel(&copy));
    MPI_Barrier(MPI_COMM_WORLD);
  }
  WEFT_EXPECT(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
  WEFT_EXPECT(check::goes_round(made, 2));
  MPI_Comm_free(&made);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Group group;
  MPI_Comm_group(comm, &group);
  const int size = check::size_of(comm);
  check_groups(group, size);
  check_comms(comm, group, size);
  check_from_groups(group, size);
  check_sessions();
  check_topologies(comm, size);
  check_idup(comm);
  WEFT_EXPECT(check::goes_round(comm, 1));
  MPI_Group_free(&group);
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return check::failures == 0 ? 0 : 1;
}
