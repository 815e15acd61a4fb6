// Grids and graphs: who is where, who neighbours whom, and that duplicates keep it.
#include <mpi.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "comms_check.hpp"

namespace {

int size;
int rank;

int kind_of(MPI_Comm comm) {
  int kind = 0;
  MPI_Topo_test(comm, &kind);
  return kind;
}

void check_dims() {
  struct Case {
    int nodes;
    std::vector<int> given;
    std::vector<int> wanted;
  };
  const std::vector<Case> cases{
      {6, {0, 0}, {3, 2}},        {7, {0, 0}, {7, 1}},      {6, {0, 3, 0}, {2, 3, 1}},
      {16, {0, 0, 0}, {4, 2, 2}}, {1, {0, 0}, {1, 1}},      {24, {2, 0, 0}, {2, 4, 3}},
      {72, {0, 0, 0}, {6, 4, 3}}, {1024, {0, 0}, {32, 32}}, {5, {5}, {5}},
  };
  for (const Case& wanted : cases) {
    std::vector<int> dims = wanted.given;
    MPI_Dims_create(wanted.nodes, static_cast<int>(dims.size()), dims.data());
    WEFT_EXPECT(dims == wanted.wanted);
  }
}

/// A grid of all processes, the first dimension periodic.
MPI_Comm make_grid(std::vector<int>& dims) {
  dims.assign(2, 0);
  MPI_Dims_create(size, 2, dims.data());
  const int periods[2] = {1, 0};
  MPI_Comm grid;
  MPI_Cart_create(MPI_COMM_WORLD, 2, dims.data(), periods, 0, &grid);
  return grid;
}

void check_grid() {
  std::vector<int> dims;
  MPI_Comm grid = make_grid(dims);
  WEFT_EXPECT(kind_of(grid) == MPI_CART);
  WEFT_EXPECT(kind_of(MPI_COMM_WORLD) == MPI_UNDEFINED);
  MPI_Comm copy;
  MPI_Comm_dup(grid, &copy);
  MPI_Comm_free(&grid);
  int ndims = 0;
  MPI_Cartdim_get(copy, &ndims);
  int got[2];
  int periods[2];
  int coords[2];
  MPI_Cart_get(copy, 2, got, periods, coords);
  WEFT_EXPECT(ndims == 2 && got[0] == dims[0] && got[1] == dims[1] && periods[0] == 1 &&
              periods[1] == 0);
  const int mine = check::rank_in(copy);
  WEFT_EXPECT(mine == coords[0] * dims[1] + coords[1]);
  for (int i = 0; i < size; ++i) {
    int there[2];
    MPI_Cart_coords(copy, i, 2, there);
    int back = -1;
    there[0] -= 3 * dims[0];  // around the periodic dimension
    MPI_Cart_rank(copy, there, &back);
    WEFT_EXPECT(back == i);
  }
  for (int disp = -4; disp <= 4; ++disp) {
    int source = 0;
    int dest = 0;
    MPI_Cart_shift(copy, 0, disp, &source, &dest);
    const auto wrapped = [&](int at) {
      return ((at % dims[0]) + dims[0]) % dims[0] * dims[1] + coords[1];
    };
    WEFT_EXPECT(source == wrapped(coords[0] - disp) && dest == wrapped(coords[0] + disp));
    MPI_Cart_shift(copy, 1, disp, &source, &dest);
    const auto cut = [&](int at) {
      return at < 0 || at >= dims[1] ? MPI_PROC_NULL : coords[0] * dims[1] + at;
    };
    WEFT_EXPECT(source == cut(coords[1] - disp) && dest == cut(coords[1] + disp));
  }
  const int remain[2] = {0, 1};
  MPI_Comm row;
  MPI_Cart_sub(copy, remain, &row);
  MPI_Cartdim_get(row, &ndims);
  WEFT_EXPECT(ndims == 1 && check::size_of(row) == dims[1] && check::rank_in(row) == coords[1]);
  WEFT_EXPECT(check::goes_round(row, coords[0]));
  const int nothing[2] = {0, 0};
  MPI_Comm point;
  MPI_Cart_sub(copy, nothing, &point);
  MPI_Cartdim_get(point, &ndims);
  WEFT_EXPECT(ndims == 0 && check::size_of(point) == 1);
  MPI_Comm_free(&point);
  MPI_Comm_free(&row);
  MPI_Comm_free(&copy);
}

void check_small_grid() {
  const int dims[1] = {1};
  const int periods[1] = {1};
  MPI_Comm grid;
  MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 1, &grid);
  int place = 0;
  MPI_Cart_map(MPI_COMM_WORLD, 1, dims, periods, &place);
  int members = grid == MPI_COMM_NULL ? 0 : 1;
  int all = 0;
  MPI_Allreduce(&members, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  WEFT_EXPECT(all == 1);
  if (grid == MPI_COMM_NULL) return;
  int out[2] = {10, 20};
  int in[2] = {};
  // Alone with itself: what goes out downwards comes in from above.
  MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, grid);
  WEFT_EXPECT(in[0] == 20 && in[1] == 10);
  MPI_Comm_free(&grid);
}

