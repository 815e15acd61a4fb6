// Collectives over nodes of several ranks each (weftrun --fake-nodes, transport by_node): as few
// messages between nodes as there are other nodes, each way; and that what comes is right, also
// where a node's ranks are not one after the other. Arguments: the number of nodes (of more than
// four nothing is counted); and "flat", without two levels, where there are more messages.
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "collectives_check.hpp"
#include "pvar.hpp"

namespace {

int nodes = 3;
bool by_agents = true;
constexpr int kCalls = 50;

/// Messages of one call that went between nodes, of all ranks together.
double between_nodes(const std::function<void()>& call) {
  const Counter far("device_far_frames");
  MPI_Barrier(MPI_COMM_WORLD);  // whose own are counted in part, and those of the one behind
  for (int i = 0; i < kCalls; ++i) call();
  MPI_Barrier(MPI_COMM_WORLD);
  uint64_t all = far.value();
  MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return static_cast<double>(all) / kCalls;
}

void count_messages(int rank, bool in_levels) {
  const MPI_Comm world = MPI_COMM_WORLD;
  int out[64] = {};
  int in[64];
  int counts[16];  // of each rank's four, and where
  int places[16];
  for (int i = 0; i < 16; ++i) {
    counts[i] = 4;
    places[i] = 4 * i;
  }
  const struct {
    const char* name;
    std::function<void()> call;
    int of_three, of_four;  // nodes
  } calls[] = {
      {"Barrier", [&] { MPI_Barrier(world); }, 4, 6},
      {"Bcast", [&] { MPI_Bcast(out, 4, MPI_INT, 1, world); }, 2, 3},
      {"Reduce", [&] { MPI_Reduce(out, in, 4, MPI_INT, MPI_SUM, 1, world); }, 2, 3},
      {"Allreduce", [&] { MPI_Allreduce(out, in, 4, MPI_INT, MPI_SUM, world); }, 4, 6},
      {"Gather", [&] { MPI_Gather(out, 4, MPI_INT, in, 4, MPI_INT, 1, world); }, 2, 3},
      {"Scatter", [&] { MPI_Scatter(in, 4, MPI_INT, out, 4, MPI_INT, 1, world); }, 2, 3},
      {"Gatherv", [&] { MPI_Gatherv(out, 4, MPI_INT, in, counts, places, MPI_INT, 1, world); }, 2,
       3},
      {"Scatterv", [&] { MPI_Scatterv(in, counts, places, MPI_INT, out, 4, MPI_INT, 1, world); }, 2,
       3},
      {"Alltoall", [&] { MPI_Alltoall(out, 4, MPI_INT, in, 4, MPI_INT, world); }, 6, 12},
      {"Alltoall in place", [&] { MPI_Alltoall(MPI_IN_PLACE, 4, MPI_INT, in, 4, MPI_INT, world); },
       6, 12},
      {"Alltoallv",
       [&] { MPI_Alltoallv(out, counts, places, MPI_INT, in, counts, places, MPI_INT, world); }, 6,
       12},
      {"Allgather", [&] { MPI_Allgather(out, 4, MPI_INT, in, 4, MPI_INT, world); }, 4, 6},
      {"Reduce_scatter_block",
       [&] { MPI_Reduce_scatter_block(in, out, 4, MPI_INT, MPI_SUM, world); }, 4, 6},
      {"Scan", [&] { MPI_Scan(out, in, 4, MPI_INT, MPI_SUM, world); }, 4, 8},
      {"Exscan", [&] { MPI_Exscan(out, in, 4, MPI_INT, MPI_SUM, world); }, 4, 8},
  };
  for (const auto& each : calls) {
    each.call();  // ranks of different nodes have met
    const double messages = between_nodes(each.call);
    const int wanted = nodes == 3 ? each.of_three : each.of_four;
    const double most = wanted + 0.5;  // two barriers are a fifth at most
    WEFT_EXPECT(
        in_levels ? messages >= wanted && messages <= most : messages > most,
        std::string(each.name) + ": " + std::to_string(messages) + " of " + std::to_string(wanted));
  }
  if (rank == 0) std::printf("counted\n");
}

/// Everybody's numbers to each root and from there, in a communicator of any order.
void gather_and_scatter(MPI_Comm comm) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Datatype sparse;  // every other one
  MPI_Type_vector(3, 1, 2, MPI_INT, &sparse);
  MPI_Type_commit(&sparse);
  for (int root = 0; root < size; root += 1 + size / 16) {
    for (const int count : {1, 3, 5000}) {  // the last one goes straight
      for (const bool in_place : {false, true}) {
        const auto number = [&](int of, int i) { return 100000 * of + 10 * i + root; };
        const auto n = static_cast<std::size_t>(count);
        std::vector<int> mine(n), all(n * static_cast<std::size_t>(size), -1);
        for (int i = 0; i < count; ++i) mine[static_cast<std::size_t>(i)] = number(rank, i);
        const bool as_place = in_place && rank == root;
        const auto own = all.begin() + static_cast<std::ptrdiff_t>(n) * rank;
        if (as_place) std::copy(mine.begin(), mine.end(), own);
        MPI_Gather(as_place ? MPI_IN_PLACE : mine.data(), count, MPI_INT, all.data(), count,
                   MPI_INT, root, comm);
        if (rank == root) {
          for (int of = 0; of < size; ++of)
            for (int i = 0; i < count; ++i)
              WEFT_EXPECT(all[n * static_cast<std::size_t>(of) + static_cast<std::size_t>(i)] ==
                              number(of, i),
                          "a gathered number");
        }
        std::vector<int> got(n, -1);
        MPI_Scatter(all.data(), count, MPI_INT, as_place ? MPI_IN_PLACE : got.data(), count,
                    MPI_INT, root, comm);
        WEFT_EXPECT(as_place ? got[0] == -1 : got == mine, "scattered numbers");
      }
    }
    // Each rank's three have gaps, the root's blocks have none, and the other way round.
    int three[5] = {rank, -1, rank + 1, -1, rank + 2};
    std::vector<int> all(3 * static_cast<std::size_t>(size));
    MPI_Gather(three, 1, sparse, all.data(), 3, MPI_INT, root, comm);
    int back[5] = {-1, -1, -1, -1, -1};
    MPI_Scatter(all.data(), 3, MPI_INT, back, 1, sparse, root, comm);
    WEFT_EXPECT(back[0] == rank && back[1] == -1 && back[2] == rank + 1 && back[4] == rank + 2,
                "numbers with gaps");
  }
  MPI_Type_free(&sparse);
}

