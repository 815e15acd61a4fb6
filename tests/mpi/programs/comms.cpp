// Making communicators from communicators: members, order, separate messages, names, hints.
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "comms_check.hpp"

namespace {

int size;
int rank;

int compared(MPI_Comm one, MPI_Comm other) {
  int result = -1;
  MPI_Comm_compare(one, other, &result);
  return result;
}

void check_world() {
  WEFT_EXPECT(check::size_of(MPI_COMM_SELF) == 1 && check::rank_in(MPI_COMM_SELF) == 0);
  WEFT_EXPECT(compared(MPI_COMM_WORLD, MPI_COMM_WORLD) == MPI_IDENT);
  WEFT_EXPECT(compared(MPI_COMM_WORLD, MPI_COMM_SELF) == (size == 1 ? MPI_CONGRUENT : MPI_UNEQUAL));
  int flag = 1;
  MPI_Comm_test_inter(MPI_COMM_WORLD, &flag);
  WEFT_EXPECT(flag == 0);
  MPI_Comm parent = MPI_COMM_WORLD;
  MPI_Comm_get_parent(&parent);
  WEFT_EXPECT(parent == MPI_COMM_NULL);
  WEFT_EXPECT(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
}

void check_dup() {
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  WEFT_EXPECT(compared(copy, MPI_COMM_WORLD) == MPI_CONGRUENT);
  WEFT_EXPECT(MPI_Comm_fromint(MPI_Comm_toint(copy)) == copy);
  // A message on one is not received on the other, though sent first.
  int in_world = 1;
  int in_copy = 2;
  int got = 0;
  MPI_Request requests[2];
  const int next = (rank + 1) % size;
  const int before = (rank + size - 1) % size;
  MPI_Isend(&in_world, 1, MPI_INT, next, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(&in_copy, 1, MPI_INT, next, 0, copy, &requests[1]);
  MPI_Recv(&got, 1, MPI_INT, before, MPI_ANY_TAG, copy, MPI_STATUS_IGNORE);
  WEFT_EXPECT(got == 2);
  MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  WEFT_EXPECT(got == 1);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  // Freed while a receive waits: the receive goes on.
  MPI_Irecv(&got, 1, MPI_INT, before, 9, copy, &requests[0]);
  MPI_Isend(&in_copy, 1, MPI_INT, next, 9, copy, &requests[1]);
  MPI_Comm_free(&copy);
  WEFT_EXPECT(copy == MPI_COMM_NULL);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  WEFT_EXPECT(got == 2);
}

void check_idup() {
  constexpr int kMany = 8;
  MPI_Comm copies[kMany];
  MPI_Request requests[kMany];
  for (int i = 0; i < kMany; ++i) MPI_Comm_idup(MPI_COMM_WORLD, &copies[i], &requests[i]);
  // A blocking one overtakes those under way.
  MPI_Comm between;
  MPI_Comm_dup(MPI_COMM_WORLD, &between);
  MPI_Waitall(kMany, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < kMany; ++i) {
    WEFT_EXPECT(compared(copies[i], between) == MPI_CONGRUENT);
    WEFT_EXPECT(check::goes_round(copies[i], i));
  }
  WEFT_EXPECT(check::goes_round(between, 50));
  for (MPI_Comm& copy : copies) MPI_Comm_free(&copy);
  MPI_Comm_disconnect(&between);
  WEFT_EXPECT(between == MPI_COMM_NULL);
}

/// MPI_Comm_disconnect ends what is under way: then buffers may be used again, and have what was
/// received.
void check_disconnect(int ints, bool by_message) {
  const auto count = static_cast<std::size_t>(ints);
  const int other = size - 1;
  std::vector<int> sent(count, rank + 1);
  std::vector<int> told(count, rank + 1);
  std::vector<int> received(rank == other ? count : 0);
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Request bcast;
  MPI_Ibcast(told.data(), ints, MPI_INT, 0, comm, &bcast);
  if (rank == other && !by_message) {
    MPI_Irecv(received.data(), ints, MPI_INT, 0, 1, comm, &requests[0]);
  }
  if (rank == 0) MPI_Isend(sent.data(), ints, MPI_INT, other, 1, comm, &requests[1]);
  if (rank == other && by_message) {
    MPI_Message message;
    MPI_Mprobe(0, 1, comm, &message, MPI_STATUS_IGNORE);
    MPI_Imrecv(received.data(), ints, MPI_INT, &message, &requests[0]);
  }
  for (MPI_Request& each : requests) {
    if (each != MPI_REQUEST_NULL) MPI_Request_free(&each);
  }
  MPI_Comm_disconnect(&comm);
  WEFT_EXPECT(comm == MPI_COMM_NULL);
  const auto is_first = [](int value) { return value == 1; };
  WEFT_EXPECT(std::all_of(told.begin(), told.end(), is_first));
  WEFT_EXPECT(std::all_of(received.begin(), received.end(), is_first));
  std::fill(sent.begin(), sent.end(), -1);
  std::fill(told.begin(), told.end(), -1);
  MPI_Barrier(MPI_COMM_WORLD);
  WEFT_EXPECT(std::all_of(received.begin(), received.end(), is_first));
  WEFT_EXPECT(MPI_Wait(&bcast, MPI_STATUS_IGNORE) == MPI_SUCCESS);
}

void check_split() {
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  const int mine = size / 2 + (rank % 2 == 0 ? size % 2 : 0);
  WEFT_EXPECT(check::size_of(half) == mine);
  WEFT_EXPECT(check::rank_in(half) == mine - 1 - rank / 2);
  WEFT_EXPECT(check::goes_round(half, 60 + rank % 2));
  MPI_Comm alone;
  MPI_Comm_split(half, check::rank_in(half) == 0 ? 3 : MPI_UNDEFINED, 0, &alone);
  WEFT_EXPECT((alone == MPI_COMM_NULL) == (check::rank_in(half) != 0));
  if (alone != MPI_COMM_NULL) {
    WEFT_EXPECT(check::size_of(alone) == 1);
    MPI_Comm_free(&alone);
  }
  MPI_Comm_free(&half);
}

void check_split_type() {
  MPI_Comm node;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
  WEFT_EXPECT(node != MPI_COMM_NULL && check::size_of(node) <= size);
  WEFT_EXPECT(check::goes_round(node, 70));
  MPI_Comm below;
  MPI_Comm_split_type(node, MPI_COMM_TYPE_HW_UNGUIDED, 0, MPI_INFO_NULL, &below);
  WEFT_EXPECT(below == MPI_COMM_NULL || check::size_of(below) < check::size_of(node));
  if (below != MPI_COMM_NULL) MPI_Comm_free(&below);
  MPI_Comm_free(&node);
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_UNGUIDED, 0, info, &node);
  char kind[MPI_MAX_INFO_VAL] = "";
  int told = 0;
  MPI_Info_get(info, "mpi_hw_resource_type", MPI_MAX_INFO_VAL - 1, kind, &told);
  WEFT_EXPECT((told != 0) == (node != MPI_COMM_NULL));
  WEFT_EXPECT(told == 0 || std::string(kind) == "mpi_shared_memory");
  if (node != MPI_COMM_NULL) MPI_Comm_free(&node);
  MPI_Info_set(info, "mpi_hw_resource_type", "mpi_shared_memory");
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &node);
  if (node != MPI_COMM_NULL) {
    WEFT_EXPECT(check::goes_round(node, 71));
    MPI_Comm_free(&node);
  }
  // Each kind that is told of, where this process may run only inside one of it.
  MPI_Info hardware;
  MPI_Get_hw_resource_info(&hardware);
  int kinds = 0;
  MPI_Info_get_nkeys(hardware, &kinds);
  for (int i = 0; i < kinds; ++i) {
    char key[MPI_MAX_INFO_KEY] = "";
    char value[MPI_MAX_INFO_VAL] = "";
    MPI_Info_get_nthkey(hardware, i, key);
    MPI_Info_get(hardware, key, MPI_MAX_INFO_VAL - 1, value, &told);
    MPI_Info_set(info, "mpi_hw_resource_type", key);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &node);
    WEFT_EXPECT((node != MPI_COMM_NULL) == (std::string(value) == "true"));
    if (node == MPI_COMM_NULL) continue;
    WEFT_EXPECT(check::goes_round(node, 72));
    MPI_Info used;
    MPI_Comm_get_info(node, &used);
    MPI_Info_get(used, "mpi_hw_resource_type", MPI_MAX_INFO_VAL - 1, kind, &told);
    WEFT_EXPECT(told != 0 && std::string(kind) == key);
    MPI_Info_free(&used);
    MPI_Comm_free(&node);
  }
  MPI_Info_free(&hardware);
  MPI_Info_set(info, "mpi_hw_resource_type", "nothing that exists");
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &node);
  WEFT_EXPECT(node == MPI_COMM_NULL);
  MPI_Info_free(&info);
  MPI_Comm_split_type(MPI_COMM_WORLD, rank == 0 ? MPI_COMM_TYPE_SHARED : MPI_UNDEFINED, 0,
                      MPI_INFO_NULL, &node);
  WEFT_EXPECT((node != MPI_COMM_NULL) == (rank == 0));
  if (node != MPI_COMM_NULL) MPI_Comm_free(&node);
}

