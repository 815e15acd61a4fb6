// Grids and graphs: neighbours, coordinates, ranks.
#include "mpi/comms/topology.hpp"

#include <utility>

#include "mpi/failure.hpp"

namespace weft::mpi {

namespace {

/// The rank one step away in a dimension.
int next_along(const Topology& grid, const std::vector<int>& coords, std::size_t dimension,
               int step) {
  std::vector<int> there = coords;
  there[dimension] += step;
  return grid_rank(grid, there);
}

/// Blocks go out in direction -1, +1; what goes out in direction -1 comes in from direction +1.
void find_grid_neighbours(Topology& grid, int rank) {
  Neighbours& found = grid.neighbours;
  const std::vector<int> coords = grid_coords(grid, rank);
  for (std::size_t i = 0; i < grid.dims.size(); ++i) {
    const auto first = static_cast<int>(2 * i);
    found.in.push_back(next_along(grid, coords, i, -1));
    found.in.push_back(next_along(grid, coords, i, +1));
    found.receive_order.push_back(first + 1);
    found.receive_order.push_back(first);
  }
  found.out = found.in;
}

}  // namespace

const Neighbours& neighbours(const Comm& comm) {
  if (!comm.topology) fail(MPI_ERR_TOPOLOGY, "the communicator has no topology");
  return comm.topology->neighbours;
}

std::shared_ptr<Topology> make_grid(std::span<const int> dims, std::span<const int> periods,
                                    int rank) {
  auto grid = std::make_shared<Topology>();
  grid->kind = Topology::Kind::cart;
  grid->dims.assign(dims.begin(), dims.end());
  for (const int period : periods) grid->periods.push_back(period != 0 ? 1 : 0);
  find_grid_neighbours(*grid, rank);
  return grid;
}

std::vector<int> grid_coords(const Topology& grid, int rank) {
  std::vector<int> coords(grid.dims.size());
  for (std::size_t i = coords.size(); i-- > 0;) {
    coords[i] = rank % grid.dims[i];
    rank /= grid.dims[i];
  }
  return coords;
}

int grid_rank(const Topology& grid, std::span<const int> coords) {
  int rank = 0;
  for (std::size_t i = 0; i < grid.dims.size(); ++i) {
    const int size = grid.dims[i];
    int at = coords[i];
    if (grid.periods[i] != 0) {
      at %= size;
      if (at < 0) at += size;
    } else if (at < 0 || at >= size) {
      return MPI_PROC_NULL;
    }
    rank = rank * size + at;
  }
  return rank;
}

}  // namespace weft::mpi
