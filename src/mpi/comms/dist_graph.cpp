// MPI_Dist_graph_*: graphs of which every process knows its own edges.
#include <algorithm>
#include <numeric>
#include <utility>

#include "mpi/abi/calls.hpp"
#include "mpi/collectives.hpp"
#include "mpi/collectives/algorithms.hpp"
#include "mpi/comms/hints.hpp"
#include "mpi/comms/new_comm.hpp"
#include "mpi/comms/topology.hpp"

namespace weft::mpi {

namespace {

/// An edge as it travels to its two ends.
struct Edge {
  int32_t source;
  int32_t destination;
  int32_t weight;
};
constexpr int kIntsPerEdge = 3;
static_assert(sizeof(Edge) == kIntsPerEdge * sizeof(int32_t));

const Topology& dist_graph_of(const Comm& comm) {
  if (!comm.topology || comm.topology->kind != Topology::Kind::dist_graph)
    fail(MPI_ERR_TOPOLOGY, "the communicator is no distributed graph");
  return *comm.topology;
}

void check_ranks(const Comm& comm, int count, const int ranks[]) {
  if (count < 0) fail(MPI_ERR_ARG, "a negative number of neighbours");
  if (count > 0 && ranks == nullptr) fail(MPI_ERR_ARG, "a null array of neighbours");
  for (int i = 0; i < count; ++i) {
    if (ranks[i] < 0 || ranks[i] >= comm.size())
      fail(MPI_ERR_RANK, "a neighbour that is no rank of the communicator");
  }
}

void check_weights(int count, const int weights[]) {
  if (weights == MPI_UNWEIGHTED) return;
  if (count > 0 && (weights == nullptr || weights == MPI_WEIGHTS_EMPTY))
    fail(MPI_ERR_ARG, "no weights where there are edges");
  for (int i = 0; i < count; ++i) {
    require(weights[i] >= 0, MPI_ERR_ARG, "a negative weight");
  }
}

std::shared_ptr<Topology> new_graph(bool weighted) {
  auto graph = std::make_shared<Topology>();
  graph->kind = Topology::Kind::dist_graph;
  graph->weighted = weighted;
  return graph;
}

void set_receive_order(Topology& graph) {
  graph.neighbours.receive_order.resize(graph.neighbours.in.size());
  std::iota(graph.neighbours.receive_order.begin(), graph.neighbours.receive_order.end(), 0);
}

MPI_Comm make_graph_comm(Comm& parent, std::shared_ptr<Topology> graph, const Info* info,
                         Trouble met) {
  set_receive_order(*graph);
  return make_agreed(
      council_of(parent),
      {.group = parent.local_group, .parent = &parent, .topology = std::move(graph), .hints = info},
      met);
}

/// Edges by the process that they go to, once to each end. Those between the same two processes
/// keep the order in which they were given, so that both ends list them alike.
struct Parcels {
  std::vector<int> counts;  ///< ints for each process
  std::vector<int> places;
  std::vector<Edge> edges;

