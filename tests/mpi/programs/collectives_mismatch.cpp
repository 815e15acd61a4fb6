// mpi.check_collectives: ranks that call unlike collectives are told which rank called what.
#include <string>
#include <vector>

#include "collectives_check.hpp"

namespace {

using namespace check;

int size, rank;

/// The last rank calls something else.
bool odd_one() { return rank == size - 1; }

void expect(int code, int wanted, const char* what) {
  int error_class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &error_class);
  WEFT_EXPECT(error_class == wanted, std::string(what) + ": class " + std::to_string(error_class) +
                                         ", not " + std::to_string(wanted));
}

/// One of the program's that commutes, and one that does not.
void test_own_operations() {
  MPI_Op op;
  MPI_Op_create([](void*, void*, int*, MPI_Datatype*) {}, odd_one() ? 0 : 1, &op);
  int x = 1;
  int y = 0;
  expect(MPI_Allreduce(&x, &y, 1, MPI_INT, op, MPI_COMM_WORLD), MPI_ERR_OP, "two own operations");
  expect(MPI_Allreduce(&x, &y, 1, MPI_INT, odd_one() ? op : MPI_SUM, MPI_COMM_WORLD), MPI_ERR_OP,
         "an own operation and a predefined one");
  MPI_Op_free(&op);
}

/// `error` once with one rank's count off by one, success without. All must tell.
template <class CallWith>
void off_by_one(const char* what, CallWith call) {
  expect(call(1), MPI_ERR_COUNT, what);
  expect(call(0), MPI_SUCCESS, what);
}

/// What one rank gives is not what another expects; each time rank 0's view of the last rank is
/// wrong, or the other way round.
void test_unlike_counts() {
  const MPI_Comm world = MPI_COMM_WORLD;
  const auto n = static_cast<std::size_t>(size);
  std::vector<int> out(4 * n);
  std::vector<int> in(4 * n);
  std::vector<int> counts(n, 2);
  std::vector<int> places(n);
  for (std::size_t i = 0; i < n; ++i) places[i] = static_cast<int>(4 * i);
  const std::vector<int> right = counts;
  const auto wrong_at_0 = [&](int off) {
    counts = right;
    if (rank == 0) counts.back() += off;
    return counts.data();
  };
  off_by_one("Gatherv", [&](int off) {
    return MPI_Gatherv(out.data(), 2, MPI_INT, in.data(), wrong_at_0(off), places.data(), MPI_INT,
                       0, world);
  });
  off_by_one("Scatterv", [&](int off) {
    return MPI_Scatterv(out.data(), wrong_at_0(off), places.data(), MPI_INT, in.data(), 2, MPI_INT,
                        0, world);
  });
  off_by_one("Gatherv in place", [&](int off) {
    return MPI_Gatherv(rank == 0 ? MPI_IN_PLACE : out.data(), odd_one() ? 2 + off : 2, MPI_INT,
                       in.data(), counts.data(), places.data(), MPI_INT, 0, world);
  });
  // One count for all, of which a rank gives less than it and the others expect.
  off_by_one("Allgather", [&](int off) {
    return MPI_Allgather(out.data(), odd_one() ? 2 - off : 2, MPI_INT, in.data(), 2, MPI_INT,
                         world);
  });
  off_by_one("Alltoall", [&](int off) {
    return MPI_Alltoall(out.data(), rank == 0 ? 2 - off : 2, MPI_INT, in.data(), 2, MPI_INT, world);
  });
  // Or gives itself more than it has room for, which it could tell by itself.
  off_by_one("Gather with too little room", [&](int off) {
    return MPI_Gather(out.data(), 2, MPI_INT, in.data(), rank == 0 ? 2 - off : 2, MPI_INT, 0,
                      world);
  });
  off_by_one("Allgather of too much", [&](int off) {
    return MPI_Allgather(out.data(), rank == 0 ? 2 + off : 2, MPI_INT, in.data(), 2, MPI_INT,
                         world);
  });
  off_by_one("Gatherv with too little room for oneself", [&](int off) {
    counts = right;
    if (rank == 0) counts.front() -= off;
    return MPI_Gatherv(out.data(), 2, MPI_INT, in.data(), counts.data(), places.data(), MPI_INT, 0,
                       world);
  });
  expect(MPI_Alltoall(out.data(), 1, MPI_INT, in.data(), 0, MPI_INT, MPI_COMM_SELF),
         MPI_ERR_TRUNCATE, "Alltoall of one rank");
  off_by_one("Alltoall of too much", [&](int off) {
    return MPI_Alltoall(out.data(), rank == 0 ? 2 + off : 2, MPI_INT, in.data(), 2, MPI_INT, world);
  });
  off_by_one("Gather", [&](int off) {
    return MPI_Gather(out.data(), 2 - off, MPI_INT, in.data(), 2, MPI_INT, size - 1, world);
  });
  off_by_one("Scatter", [&](int off) {
    return MPI_Scatter(out.data(), 2, MPI_INT, in.data(), odd_one() ? 2 + off : 2, MPI_INT,
                       size - 1, world);
  });
  off_by_one("Allgatherv", [&](int off) {
    return MPI_Allgatherv(out.data(), 2, MPI_INT, in.data(), wrong_at_0(off), places.data(),
                          MPI_INT, world);
  });
  off_by_one("Alltoallv", [&](int off) {
    return MPI_Alltoallv(out.data(), wrong_at_0(off), places.data(), MPI_INT, in.data(),
                         right.data(), places.data(), MPI_INT, world);
  });
  off_by_one("Ialltoallv", [&](int off) {
    MPI_Request request;
    wrong_at_0(off);
    const int code = MPI_Ialltoallv(out.data(), right.data(), places.data(), MPI_INT, in.data(),
                                    counts.data(), places.data(), MPI_INT, world, &request);
    return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
  });
  off_by_one("Alltoallv in place", [&](int off) {
    return MPI_Alltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_INT, in.data(), wrong_at_0(off),
                         places.data(), MPI_INT, world);
  });
  const std::vector<MPI_Datatype> types(n, MPI_INT);
  std::vector<int> bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<int>(16 * i);
  off_by_one("Alltoallw", [&](int off) {
    return MPI_Alltoallw(out.data(), wrong_at_0(off), bytes.data(), types.data(), in.data(),
                         right.data(), bytes.data(), types.data(), world);
  });
  std::vector<MPI_Datatype> other = types;
  if (odd_one()) other.front() = MPI_FLOAT;
  expect(MPI_Alltoallw(out.data(), right.data(), bytes.data(), other.data(), in.data(),
                       right.data(), bytes.data(), types.data(), world),
         MPI_ERR_TYPE, "Alltoallw of two types");
  // The sum is the same.
  off_by_one("Reduce_scatter", [&](int off) {
    counts = right;
    if (odd_one()) {
      counts.front() += off;
      counts.back() -= off;
    }
    return MPI_Reduce_scatter(out.data(), in.data(), counts.data(), MPI_INT, MPI_SUM, world);
  });
}

