// Many nonblocking collectives at once, ended in another order than begun; persistent ones started
// in an order of each rank's own; threads on communicators of their own; types, operations and
// communicators freed while they are in use.
#include <algorithm>
#include <random>
#include <thread>

#include "collectives_check.hpp"

namespace {

using namespace check;

/// Sixty at a time of five kinds, waited for in a random order.
void outstanding(MPI_Comm comm, unsigned seed) {
  constexpr int kAtOnce = 60;
  constexpr int kCount = 70;
  int size;
  int rank;
  MPI_Comm_size(comm, &size);
  MPI_Comm_rank(comm, &rank);
  std::vector<MPI_Request> requests(kAtOnce);
  std::vector<std::vector<std::int64_t>> from(kAtOnce);
  std::vector<std::vector<std::int64_t>> to(kAtOnce);
  for (int k = 0; k < kAtOnce; ++k) {
    const auto i = static_cast<std::size_t>(k);
    const int count = k % 3 == 0 ? kCount * 100 : kCount;
    for (int e = 0; e < count * size; ++e) from[i].push_back(value(rank, e, k));
    to[i].assign(static_cast<std::size_t>(count) * static_cast<std::size_t>(size), 0);
    switch (k % 5) {
      case 0:
        MPI_Iallreduce(from[i].data(), to[i].data(), count, MPI_INT64_T, MPI_SUM, comm,
                       &requests[i]);
        break;
      case 1:
        MPI_Ialltoall(from[i].data(), count, MPI_INT64_T, to[i].data(), count, MPI_INT64_T, comm,
                      &requests[i]);
        break;
      case 2:
        if (rank == k % size) to[i] = from[i];
        MPI_Ibcast(to[i].data(), count, MPI_INT64_T, k % size, comm, &requests[i]);
        break;
      case 3:
        MPI_Ibarrier(comm, &requests[i]);
        break;
      default:
        MPI_Iallgather(from[i].data(), count, MPI_INT64_T, to[i].data(), count, MPI_INT64_T, comm,
                       &requests[i]);
    }
  }
  std::vector<std::size_t> order(kAtOnce);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937(seed + static_cast<unsigned>(rank)));
  for (std::size_t n = 0; n < kAtOnce / 2; ++n) MPI_Wait(&requests[order[n]], MPI_STATUS_IGNORE);
  MPI_Waitall(kAtOnce, requests.data(), MPI_STATUSES_IGNORE);
  for (int k = 0; k < kAtOnce; ++k) {
    const auto i = static_cast<std::size_t>(k);
    const int count = k % 3 == 0 ? kCount * 100 : kCount;
    bool right = true;
    for (int e = 0; e < count; ++e) {
      std::int64_t sum = 0;
      for (int r = 0; r < size; ++r) {
        sum += value(r, e, k);
        const auto place = static_cast<std::size_t>(r * count + e);
        if (k % 5 == 1) right = right && to[i][place] == value(r, rank * count + e, k);
        if (k % 5 == 4) right = right && to[i][place] == value(r, e, k);
      }
      const auto place = static_cast<std::size_t>(e);
      if (k % 5 == 0) right = right && to[i][place] == sum;
      if (k % 5 == 2) right = right && to[i][place] == value(k % size, e, k);
    }
    WEFT_EXPECT(right, "collective " + std::to_string(k) + " of many at once");
  }
}

/// Persistent collectives belong together by the order in which they were made, not started.
void persistent_in_any_order(MPI_Comm comm) {
  constexpr int kOperations = 12;
  int size;
  int rank;
  MPI_Comm_size(comm, &size);
  MPI_Comm_rank(comm, &rank);
  std::vector<std::int64_t> from(kOperations);
  std::vector<std::int64_t> to(kOperations);
  std::vector<MPI_Request> requests(kOperations);
  for (std::size_t k = 0; k < kOperations; ++k) {
    MPI_Allreduce_init(&from[k], &to[k], 1, MPI_INT64_T, MPI_SUM, comm, MPI_INFO_NULL,
                       &requests[k]);
  }
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  for (int round = 0; round < 30; ++round) {
    std::vector<std::size_t> order(kOperations);
    for (std::size_t k = 0; k < kOperations; ++k) {
      order[k] = k;
      from[k] = value(rank, round, static_cast<int>(k));
    }
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t k : order) MPI_Start(&requests[k]);
    MPI_Waitall(kOperations, requests.data(), MPI_STATUSES_IGNORE);
    for (std::size_t k = 0; k < kOperations; ++k) {
      std::int64_t sum = 0;
      for (int r = 0; r < size; ++r) sum += value(r, round, static_cast<int>(k));
      WEFT_EXPECT(to[k] == sum, "persistent allreduce in an order of one's own");
    }
  }
  for (MPI_Request& request : requests) MPI_Request_free(&request);
}

