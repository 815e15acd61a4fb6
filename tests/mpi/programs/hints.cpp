// What a communicator was promised by info keys holds: wildcards that it was told not to expect are
// errors. With argument "hash", promises that matching relies on cannot be taken back.
#include <string>
#include <vector>

#include "check.hpp"

namespace {

MPI_Info promise(const char* key, const char* value = "true") {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, key, value);
  return info;
}

MPI_Comm promised(const char* first, const char* second = nullptr) {
  MPI_Info info = promise(first);
  if (second != nullptr) MPI_Info_set(info, second, "true");
  MPI_Comm comm;
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
  MPI_Info_free(&info);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return comm;
}

constexpr const char* kNoSource = "mpi_assert_no_any_source";
constexpr const char* kNoTag = "mpi_assert_no_any_tag";

/// Every call that could name the wildcard; none of them posts anything.
void refused(MPI_Comm comm, int source, int tag, int expected) {
  int word = 0;
  int flag = 0;
  MPI_Request request;
  MPI_Message message;
  WEFT_CHECK_CLASS(expected, MPI_Recv(&word, 1, MPI_INT, source, tag, comm, MPI_STATUS_IGNORE));
  WEFT_CHECK_CLASS(expected, MPI_Irecv(&word, 1, MPI_INT, source, tag, comm, &request));
  WEFT_CHECK_CLASS(expected, MPI_Recv_init(&word, 1, MPI_INT, source, tag, comm, &request));
  WEFT_CHECK_CLASS(expected, MPI_Probe(source, tag, comm, MPI_STATUS_IGNORE));
  WEFT_CHECK_CLASS(expected, MPI_Iprobe(source, tag, comm, &flag, MPI_STATUS_IGNORE));
  WEFT_CHECK_CLASS(expected, MPI_Mprobe(source, tag, comm, &message, MPI_STATUS_IGNORE));
  WEFT_CHECK_CLASS(expected, MPI_Improbe(source, tag, comm, &flag, &message, MPI_STATUS_IGNORE));
  WEFT_CHECK_CLASS(expected, MPI_Sendrecv(&word, 1, MPI_INT, MPI_PROC_NULL, 0, &word, 1, MPI_INT,
                                          source, tag, comm, MPI_STATUS_IGNORE));
}

/// A message to the next rank, received from the one before as `source` and `tag` say.
void served(MPI_Comm comm, bool any_source, bool any_tag) {
  int me = 0;
  int size = 0;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &size);
  const int from = (me + size - 1) % size;
  int in = -1;
  MPI_Status status;
  WEFT_CHECK(MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % size, 5, &in, 1, MPI_INT,
                          any_source ? MPI_ANY_SOURCE : from, any_tag ? MPI_ANY_TAG : 5, comm,
                          &status) == MPI_SUCCESS);
  WEFT_CHECK(in == from && status.MPI_SOURCE == from && status.MPI_TAG == 5);
}

/// Many keys at once, half of them before their receives; the order of each key holds.
void many(MPI_Comm comm) {
  constexpr int kKeys = 100;
  constexpr int kEach = 3;
  int me = 0;
  int size = 0;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &size);
  const int from = (me + size - 1) % size;
  MPI_Request requests[kKeys * kEach];
  int in[kKeys * kEach];
  int posted = 0;
  const auto post = [&](int below) {
    for (; posted < below; ++posted) {
      MPI_Irecv(&in[posted], 1, MPI_INT, from, posted % kKeys, comm, &requests[posted]);
    }
  };
  post(kKeys * kEach / 2);
  for (int i = 0; i < kKeys * kEach; ++i) {
    MPI_Send(&i, 1, MPI_INT, (me + 1) % size, i % kKeys, comm);
  }
  MPI_Barrier(comm);
  post(kKeys * kEach);
  MPI_Waitall(kKeys * kEach, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < kKeys * kEach; ++i) WEFT_CHECK(in[i] == i);
}

std::string value_of(MPI_Comm comm, const char* key) {
  MPI_Info used;
  MPI_Comm_get_info(comm, &used);
  char value[16] = "";
  int length = sizeof value;
  int flag = 0;
  MPI_Info_get_string(used, key, &length, value, &flag);
  MPI_Info_free(&used);
  return flag != 0 ? value : "";
}

bool holds(MPI_Comm comm, const char* key) { return value_of(comm, key) == "true"; }

