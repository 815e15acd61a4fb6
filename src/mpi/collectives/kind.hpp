// Which collective a call is.
#pragma once

#include <cstdint>

namespace weft::mpi {

enum class Kind : uint8_t {
  barrier,
  bcast,
  gather,
  gatherv,
  scatter,
  scatterv,
  allgather,
  allgatherv,
  alltoall,
  alltoallv,
  alltoallw,
  reduce,
  allreduce,
  reduce_scatter,
  reduce_scatter_block,
  scan,
  exscan,
  neighbor_allgather,
  neighbor_allgatherv,
  neighbor_alltoall,
  neighbor_alltoallv,
  neighbor_alltoallw,
  // Makers of communicators, which compare what is called (mpi.check_collectives):
  comm_dup,
  comm_dup_with_info,
  comm_idup,
  comm_idup_with_info,
  comm_split,
  comm_split_type,
  comm_create,
  cart_create,
  cart_sub,
  graph_create,
  dist_graph_create,
  dist_graph_create_adjacent,
  intercomm_create,
  intercomm_merge
};
/// "MPI_Bcast".
[[nodiscard]] const char* name_of(Kind kind) noexcept;

}  // namespace weft::mpi