/// A ring as a graph.
void check_graph() {
  std::vector<int> index;
  std::vector<int> edges;
  for (int i = 0; i < size; ++i) {
    edges.push_back((i + size - 1) % size);
    edges.push_back((i + 1) % size);
    index.push_back(static_cast<int>(edges.size()));
  }
  MPI_Comm graph;
  MPI_Graph_create(MPI_COMM_WORLD, size, index.data(), edges.data(), 0, &graph);
  WEFT_EXPECT(kind_of(graph) == MPI_GRAPH);
  int nodes = 0;
  int count = 0;
  MPI_Graphdims_get(graph, &nodes, &count);
  WEFT_EXPECT(nodes == size && count == 2 * size);
  std::vector<int> index_back(index.size());
  std::vector<int> edges_back(edges.size());
  MPI_Graph_get(graph, nodes, count, index_back.data(), edges_back.data());
  WEFT_EXPECT(index_back == index && edges_back == edges);
  const int mine = check::rank_in(graph);
  MPI_Graph_neighbors_count(graph, mine, &count);
  int neighbors[2];
  MPI_Graph_neighbors(graph, mine, 2, neighbors);
  WEFT_EXPECT(count == 2 && neighbors[0] == (mine + size - 1) % size &&
              neighbors[1] == (mine + 1) % size);
  std::vector<int> got(2, -1);
  MPI_Neighbor_allgather(&mine, 1, MPI_INT, got.data(), 1, MPI_INT, graph);
  WEFT_EXPECT(got[0] == neighbors[0] && got[1] == neighbors[1]);
  MPI_Comm_free(&graph);
}

/// Rank 0 tells all edges of a graph in which i points to i + 1 and to 2 i, weights i and 100 + i.
void check_dist_graph() {
  std::vector<int> sources;
  std::vector<int> degrees;
  std::vector<int> destinations;
  std::vector<int> weights;
  for (int i = 0; rank == 0 && i < size; ++i) {
    sources.push_back(i);
    degrees.push_back(2);
    destinations.push_back((i + 1) % size);
    destinations.push_back(2 * i % size);
    weights.push_back(i);
    weights.push_back(100 + i);
  }
  MPI_Comm graph;
  MPI_Dist_graph_create(MPI_COMM_WORLD, static_cast<int>(sources.size()), sources.data(),
                        degrees.data(), destinations.data(),
                        rank == 0 ? weights.data() : MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &graph);
  WEFT_EXPECT(kind_of(graph) == MPI_DIST_GRAPH);
  using Edges = std::vector<std::pair<int, int>>;
  Edges in;
  for (int i = 0; i < size; ++i) {
    if ((i + 1) % size == rank) in.emplace_back(i, i);
    if (2 * i % size == rank) in.emplace_back(i, 100 + i);
  }
  Edges out{{(rank + 1) % size, rank}, {2 * rank % size, 100 + rank}};
  int indegree = 0;
  int outdegree = 0;
  int weighted = 0;
  MPI_Dist_graph_neighbors_count(graph, &indegree, &outdegree, &weighted);
  WEFT_EXPECT(static_cast<std::size_t>(indegree) == in.size() && outdegree == 2 && weighted != 0);
  std::vector<int> from(in.size());
  std::vector<int> from_weights(in.size());
  std::vector<int> to(out.size());
  std::vector<int> to_weights(out.size());
  MPI_Dist_graph_neighbors(graph, indegree, from.data(), from_weights.data(), outdegree, to.data(),
                           to_weights.data());
  const auto same = [](const std::vector<int>& ranks, const std::vector<int>& loads, Edges wanted) {
    Edges found;
    for (std::size_t i = 0; i < ranks.size(); ++i) found.emplace_back(ranks[i], loads[i]);
    std::sort(found.begin(), found.end());
    std::sort(wanted.begin(), wanted.end());
    return found == wanted;
  };
  WEFT_EXPECT(same(from, from_weights, in));
  WEFT_EXPECT(same(to, to_weights, out));
  std::vector<int> got(in.size(), -1);
  MPI_Neighbor_alltoall(to_weights.data(), 1, MPI_INT, got.data(), 1, MPI_INT, graph);
  WEFT_EXPECT(got == from_weights);
  MPI_Comm_free(&graph);
}

void check_adjacent() {
  const int before = (rank + size - 1) % size;
  const int next = (rank + 1) % size;
  MPI_Comm graph;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1, &next,
                                 MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
  int indegree = 0;
  int outdegree = 0;
  int weighted = 1;
  MPI_Dist_graph_neighbors_count(graph, &indegree, &outdegree, &weighted);
  WEFT_EXPECT(indegree == 1 && outdegree == 1 && weighted == 0);
  int from = -1;
  int to = -1;
  MPI_Dist_graph_neighbors(graph, 1, &from, MPI_UNWEIGHTED, 1, &to, MPI_UNWEIGHTED);
  WEFT_EXPECT(from == before && to == next);
  int got = -1;
  MPI_Neighbor_allgather(&rank, 1, MPI_INT, &got, 1, MPI_INT, graph);
  WEFT_EXPECT(got == before);
  MPI_Comm_free(&graph);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  size = check::size_of(MPI_COMM_WORLD);
  rank = check::rank_in(MPI_COMM_WORLD);
  check_dims();
  check_grid();
  check_small_grid();
  check_graph();
  check_dist_graph();
  check_adjacent();
  MPI_Finalize();
  return check::failures == 0 ? 0 : 1;
}