/// Everybody's numbers to everybody: as many for all, or not; in a communicator of any order.
void exchange(MPI_Comm comm) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const auto number = [](int from, int to, int i) { return from * 1000000 + to * 10000 + i; };
  const auto peers = static_cast<std::size_t>(size);
  for (const int count : {1, 5, 5000}) {  // the last one goes straight
    const auto n = static_cast<std::size_t>(count);
    std::vector<int> out(n * peers), in(n * peers, -1), wanted(n * peers);
    for (int peer = 0; peer < size; ++peer) {
      for (int i = 0; i < count; ++i) {
        const auto at = n * static_cast<std::size_t>(peer) + static_cast<std::size_t>(i);
        out[at] = number(rank, peer, i);
        wanted[at] = number(peer, rank, i);
      }
    }
    MPI_Alltoall(out.data(), count, MPI_INT, in.data(), count, MPI_INT, comm);
    WEFT_EXPECT(in == wanted, "Alltoall");
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, out.data(), count, MPI_INT, comm);
    WEFT_EXPECT(out == wanted, "Alltoall in place");
  }
  // Pairs have none, a few, or so many that these go straight; the same both ways, for in place.
  // Each has a hole behind it.
  const auto of_pair = [](int a, int b) {
    constexpr int kCounts[] = {0, 1, 7, 1024, 1025, 2048, 2049, 3000, 40000};
    return kCounts[(a + b + a * b) % 9];
  };
  std::vector<int> counts, places;
  int room = 0;
  for (int peer = 0; peer < size; ++peer) {
    counts.push_back(of_pair(rank, peer));
    places.push_back(room);
    room += counts.back() + 1;
  }
  std::vector<int> out(static_cast<std::size_t>(room), -1), in(out), wanted(out);
  for (std::size_t peer = 0; peer < peers; ++peer) {
    for (int i = 0; i < counts[peer]; ++i) {
      const auto at = static_cast<std::size_t>(places[peer] + i);
      out[at] = number(rank, static_cast<int>(peer), i);
      wanted[at] = number(static_cast<int>(peer), rank, i);
    }
  }
  MPI_Alltoallv(out.data(), counts.data(), places.data(), MPI_INT, in.data(), counts.data(),
                places.data(), MPI_INT, comm);
  WEFT_EXPECT(in == wanted, "Alltoallv");
  const std::vector<MPI_Datatype> types(peers, MPI_INT);
  std::vector<int> offsets;
  for (const int place : places) offsets.push_back(place * 4);
  std::fill(in.begin(), in.end(), -1);
  MPI_Request request;
  MPI_Ialltoallw(out.data(), counts.data(), offsets.data(), types.data(), in.data(), counts.data(),
                 offsets.data(), types.data(), comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  WEFT_EXPECT(in == wanted, "Alltoallw");
  in = out;
  MPI_Alltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_INT, in.data(), counts.data(), places.data(),
                MPI_INT, comm);
  WEFT_EXPECT(in == wanted, "Alltoallv in place");

  for (int root = 0; root < size; root += 1 + size / 16) {
    for (const bool in_place : {false, true}) {
      std::vector<int> lengths, at;
      int all = 0;
      for (int of = 0; of < size; ++of) {
        lengths.push_back(of_pair(of, root));
        at.push_back(all);
        all += lengths.back() + 1;
      }
      const bool as_place = in_place && rank == root;
      const auto own = static_cast<std::size_t>(rank);
      std::vector<int> mine(static_cast<std::size_t>(lengths[own])), back(mine.size(), -1);
      for (int i = 0; i < lengths[own]; ++i) mine[static_cast<std::size_t>(i)] = number(rank, 0, i);
      std::vector<int> whole(static_cast<std::size_t>(all), -1);
      if (as_place) std::copy(mine.begin(), mine.end(), whole.begin() + at[own]);
      // What only the root knows, others need not give.
      int* const counted = rank == root ? lengths.data() : nullptr;
      int* const placed = rank == root ? at.data() : nullptr;
      MPI_Gatherv(as_place ? MPI_IN_PLACE : mine.data(), lengths[own], MPI_INT, whole.data(),
                  counted, placed, MPI_INT, root, comm);
      for (int of = 0; rank == root && of < size; ++of) {
        const auto place = static_cast<std::size_t>(of);
        for (int i = 0; i < lengths[place]; ++i)
          WEFT_EXPECT(whole[static_cast<std::size_t>(at[place] + i)] == number(of, 0, i),
                      "Gatherv");
        WEFT_EXPECT(whole[static_cast<std::size_t>(at[place] + lengths[place])] == -1, "a hole");
      }
      MPI_Scatterv(whole.data(), counted, placed, MPI_INT,
                   as_place ? MPI_IN_PLACE : static_cast<void*>(back.data()), lengths[own], MPI_INT,
                   root, comm);
      WEFT_EXPECT(as_place || back == mine, "Scatterv");
    }
  }
}