/// Around a ring.
void test_neighbours() {
  MPI_Comm ring;
  const int periodic = 1;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring);
  MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
  int out[8] = {};
  int in[8] = {};
  const int places[2] = {0, 4};
  off_by_one("Neighbor_allgather", [&](int off) {
    return MPI_Neighbor_allgather(out, odd_one() ? 2 - off : 2, MPI_INT, in, 2, MPI_INT, ring);
  });
  off_by_one("Neighbor_alltoallv", [&](int off) {
    const int counts[2] = {1, 2};
    const int expected[2] = {2, odd_one() ? 1 + off : 1};
    return MPI_Neighbor_alltoallv(out, counts, places, MPI_INT, in, expected, places, MPI_INT,
                                  ring);
  });
  MPI_Comm_free(&ring);
}

/// Makers of communicators, with each other and with other collectives.
void test_makers() {
  const MPI_Comm world = MPI_COMM_WORLD;
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Request request;
  int x = 0;
  expect(odd_one() ? MPI_Comm_split(world, 0, 0, &made) : MPI_Comm_dup(world, &made), MPI_ERR_OTHER,
         "Comm_split with Comm_dup");
  expect(odd_one() ? MPI_Bcast(&x, 1, MPI_INT, 0, world) : MPI_Comm_dup(world, &made),
         MPI_ERR_OTHER, "Bcast with Comm_dup");
  // Of what goes on later the ranks lose count of each other's: nothing goes on that one
  // afterwards.
  MPI_Comm spoilt;
  MPI_Comm_dup(world, &spoilt);
  MPI_Comm_set_errhandler(spoilt, MPI_ERRORS_RETURN);
  int code = odd_one() ? MPI_Ibarrier(spoilt, &request) : MPI_Comm_idup(spoilt, &made, &request);
  if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(code, MPI_ERR_OTHER, "Ibarrier with Comm_idup");
  MPI_Comm_free(&spoilt);
  const int periodic = 0;
  expect(odd_one() ? MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made)
                   : MPI_Cart_create(world, 1, &size, &periodic, 0, &made),
         MPI_ERR_OTHER, "Comm_split_type with Cart_create");
  // And each rightly.
  expect(MPI_Comm_idup(world, &made, &request), MPI_SUCCESS, "Comm_idup");
  expect(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS, "Comm_idup's end");
  expect(MPI_Barrier(made), MPI_SUCCESS, "Barrier on what Comm_idup made");
  MPI_Comm_free(&made);
  expect(MPI_Comm_split(world, rank % 2, 0, &made), MPI_SUCCESS, "Comm_split");
  MPI_Comm between = MPI_COMM_NULL;
  MPI_Comm whole = MPI_COMM_NULL;
  expect(MPI_Intercomm_create(made, 0, world, 1 - rank % 2, 7, &between), MPI_SUCCESS,
         "Intercomm_create");
  MPI_Comm_set_errhandler(between, MPI_ERRORS_RETURN);
  expect(odd_one() ? MPI_Comm_dup(between, &whole) : MPI_Intercomm_merge(between, 0, &whole),
         MPI_ERR_OTHER, "Comm_dup with Intercomm_merge");
  expect(MPI_Intercomm_merge(between, rank % 2, &whole), MPI_SUCCESS, "Intercomm_merge");
  int y = 0;
  float f = 0;
  float g = 0;
  expect(MPI_Allreduce(&x, &y, 1, MPI_INT, odd_one() ? MPI_MAX : MPI_SUM, between), MPI_ERR_OP,
         "two operations between sides");
  expect(odd_one() ? MPI_Allreduce(&f, &g, 1, MPI_FLOAT, MPI_SUM, between)
                   : MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, between),
         MPI_ERR_TYPE, "two types between sides");
  expect(MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, between), MPI_SUCCESS,
         "Allreduce between sides");
  MPI_Comm_free(&whole);
  MPI_Comm_free(&between);
  MPI_Comm_free(&made);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const MPI_Comm world = MPI_COMM_WORLD;
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  int x = 1;
  int y = 0;
  int many[64] = {};
  expect(MPI_Barrier(world), MPI_SUCCESS, "Barrier");
  const int unlike = odd_one() ? MPI_Barrier(world) : MPI_Bcast(&x, 1, MPI_INT, 0, world);
  expect(unlike, MPI_ERR_OTHER, "Barrier with Bcast");
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(unlike, text, &length);
  const std::string who = "rank 0 called MPI_Bcast (root 0, 4 bytes of integers), but rank " +
                          std::to_string(size - 1) + " called MPI_Barrier";
  WEFT_EXPECT(std::string(text).find(who) != std::string::npos, text);
  expect(MPI_Bcast(&x, 1, MPI_INT, odd_one() ? 1 : 0, world), MPI_ERR_ROOT, "two roots");
  expect(MPI_Bcast(many, odd_one() ? 3 : 1, MPI_INT, 0, world), MPI_ERR_COUNT, "two sizes");
  expect(MPI_Allreduce(&x, &y, 1, MPI_INT, odd_one() ? MPI_MAX : MPI_SUM, world), MPI_ERR_OP,
         "two operations");
  float f = 1;
  float g = 0;
  expect(odd_one() ? MPI_Allreduce(&f, &g, 1, MPI_FLOAT, MPI_SUM, world)
                   : MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, world),
         MPI_ERR_TYPE, "two types of one size");
  expect(MPI_Bcast(&x, odd_one() ? 4 : 1, odd_one() ? MPI_BYTE : MPI_INT, 0, world), MPI_SUCCESS,
         "bytes go with all");
  expect(MPI_Bcast(many, odd_one() ? 2 : 1, odd_one() ? MPI_INT : MPI_2INT, 0, world), MPI_SUCCESS,
         "a pair of integers is two of them");
  test_own_operations();
  test_unlike_counts();
  test_neighbours();
  test_makers();
  MPI_Request request;
  int code = MPI_Ibarrier(world, &request);
  WEFT_EXPECT(code == MPI_SUCCESS, "Ibarrier");
  expect(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS, "Ibarrier's end");
  if (odd_one()) {
    code = MPI_Iallgather(&x, 1, MPI_INT, many, 1, MPI_INT, world, &request);
  } else {
    code = MPI_Ialltoall(many + 32, 1, MPI_INT, many, 1, MPI_INT, world, &request);
  }
  if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(code, MPI_ERR_OTHER, "Iallgather with Ialltoall");
  expect(MPI_Allreduce(&rank, &y, 1, MPI_INT, MPI_SUM, world), MPI_SUCCESS, "Allreduce after that");
  WEFT_EXPECT(y == size * (size - 1) / 2, "Allreduce's sum");
  return finish();
}