/// Members of the group alone call create_group; all call create, each with its own of two groups.
void check_create() {
  MPI_Group world;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  std::vector<int> parts[2];
  for (int i = size; i-- > 0;) parts[i % 2].push_back(i);
  const std::vector<int>& mine = parts[rank % 2];
  MPI_Group group;
  MPI_Group_incl(world, static_cast<int>(mine.size()), mine.data(), &group);
  MPI_Comm made;
  MPI_Comm_create(MPI_COMM_WORLD, group, &made);
  MPI_Group back;
  MPI_Comm_group(made, &back);
  int result = -1;
  MPI_Group_compare(group, back, &result);
  WEFT_EXPECT(result == MPI_IDENT);
  WEFT_EXPECT(check::goes_round(made, 80));
  MPI_Comm_free(&made);
  MPI_Group_free(&back);
  if (rank % 2 == 0) {
    MPI_Comm_create_group(MPI_COMM_WORLD, group, 17, &made);
    WEFT_EXPECT(check::goes_round(made, 81));
    MPI_Comm_free(&made);
  }
  MPI_Comm_create(MPI_COMM_WORLD, rank % 2 == 0 ? group : MPI_GROUP_EMPTY, &made);
  WEFT_EXPECT((made != MPI_COMM_NULL) == (rank % 2 == 0));
  if (made != MPI_COMM_NULL) MPI_Comm_free(&made);
  MPI_Group_free(&group);
  MPI_Group_free(&world);
}

