// The error classes of wrong arguments, with MPI_ERRORS_RETURN; and that communicators work
// afterwards.
#include <numeric>
#include <stdexcept>
#include <string>

#include "collectives_check.hpp"

namespace {

using namespace check;

int size, rank;

void expect(int code, int wanted, const char* what) {
  int error_class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &error_class);
  WEFT_EXPECT(error_class == wanted, std::string(what) + ": class " + std::to_string(error_class) +
                                         ", not " + std::to_string(wanted));
}

void communicators_and_roots() {
  int x = 0;
  int y = 0;
  const MPI_Comm world = MPI_COMM_WORLD;
  expect(MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM, "Barrier of none");
  expect(MPI_Bcast(&x, 1, MPI_INT, 0, MPI_COMM_NULL), MPI_ERR_COMM, "Bcast of none");
  expect(MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, MPI_COMM_NULL), MPI_ERR_COMM, "Allreduce");
  expect(MPI_Bcast(&x, 1, MPI_INT, size, world), MPI_ERR_ROOT, "Bcast");
  expect(MPI_Bcast(&x, 1, MPI_INT, -1, world), MPI_ERR_ROOT, "Bcast");
  expect(MPI_Bcast(&x, 1, MPI_INT, MPI_ROOT, world), MPI_ERR_ROOT, "Bcast of MPI_ROOT");
  expect(MPI_Reduce(&x, &y, 1, MPI_INT, MPI_SUM, size, world), MPI_ERR_ROOT, "Reduce");
  expect(MPI_Gather(&x, 1, MPI_INT, &y, 1, MPI_INT, -5, world), MPI_ERR_ROOT, "Gather");
  expect(MPI_Scatter(&x, 1, MPI_INT, &y, 1, MPI_INT, size, world), MPI_ERR_ROOT, "Scatter");
  int many[64] = {};
  expect(MPI_Neighbor_allgather(&x, 1, MPI_INT, many, 1, MPI_INT, world), MPI_ERR_TOPOLOGY,
         "Neighbor_allgather without a topology");
}

void counts_and_types() {
  int x = 0;
  int many[64] = {};
  const MPI_Comm world = MPI_COMM_WORLD;
  expect(MPI_Bcast(&x, -1, MPI_INT, 0, world), MPI_ERR_COUNT, "Bcast");
  expect(MPI_Bcast(&x, 1, MPI_DATATYPE_NULL, 0, world), MPI_ERR_TYPE, "Bcast");
  expect(MPI_Allgather(&x, -1, MPI_INT, many, 1, MPI_INT, world), MPI_ERR_COUNT, "Allgather");
  expect(MPI_Allgather(&x, 1, MPI_INT, many, -1, MPI_INT, world), MPI_ERR_COUNT, "Allgather");
  expect(MPI_Alltoall(many, 1, MPI_DATATYPE_NULL, many + 32, 1, MPI_INT, world), MPI_ERR_TYPE,
         "Alltoall");
  expect(MPI_Allreduce(&x, many, -1, MPI_INT, MPI_SUM, world), MPI_ERR_COUNT, "Allreduce");
  MPI_Datatype fresh;
  MPI_Type_contiguous(2, MPI_INT, &fresh);
  expect(MPI_Bcast(many, 1, fresh, 0, world), MPI_ERR_TYPE, "Bcast of an uncommitted type");
  MPI_Type_free(&fresh);
  MPI_Datatype huge;
  MPI_Type_contiguous(1 << 30, MPI_DOUBLE, &huge);
  MPI_Type_commit(&huge);
  expect(MPI_Bcast(&x, 1 << 30, huge, 0, world), MPI_ERR_COUNT, "Bcast of too much");
  expect(MPI_Allgather(&x, 1, MPI_INT, many, 1 << 30, huge, world), MPI_ERR_COUNT,
         "Allgather of too much");
  MPI_Type_free(&huge);
  const std::vector<int> negative(static_cast<std::size_t>(size), -1);
  const std::vector<int> zero(static_cast<std::size_t>(size), 0);
  expect(MPI_Allgatherv(&x, 1, MPI_INT, many, negative.data(), zero.data(), MPI_INT, world),
         MPI_ERR_COUNT, "Allgatherv");
  expect(MPI_Reduce_scatter(many, &x, negative.data(), MPI_INT, MPI_SUM, world), MPI_ERR_COUNT,
         "Reduce_scatter");
  expect(MPI_Reduce_scatter_block(many, &x, -1, MPI_INT, MPI_SUM, world), MPI_ERR_COUNT,
         "Reduce_scatter_block");
  // Three times as much wraps to 2.
  constexpr MPI_Count kThird = 6148914691236517206;
  expect(MPI_Reduce_scatter_block_c(many, &x, kThird, MPI_INT, MPI_SUM, world), MPI_ERR_COUNT,
         "Reduce_scatter_block of too much");
}

