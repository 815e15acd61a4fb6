// MPI_Cart_* and MPI_Topo_test.
#include <algorithm>
#include <numeric>
#include <utility>

#include "mpi/abi/calls.hpp"
#include "mpi/collectives.hpp"
#include "mpi/comms/new_comm.hpp"
#include "mpi/comms/topology.hpp"

namespace weft::mpi {

namespace {

const Topology& grid_of(const Comm& comm) {
  if (!comm.topology || comm.topology->kind != Topology::Kind::cart)
    fail(MPI_ERR_TOPOLOGY, "the communicator is no grid");
  return *comm.topology;
}

/// The number of processes of a grid that fits `comm`.
int grid_size(const Comm& comm, int ndims, const int dims[], const int periods[]) {
  if (ndims < 0) fail(MPI_ERR_DIMS, "a negative number of dimensions");
  if (ndims > 0 && (dims == nullptr || periods == nullptr))
    fail(MPI_ERR_ARG, "a null array of dimensions or periods");
  int64_t size = 1;
  for (int i = 0; i < ndims; ++i) {
    if (dims[i] <= 0) fail(MPI_ERR_DIMS, "a dimension without positive size");
    size *= dims[i];
    if (size > comm.size()) fail(MPI_ERR_DIMS, "the grid has more places than processes");
  }
  return static_cast<int>(size);
}

void require_room(int room, std::size_t needed, const void* array) {
  require(room >= 0 && static_cast<std::size_t>(room) >= needed, MPI_ERR_ARG,
          "the array has fewer places than the grid has dimensions");
  require(needed == 0 || array != nullptr, MPI_ERR_ARG, "a null array for a result");
}

/// Of the dimensions that remain, this process's part: who differs in no other coordinate.
Held<Group> part_of_grid(const Comm& comm, const Topology& grid, const int remain[]) {
  const std::vector<int> mine = grid_coords(grid, comm.rank);
  std::vector<int32_t> members;
  for (int rank = 0; rank < comm.size(); ++rank) {
    const std::vector<int> coords = grid_coords(grid, rank);
    bool with_us = true;
    for (std::size_t i = 0; i < coords.size(); ++i) {
      with_us = with_us && (remain[i] != 0 || coords[i] == mine[i]);
    }
    if (with_us) members.push_back(comm.local_group->process(rank).value);
  }
  return Group::of(std::move(members));
}

}  // namespace

Held<Group> first_members(const Comm& comm, int count) {
  if (comm.rank >= count) return {};
  std::vector<int32_t> members;
  for (int i = 0; i < count; ++i) members.push_back(comm.local_group->process(i).value);
  return Group::of(std::move(members));
}

namespace calls {

void Cart_create(MPI_Comm comm_old, int ndims, const int dims[], const int periods[],
                 int /*reorder*/, MPI_Comm* comm_cart) {
  Comm& parent = intra_comm(comm_old);
  begin_output(comm_cart);
  const int size = grid_size(parent, ndims, dims, periods);
  Wanted wanted{first_members(parent, size), &parent};
  if (wanted.group) {
    const auto count = static_cast<std::size_t>(ndims);
    wanted.topology = make_grid({dims, count}, {periods, count}, parent.rank);
  }
  const Trouble met = compare_calls(parent, Kind::cart_create);
  *comm_cart = make_agreed(council_of(parent), std::move(wanted), met);
}

void Cart_sub(MPI_Comm comm, const int remain_dims[], MPI_Comm* newcomm) {
  Comm& parent = mpi::comm(comm);
  const Topology& grid = grid_of(parent);
  begin_output(newcomm);
  require(grid.dims.empty() || remain_dims != nullptr, MPI_ERR_ARG, "a null array of dimensions");
  std::vector<int> dims;
  std::vector<int> periods;
  for (std::size_t i = 0; i < grid.dims.size(); ++i) {
    if (remain_dims[i] == 0) continue;
    dims.push_back(grid.dims[i]);
    periods.push_back(grid.periods[i]);
  }
  Wanted wanted{part_of_grid(parent, grid, remain_dims), &parent};
  const int rank = wanted.group->rank_of(parent.local_group->process(parent.rank));
  wanted.topology = make_grid(dims, periods, rank);
  const Trouble met = compare_calls(parent, Kind::cart_sub);
  *newcomm = make_agreed(council_of(parent), std::move(wanted), met);
}

void Cart_map(MPI_Comm comm, int ndims, const int dims[], const int periods[], int* newrank) {
  const Comm& parent = intra_comm(comm);
  require_output(newrank);
  const int size = grid_size(parent, ndims, dims, periods);
  *newrank = parent.rank < size ? parent.rank : MPI_UNDEFINED;
}

void Cartdim_get(MPI_Comm comm, int* ndims) {
  const Topology& grid = grid_of(mpi::comm(comm));
  require_output(ndims);
  *ndims = static_cast<int>(grid.dims.size());
}

void Cart_get(MPI_Comm comm, int maxdims, int dims[], int periods[], int coords[]) {
  const Comm& object = mpi::comm(comm);
  const Topology& grid = grid_of(object);
  require_room(maxdims, grid.dims.size(), dims);
  require_room(maxdims, grid.dims.size(), periods);
  require_room(maxdims, grid.dims.size(), coords);
  const std::vector<int> mine = grid_coords(grid, object.rank);
  std::copy(grid.dims.begin(), grid.dims.end(), dims);
  std::copy(grid.periods.begin(), grid.periods.end(), periods);
  std::copy(mine.begin(), mine.end(), coords);
}

void Cart_rank(MPI_Comm comm, const int coords[], int* rank) {
  const Topology& grid = grid_of(mpi::comm(comm));
  require_output(rank);
  require(grid.dims.empty() || coords != nullptr, MPI_ERR_ARG, "a null array of coordinates");
  const int found = grid_rank(grid, {coords, grid.dims.size()});
  if (found == MPI_PROC_NULL) fail(MPI_ERR_ARG, "coordinates outside the grid");
  *rank = found;
}

void Cart_coords(MPI_Comm comm, int rank, int maxdims, int coords[]) {
  const Comm& object = mpi::comm(comm);
  const Topology& grid = grid_of(object);
  if (rank < 0 || rank >= object.size()) fail(MPI_ERR_RANK, "no rank of the communicator");
  require_room(maxdims, grid.dims.size(), coords);
  const std::vector<int> found = grid_coords(grid, rank);
  std::copy(found.begin(), found.end(), coords);
}

void Cart_shift(MPI_Comm comm, int direction, int disp, int* rank_source, int* rank_dest) {
  const Comm& object = mpi::comm(comm);
  const Topology& grid = grid_of(object);
  if (direction < 0 || static_cast<std::size_t>(direction) >= grid.dims.size())
    fail(MPI_ERR_DIMS, "no dimension of the grid");
  require_output(rank_source);
  require_output(rank_dest);
  const auto i = static_cast<std::size_t>(direction);
  std::vector<int> coords = grid_coords(grid, object.rank);
  // So that no sum leaves the range of int: whole turns change nothing, and twice the size is off.
  const int size = grid.dims[i];
  const int step = grid.periods[i] != 0 ? disp % size : std::clamp(disp, -size, size);
  const int at = coords[i];
  coords[i] = at - step;
  *rank_source = grid_rank(grid, coords);
  coords[i] = at + step;
  *rank_dest = grid_rank(grid, coords);
}

void Topo_test(MPI_Comm comm, int* status) {
  const Comm& object = mpi::comm(comm);
  require_output(status);
  if (!object.topology) {
    *status = MPI_UNDEFINED;
    return;
  }
  switch (object.topology->kind) {
    case Topology::Kind::cart:
      *status = MPI_CART;
      break;
    case Topology::Kind::graph:
      *status = MPI_GRAPH;
      break;
    case Topology::Kind::dist_graph:
      *status = MPI_DIST_GRAPH;
      break;
  }
}

}  // namespace calls
}  // namespace weft::mpi