std::string name_of(MPI_Comm comm) {
  char name[MPI_MAX_OBJECT_NAME];
  int length = -1;
  MPI_Comm_get_name(comm, name, &length);
  WEFT_EXPECT(static_cast<std::size_t>(length) == std::strlen(name));
  return name;
}

void check_names() {
  WEFT_EXPECT(name_of(MPI_COMM_WORLD) == "MPI_COMM_WORLD");
  WEFT_EXPECT(name_of(MPI_COMM_SELF) == "MPI_COMM_SELF");
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  WEFT_EXPECT(name_of(copy).empty());
  MPI_Comm_set_name(copy, "a name");
  WEFT_EXPECT(name_of(copy) == "a name");
  MPI_Comm_set_name(copy, std::string(1000, 'x').c_str());
  WEFT_EXPECT(name_of(copy) == std::string(MPI_MAX_OBJECT_NAME - 1, 'x'));
  MPI_Comm_free(&copy);
}

bool promised(MPI_Comm comm, const char* key) {
  MPI_Info info;
  MPI_Comm_get_info(comm, &info);
  char value[16] = "";
  int length = sizeof value;
  int flag = 0;
  MPI_Info_get_string(info, key, &length, value, &flag);
  MPI_Info_free(&info);
  return flag != 0 && std::strcmp(value, "true") == 0;
}

void check_hints() {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_assert_no_any_source", "true");
  MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
  MPI_Info_set(info, "unheard of", "true");
  MPI_Comm copy;
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &copy);
  WEFT_EXPECT(check::goes_round(copy, 90));
  WEFT_EXPECT(!promised(copy, "unheard of"));
  MPI_Info_set(info, "mpi_assert_no_any_tag", "false");
  MPI_Info_set(info, "mpi_assert_allow_overtaking", "true");
  MPI_Comm_set_info(copy, info);
  WEFT_EXPECT(!promised(copy, "mpi_assert_no_any_tag"));
  WEFT_EXPECT(!promised(copy, "mpi_assert_allow_overtaking"));  // too late, and told so
  WEFT_EXPECT(check::goes_round(copy, 91));
  MPI_Comm early;
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &early);
  WEFT_EXPECT(promised(early, "mpi_assert_allow_overtaking"));
  MPI_Comm_free(&early);
  MPI_Comm other;
  MPI_Request request;
  MPI_Comm_idup_with_info(copy, MPI_INFO_NULL, &other, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  WEFT_EXPECT(!promised(other, "mpi_assert_allow_overtaking"));
  MPI_Comm_free(&other);
  MPI_Comm_free(&copy);
  MPI_Info_free(&info);
}

void check_errhandlers_are_inherited() {
  MPI_Comm first;
  MPI_Comm_dup(MPI_COMM_WORLD, &first);
  MPI_Comm_set_errhandler(first, MPI_ERRORS_RETURN);
  MPI_Comm second;
  MPI_Comm_split(first, 0, 0, &second);
  MPI_Errhandler handler;
  MPI_Comm_get_errhandler(second, &handler);
  WEFT_EXPECT(handler == MPI_ERRORS_RETURN);
  MPI_Comm_free(&second);
  MPI_Comm_free(&first);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  size = check::size_of(MPI_COMM_WORLD);
  rank = check::rank_in(MPI_COMM_WORLD);
  check_world();
  check_dup();
  check_idup();
  for (const int ints : {1, 10000, 1 << 22}) {
    check_disconnect(ints, false);
    check_disconnect(ints, true);
  }
  check_split();
  check_split_type();
  check_create();
  check_names();
  check_hints();
  check_errhandlers_are_inherited();
  MPI_Finalize();
  return check::failures == 0 ? 0 : 1;
}