/// Everything that a pending operation names may be freed.
void freed_in_use() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  int size;
  int rank;
  MPI_Comm_size(comm, &size);
  MPI_Comm_rank(comm, &rank);
  MPI_Datatype pair;
  MPI_Type_contiguous(2, MPI_INT64_T, &pair);
  MPI_Type_commit(&pair);
  MPI_Op op;
  MPI_Op_create(compose, 0, &op);
  constexpr int kCount = 3000;
  std::vector<Affine> from;
  std::vector<Affine> to(kCount);
  for (int i = 0; i < kCount; ++i) from.push_back(affine(rank, i));
  MPI_Request request;
  MPI_Iallreduce(from.data(), to.data(), kCount, pair, op, comm, &request);
  MPI_Op_free(&op);
  MPI_Type_free(&pair);
  MPI_Comm_free(&comm);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  bool right = true;
  for (int i = 0; i < kCount; ++i) {
    Affine all = affine(0, i);
    for (int r = 1; r < size; ++r) all = after(all, affine(r, i));
    right = right && all == to[static_cast<std::size_t>(i)];
  }
  WEFT_EXPECT(right, "Iallreduce whose type, operation and communicator were freed");
}

void threads() {
  constexpr int kThreads = 4;
  std::vector<MPI_Comm> comms(kThreads);
  for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  std::vector<std::thread> running;
  for (int t = 0; t < kThreads; ++t) {
    running.emplace_back([comm = comms[static_cast<std::size_t>(t)], t] {
      int size;
      int rank;
      MPI_Comm_size(comm, &size);
      MPI_Comm_rank(comm, &rank);
      for (int round = 0; round < 200; ++round) {
        std::int64_t mine = value(rank, round, t);
        std::int64_t sum = 0;
        MPI_Allreduce(&mine, &sum, 1, MPI_INT64_T, MPI_SUM, comm);
        std::int64_t expected = 0;
        for (int r = 0; r < size; ++r) expected += value(r, round, t);
        WEFT_EXPECT(sum == expected, "Allreduce in a thread");
        MPI_Barrier(comm);
        MPI_Bcast(&mine, 1, MPI_INT64_T, round % size, comm);
        WEFT_EXPECT(mine == value(round % size, round, t), "Bcast in a thread");
      }
      outstanding(comm, static_cast<unsigned>(t) * 100);
    });
  }
  for (std::thread& thread : running) thread.join();
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
}

/// Counts and displacements are the program's own again once the call has returned, as other
/// libraries have it.
void counts_ended_early(MPI_Comm comm) {
  int size;
  int rank;
  MPI_Comm_size(comm, &size);
  MPI_Comm_rank(comm, &rank);
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<int> counts(ranks);
  std::vector<int> places(ranks);
  int all = 0;
  for (std::size_t i = 0; i < ranks; ++i) {
    counts[i] = static_cast<int>(i) + 1;
    places[i] = all;
    all += counts[i];
  }
  std::vector<int> sums(static_cast<std::size_t>(all), rank + 1);
  std::vector<int> parts(static_cast<std::size_t>(all), -1);
  std::fill_n(parts.begin() + places[static_cast<std::size_t>(rank)], rank + 1, rank);
  const auto begin = [&](auto call) {
    std::vector<int> given_counts = counts;
    std::vector<int> given_places = places;
    MPI_Request request;
    call(given_counts.data(), given_places.data(), &request);
    std::fill(given_counts.begin(), given_counts.end(), 1 << 20);
    std::fill(given_places.begin(), given_places.end(), 1 << 20);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  };
  begin([&](const int* given, const int* /*places*/, MPI_Request* request) {
    MPI_Ireduce_scatter(MPI_IN_PLACE, sums.data(), given, MPI_INT, MPI_SUM, comm, request);
  });
  begin([&](const int* given, const int* at, MPI_Request* request) {
    MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_INT, parts.data(), given, at, MPI_INT, comm, request);
  });
  for (int i = 0; i <= rank; ++i) {
    WEFT_EXPECT(sums[static_cast<std::size_t>(i)] == size * (size + 1) / 2, "Ireduce_scatter");
  }
  for (std::size_t i = 0; i < ranks; ++i) {
    const auto last = static_cast<std::size_t>(places[i] + counts[i] - 1);
    WEFT_EXPECT(parts[last] == static_cast<int>(i), "Iallgatherv");
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  for (unsigned seed = 0; seed < 5; ++seed) outstanding(MPI_COMM_WORLD, seed * 1000);
  persistent_in_any_order(MPI_COMM_WORLD);
  for (int i = 0; i < 20; ++i) freed_in_use();
  if (provided == MPI_THREAD_MULTIPLE) threads();
  counts_ended_early(MPI_COMM_WORLD);
  return finish();
}
