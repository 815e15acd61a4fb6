// Virtual topologies: what a communicator's ranks look like as a grid or a graph, and who
// neighbours whom.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mpi/comm.hpp"

namespace weft::mpi {

/// Whom neighbourhood collectives receive from and send to, in the order of their blocks.
///
/// Grids: -1, then +1, of each dimension, MPI_PROC_NULL past an edge that is no joint. Graphs: as
/// the program listed them; a neighbour may occur several times.
///
/// Blocks between the same two processes are told apart by order alone: post sends as they stand in
/// `out`, receives in the order `receive_order`, with one tag. Then what goes out in direction -1
/// comes in from direction +1, even where both are the same process (MPI 8.6).
struct Neighbours {
  std::vector<int> in;             ///< sources
  std::vector<int> out;            ///< destinations
  std::vector<int> receive_order;  ///< a permutation of the indices of `in`
};

/// A topology as one rank sees it. Immutable; shared by a communicator and its duplicates.
class Topology {
 public:
  enum class Kind : uint8_t { cart, graph, dist_graph };
  Kind kind = Kind::cart;

  // Grids: by dimension.
  std::vector<int> dims;
  std::vector<int> periods;  ///< 0 or 1

  // Graphs: as MPI_Graph_create has them.
  std::vector<int> index;
  std::vector<int> edges;

  // Distributed graphs: weights of neighbours.in and .out, where there are any.
  std::vector<int> in_weights;
  std::vector<int> out_weights;
  bool weighted = false;

  Neighbours neighbours;  ///< of this process
};

/// The neighbours of this process; throws MPI_ERR_TOPOLOGY if `comm` has no topology.
[[nodiscard]] const Neighbours& neighbours(const Comm& comm);

/// A grid, seen by `rank`.
[[nodiscard]] std::shared_ptr<Topology> make_grid(std::span<const int> dims,
                                                  std::span<const int> periods, int rank);
/// Row-major, as MPI numbers them.
[[nodiscard]] std::vector<int> grid_coords(const Topology& grid, int rank);
/// Coordinates of periodic dimensions wrap around; MPI_PROC_NULL if another one is off the grid.
[[nodiscard]] int grid_rank(const Topology& grid, std::span<const int> coords);

}  // namespace weft::mpi
