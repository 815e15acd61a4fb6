// Neighbourhood collectives: everything at once, since neighbours may wait for each other in any
// order.
#include "mpi/collectives/neighbours.hpp"

#include "mpi/collectives/promise.hpp"
#include "mpi/collectives/team.hpp"
#include "mpi/comms/topology.hpp"

namespace weft::mpi {

Schedule neighbour_exchange(const Call& call) {
  const Neighbours& who = *call.neighbours;
  const Team team = everybody(*call.comm, call.tag);
  const bool same_for_all =
      call.kind == Kind::neighbor_allgather || call.kind == Kind::neighbor_allgatherv;
  BigStep step(static_cast<uint32_t>(who.in.size() + who.out.size()));
  for (const int i : who.receive_order) {
    const int from = who.in[static_cast<std::size_t>(i)];
    if (from != MPI_PROC_NULL) step.recv(team, from, call.in[i]);
  }
  for (int i = 0; i < static_cast<int>(who.out.size()); ++i) {
    const int to = who.out[static_cast<std::size_t>(i)];
    if (to != MPI_PROC_NULL) step.send(team, to, same_for_all ? call.out.whole() : call.out[i]);
  }
  co_await step;
}

}  // namespace weft::mpi