void operations() {
  int x = 0;
  int y = 0;
  double d = 0;
  double e = 0;
  const MPI_Comm world = MPI_COMM_WORLD;
  expect(MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_OP_NULL, world), MPI_ERR_OP, "Allreduce");
  expect(MPI_Allreduce(&d, &e, 1, MPI_DOUBLE, MPI_BAND, world), MPI_ERR_OP, "bits of doubles");
  expect(MPI_Reduce(&x, &y, 1, MPI_INT, MPI_MINLOC, 0, world), MPI_ERR_OP, "MINLOC of ints");
  expect(MPI_Scan(&d, &e, 1, MPI_DOUBLE, MPI_LXOR, world), MPI_ERR_OP, "LXOR of doubles");
  MPI_Op op;
  MPI_Op_create([](void*, void*, int*, MPI_Datatype*) {}, 1, &op);
  MPI_Op freed = op;
  MPI_Op_free(&op);
  int commutes = 0;
  MPI_Request request;
  expect(MPI_Allreduce(&x, &y, 1, MPI_INT, freed, world), MPI_ERR_OP, "a freed operation");
  expect(MPI_Ireduce(&x, &y, 1, MPI_INT, freed, 0, world, &request), MPI_ERR_OP, "and Ireduce");
  expect(MPI_Reduce_local(&x, &y, 1, MPI_INT, freed), MPI_ERR_OP, "and Reduce_local");
  expect(MPI_Op_commutative(freed, &commutes), MPI_ERR_OP, "and what it is");
  expect(MPI_Op_free(&freed), MPI_ERR_OP, "and freed again");
}

