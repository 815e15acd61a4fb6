// MPI_Graph_*: graphs that every process knows as a whole.
#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "mpi/abi/calls.hpp"
#include "mpi/collectives.hpp"
#include "mpi/comms/new_comm.hpp"
#include "mpi/comms/topology.hpp"

namespace weft::mpi {

namespace {

const Topology& graph_of(const Comm& comm) {
  if (!comm.topology || comm.topology->kind != Topology::Kind::graph)
    fail(MPI_ERR_TOPOLOGY, "the communicator is no graph");
  return *comm.topology;
}

void check_graph(const Comm& comm, int nnodes, const int indx[], const int edges[]) {
  if (nnodes < 0 || nnodes > comm.size())
    fail(MPI_ERR_ARG, "a graph with more nodes than processes, or fewer than none");
  if (nnodes > 0 && indx == nullptr) fail(MPI_ERR_ARG, "a null array of degrees");
  int last = 0;
  for (int i = 0; i < nnodes; ++i) {
    if (indx[i] < last) fail(MPI_ERR_ARG, "degrees of a graph add up to less than before");
    last = indx[i];
  }
  if (last > 0 && edges == nullptr) fail(MPI_ERR_ARG, "a null array of edges");
  for (int i = 0; i < last; ++i) {
    if (edges[i] < 0 || edges[i] >= nnodes) fail(MPI_ERR_ARG, "an edge to no node of the graph");
  }
}

std::span<const int> edges_of(const Topology& graph, int node) {
  const auto i = static_cast<std::size_t>(node);
  const auto begin = static_cast<std::size_t>(i == 0 ? 0 : graph.index[i - 1]);
  const auto end = static_cast<std::size_t>(graph.index[i]);
  return std::span(graph.edges).subspan(begin, end - begin);
}

std::shared_ptr<Topology> make_graph(int nnodes, const int indx[], const int edges[], int rank) {
  auto graph = std::make_shared<Topology>();
  graph->kind = Topology::Kind::graph;
  graph->index.assign(indx, indx + nnodes);
  graph->edges.assign(edges, edges + indx[nnodes - 1]);
  const std::span<const int> mine = edges_of(*graph, rank);
  graph->neighbours.in.assign(mine.begin(), mine.end());
  graph->neighbours.out = graph->neighbours.in;
  graph->neighbours.receive_order.resize(mine.size());
  std::iota(graph->neighbours.receive_order.begin(), graph->neighbours.receive_order.end(), 0);
  return graph;
}

void require_node(const Topology& graph, int rank) {
  if (rank < 0 || static_cast<std::size_t>(rank) >= graph.index.size())
    fail(MPI_ERR_RANK, "no rank of the communicator");
}

}  // namespace

namespace calls {

void Graph_create(MPI_Comm comm_old, int nnodes, const int indx[], const int edges[],
                  int /*reorder*/, MPI_Comm* comm_graph) {
  Comm& parent = intra_comm(comm_old);
  begin_output(comm_graph);
  check_graph(parent, nnodes, indx, edges);
  Wanted wanted{first_members(parent, nnodes), &parent};
  if (wanted.group) wanted.topology = make_graph(nnodes, indx, edges, parent.rank);
  const Trouble met = compare_calls(parent, Kind::graph_create);
  *comm_graph = make_agreed(council_of(parent), std::move(wanted), met);
}

void Graph_map(MPI_Comm comm, int nnodes, const int indx[], const int edges[], int* newrank) {
  const Comm& parent = intra_comm(comm);
  require_output(newrank);
  check_graph(parent, nnodes, indx, edges);
  *newrank = parent.rank < nnodes ? parent.rank : MPI_UNDEFINED;
}

void Graphdims_get(MPI_Comm comm, int* nnodes, int* nedges) {
  const Topology& graph = graph_of(mpi::comm(comm));
  require_output(nnodes);
  require_output(nedges);
  *nnodes = static_cast<int>(graph.index.size());
  *nedges = static_cast<int>(graph.edges.size());
}

void Graph_get(MPI_Comm comm, int maxindex, int maxedges, int indx[], int edges[]) {
  const Topology& graph = graph_of(mpi::comm(comm));
  require(maxindex >= 0 && maxedges >= 0, MPI_ERR_ARG, "an array of negative length");
  require(maxindex == 0 || indx != nullptr, MPI_ERR_ARG, "a null array for a result");
  require(maxedges == 0 || edges != nullptr, MPI_ERR_ARG, "a null array for a result");
  std::copy_n(graph.index.begin(), std::min<std::size_t>(graph.index.size(), maxindex), indx);
  std::copy_n(graph.edges.begin(), std::min<std::size_t>(graph.edges.size(), maxedges), edges);
}

void Graph_neighbors_count(MPI_Comm comm, int rank, int* nneighbors) {
  const Topology& graph = graph_of(mpi::comm(comm));
  require_node(graph, rank);
  require_output(nneighbors);
  *nneighbors = static_cast<int>(edges_of(graph, rank).size());
}

void Graph_neighbors(MPI_Comm comm, int rank, int maxneighbors, int neighbors[]) {
  const Topology& graph = graph_of(mpi::comm(comm));
  require_node(graph, rank);
  const std::span<const int> found = edges_of(graph, rank);
  require(maxneighbors >= 0, MPI_ERR_ARG, "an array of negative length");
  require(maxneighbors == 0 || neighbors != nullptr, MPI_ERR_ARG, "a null array for a result");
  std::copy_n(found.begin(), std::min<std::size_t>(found.size(), maxneighbors), neighbors);
}

}  // namespace calls
}  // namespace weft::mpi