/// Pairs that expect less than they get, in one node and between two, short and long.
void mistaken(MPI_Comm comm, int rank, int size) {
  constexpr int kRoom = 20000;
  const auto peers = static_cast<std::size_t>(size);
  std::vector<int> out(kRoom * peers), in(kRoom * peers), places;
  for (int i = 0; i < size; ++i) places.push_back(kRoom * i);
  const struct {
    int giver, taker, gives, gets;
  } mistakes[] = {{0, size - 1, 2, 1}, {0, size - 1, 3000, 1}, {0, size - 1, 20000, 3000},
                  {0, 1, 2, 1},        {0, 1, 3000, 1},        {1, 0, 3000, 1000},
                  {1, 0, 20000, 3000}, {size - 1, 0, 3000, 9}};
  for (const auto& each : mistakes) {
    for (const bool in_place : {false, true}) {
      std::vector<int> gives(peers, 1), gets(peers, 1);
      if (rank == each.giver) gives[static_cast<std::size_t>(each.taker)] = each.gives;
      if (rank == each.taker) gets[static_cast<std::size_t>(each.giver)] = each.gets;
      const int* const counts = in_place && rank == each.giver ? gives.data() : gets.data();
      const int code = in_place
                           ? MPI_Alltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_INT, in.data(),
                                           counts, places.data(), MPI_INT, comm)
                           : MPI_Alltoallv(out.data(), gives.data(), places.data(), MPI_INT,
                                           in.data(), gets.data(), places.data(), MPI_INT, comm);
      const int error = class_of(code);
      if (rank == each.taker) WEFT_EXPECT(error == MPI_ERR_TRUNCATE, "Alltoallv of unlike counts");
      if (rank != each.taker) WEFT_EXPECT(error == MPI_SUCCESS, "Alltoallv of the others");
    }
  }
  // One expects little of all, who give it much.
  std::vector<int> gives(peers, 1), gets(peers, 1);
  gives[1] = kRoom;
  if (rank == 1) gets[1] = kRoom;
  const int much = MPI_Alltoallv(out.data(), gives.data(), places.data(), MPI_INT, in.data(),
                                 gets.data(), places.data(), MPI_INT, comm);
  WEFT_EXPECT((much == MPI_SUCCESS) == (rank != 1), "Alltoallv of one who expects little");
  // The root expects much of one that gives little: it gets that.
  gets.assign(peers, 1);
  gets[peers - 1] = kRoom;
  for (int& each : in) each = -1;
  const int little =
      MPI_Gatherv(out.data(), 1, MPI_INT, in.data(), gets.data(), places.data(), MPI_INT, 0, comm);
  WEFT_EXPECT(little == MPI_SUCCESS, "Gatherv of less than is expected");
  const auto last = static_cast<std::size_t>(places.back());
  if (rank == 0) WEFT_EXPECT(in[last] == 0 && in[last + 1] == -1, "what little there is");

  if (!by_agents) return;
  // Who expects nothing is told, too.
  for (const int given : {2, 3000}) {
    gives.assign(peers, 1);
    gets.assign(peers, 1);
    if (rank == 0) gives[peers - 1] = given;
    if (rank == size - 1) gets[0] = 0;
    const int told = MPI_Alltoallv(out.data(), gives.data(), places.data(), MPI_INT, in.data(),
                                   gets.data(), places.data(), MPI_INT, comm);
    WEFT_EXPECT((told == MPI_SUCCESS) == (rank != size - 1), "Alltoallv of what nobody expects");
  }
  // All expect one, and the first gives two to each.
  const int code = MPI_Alltoall(out.data(), rank == 0 ? 2 : 1, MPI_INT, in.data(),
                                rank == 0 ? 2 : 1, MPI_INT, comm);
  WEFT_EXPECT(class_of(code) == (rank == 0 ? MPI_SUCCESS : MPI_ERR_TRUNCATE),
              "Alltoall of unlike counts");
}