void buffers() {
  int x = 0;
  int many[64] = {};
  const MPI_Comm world = MPI_COMM_WORLD;
  expect(MPI_Bcast(nullptr, 1, MPI_INT, 0, world), MPI_ERR_BUFFER, "Bcast of no buffer");
  expect(MPI_Bcast(nullptr, 0, MPI_INT, 0, world), MPI_SUCCESS, "Bcast of nothing");
  expect(MPI_Bcast(MPI_IN_PLACE, 1, MPI_INT, 0, world), MPI_ERR_BUFFER, "Bcast in place");
  expect(MPI_Allreduce(&x, &x, 1, MPI_INT, MPI_SUM, world), MPI_ERR_BUFFER, "Allreduce, aliased");
  expect(MPI_Allreduce(&x, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, world), MPI_ERR_BUFFER,
         "Allreduce into MPI_IN_PLACE");
  expect(MPI_Allgather(many, 1, MPI_INT, many, 1, MPI_INT, world), MPI_ERR_BUFFER,
         "Allgather, aliased");
  expect(MPI_Alltoall(many, 1, MPI_INT, many, 1, MPI_INT, world), MPI_ERR_BUFFER,
         "Alltoall, aliased");
  expect(MPI_Allgather(many + rank, 1, MPI_INT, many, 1, MPI_INT, world), MPI_ERR_BUFFER,
         "Allgather from its own place");
  const std::vector<int> ones(static_cast<std::size_t>(size), 1);
  std::vector<int> places(static_cast<std::size_t>(size));
  std::iota(places.begin(), places.end(), 0);
  expect(MPI_Allgatherv(many + rank, 1, MPI_INT, many, ones.data(), places.data(), MPI_INT, world),
         MPI_ERR_BUFFER, "Allgatherv from its own place");
  expect(MPI_Alltoallv(many, ones.data(), places.data(), MPI_INT, many, ones.data(), places.data(),
                       MPI_INT, world),
         MPI_ERR_BUFFER, "Alltoallv, aliased");
  expect(MPI_Alltoall(nullptr, 1, MPI_INT, many, 1, MPI_INT, world), MPI_ERR_BUFFER,
         "Alltoall of no buffer");
  if (rank != 0) {
    expect(MPI_Gather(MPI_IN_PLACE, 1, MPI_INT, nullptr, 1, MPI_INT, 0, world), MPI_ERR_BUFFER,
           "Gather in place, not at the root");
    expect(MPI_Reduce(MPI_IN_PLACE, many, 1, MPI_INT, MPI_SUM, 0, world), MPI_ERR_BUFFER,
           "Reduce in place, not at the root");
  }
}

/// A call that failed for its arguments on one rank has not taken part there: it can be made again.
void at_second_try() {
  const MPI_Comm world = MPI_COMM_WORLD;
  std::vector<int> all(static_cast<std::size_t>(size), -1);
  int* const own = &all[0];
  if (rank == 0) {
    expect(MPI_Gather(own, 1, MPI_INT, own, 1, MPI_INT, 0, world), MPI_ERR_BUFFER, "Gather");
    expect(MPI_Scatter(own, 1, MPI_INT, own, 1, MPI_INT, 0, world), MPI_ERR_BUFFER, "Scatter");
  }
  expect(MPI_Gather(&rank, 1, MPI_INT, own, 1, MPI_INT, 0, world), MPI_SUCCESS, "Gather again");
  for (int i = 0; rank == 0 && i < size; ++i) WEFT_EXPECT(own[i] == i, "Gather again");
  int sum = 0;
  if (rank == size - 1)
    expect(MPI_Reduce(&rank, &rank, 1, MPI_INT, MPI_SUM, size - 1, world), MPI_ERR_BUFFER,
           "Reduce");
  expect(MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, size - 1, world), MPI_SUCCESS, "Reduce");
  WEFT_EXPECT(rank != size - 1 || sum == size * (size - 1) / 2, "Reduce again");
}