/// Settled as a communicator is made, by whatever maker takes an info; not taken up later.
void overtaking() {
  constexpr const char* kOvertaking = "mpi_assert_allow_overtaking";
  MPI_Info info = promise(kOvertaking);
  MPI_Group group;
  int me = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  std::vector<MPI_Comm> made(6, MPI_COMM_NULL);
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &made[0]);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, info, &made[1]);
  const int next = (me + 1) % size;
  const int before = (me + size - 1) % size;
  const int degree = 1;
  MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &me, &degree, &next, MPI_UNWEIGHTED, info, 0, &made[2]);
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1, &next,
                                 MPI_UNWEIGHTED, info, 0, &made[3]);
  MPI_Comm_create_from_group(group, "overtaking", info, MPI_ERRORS_RETURN, &made[4]);
  if (size > 1) {
    MPI_Group sides[2];
    int ranges[2][3] = {{0, 0, 1}, {1, size - 1, 1}};
    for (int side = 0; side < 2; ++side)
      MPI_Group_range_incl(group, 1, &ranges[side], &sides[side]);
    const int mine = me == 0 ? 0 : 1;
    MPI_Intercomm_create_from_groups(sides[mine], 0, sides[1 - mine], 0, "overtaking between", info,
                                     MPI_ERRORS_RETURN, &made[5]);
    for (MPI_Group& side : sides) MPI_Group_free(&side);
  }
  for (MPI_Comm& each : made) {
    if (each == MPI_COMM_NULL) continue;
    WEFT_CHECK(holds(each, kOvertaking));
    MPI_Comm_free(&each);
  }
  MPI_Comm late;
  MPI_Comm_dup(MPI_COMM_WORLD, &late);
  MPI_Comm_set_info(late, info);
  WEFT_CHECK(!holds(late, kOvertaking));
  MPI_Comm_free(&late);
  MPI_Group_free(&group);
  MPI_Info_free(&info);
}

}  // namespace

int main(int argc, char** argv) {
  const bool hash = argc > 1 && std::string(argv[1]) == "hash";
  MPI_Init(&argc, &argv);

  MPI_Comm no_source = promised(kNoSource);
  refused(no_source, MPI_ANY_SOURCE, 0, MPI_ERR_RANK);
  served(no_source, false, false);
  served(no_source, false, true);

  MPI_Comm no_tag = promised(kNoTag);
  refused(no_tag, 0, MPI_ANY_TAG, MPI_ERR_TAG);
  served(no_tag, false, false);
  served(no_tag, true, false);

  MPI_Comm neither = promised(kNoSource, kNoTag);
  refused(neither, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_ERR_RANK);
  refused(neither, 0, MPI_ANY_TAG, MPI_ERR_TAG);
  served(neither, false, false);
  many(neither);

  WEFT_CHECK(value_of(neither, "mpi_memory_alloc_kinds") == "mpi,system");

  // Taken back: MPI_Comm_get_info tells whether it was. Matching is as promised, or as without.
  MPI_Info back = promise(kNoSource, "false");
  MPI_Comm_set_info(neither, back);
  MPI_Comm_set_info(no_source, back);
  WEFT_CHECK(holds(neither, kNoSource) == hash);
  WEFT_CHECK(!holds(no_source, kNoSource));
  served(no_source, true, true);
  if (hash) {
    refused(neither, MPI_ANY_SOURCE, 0, MPI_ERR_RANK);
  } else {
    served(neither, true, false);
  }
  MPI_Info_free(&back);

  // Promised later.
  MPI_Comm late;
  MPI_Comm_dup(MPI_COMM_WORLD, &late);
  MPI_Comm_set_errhandler(late, MPI_ERRORS_RETURN);
  served(late, true, true);
  MPI_Info both = promise(kNoSource);
  MPI_Info_set(both, kNoTag, "true");
  MPI_Comm_set_info(late, both);
  MPI_Info_free(&both);
  refused(late, MPI_ANY_SOURCE, 0, MPI_ERR_RANK);
  many(late);

  // The next communicator promises nothing, whatever channels it gets.
  for (MPI_Comm* each : {&no_source, &no_tag, &neither, &late}) MPI_Comm_free(each);
  for (int i = 0; i < 4; ++i) {
    MPI_Comm plain;
    MPI_Comm_dup(MPI_COMM_WORLD, &plain);
    served(plain, true, true);
    many(plain);
    MPI_Comm_free(&plain);
  }
  overtaking();
  MPI_Finalize();
  return result();
}