/// Who gives more than is expected is told of, by those who expected less; also over an agent.
void unlike(MPI_Comm comm) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Comm other;
  MPI_Comm_dup(comm, &other);
  MPI_Comm_set_errhandler(other, MPI_ERRORS_RETURN);
  const auto peers = static_cast<std::size_t>(size);
  std::vector<int> out(2 * peers), in(2 * peers), places, gives(peers, 1);
  const std::vector<int> gets(peers, 1);
  for (int i = 0; i < size; ++i) places.push_back(2 * i);
  if (rank == 0) gives[peers - 1] = 2;
  mistaken(other, rank, size);
  const int gathered = MPI_Gatherv(out.data(), rank == size - 1 ? 2 : 1, MPI_INT, in.data(),
                                   gets.data(), places.data(), MPI_INT, 0, other);
  if (rank == 0) WEFT_EXPECT(class_of(gathered) == MPI_ERR_TRUNCATE, "Gatherv of unlike counts");
  const int scattered = MPI_Scatterv(out.data(), gives.data(), places.data(), MPI_INT, in.data(), 1,
                                     MPI_INT, 0, other);
  if (rank == size - 1)
    WEFT_EXPECT(class_of(scattered) == MPI_ERR_TRUNCATE, "Scatterv of unlike counts");
  MPI_Barrier(other);
  MPI_Comm_free(&other);
}