/// One rank has less room than it gives itself: MPI_ERR_TRUNCATE. Called again, rightly, it is in
/// step with the others, who called once.
void too_large_for_oneself() {
  const MPI_Comm world = MPI_COMM_WORLD;
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<int> from(2 * ranks);
  std::vector<int> to(ranks);
  std::vector<int> places(ranks);
  std::vector<int> bytes(ranks);
  std::iota(places.begin(), places.end(), 0);
  for (std::size_t i = 0; i < ranks; ++i) bytes[i] = 4 * static_cast<int>(i);
  const std::vector<int> ones(ranks, 1);
  std::vector<int> twice(ranks, 1);
  twice[static_cast<std::size_t>(rank)] = 2;
  const std::vector<MPI_Datatype> ints(ranks, MPI_INT);
  const int root = size - 1;
  const auto fill = [&] {
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = rank * 1000 + static_cast<int>(i);
    to.assign(ranks, -1);
  };
  const auto expect_all = [&](const char* what) {
    bool right = true;
    for (int i = 0; i < size; ++i)
      right = right && to[static_cast<std::size_t>(i)] == i * 1000 + rank;
    WEFT_EXPECT(right, what);
  };
  const auto expect_gathered = [&](const char* what) {
    bool right = true;
    for (int i = 0; i < size; ++i) right = right && to[static_cast<std::size_t>(i)] == i * 1000;
    WEFT_EXPECT(right, what);
  };
  const bool errs = rank == root;
  for (int round = 0; round < 3; ++round) {  // the first few make no use of a board
    fill();
    if (errs)
      expect(MPI_Alltoall(from.data(), 2, MPI_INT, to.data(), 1, MPI_INT, world), MPI_ERR_TRUNCATE,
             "Alltoall");
    MPI_Alltoall(from.data(), 1, MPI_INT, to.data(), 1, MPI_INT, world);
    expect_all("Alltoall again");
    fill();
    if (errs)
      expect(MPI_Alltoallv(from.data(), twice.data(), places.data(), MPI_INT, to.data(),
                           ones.data(), places.data(), MPI_INT, world),
             MPI_ERR_TRUNCATE, "Alltoallv");
    MPI_Alltoallv(from.data(), ones.data(), places.data(), MPI_INT, to.data(), ones.data(),
                  places.data(), MPI_INT, world);
    expect_all("Alltoallv again");
    fill();
    if (errs)
      expect(MPI_Alltoallw(from.data(), twice.data(), bytes.data(), ints.data(), to.data(),
                           ones.data(), bytes.data(), ints.data(), world),
             MPI_ERR_TRUNCATE, "Alltoallw");
    MPI_Alltoallw(from.data(), ones.data(), bytes.data(), ints.data(), to.data(), ones.data(),
                  bytes.data(), ints.data(), world);
    expect_all("Alltoallw again");
    fill();
    if (errs)
      expect(MPI_Gather(from.data(), 2, MPI_INT, to.data(), 1, MPI_INT, root, world),
             MPI_ERR_TRUNCATE, "Gather");
    MPI_Gather(from.data(), 1, MPI_INT, to.data(), 1, MPI_INT, root, world);
    if (errs) expect_gathered("Gather again");
    fill();
    if (errs)
      expect(MPI_Gatherv(from.data(), 2, MPI_INT, to.data(), ones.data(), places.data(), MPI_INT,
                         root, world),
             MPI_ERR_TRUNCATE, "Gatherv");
    MPI_Gatherv(from.data(), 1, MPI_INT, to.data(), ones.data(), places.data(), MPI_INT, root,
                world);
    if (errs) expect_gathered("Gatherv again");
    fill();
    if (errs)
      expect(MPI_Scatter(from.data(), 2, MPI_INT, to.data(), 1, MPI_INT, root, world),
             MPI_ERR_TRUNCATE, "Scatter");
    MPI_Scatter(from.data(), 1, MPI_INT, to.data(), 1, MPI_INT, root, world);
    WEFT_EXPECT(to[0] == root * 1000 + rank, "Scatter again");
    fill();
    if (errs)
      expect(MPI_Scatterv(from.data(), twice.data(), places.data(), MPI_INT, to.data(), 1, MPI_INT,
                          root, world),
             MPI_ERR_TRUNCATE, "Scatterv");
    MPI_Scatterv(from.data(), ones.data(), places.data(), MPI_INT, to.data(), 1, MPI_INT, root,
                 world);
    WEFT_EXPECT(to[0] == root * 1000 + rank, "Scatterv again");
    fill();
    if (errs)
      expect(MPI_Allgather(from.data(), 2, MPI_INT, to.data(), 1, MPI_INT, world), MPI_ERR_TRUNCATE,
             "Allgather");
    MPI_Allgather(from.data(), 1, MPI_INT, to.data(), 1, MPI_INT, world);
    expect_gathered("Allgather again");
    MPI_Request request;
    fill();
    if (errs)
      expect(MPI_Ialltoall(from.data(), 2, MPI_INT, to.data(), 1, MPI_INT, world, &request),
             MPI_ERR_TRUNCATE, "Ialltoall");
    MPI_Ialltoall(from.data(), 1, MPI_INT, to.data(), 1, MPI_INT, world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect_all("Ialltoall again");
  }
}

void inter_and_requests() {
  int x = 0;
  int y = 0;
  MPI_Request request;
  const MPI_Comm world = MPI_COMM_WORLD;
  expect(MPI_Ibcast(&x, 1, MPI_INT, size, world, &request), MPI_ERR_ROOT, "Ibcast");
  expect(MPI_Bcast_init(&x, -1, MPI_INT, 0, world, MPI_INFO_NULL, &request), MPI_ERR_COUNT,
         "Bcast_init");
  expect(MPI_Ibarrier(world, nullptr), MPI_ERR_ARG, "Ibarrier without a request");
  // One that has ended may be freed.
  expect(MPI_Ibarrier(world, &request), MPI_SUCCESS, "Ibarrier");
  for (int ended = 0; ended == 0;) MPI_Request_get_status(request, &ended, MPI_STATUS_IGNORE);
  expect(MPI_Request_free(&request), MPI_SUCCESS, "an ended Ibarrier's request");
  if (size < 2) return;
  MPI_Comm half;
  MPI_Comm inter;
  MPI_Comm_split(world, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, world, 1 - rank % 2, 3, &inter);
  MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
  expect(MPI_Scan(&x, &y, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_COMM, "Scan between sides");
  expect(MPI_Exscan(&x, &y, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_COMM, "Exscan between sides");
  expect(MPI_Allreduce(MPI_IN_PLACE, &y, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_BUFFER,
         "Allreduce in place between sides");
  expect(MPI_Bcast(&x, 1, MPI_INT, 1000, inter), MPI_ERR_ROOT, "Bcast between sides");
  expect(MPI_Barrier(inter), MPI_SUCCESS, "Barrier between sides");
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

/// An exception of the program's operation comes to whoever waits for the reduction, with its
/// words.
void operations_that_throw() {
  MPI_Op op;
  MPI_Op_create([](void*, void*, int*, MPI_Datatype*) { throw std::runtime_error("no sum today"); },
                1, &op);
  int x = 1;
  int y = 2;
  const auto tells = [](int code, const char* what) {
    expect(code, MPI_ERR_INTERN, what);
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(code, text, &length);
    WEFT_EXPECT(std::string(text).find("no sum today") != std::string::npos,
                std::string(what) + ": " + text);
  };
  tells(MPI_Reduce_local(&x, &y, 1, MPI_INT, op), "Reduce_local");
  if (size > 1) {
    MPI_Comm pair;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair);
    MPI_Comm_set_errhandler(pair, MPI_ERRORS_RETURN);
    int ranks = 0;
    MPI_Comm_size(pair, &ranks);
    if (ranks == 2) {
      MPI_Request request;
      int code = MPI_Iallreduce(&x, &y, 1, MPI_INT, op, pair, &request);
      if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
      tells(code, "Iallreduce");
      tells(MPI_Allreduce(&x, &y, 1, MPI_INT, op, pair), "Allreduce");
    }
    MPI_Comm_free(&pair);
  }
  MPI_Op_free(&op);
}

/// More comes than there is room for.
void truncation() {
  if (size < 2) return;
  int many[4] = {};
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  const int code = MPI_Bcast(many, rank == 0 ? 4 : 2, MPI_INT, 0, copy);
  if (rank == 1) expect(code, MPI_ERR_TRUNCATE, "Bcast of more than fits");
  MPI_Comm_free(&copy);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  communicators_and_roots();
  counts_and_types();
  operations();
  buffers();
  at_second_try();
  too_large_for_oneself();
  inter_and_requests();
  truncation();
  operations_that_throw();
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  WEFT_EXPECT(sum == size * (size - 1) / 2, "Allreduce after errors");
  return finish();
}