  explicit Parcels(int processes)
      : counts(static_cast<std::size_t>(processes)), places(static_cast<std::size_t>(processes)) {}
  /// Lays them out after `counts` was set. Returns their number.
  std::size_t place() {
    std::exclusive_scan(counts.begin(), counts.end(), places.begin(), 0);
    const int ints = counts.empty() ? 0 : places.back() + counts.back();
    edges.resize(static_cast<std::size_t>(ints / kIntsPerEdge));
    return edges.size();
  }
};

template <class Each>
void for_each_end(const std::vector<Edge>& edges, Each each) {
  for (const Edge& edge : edges) {
    each(edge.source, edge);
    if (edge.destination != edge.source) each(edge.destination, edge);
  }
}

Parcels pack(const std::vector<Edge>& edges, int processes) {
  Parcels out(processes);
  for_each_end(edges, [&](int end, const Edge&) {
    out.counts[static_cast<std::size_t>(end)] += kIntsPerEdge;
  });
  out.place();
  std::vector<int> next = out.places;
  for_each_end(edges, [&](int end, const Edge& edge) {
    int& at = next[static_cast<std::size_t>(end)];
    out.edges[static_cast<std::size_t>(at / kIntsPerEdge)] = edge;
    at += kIntsPerEdge;
  });
  return out;
}

const Datatype& int_type() noexcept { return *datatypes().find(MPI_INT); }

/// An int for each process.
Parts parts_of(std::vector<int>& ints) noexcept {
  return {.base = reinterpret_cast<std::byte*>(ints.data()), .count = 1, .type = &int_type()};
}

Parts parts_of(Parcels& parcels) noexcept {
  Parts parts{.base = reinterpret_cast<std::byte*>(parcels.edges.data()), .type = &int_type()};
  parts.counts = Counts(parcels.counts.data());
  parts.places = Counts(parcels.places.data());
  return parts;
}

/// The edges that begin or end here, whoever gave them, by who gave them.
/// After a death, none or some of them.
std::vector<Edge> deliver(Comm& comm, const std::vector<Edge>& given, Trouble& met) {
  Parcels out = pack(given, comm.size());
  Parcels in(comm.size());
  run_part(all_to_all(everybody(comm, next_collective_tag(comm)), node_levels(comm),
                      parts_of(out.counts), parts_of(in.counts), sizeof(int)),
           met);
  // Others pass counts on: who met a death may have none, and waits for no edges. The AND then
  // tells all: theirs are messages without bytes, for which nobody need wait.
  if (met.error != MPI_SUCCESS) {
    std::fill(in.counts.begin(), in.counts.end(), 0);
    const auto me = static_cast<std::size_t>(comm.rank);
    in.counts[me] = out.counts[me];
  }
  const bool too_many = std::reduce(in.counts.begin(), in.counts.end(), int64_t{0}) > INT32_MAX;
  uint64_t fits = too_many ? 0 : 1;
  run_part(all_and(comm, next_collective_tag(comm), &fits, 1), met);
  if (met.error == MPI_SUCCESS && fits == 0)
    fail(MPI_ERR_NO_MEM, "a process is in more edges than a message can tell it");
  in.place();
  constexpr int64_t kUnlike = -1;
  run_part(all_to_all(everybody(comm, next_collective_tag(comm)), node_levels(comm), parts_of(out),
                      parts_of(in), kUnlike),
           met);
  return std::move(in.edges);
}

std::vector<Edge> listed(int n, const int sources[], const int degrees[], const int destinations[],
                         const int weights[]) {
  std::vector<Edge> edges;
  int next = 0;
  for (int i = 0; i < n; ++i) {
    for (int k = 0; k < degrees[i]; ++k, ++next) {
      edges.push_back(
          {sources[i], destinations[next], weights == MPI_UNWEIGHTED ? 1 : weights[next]});
    }
  }
  return edges;
}

void fill(int* into, int room, const std::vector<int>& from) {
  const std::size_t count = std::min<std::size_t>(from.size(), static_cast<std::size_t>(room));
  std::copy_n(from.begin(), count, into);
}

void require_room(int room, const int* array) {
  require(room >= 0, MPI_ERR_ARG, "an array of negative length");
  require(room == 0 || array != nullptr, MPI_ERR_ARG, "a null array for a result");
}

bool wants_weights(const int* weights) {
  return weights != MPI_UNWEIGHTED && weights != MPI_WEIGHTS_EMPTY && weights != nullptr;
}

}  // namespace

namespace calls {

void Dist_graph_create_adjacent(MPI_Comm comm_old, int indegree, const int sources[],
                                const int sourceweights[], int outdegree, const int destinations[],
                                const int destweights[], MPI_Info info, int /*reorder*/,
                                MPI_Comm* comm_dist_graph) {
  Comm& parent = intra_comm(comm_old);
  const Info* hints = info_or_null(info);
  begin_output(comm_dist_graph);
  check_ranks(parent, indegree, sources);
  check_ranks(parent, outdegree, destinations);
  const bool weighted = sourceweights != MPI_UNWEIGHTED;
  require(weighted == (destweights != MPI_UNWEIGHTED), MPI_ERR_ARG,
          "weights of edges in one direction only");
  check_weights(indegree, sourceweights);
  check_weights(outdegree, destweights);
  auto graph = new_graph(weighted);
  graph->neighbours.in.assign(sources, sources + indegree);
  graph->neighbours.out.assign(destinations, destinations + outdegree);
  if (weighted && indegree > 0) graph->in_weights.assign(sourceweights, sourceweights + indegree);
  if (weighted && outdegree > 0) graph->out_weights.assign(destweights, destweights + outdegree);
  const Trouble met = compare_calls(parent, Kind::dist_graph_create_adjacent);
  *comm_dist_graph = make_graph_comm(parent, std::move(graph), hints, met);
}

void Dist_graph_create(MPI_Comm comm_old, int n, const int sources[], const int degrees[],
                       const int destinations[], const int weights[], MPI_Info info,
                       int /*reorder*/, MPI_Comm* comm_dist_graph) {
  Comm& parent = intra_comm(comm_old);
  const Info* hints = info_or_null(info);
  begin_output(comm_dist_graph);
  check_ranks(parent, n, sources);
  if (n > 0 && degrees == nullptr) fail(MPI_ERR_ARG, "a null array of degrees");
  int64_t count = 0;
  for (int i = 0; i < n; ++i) {
    if (degrees[i] < 0) fail(MPI_ERR_ARG, "a negative degree");
    count += degrees[i];
  }
  if (count > INT32_MAX / (2 * kIntsPerEdge)) fail(MPI_ERR_ARG, "too many edges for one process");
  check_ranks(parent, static_cast<int>(count), destinations);
  check_weights(static_cast<int>(count), weights);
  Trouble met = compare_calls(parent, Kind::dist_graph_create);

  const bool weighted = weights != MPI_UNWEIGHTED;
  auto graph = new_graph(weighted);
  const std::vector<Edge> given = listed(n, sources, degrees, destinations, weights);
  for (const Edge& edge : deliver(parent, given, met)) {
    if (edge.source == parent.rank) {
      graph->neighbours.out.push_back(edge.destination);
      if (weighted) graph->out_weights.push_back(edge.weight);
    }
    if (edge.destination == parent.rank) {
      graph->neighbours.in.push_back(edge.source);
      if (weighted) graph->in_weights.push_back(edge.weight);
    }
  }
  *comm_dist_graph = make_graph_comm(parent, std::move(graph), hints, met);
}

void Dist_graph_neighbors_count(MPI_Comm comm, int* indegree, int* outdegree, int* weighted) {
  const Topology& graph = dist_graph_of(mpi::comm(comm));
  require_output(indegree);
  require_output(outdegree);
  require_output(weighted);
  *indegree = static_cast<int>(graph.neighbours.in.size());
  *outdegree = static_cast<int>(graph.neighbours.out.size());
  *weighted = graph.weighted ? 1 : 0;
}

void Dist_graph_neighbors(MPI_Comm comm, int maxindegree, int sources[], int sourceweights[],
                          int maxoutdegree, int destinations[], int destweights[]) {
  const Topology& graph = dist_graph_of(mpi::comm(comm));
  require_room(maxindegree, sources);
  require_room(maxoutdegree, destinations);
  fill(sources, maxindegree, graph.neighbours.in);
  fill(destinations, maxoutdegree, graph.neighbours.out);
  if (!graph.weighted) return;
  if (wants_weights(sourceweights)) fill(sourceweights, maxindegree, graph.in_weights);
  if (wants_weights(destweights)) fill(destweights, maxoutdegree, graph.out_weights);
}

}  // namespace calls
}  // namespace weft::mpi