/// Reductions that do not commute, and all that goes in levels, on a communicator of any order.
void others(MPI_Comm comm) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  std::vector<int> all(static_cast<std::size_t>(size), -1);
  MPI_Allgather(&rank, 1, MPI_INT, all.data(), 1, MPI_INT, comm);
  std::vector<int> ranks(all.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  WEFT_EXPECT(all == ranks, "Allgather");
  MPI_Op last;  // keeps what comes later in the order of ranks
  MPI_Op_create(
      [](void* in, void* inout, int* count, MPI_Datatype*) {
        for (int i = 0; i < *count; ++i) {
          auto* const pair = static_cast<int*>(inout) + 2 * i;
          const auto* const before = static_cast<int*>(in) + 2 * i;
          if (before[1] + 1 != pair[0]) pair[1] = -1000000;  // not neighbours: out of order
          pair[0] = before[0];
        }
      },
      0, &last);
  int span[2] = {rank, rank};
  int whole[2] = {-7, -7};
  for (const bool in_place : {false, true}) {
    int here[2] = {rank, rank};
    int* const result = in_place ? here : whole;
    MPI_Scan(in_place ? MPI_IN_PLACE : span, result, 1, MPI_2INT, last, comm);
    WEFT_EXPECT(result[0] == 0 && result[1] == rank, "Scan in order");
    here[0] = here[1] = rank;
    whole[0] = whole[1] = -7;
    MPI_Exscan(in_place ? MPI_IN_PLACE : span, result, 1, MPI_2INT, last, comm);
    const int first = in_place ? 0 : -7;  // which is left as it was
    WEFT_EXPECT(rank == 0 ? result[0] == first : result[0] == 0 && result[1] == rank - 1,
                "Exscan in order");
  }
  std::vector<int> vector(2 * static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i)
    vector[2 * static_cast<std::size_t>(i)] = vector[2 * static_cast<std::size_t>(i) + 1] = rank;
  MPI_Reduce_scatter_block(vector.data(), whole, 1, MPI_2INT, last, comm);
  WEFT_EXPECT(whole[0] == 0 && whole[1] == size - 1, "Reduce_scatter_block in order");
  std::vector<int> counts(static_cast<std::size_t>(size), 1);
  MPI_Reduce_scatter(vector.data(), whole, counts.data(), MPI_2INT, last, comm);
  WEFT_EXPECT(whole[0] == 0 && whole[1] == size - 1, "Reduce_scatter in order");
  for (int root = 0; root < size; ++root) {
    MPI_Reduce(span, whole, 1, MPI_2INT, last, root, comm);
    if (rank == root) WEFT_EXPECT(whole[0] == 0 && whole[1] == size - 1, "Reduce in order");
    int word = rank == root ? root : -1;
    MPI_Bcast(&word, 1, MPI_INT, root, comm);
    WEFT_EXPECT(word == root, "Bcast");
  }
  MPI_Allreduce(span, whole, 1, MPI_2INT, last, comm);
  WEFT_EXPECT(whole[0] == 0 && whole[1] == size - 1, "Allreduce in order");
  MPI_Op_free(&last);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int provided = 0;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_T_pvar_session_create(&session);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 1) nodes = std::atoi(argv[1]);
  by_agents = argc <= 2;
  if (nodes <= 4) count_messages(rank, by_agents);
  MPI_Comm cyclic;  // node after node
  MPI_Comm_split(MPI_COMM_WORLD, 0, rank % (size / nodes) * nodes + rank / (size / nodes), &cyclic);
  MPI_Comm odd;  // nodes of unlike sizes
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 || rank == 4 ? MPI_UNDEFINED : 0, -rank, &odd);
  for (const MPI_Comm comm : {MPI_COMM_WORLD, cyclic, odd}) {
    if (comm == MPI_COMM_NULL) continue;
    gather_and_scatter(comm);
    exchange(comm);
    unlike(comm);
    others(comm);
  }
  if (odd != MPI_COMM_NULL) MPI_Comm_free(&odd);
  MPI_Comm_free(&cyclic);
  MPI_T_pvar_session_free(&session);
  MPI_T_finalize();
  const int read = result();
  return check::finish() != 0 ? 1 : read;
}
