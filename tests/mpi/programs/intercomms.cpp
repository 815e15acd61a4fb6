// Inter-communicators: made, asked, used, duplicated, split, merged.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "comms_check.hpp"

namespace {

int size;
int rank;
int side;       ///< of two: ranks by parity
MPI_Comm half;  ///< those of this side

/// Each rank of a side sends to the rank across, as far as there is one, and says who it is.
bool talks_across(MPI_Comm inter, int number) {
  int remote = 0;
  MPI_Comm_remote_size(inter, &remote);
  const int local = check::rank_in(inter);
  const int there = local % remote;
  MPI_Request request;
  int sent = number * 1000 + local;
  MPI_Isend(&sent, 1, MPI_INT, there, 4, inter, &request);
  bool right = true;
  for (int i = 0; i < remote; ++i) {
    if (i % check::size_of(inter) != local) continue;
    int got = -1;
    MPI_Recv(&got, 1, MPI_INT, i, 4, inter, MPI_STATUS_IGNORE);
    right = right && got == number * 1000 + i;
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  int sum = 0;
  const int one = 1;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter);
  return right && sum == remote;
}

MPI_Comm connect(int tag) {
  MPI_Comm inter;
  // The leaders are rank 0 and rank 1 of the world: first of their sides.
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, tag, &inter);
  return inter;
}

void check_asking(MPI_Comm inter) {
  int flag = 0;
  MPI_Comm_test_inter(inter, &flag);
  WEFT_EXPECT(flag != 0);
  int remote = 0;
  MPI_Comm_remote_size(inter, &remote);
  WEFT_EXPECT(remote == size - check::size_of(half));
  WEFT_EXPECT(check::size_of(inter) == check::size_of(half));
  WEFT_EXPECT(check::rank_in(inter) == check::rank_in(half));
  MPI_Group group;
  MPI_Comm_remote_group(inter, &group);
  int own = 0;
  MPI_Group_rank(group, &own);
  WEFT_EXPECT(own == MPI_UNDEFINED);
  MPI_Group_free(&group);
  int result = -1;
  MPI_Comm_compare(inter, half, &result);
  WEFT_EXPECT(result == MPI_UNEQUAL);
}

void check_copies(MPI_Comm inter) {
  MPI_Comm copy;
  MPI_Comm_dup(inter, &copy);
  int result = -1;
  MPI_Comm_compare(inter, copy, &result);
  WEFT_EXPECT(result == MPI_CONGRUENT);
  MPI_Comm later[3];
  MPI_Request requests[3];
  for (int i = 0; i < 3; ++i) MPI_Comm_idup(inter, &later[i], &requests[i]);
  WEFT_EXPECT(talks_across(copy, 2));
  MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < 3; ++i) {
    WEFT_EXPECT(talks_across(later[i], 3 + i));
    MPI_Comm_free(&later[i]);
  }
  MPI_Comm_disconnect(&copy);
}

/// MPI_Comm_disconnect ends what is under way.
void check_disconnect(MPI_Comm inter) {
  constexpr int kInts = 1 << 24;
  std::vector<int> data(check::rank_in(half) == 0 ? kInts : 0, side + 1);
  MPI_Comm copy;
  MPI_Comm_dup(inter, &copy);
  MPI_Request request = MPI_REQUEST_NULL;
  if (!data.empty()) {
    if (side == 0) MPI_Isend(data.data(), kInts, MPI_INT, 0, 1, copy, &request);
    if (side == 1) MPI_Irecv(data.data(), kInts, MPI_INT, 0, 1, copy, &request);
    MPI_Request_free(&request);
  }
  MPI_Comm_disconnect(&copy);
  WEFT_EXPECT(std::all_of(data.begin(), data.end(), [](int value) { return value == 1; }));
  std::fill(data.begin(), data.end(), -1);
}

