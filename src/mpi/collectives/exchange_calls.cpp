// MPI_Alltoall(v,w) and the neighbourhood collectives, in all forms.
#include "mpi/collectives/forms.hpp"
#include "mpi/comms/topology.hpp"
#include "mpi/failure.hpp"

namespace weft::mpi::calls {
namespace {

Call check_Alltoall(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                    MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  Call call(Kind::alltoall, mpi::comm(comm));
  set_in(call, recvbuf, recvcount, recvtype);
  set_out(call, sendbuf, sendcount, sendtype);
  refuse_alias(call);
  refuse_larger(call);
  return call;
}

Call check_Alltoallv(const void* sendbuf, Counts sendcounts, Counts sdispls, MPI_Datatype sendtype,
                     void* recvbuf, Counts recvcounts, Counts rdispls, MPI_Datatype recvtype,
                     MPI_Comm comm) {
  Call call(Kind::alltoallv, mpi::comm(comm));
  set_in(call, recvbuf, recvcounts, rdispls, recvtype, call.comm->remote_size);
  set_out(call, sendbuf, sendcounts, sdispls, sendtype, call.comm->remote_size);
  refuse_aliases(call, call.comm->remote_size);
  refuse_larger(call);
  return call;
}

Call check_Alltoallw(const void* sendbuf, Counts sendcounts, Counts sdispls,
                     const MPI_Datatype sendtypes[], void* recvbuf, Counts recvcounts,
                     Counts rdispls, const MPI_Datatype recvtypes[], MPI_Comm comm) {
  Call call(Kind::alltoallw, mpi::comm(comm));
  set_typed(call, {.base = address(sendbuf), .counts = sendcounts, .places = sdispls}, sendtypes,
            call.comm->remote_size,
            {.base = address(recvbuf), .counts = recvcounts, .places = rdispls}, recvtypes,
            call.comm->remote_size);
  refuse_aliases(call, call.comm->remote_size);
  refuse_larger(call);
  return call;
}

/// A call on a communicator with a topology, not in place.
Call with_neighbours(Kind kind, MPI_Comm handle, const void* sendbuf) {
  Call call(kind, mpi::comm(handle));
  call.neighbours = &neighbours(*call.comm);
  require(sendbuf != MPI_IN_PLACE, MPI_ERR_BUFFER,
          "MPI_IN_PLACE is not allowed for neighbourhood collectives");
  return call;
}
int sources(const Call& call) noexcept { return static_cast<int>(call.neighbours->in.size()); }
int targets(const Call& call) noexcept { return static_cast<int>(call.neighbours->out.size()); }

/// A rank without neighbours on one side may have no buffer there.
void set_sides(Call& call, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
               void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype) {
  if (sources(call) != 0) set_in(call, recvbuf, recvcount, recvtype);
  if (targets(call) != 0) set_out(call, sendbuf, sendcount, sendtype);
}

Call check_Neighbor_allgather(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                              void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                              MPI_Comm comm) {
  Call call = with_neighbours(Kind::neighbor_allgather, comm, sendbuf);
  set_sides(call, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype);
  refuse_alias(call);
  return call;
}

Call check_Neighbor_allgatherv(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                               void* recvbuf, Counts recvcounts, Counts displs,
                               MPI_Datatype recvtype, MPI_Comm comm) {
  Call call = with_neighbours(Kind::neighbor_allgatherv, comm, sendbuf);
  set_in(call, recvbuf, recvcounts, displs, recvtype, sources(call));
  if (targets(call) != 0) set_out(call, sendbuf, sendcount, sendtype);
  return call;
}

Call check_Neighbor_alltoall(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                             void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                             MPI_Comm comm) {
  Call call = with_neighbours(Kind::neighbor_alltoall, comm, sendbuf);
  set_sides(call, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype);
  refuse_alias(call);
  return call;
}

Call check_Neighbor_alltoallv(const void* sendbuf, Counts sendcounts, Counts sdispls,
                              MPI_Datatype sendtype, void* recvbuf, Counts recvcounts,
                              Counts rdispls, MPI_Datatype recvtype, MPI_Comm comm) {
  Call call = with_neighbours(Kind::neighbor_alltoallv, comm, sendbuf);
  set_in(call, recvbuf, recvcounts, rdispls, recvtype, sources(call));
  set_out(call, sendbuf, sendcounts, sdispls, sendtype, targets(call));
  return call;
}

Call check_Neighbor_alltoallw(const void* sendbuf, Counts sendcounts, const MPI_Aint sdispls[],
                              const MPI_Datatype sendtypes[], void* recvbuf, Counts recvcounts,
                              const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
                              MPI_Comm comm) {
  Call call = with_neighbours(Kind::neighbor_alltoallw, comm, sendbuf);
  set_typed(call, {.base = address(sendbuf), .counts = sendcounts, .places = Counts(sdispls)},
            sendtypes, targets(call),
            {.base = address(recvbuf), .counts = recvcounts, .places = Counts(rdispls)}, recvtypes,
            sources(call));
  return call;
}

}  // namespace

#define WEFT_MPI_PARAMETERS                                                        \
  (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf, \
   MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm)
#define WEFT_MPI_ARGUMENTS (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm)
WEFT_MPI_FORMS(Alltoall, Ialltoall, WEFT_MPI_PARAMETERS, WEFT_MPI_ARGUMENTS)
WEFT_MPI_FORMS(Neighbor_allgather, Ineighbor_allgather, WEFT_MPI_PARAMETERS, WEFT_MPI_ARGUMENTS)
WEFT_MPI_FORMS(Neighbor_alltoall, Ineighbor_alltoall, WEFT_MPI_PARAMETERS, WEFT_MPI_ARGUMENTS)
#undef WEFT_MPI_PARAMETERS
#undef WEFT_MPI_ARGUMENTS

WEFT_MPI_FORMS(Neighbor_allgatherv, Ineighbor_allgatherv,
               (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                Counts recvcounts, Counts displs, MPI_Datatype recvtype, MPI_Comm comm),
               (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm))

#define WEFT_MPI_PARAMETERS                                                                      \
  (const void* sendbuf, Counts sendcounts, Counts sdispls, MPI_Datatype sendtype, void* recvbuf, \
   Counts recvcounts, Counts rdispls, MPI_Datatype recvtype, MPI_Comm comm)
#define WEFT_MPI_ARGUMENTS \
  (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm)
WEFT_MPI_FORMS(Alltoallv, Ialltoallv, WEFT_MPI_PARAMETERS, WEFT_MPI_ARGUMENTS)
WEFT_MPI_FORMS(Neighbor_alltoallv, Ineighbor_alltoallv, WEFT_MPI_PARAMETERS, WEFT_MPI_ARGUMENTS)
#undef WEFT_MPI_PARAMETERS
#undef WEFT_MPI_ARGUMENTS

WEFT_MPI_FORMS(Alltoallw, Ialltoallw,
               (const void* sendbuf, Counts sendcounts, Counts sdispls,
                const MPI_Datatype sendtypes[], void* recvbuf, Counts recvcounts, Counts rdispls,
                const MPI_Datatype recvtypes[], MPI_Comm comm),
               (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes,
                comm))

WEFT_MPI_FORMS(Neighbor_alltoallw, Ineighbor_alltoallw,
               (const void* sendbuf, Counts sendcounts, const MPI_Aint sdispls[],
                const MPI_Datatype sendtypes[], void* recvbuf, Counts recvcounts,
                const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm),
               (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes,
                comm))

}  // namespace weft::mpi::calls