/// No side goes on before the other has called MPI_Comm_disconnect.
void check_disconnect_meets(MPI_Comm inter) {
  MPI_Comm copy;
  MPI_Comm_dup(inter, &copy);
  int word = 0;
  if (rank == 0) {
    MPI_Comm_disconnect(&copy);
    MPI_Send(&word, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
  } else if (rank == 1) {
    MPI_Request left;
    MPI_Irecv(&word, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, &left);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    int flag = 0;
    MPI_Test(&left, &flag, MPI_STATUS_IGNORE);
    WEFT_EXPECT(flag == 0);
    MPI_Comm_disconnect(&copy);
    MPI_Wait(&left, MPI_STATUS_IGNORE);
  } else {
    MPI_Comm_disconnect(&copy);
  }
}

void check_merge(MPI_Comm inter) {
  for (int high_side = 0; high_side < 2; ++high_side) {
    MPI_Comm merged;
    MPI_Intercomm_merge(inter, side == high_side ? 1 : 0, &merged);
    WEFT_EXPECT(check::size_of(merged) == size);
    const int before = side == high_side ? size - check::size_of(half) : 0;
    WEFT_EXPECT(check::rank_in(merged) == before + check::rank_in(half));
    WEFT_EXPECT(check::goes_round(merged, 10));
    MPI_Comm_free(&merged);
  }
  MPI_Comm merged;
  MPI_Intercomm_merge(inter, 0, &merged);
  WEFT_EXPECT(check::goes_round(merged, 11));
  MPI_Comm_free(&merged);
}

void check_split(MPI_Comm inter) {
  // Only the first of each side; color 1 has members on one side at most where sides are small.
  MPI_Comm part;
  const int local = check::rank_in(half);
  MPI_Comm_split(inter, local, 0, &part);
  int remote = 0;
  MPI_Comm_remote_size(inter, &remote);
  WEFT_EXPECT((part != MPI_COMM_NULL) == (local < remote));
  if (part != MPI_COMM_NULL) {
    WEFT_EXPECT(check::size_of(part) == 1);
    WEFT_EXPECT(talks_across(part, 20));
    MPI_Comm_free(&part);
  }
  MPI_Comm_split(inter, side == 0 ? 0 : MPI_UNDEFINED, 0, &part);
  WEFT_EXPECT(part == MPI_COMM_NULL);
}

void check_create(MPI_Comm inter) {
  MPI_Group group;
  MPI_Comm_group(inter, &group);
  int first[1] = {0};
  MPI_Group leaders;
  MPI_Group_incl(group, 1, first, &leaders);
  MPI_Comm made;
  MPI_Comm_create(inter, leaders, &made);
  WEFT_EXPECT((made != MPI_COMM_NULL) == (check::rank_in(inter) == 0));
  if (made != MPI_COMM_NULL) {
    WEFT_EXPECT(talks_across(made, 30));
    MPI_Comm_free(&made);
  }
  MPI_Comm_create(inter, side == 0 ? group : MPI_GROUP_EMPTY, &made);
  WEFT_EXPECT(made == MPI_COMM_NULL);
  MPI_Group_free(&leaders);
  MPI_Group_free(&group);
}

/// Threads connect at once, over local communicators of their own.
void check_threads() {
  constexpr int kThreads = 4;
  std::vector<MPI_Comm> locals(kThreads);
  for (MPI_Comm& local : locals) MPI_Comm_dup(half, &local);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t, &locals] {
      for (int round = 0; round < 10; ++round) {
        MPI_Comm inter;
        MPI_Intercomm_create(locals[static_cast<std::size_t>(t)], 0, MPI_COMM_WORLD, 1 - side, t,
                             &inter);
        WEFT_EXPECT(talks_across(inter, 40 + t));
        MPI_Comm_free(&inter);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (MPI_Comm& local : locals) MPI_Comm_free(&local);
}

}  // namespace

int main(int argc, char** argv) {
  int provided = -1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  size = check::size_of(MPI_COMM_WORLD);
  rank = check::rank_in(MPI_COMM_WORLD);
  side = rank % 2;
  MPI_Comm_split(MPI_COMM_WORLD, side, 0, &half);
  MPI_Comm inter = connect(5);
  check_asking(inter);
  WEFT_EXPECT(talks_across(inter, 1));
  check_copies(inter);
  check_disconnect(inter);
  check_disconnect_meets(inter);
  check_merge(inter);
  check_split(inter);
  check_create(inter);
  MPI_Comm_free(&inter);
  if (provided == MPI_THREAD_MULTIPLE) check_threads();
  MPI_Comm_free(&half);
  MPI_Finalize();
  return check::failures == 0 ? 0 : 1;
}
